"""Networks of depth by architecture, with small random initial weights."""

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
    """Draw a fully-connected network of any depth, with weights from N(0, scale²).

    **Arguments:**

    - `widths`: layer sizes from input to output, at least three of them.
    - `activations`: of the hidden layers, one for all or one for each: names, `Activation`s, or
      scalar JAX functions of your own.
    - `bias`: every hidden unit has a bias, drawn like its other weights, of which it is the last.
    - `skips`: pairs (k, l): the activity of layer k, after its activation, is added to that of
      layer l. Layer 1 is the first hidden one, 0 the input: `((1, 3),)` skips two layers.
    - `scale`: standard deviation of the initial weights, or an array of them.
    - `key`: randomness. An array of keys makes a batch of networks, one each; `scale` and `key`
      broadcast against each other, so `scale[:, None]` with eight keys is a sweep with eight seeds.
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
    """Draw a 1-d convolution and fully-connected layers behind it, with weights from N(0, scale²).

    `inputs` is the length of the input, `kernel` and `stride` are those of the convolution;
    `widths` are the number of kernels, the widths of the hidden layers behind, and of the output.
    The other arguments are those of `deep_network`.
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
    r"""Draw one layer of linear self-attention, Eq. (69), and fully-connected layers behind it.

    What is passed on is $x_q + \sum_i V_i X X^\top K_i^\top Q_i x_q$, the whole embedding of the
    query.

    **Arguments:**

    - `dimension`: of a token's input part; the embedding has one more row for its label.
    - `heads`, `rank`: number of heads, and rank of each head's key and query.
    - `widths`: of the hidden layers behind attention, and of the output.
    - `per_token`: divide attention by the context length (Eq. 69 as printed does not).
    - `residual`: add the query's embedding, as Eq. (69) does.
    - `activations`: of the layers in `widths` but for the output, one for all or one for each.
    - `scale`, `key`: as in `deep_network`.
    """
    dimension, heads = whole_number("dimension", dimension), whole_number("heads", heads)
    rank = whole_number("rank", rank)
    if len(widths) < 1:
        raise ValueError("`widths` needs at least the output's. For attention alone: `attention`.")
    embedding = dimension + 1
    behind = check_activations(activations, len(widths) - 1)
    return deep_gaussian(
        LinearAttentionUnit(rank, residual=False, per_token=per_token),
        (embedding, 2),  # the number of tokens does not matter for the shapes of the weights
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
    """Draw a `DeepNetwork` of any unit, with independent weights from N(0, scale²).

    `widths` are the number of units, the widths of the hidden layers behind, and of the output;
    `activations` those of the hidden layers behind the units.
    """
    units, *others = check_widths(widths)
    input_shape = tuple(whole_number("inputs", size) for size in input_shape)
    shapes = (
        (units, *unit.weight_shape(input_shape)),
        (others[0], *unit.read_shape(input_shape), units),
        *zip(others[1:], others[:-1], strict=True),
    )
    if unit.bias:  # of the hidden layers behind
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
    """Return the number of hidden layers; raises unless it is at least one."""
    if len(layers) < 2:
        raise ValueError(
            f"`widths` needs a hidden layer between input and output, got {len(layers)} layers. "
            "For a linear map without any: `deep_linear`."
        )
    return len(layers) - 1
