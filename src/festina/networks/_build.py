"""One-hidden-layer networks of each architecture with random or low-rank initial weights."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key, PRNGKeyArray

from .._checks import check_memory, number, real_array, whole_number
from .._compiler import QUICK
from .._lanes import over_keys
from .._precision import float64
from .._types import Array, ArrayLike, Keys
from ._activations import ActivationLike, activation
from ._labels import seed_labels
from ._layer import Layer
from ._units import (
    AbstractUnit,
    ConvolutionUnit,
    LinearAttentionUnit,
    NeuronUnit,
    SoftmaxAttentionUnit,
)


def fully_connected(
    inputs: int,
    width: int,
    outputs: int = 1,
    *,
    activation: ActivationLike = "linear",
    bias: bool = False,
    scale: ArrayLike = 1e-6,
    key: Keys,
) -> Layer:
    """Draw a fully-connected network Σ v_i σ(u_i·x) of one hidden layer, weights from N(0, scale²).

    **Arguments:**

    - `inputs`, `width`, `outputs`: number of inputs, of hidden units and of outputs.
    - `activation`: name of an activation, an `Activation`, or your own scalar JAX function.
    - `bias`: if True, every hidden unit has a bias, drawn like its other weights. The bias is the
      last entry of u, after the weights of the inputs.
    - `scale`: standard deviation of the initial weights, or an array of standard deviations.
    - `key`: random key. An array of keys draws a batch of networks, one for each key. `scale` and
      `key` broadcast against each other: `scale[:, None]` with eight keys draws eight seeds for
      every scale. The attribute `labels` holds the scale and seed of each network.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import fully_connected, seeds
    >>> scale = np.array([1e-3, 1e-2])
    >>> networks = fully_connected(5, 3, scale=scale[:, None], key=seeds(4))
    >>> networks.batch_shape, networks.u.shape, networks.v.shape
    ((2, 4), (2, 4, 3, 5), (2, 4, 3, 1))
    """
    unit = NeuronUnit(_resolve(activation), bias=bias)
    return gaussian_layer(unit, (inputs,), width, outputs, scale=scale, key=key)


def convolutional_1d(
    inputs: int,
    width: int,
    outputs: int = 1,
    *,
    kernel: int = 2,
    stride: int = 1,
    activation: ActivationLike = "linear",
    bias: bool = False,
    scale: ArrayLike = 1e-6,
    key: Keys,
) -> Layer:
    """Draw a 1-d convolutional layer with a linear readout, weights from N(0, scale²).

    **Arguments:**

    - `inputs`: length of the input.
    - `width`, `outputs`: number of kernels and of outputs.
    - `kernel`, `stride`: size of a kernel, and step from one of its positions to the next. The
      input is not padded.
    - `bias`: if True, each kernel has a bias, its last weight, which is added at every position.
    - `activation`: name of an activation, an `Activation`, or your own scalar JAX function.
      `scale`, `key`: standard deviation of the initial weights, and random key; an array draws a
      batch.

    **Example:**

    >>> import jax
    >>> from festina.networks import convolutional_1d
    >>> network = convolutional_1d(8, 3, kernel=2, stride=2, scale=0.1, key=jax.random.key(0))
    >>> network.u.shape  # (unit, tap)
    (3, 2)
    >>> network.v.shape  # (unit, output, position)
    (3, 1, 4)
    """
    size, stride = whole_number("kernel", kernel), whole_number("stride", stride)
    unit = ConvolutionUnit(_resolve(activation), bias=bias, size=size, stride=stride)
    return gaussian_layer(unit, (inputs,), width, outputs, scale=scale, key=key)


def attention(
    dimension: int,
    heads: int,
    *,
    rank: int = 1,
    softmax: bool = False,
    per_token: bool = True,
    residual: bool = True,
    outputs: int = 1,
    scale: ArrayLike = 5e-3,
    key: Keys,
) -> Layer:
    """Draw one layer of self-attention with weights from N(0, scale²), read out at the query token.

    An input is a matrix `(embedding, token)`. The last token of an input is the query.

    **Arguments:**

    - `dimension`: dimension of a token without its label. The embedding of a token has one more
      row, for its label.
    - `heads`: number of heads.
    - `rank`: rank of the key and query matrices of each head.
    - `softmax`: if True, use softmax attention instead of linear attention.
    - `per_token`: if True, divide linear attention by the context length. Eq. (69) of Zhang, Saxe &
      Latham as printed does not divide by this length.
    - `residual`: if True, add the last `outputs` entries of the query to the output, as Eq. (69)
      does.
    - `outputs`: number of outputs.
    - `scale`, `key`: standard deviation of the initial weights, and random key; an array draws a
      batch.

    **Example:**

    >>> import jax
    >>> from festina.networks import attention
    >>> network = attention(1, 3, key=jax.random.key(0))
    >>> network.u.shape  # (unit, key and query, rank, embedding)
    (3, 2, 1, 2)
    >>> network.v.shape  # (unit, output, embedding)
    (3, 1, 2)
    """
    dimension, rank = whole_number("dimension", dimension), whole_number("rank", rank)
    heads, outputs = whole_number("heads", heads), whole_number("outputs", outputs)
    if outputs > dimension + 1:
        raise ValueError(
            f"`outputs` must lie between 1 and the embedding's {dimension + 1} rows, got {outputs}."
            " Use a larger `dimension` or fewer outputs."
        )
    unit = (
        SoftmaxAttentionUnit(rank, residual)
        if softmax
        else LinearAttentionUnit(rank, residual, per_token)
    )
    # The shapes of the weights do not depend on the number of tokens, here 2.
    return gaussian_layer(unit, (dimension + 1, 2), heads, outputs, scale=scale, key=key)


def gaussian_layer(
    unit: AbstractUnit,
    input_shape: tuple[int, ...],
    width: int,
    outputs: int = 1,
    *,
    scale: ArrayLike,
    key: Keys,
) -> Layer:
    """Draw a `Layer` of `width` units of any kind, with weights from N(0, scale²).

    **Arguments:**

    - `unit`: kind of unit, such as `NeuronUnit("relu")` or `LinearAttentionUnit(rank=2)`.
    - `input_shape`: shape of one input, `(input,)` or `(embedding, token)`.
    - `width`, `outputs`: number of units and of outputs.
    - `scale`, `key`: standard deviation of the initial weights, and random key; an array draws a
      batch.

    **Example:**

    >>> import jax
    >>> from festina.networks import NeuronUnit, gaussian_layer
    >>> unit = NeuronUnit("relu", bias=True)
    >>> gaussian_layer(unit, (4,), 3, scale=0.1, key=jax.random.key(0)).u.shape
    (3, 5)
    """
    return _initialise(unit, input_shape, width, outputs, scale, key)


def low_rank_layer(
    unit: AbstractUnit,
    input_shape: tuple[int, ...],
    width: int,
    outputs: int = 1,
    *,
    rank: int,
    strength: float,
    scale: ArrayLike,
    key: Keys,
) -> Layer:
    r"""Draw a `Layer` with large weights of low rank plus small Gaussian noise.

    The weights of unit i are the row $\theta_i = [v_i, u_i]$ of

    $$\Theta = \sigma Z R/\sqrt H + \epsilon\,\Xi.$$

    Z (H × rank), R (rank × N) and Ξ (H × N) have standard normal entries. The weights Θ lie near an
    invariant manifold of effective width `rank` and away from every saddle (Figure 2C of Zhang,
    Saxe & Latham).

    **Arguments:**

    - `unit`, `input_shape`, `outputs`: kind of unit, shape of one input, and number of outputs.
      `key`: random key, or an array of keys for a batch.
    - `width`: number H of units.
    - `rank`: rank of the large weights, at most `width`.
    - `strength`: size σ of the large weights.
    - `scale`: standard deviation ε of the noise.

    **Example:**

    >>> import jax
    >>> import numpy as np
    >>> from festina.networks import NeuronUnit, low_rank_layer
    >>> options = {"rank": 2, "strength": 1.0, "scale": 1e-9, "key": jax.random.key(0)}
    >>> network = low_rank_layer(NeuronUnit(), (5,), 3, **options)
    >>> theta = np.hstack((network.v, network.u))
    >>> int(np.sum(np.linalg.svd(theta, compute_uv=False) > 1e-6))
    2
    """
    rank, width = whole_number("rank", rank), whole_number("width", width)
    if rank > width:
        raise ValueError(
            f"`rank` must be a whole number between 1 and the width {width}, got {rank}. "
            "Use a smaller rank or more units."
        )
    strength = number("strength", strength)
    return _initialise(unit, input_shape, width, outputs, scale, key, rank=rank, strength=strength)


@float64
def _initialise(
    unit: AbstractUnit,
    input_shape: tuple[int, ...],
    width: int,
    outputs: int,
    scale: ArrayLike,
    key: Keys,
    *,
    rank: int = 0,
    strength: float = 0.0,
) -> Layer:
    width, outputs = whole_number("width", width), whole_number("outputs", outputs)
    input_shape = tuple(whole_number("inputs", size) for size in input_shape)
    scales, key = check_scale(scale), check_keys(key)
    u_shape = unit.weight_shape(input_shape)
    v_shape = (outputs, *unit.read_shape(input_shape))
    shape = (width, math.prod(v_shape) + math.prod(u_shape))

    batch = check_batch(scales, key)
    shapes = (shape, (width, rank), (rank, shape[1])) if rank else (shape,)
    noise, *factors = normals(key, shapes)
    # Scale outside the compiled program, where rounding would depend on the number of networks.
    theta = scales[..., None, None] * noise
    if rank:
        theta = strength * (factors[0] @ factors[1]) / np.sqrt(width) + theta
    layer = Layer.from_rows(theta.reshape(*batch, *shape), unit, u_shape, v_shape).read()
    return layer.with_labels({"scale": scales, **seed_labels(key)})


def check_scale(scale: ArrayLike, *, name: str = "scale") -> Float[np.ndarray, "..."]:
    """Return standard deviations as an array; raise for numbers that are not positive."""
    scales = real_array(name, scale)
    if not scales.size:
        raise ValueError(f"`{name}` must hold at least one number, got shape {scales.shape}.")
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        raise ValueError(
            f"`{name}` must be positive and finite, got {scales.tolist()}. Weights that are "
            "exactly zero sit on a saddle and never move. For zero weights give arrays to "
            "`festina.networks.layer_from`."
        )
    return scales


def check_keys(key: Keys) -> Key[jax.Array, "..."]:
    """Return random keys as JAX's typed key arrays; raise unless `key` is a JAX random key."""
    if not hasattr(key, "dtype"):
        raise ValueError(
            f"`key` must be a JAX random key, got {key!r}. Use jax.random.key(0), or "
            "festina.seeds(8) for a batch of eight networks."
        )
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):  # made by `jax.random.PRNGKey`
        key = jax.random.wrap_key_data(key)
    return key


def check_key(key: Keys) -> Key[jax.Array, ""]:
    """Return one random key as a typed JAX key; raise for a batch of keys."""
    if (found := check_keys(key)).shape:
        raise ValueError(
            f"`key` must be one key, got a batch {found.shape}. Use one of them, such as `key[0]`."
        )
    return found


def check_batch(
    scales: Float[np.ndarray, "..."], key: Key[jax.Array, "..."], *, name: str = "scale"
) -> tuple[int, ...]:
    """Return the common batch shape of scales and keys; raise if the two do not broadcast."""
    try:
        return np.broadcast_shapes(scales.shape, key.shape)
    except ValueError:
        axes = ", ".join((":" if scales.ndim == 1 else "...", *("None",) * key.ndim))
        raise ValueError(
            f"`{name}` of shape {scales.shape} and `key` of shape {key.shape} do not broadcast: "
            f"give equally many of both, or `{name}[{axes}]` to combine each `{name}` with every "
            "key."
        ) from None


def random_parts(
    shapes: tuple[tuple[int, ...], ...], scale: ArrayLike, key: Keys
) -> tuple[tuple[Float[np.ndarray, "..."], ...], dict[str, np.ndarray]]:
    """Draw weights from N(0, scale²) for every scale and key; return them with the batch labels."""
    scales, key = check_scale(scale), check_keys(key)
    batch = check_batch(scales, key)
    # Scale outside the compiled program, where rounding would depend on the number of networks.
    parts = tuple(
        np.broadcast_to(scales.reshape(*scales.shape, *(1,) * len(shape)) * draw, (*batch, *shape))
        for draw, shape in zip(normals(key, shapes), shapes, strict=True)
    )
    return parts, {"scale": scales, **seed_labels(key)}


def normals(
    key: Key[jax.Array, "..."], shapes: tuple[tuple[int, ...], ...]
) -> tuple[Float[np.ndarray, "..."], ...]:
    """Draw standard normal arrays of the given shapes for every key."""
    check_memory(key.size * sum(map(math.prod, shapes)))
    drawn = over_keys(lambda keys: _draw(keys, shapes), key)
    return tuple(array.reshape(*key.shape, *array.shape[1:]) for array in drawn)


@functools.partial(jax.jit, static_argnames="shapes", compiler_options=QUICK)
def _draw(
    keys: Key[jax.Array, " lane"], shapes: tuple[tuple[int, ...], ...]
) -> tuple[Float[Array, "lane ..."], ...]:
    """Draw standard normal arrays in one compiled program instead of one program per operation."""

    def draw(key: PRNGKeyArray) -> tuple[Array, ...]:
        keys = (key,) if len(shapes) == 1 else jax.random.split(key, len(shapes))
        return tuple(jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True))

    # `map` handles one key after the other: `vmap` over keys takes three times as long to compile.
    return jax.lax.map(draw, keys)


# Functions above have an argument called `activation`, which hides this function.
_resolve = activation
