"""Networks by architecture, with small random, low-rank or given initial weights."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key, PRNGKeyArray

from .._checks import check_memory, number, real_array, whole_number
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
    """Draw a two-layer fully-connected network, Σ v_i σ(u_i·x), with weights from N(0, scale²).

    **Arguments:**

    - `inputs`, `width`, `outputs`: layer sizes.
    - `activation`: a name, an `Activation`, or a scalar JAX function of your own.
    - `bias`: every unit has a bias, drawn like its other weights: u has one entry more than there
      are inputs, the last, which is the weight of an input that is always 1.
    - `scale`: standard deviation of the initial weights, or an array of them.
    - `key`: randomness. An array of keys makes a batch of networks, one each; `scale` and `key`
      broadcast against each other, so `scale[:, None]` with eight keys is a sweep with eight seeds
      and the axes `(scale, seed)`, which the network remembers (`labels`).
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
    """Draw a 1-d convolutional layer of `width` kernels, read out linearly at every position.

    `inputs` is the length of the input, `kernel` and `stride` are those of the convolution; with a
    `bias` each kernel has one more weight, the last. The rest as in `fully_connected`.
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
    """Draw one layer of self-attention, read at the query in the last `outputs` embedding rows.

    **Arguments:**

    - `dimension`: of a token's input part; the embedding has one more row for its label.
    - `heads`: number of heads.
    - `rank`: of each head's key and query.
    - `softmax`: softmax instead of linear attention.
    - `per_token`: divide linear attention by the context length (Eq. 69 as printed does not).
    - `residual`: add the input, as Eq. (69) does.
    - `scale`, `key`: as in `fully_connected`.
    """
    dimension, rank = whole_number("dimension", dimension), whole_number("rank", rank)
    heads, outputs = whole_number("heads", heads), whole_number("outputs", outputs)
    if outputs > dimension + 1:
        raise ValueError(
            f"`outputs` must lie between 1 and the embedding's {dimension + 1} rows, got {outputs}."
        )
    unit = (
        SoftmaxAttentionUnit(rank, residual)
        if softmax
        else LinearAttentionUnit(rank, residual, per_token)
    )
    # The number of tokens does not matter for the shapes of the weights.
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
    """Draw weights from N(0, scale²) for any unit, such as `NeuronUnit("relu", bias=True)`."""
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
    r"""Draw large weights of low rank plus small noise, $\Theta = \sigma Z R/\sqrt H +
    \epsilon\,$noise.

    θ_i = [v_i, u_i] are the rows of Θ (H × N), Z (H × rank) and R (rank × N) have standard normal
    entries, σ is `strength` and ε is `scale`: near an invariant manifold of effective width `rank`
    and away from every saddle (Figure 2C of Zhang, Saxe & Latham).
    """
    rank, width = whole_number("rank", rank), whole_number("width", width)
    if rank > width:
        raise ValueError(
            f"`rank` must be a whole number between 1 and the width {width}, got {rank}."
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
    # Not in the program, where rounding would depend on how many networks it makes.
    theta = scales[..., None, None] * noise
    if rank:
        theta = strength * (factors[0] @ factors[1]) / np.sqrt(width) + theta
    layer = Layer.from_rows(theta.reshape(*batch, *shape), unit, u_shape, v_shape).read()
    return layer.with_labels({"scale": scales, **seed_labels(key)})


def check_scale(scale: ArrayLike, *, name: str = "scale") -> Float[np.ndarray, "..."]:
    """Return standard deviations as an array; raises unless they are positive."""
    scales = real_array(name, scale)
    if not scales.size:
        raise ValueError(f"`{name}` must hold at least one number, got shape {scales.shape}.")
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        raise ValueError(
            f"`{name}` must be positive and finite, got {scales.tolist()}. Weights that are "
            "exactly zero sit on a saddle and never move; if you want that, give arrays to "
            "`layer_from`."
        )
    return scales


def check_keys(key: Keys) -> Key[jax.Array, "..."]:
    """Return random keys of JAX's newer kind; raises for anything else than a key."""
    if not hasattr(key, "dtype"):
        raise ValueError(
            f"`key` must be a JAX random key, got {key!r}: jax.random.key(0), or "
            "festina.seeds(8) for a batch of eight networks."
        )
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):  # of `jax.random.PRNGKey`
        key = jax.random.wrap_key_data(key)
    return key


def check_key(key: Keys) -> Key[jax.Array, ""]:
    """Return one random key, of JAX's newer kind; raises for a batch of keys."""
    if (found := check_keys(key)).shape:
        raise ValueError(
            f"`key` must be one key, got a batch {found.shape}: festina.seeds(1)[0] is one."
        )
    return found


def check_batch(
    scales: Float[np.ndarray, "..."], key: Key[jax.Array, "..."], *, name: str = "scale"
) -> tuple[int, ...]:
    """Return the batch axes that scales and keys make; raises where they do not broadcast."""
    try:
        return np.broadcast_shapes(scales.shape, key.shape)
    except ValueError:
        axes = ", ".join((":" if scales.ndim == 1 else "...", *("None",) * key.ndim))
        raise ValueError(
            f"`{name}` of shape {scales.shape} and `key` of shape {key.shape} do not broadcast: "
            f"give as many of both, or `{name}[{axes}]` for each of them with every key."
        ) from None


def random_parts(
    shapes: tuple[tuple[int, ...], ...], scale: ArrayLike, key: Keys
) -> tuple[tuple[Float[np.ndarray, "..."], ...], dict[str, np.ndarray]]:
    """Draw weights from N(0, scale²) for every scale and key, and label the batch."""
    scales, key = check_scale(scale), check_keys(key)
    batch = check_batch(scales, key)
    # Not in the program, where rounding would depend on how many networks it makes.
    parts = tuple(
        np.broadcast_to(scales.reshape(*scales.shape, *(1,) * len(shape)) * draw, (*batch, *shape))
        for draw, shape in zip(normals(key, shapes), shapes, strict=True)
    )
    return parts, {"scale": scales, **seed_labels(key)}


def normals(
    key: Key[jax.Array, "..."], shapes: tuple[tuple[int, ...], ...]
) -> tuple[Float[np.ndarray, "..."], ...]:
    """Draw standard normal arrays for every key."""
    check_memory(key.size * sum(map(math.prod, shapes)))
    drawn = over_keys(lambda keys: _draw(keys, shapes), key)
    return tuple(array.reshape(*key.shape, *array.shape[1:]) for array in drawn)


@functools.partial(jax.jit, static_argnames="shapes")
def _draw(
    keys: Key[jax.Array, " lane"], shapes: tuple[tuple[int, ...], ...]
) -> tuple[Float[Array, "lane ..."], ...]:
    """Draw in one compiled program, where each operation would be one."""

    def draw(key: PRNGKeyArray) -> tuple[Array, ...]:
        keys = (key,) if len(shapes) == 1 else jax.random.split(key, len(shapes))
        return tuple(jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True))

    # One after the other: generators of many keys at once take three times as long to compile.
    return jax.lax.map(draw, keys)


# `activation` is also the name of an argument above.
_resolve = activation
