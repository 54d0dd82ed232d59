"""The strengths of modes that a network's own initial weights amount to."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._checks import check_alone, check_type
from ...networks import AbstractNetwork, DeepLinear
from ...tasks import AbstractTask
from .._modes import modes
from ..saddles import initial_mode_amplitudes


def effective_initial_strengths(
    network: AbstractNetwork, task: AbstractTask
) -> Float[np.ndarray, "*batch mode"]:
    r"""Return the strength with which each mode of small random weights starts to grow.

    $$a_{0\alpha} = \tfrac14\lVert W_1 v_\alpha + W_2^\top u_\alpha\rVert^2:$$

    near zero $W_1v_\alpha + W_2^\top u_\alpha$ grows as $e^{s_\alpha t/\tau}$ while the difference
    of the two decays. So the product $u_\alpha^\top W_2W_1v_\alpha$ soon is
    $a_{0\alpha}e^{2s_\alpha t/\tau}$, whatever it was at first: it may have been negative.
    The same as `festina.theory.saddles.initial_mode_amplitudes`, in the symbols of matrices.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers; or a batch of them.
    - `task`: what it learns; only $\Sigma^{yx}$ enters.

    **Returns:**

    $a_{0\alpha}$ with shape `(*batch, mode)`, largest singular value first.

    !!! note "When it stops being exact"

        Modes share hidden units and hinder each other: their half-rise comes later than that of
        `mode_strengths` from here by $O(1/s_\alpha)$, a fraction of order $1/\ln(1/\text{scale})$.
        `festina.theory.saddles.mode_drop_times` accounts for it. Where singular values coincide
        the division among their modes is a choice.
    """
    return initial_mode_amplitudes(network, task)


class DecoupledStrengths(NamedTuple):
    r"""Result of `measured_layer_strengths`: $W^l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top$, up to
    `residual`.

    - `strengths`: $b_{l\alpha}$, the first layer first; their product is $a_\alpha$.
    - `residual`: the largest departure of a layer, or of a frame from orthonormality, as a
      fraction of its size.
    """

    strengths: Float[np.ndarray, "layer mode"]
    residual: float


def measured_layer_strengths(
    network: DeepLinear, task: AbstractTask, *, tolerance: float = 1e-8
) -> DecoupledStrengths:
    r"""Return the strength of each mode in each layer of weights that are decoupled.

    $W^1v_\alpha = b_{1\alpha}r_{1\alpha}$, $W^2r_{1\alpha} = b_{2\alpha}r_{2\alpha}$, …, ending in
    $b_{D\alpha}u_\alpha$. All but the last are taken positive. Then each mode is a chain of its own
    for all times: `mode_strengths` if the layers are equally strong, `unbalanced_strength` for two
    that are not.

    **Arguments:**

    - `network`: of any depth.
    - `task`: what it learns.
    - `tolerance`: largest `residual` that passes for decoupled, and as in `modes` for the data;
      `math.inf` for the nearest strengths of any weights.
    """
    check_type("network", network, DeepLinear)
    check_alone(network.batch_shape)
    data = modes(task, tolerance=tolerance)
    network.check_fit(task.input_shape, task.outputs)
    network.check_finite()
    layers = [np.asarray(weight) for weight in network.weights]
    frames = _frames(layers, np.asarray(data.right), np.asarray(data.left))
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
            "`effective_initial_strengths`; in general simulate with `festina.gradient_flow`."
        )
    return DecoupledStrengths(np.array(strengths), float(residual))


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
