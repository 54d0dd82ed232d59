"""Deep networks of each architecture with small random initial weights."""

from collections.abc import Sequence

from .._checks import whole_number
from .._precision import float64
from .._types import ArrayLike, Keys
from ._activations import ActivationLike
from ._build import random_parts
from ._deep_linear import check_widths
from ._deep_network import DeepNetwork, check_activations, deep_network_from
from ._units import AbstractUnit, ConvolutionUnit, LinearAttentionUnit, NeuronUnit


def deep_network(
    widths: Sequence[int],
    *,
    activations: ActivationLike | Sequence[ActivationLike] = "linear",
    bias: bool = False,
    skips: Sequence[tuple[int, int]] = (),
    scale: ArrayLike,
    key: Keys,
) -> DeepNetwork:
    """Draw a fully-connected network with any number of hidden layers, weights from N(0, scale²).

    **Arguments:**

    - `widths`: layer sizes from input to output, at least three.
    - `activations`: activation of all hidden layers, or a list with one for each layer. An
      activation is a name, an `Activation`, or your own scalar JAX function.
    - `bias`: if True, every hidden unit has a bias, its last weight, drawn like its other weights.
    - `skips`: skip connections as pairs (k, l). The activity of layer k is added to the activity of
      layer l, after the activation of layer l. Layer 0 is the input and layer 1 the first hidden
      layer.
    - `scale`: standard deviation of the initial weights, or an array of standard deviations.
    - `key`: random key. An array of keys draws a batch of networks, one for each key. `scale` and
      `key` broadcast against each other: `scale[:, None]` with eight keys draws eight seeds for
      every scale.

    **Example:**

    >>> import jax
    >>> from festina.networks import deep_network
    >>> options = {"activations": "tanh", "skips": [(1, 2)]}
    >>> network = deep_network((2, 3, 3, 1), **options, scale=0.1, key=jax.random.key(0))
    >>> network.depth, network.widths, network.skips
    (3, (3, 3, 1), ((1, 2),))
    """
    inputs, *layers = check_widths(widths)
    first, *others = check_activations(activations, _hidden(layers))
    return deep_gaussian(
        NeuronUnit(first, bias=bias),
        (inputs,),
        layers,
        activations=others,
        skips=skips,
        scale=scale,
        key=key,
    )


def deep_convolutional(
    inputs: int,
    widths: Sequence[int],
    *,
    kernel: int = 2,
    stride: int = 1,
    activations: ActivationLike | Sequence[ActivationLike] = "linear",
    skips: Sequence[tuple[int, int]] = (),
    scale: ArrayLike,
    key: Keys,
) -> DeepNetwork:
    """Draw a 1-d convolution followed by fully-connected layers, with weights from N(0, scale²).

    **Arguments:**

    - `inputs`: length of the input.
    - `widths`: number of kernels, then the widths of the fully-connected hidden layers, then the
      number of outputs.
    - `kernel`, `stride`: size of a kernel, and step from one of its positions to the next.
    - `activations`: activation of all fully-connected hidden layers, or a list with one for each.
      `skips`: skip connections as pairs (k, l); layer 0 is the input. `scale`, `key`: standard
      deviation of the initial weights, and random key; an array draws a batch.

    **Example:**

    >>> import jax
    >>> from festina.networks import deep_convolutional
    >>> network = deep_convolutional(4, (3, 3, 1), kernel=2, scale=0.1, key=jax.random.key(0))
    >>> [weight.shape for weight in network.weights]
    [(3, 2), (3, 3, 3), (1, 3)]
    """
    layers = list(check_widths(widths))
    first, *others = check_activations(activations, _hidden(layers))
    size, stride = whole_number("kernel", kernel), whole_number("stride", stride)
    unit = ConvolutionUnit(first, size=size, stride=stride)
    return deep_gaussian(
        unit, (inputs,), layers, activations=others, skips=skips, scale=scale, key=key
    )


def linear_transformer(
    dimension: int,
    heads: int,
    widths: Sequence[int],
    *,
    rank: int = 1,
    per_token: bool = True,
    residual: bool = True,
    activations: ActivationLike | Sequence[ActivationLike] = "linear",
    scale: ArrayLike,
    key: Keys,
) -> DeepNetwork:
    r"""Draw one layer of linear self-attention followed by fully-connected layers.

    The attention layer of Eq. (69) of Zhang, Saxe & Latham passes the embedding of the query,
    $x_q + \sum_i V_i X X^\top K_i^\top Q_i x_q$, to the fully-connected layers.

    **Arguments:**

    - `dimension`: dimension of a token without its label. The embedding of a token has one more
      row, for its label.
    - `heads`, `rank`: number of heads, and rank of the key and query matrices of each head.
    - `widths`: widths of the fully-connected hidden layers, then the number of outputs.
    - `per_token`: if True, divide attention by the context length. Eq. (69) as printed does not
      divide by this length.
    - `residual`: if True, add the query's embedding, as Eq. (69) does.
    - `activations`: activation of all fully-connected hidden layers, or a list with one for each.
    - `scale`, `key`: standard deviation of the initial weights, and random key; an array draws a
      batch.

    **Example:**

    >>> import jax
    >>> from festina.networks import linear_transformer
    >>> network = linear_transformer(2, 3, (4, 1), scale=0.1, key=jax.random.key(0))
    >>> network.widths  # 3 heads with 3 responses each, embedding, hidden layer, output
    (9, 3, 4, 1)
    """
    dimension, heads = whole_number("dimension", dimension), whole_number("heads", heads)
    rank = whole_number("rank", rank)
    if len(widths) < 1:
        raise ValueError(
            "`widths` needs at least the output's width, got none. For attention without further "
            "layers use `festina.networks.attention`."
        )
    embedding = dimension + 1
    behind = check_activations(activations, len(widths) - 1)
    return deep_gaussian(
        LinearAttentionUnit(rank, residual=False, per_token=per_token),
        (embedding, 2),  # the shapes of the weights do not depend on the number of tokens, here 2
        (heads, embedding, *widths),
        activations=("linear", *behind),
        skips=((0, 2),) if residual else (),
        scale=scale,
        key=key,
    )


@float64
def deep_gaussian(
    unit: AbstractUnit,
    input_shape: tuple[int, ...],
    widths: Sequence[int],
    *,
    activations: ActivationLike | Sequence[ActivationLike] = "linear",
    skips: Sequence[tuple[int, int]] = (),
    scale: ArrayLike,
    key: Keys,
) -> DeepNetwork:
    """Draw a `DeepNetwork` with any unit in its first layer, with weights from N(0, scale²).

    **Arguments:**

    - `unit`: kind of unit in the first layer, such as `ConvolutionUnit("relu", size=3)`.
    - `input_shape`: shape of one input, `(input,)` or `(embedding, token)`.
    - `widths`: number of units, then the widths of the fully-connected hidden layers, then the
      number of outputs.
    - `activations`: activation of all fully-connected hidden layers, or a list with one for each.
    - `skips`: skip connections as pairs (k, l); layer 0 is the input. `scale`, `key`: standard
      deviation of the initial weights, and random key; an array draws a batch.

    **Example:**

    >>> import jax
    >>> from festina.networks import ConvolutionUnit, deep_gaussian
    >>> unit = ConvolutionUnit("relu", size=2)
    >>> network = deep_gaussian(unit, (4,), (3, 3, 1), scale=0.1, key=jax.random.key(0))
    >>> network.widths  # 3 kernels at 3 positions, hidden layer, output
    (9, 3, 1)
    """
    units, *others = check_widths(widths)
    input_shape = tuple(whole_number("inputs", size) for size in input_shape)
    shapes = (
        (units, *unit.weight_shape(input_shape)),
        (others[0], *unit.read_shape(input_shape), units),
        *zip(others[1:], others[:-1], strict=True),
    )
    if unit.bias:  # the fully-connected hidden layers have a column of biases as well
        shapes = (
            shapes[0],
            *((*shape[:-1], shape[-1] + 1) for shape in shapes[1:-1]),
            shapes[-1],
        )
    weights, labels = random_parts(shapes, scale, key)
    return deep_network_from(unit, weights, activations=activations, skips=skips).with_labels(
        labels
    )


def _hidden(layers: Sequence[int]) -> int:
    """Return the number of hidden layers; raise unless there is at least one."""
    if len(layers) < 2:
        raise ValueError(
            "`widths` needs a hidden layer between input and output, got "
            f"{len(layers) + 1} widths. For a linear map without hidden layers use "
            "`festina.networks.deep_linear`."
        )
    return len(layers) - 1
