"""Which initial strengths a network's own weights amount to."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._checks import check_alone, finite
from ..._types import ArrayLike
from ...networks import AbstractNetwork, DeepLinear
from ...tasks import AbstractTask
from .._modes import Modes, modes
from .._statistics import moments
from ..saddles import mode_amplitudes_from
from ._assumptions import two_layers


def effective_strengths(
    network: AbstractNetwork, task: AbstractTask
) -> Float[np.ndarray, "*batch mode"]:
    """`effective_strengths_from` the weights of a linear network that learns a task.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers; or a batch of them.
    - `task`: what it learns.
    """
    return effective_strengths_from(*two_layers(network), moments(task).correlation)


def effective_strengths_from(
    first: ArrayLike, second: ArrayLike, correlation: ArrayLike
) -> Float[np.ndarray, "*batch mode"]:
    r"""Strength with which each mode of small random weights of two layers starts to grow.

    $$a_{0\alpha} = \tfrac14\lVert W_1 v_\alpha + W_2^\top u_\alpha\rVert^2:$$

    near zero $W_1v_\alpha + W_2^\top u_\alpha$ grows as $e^{s_\alpha t/\tau}$ while the difference
    of the two decays. So the product $u_\alpha^\top W_2W_1v_\alpha$ soon is
    $a_{0\alpha}e^{2s_\alpha t/\tau}$, whatever it was at first: it may have been negative.
    The same as `festina.theory.saddles.mode_amplitudes_from`, in the shapes of matrices.

    **Arguments:**

    - `first`: $W_1$, shape `(..., hidden, input)`.
    - `second`: $W_2$, shape `(..., output, hidden)`.
    - `correlation`: $\Sigma^{yx}$, shape `(output, input)`.

    **Returns:**

    $a_{0\alpha}$ with shape `(..., mode)`, largest singular value first.

    !!! note "When it stops being exact"

        Modes share hidden units and hinder each other: their half-rise comes later than that of
        `mode_strengths` from here by $O(1/s_\alpha)$, a fraction of order $1/\ln(1/\text{scale})$.
        `festina.theory.saddles.mode_drop_times` accounts for it. Where singular values coincide
        the division among their modes is a choice.
    """
    first, second = finite("first", first), finite("second", second)
    correlation = finite("correlation", correlation)
    if (
        correlation.ndim != 2
        or first.ndim < 2
        or second.ndim < 2
        or first.shape[:-2] != second.shape[:-2]
        or first.shape[-2] != second.shape[-1]
        or (second.shape[-2], first.shape[-1]) != correlation.shape
    ):
        raise ValueError(
            "`first` must be (…, hidden, input) and `second` (…, output, hidden), to go with "
            f"`correlation` (output, input): got {first.shape}, {second.shape} and "
            f"{correlation.shape}."
        )
    return mode_amplitudes_from(first, np.swapaxes(second, -1, -2), correlation)


class LayerStrengths(NamedTuple):
    r"""Decoupled weights: $W^l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top$, up to `residual`.

    - `strengths`: $b_{l\alpha}$, the first layer first; their product is $a_\alpha$.
    - `residual`: the largest departure of a layer, or of a frame from orthonormality, as a
      fraction of its size.
    """

    strengths: Float[np.ndarray, "layer mode"]
    residual: float


def layer_strengths(
    network: DeepLinear, task: AbstractTask, *, tolerance: float = 1e-8
) -> LayerStrengths:
    """`layer_strengths_from` the weights of a `DeepLinear` network and the modes of its task.

    **Arguments:**

    - `network`: of any depth.
    - `task`: what it learns.
    - `tolerance`: as in `layer_strengths_from`, and as in `modes` for the data.
    """
    if not isinstance(network, DeepLinear):
        raise ValueError(
            f"`network` must be a `DeepLinear`, got {network!r}. `layer_strengths_from` takes "
            "matrices."
        )
    check_alone(network.batch_shape)
    weights = [np.asarray(weight) for weight in network.weights]
    return layer_strengths_from(weights, modes(task, tolerance=tolerance), tolerance=tolerance)


def layer_strengths_from(
    weights: Sequence[ArrayLike], modes: Modes, *, tolerance: float = 1e-8
) -> LayerStrengths:
    r"""Strength of each mode in each layer of weights that are decoupled.

    $W^1v_\alpha = b_{1\alpha}r_{1\alpha}$, $W^2r_{1\alpha} = b_{2\alpha}r_{2\alpha}$, …, ending in
    $b_{D\alpha}u_\alpha$. All but the last are taken positive. Then each mode is a chain of its own
    for all times: `mode_strengths` if the layers are equally strong, `unbalanced_strength` for two
    that are not.

    **Arguments:**

    - `weights`: $W^1, \dots, W^D$, each `(out, in)`.
    - `modes`: of the data.
    - `tolerance`: largest `residual` that passes for decoupled; `math.inf` for the nearest
      strengths of any weights.

    **Returns:**

    `LayerStrengths`.
    """
    layers = [finite("weights", weight) for weight in weights]
    sizes = [len(modes.right), *(len(w) if w.ndim else 0 for w in layers)]
    if (
        not layers
        or any(w.shape != (m, n) for w, n, m in zip(layers, sizes[:-1], sizes[1:], strict=True))
        or sizes[-1] != len(modes.left)
    ):
        raise ValueError(
            f"`weights` must be matrices (out, in) that lead from {sizes[0]} inputs to "
            f"{len(modes.left)} outputs, got shapes {[w.shape for w in layers]}."
        )

    frames = _frames(layers, np.asarray(modes.right), np.asarray(modes.left))
    strengths, residual = [], 0.0
    for weight, before, after in zip(layers, frames[:-1], frames[1:], strict=True):
        b = np.einsum("om,oi,im->m", after, weight, before)
        strengths.append(b)
        departure = np.linalg.norm(weight - (after * b) @ before.T)
        gram = after.T @ after
        skew = np.abs(gram - np.diag(np.diagonal(gram))).max()
        residual = max(residual, departure / max(np.linalg.norm(weight), 1e-300), skew)
    if residual > tolerance:
        raise ValueError(
            f"`weights` are not decoupled: a part of {residual:.3g} couples modes, above "
            f"`tolerance` {tolerance:.3g}. For small random weights of two layers use "
            "`effective_strengths`; in general simulate with `festina.gradient_flow`."
        )
    return LayerStrengths(np.array(strengths), float(residual))


def _frames(
    layers: list[np.ndarray], right: np.ndarray, left: np.ndarray
) -> list[Float[np.ndarray, "unit mode"]]:
    """R_0 = V, R_1, …, R_D = U: where each mode passes, seen from the inputs.

    A mode that some layer does not let through is seen from the outputs beyond it.
    """
    forward, backward = [right], [left]
    for weight in layers[:-1]:
        forward.append(_normalised(weight @ forward[-1]))
    for weight in layers[:0:-1]:
        backward.append(_normalised(weight.T @ backward[-1]))
    inner = [
        np.where(np.any(f != 0, axis=0), f, b)
        for f, b in zip(forward[1:], backward[:0:-1], strict=True)
    ]
    return [right, *inner, left]


def _normalised(columns: Float[np.ndarray, "unit mode"]) -> Float[np.ndarray, "unit mode"]:
    """Columns of length one; those that are rounding beside the largest are zero."""
    length = np.linalg.norm(columns, axis=0)
    seen = length > 1e-13 * max(length.max(), 1e-300)
    return np.where(seen, columns / np.where(seen, length, 1.0), 0.0)
