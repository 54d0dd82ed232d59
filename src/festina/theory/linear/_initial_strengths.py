"""Initial strengths of modes, measured from the initial weights of a network."""

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
    r"""Return the effective initial strength of each mode of small random weights.

    $$a_{0\alpha} = \tfrac14\lVert W_1 v_\alpha + W_2^\top u_\alpha\rVert^2.$$

    For small weights $W_1v_\alpha + W_2^\top u_\alpha$ grows as $e^{s_\alpha t/\tau}$, while the
    difference of the two terms decays. The strength $u_\alpha^\top W_2W_1v_\alpha$ of mode $\alpha$
    therefore soon equals $a_{0\alpha}e^{2s_\alpha t/\tau}$, even if it was negative at first.
    `festina.theory.saddles.initial_mode_amplitudes` returns the same numbers.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers; or a batch of them.
    - `task`: the task that the network learns; only $\Sigma^{yx}$ enters.

    **Returns:**

    $a_{0\alpha}$ with shape `(*batch, mode)`, largest singular value first.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.2, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, -0.3]]])
    >>> linear.effective_initial_strengths(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    array([0.0225, 0.01  ])

    !!! note "When it stops being exact"

        Modes share hidden units and slow each other down. Each mode reaches half of its target
        later than `mode_strengths` predicts from these initial strengths. The delay is
        $O(1/s_\alpha)$, a fraction of order $1/\ln(1/\text{scale})$ of the time, where the scale is
        the standard deviation of the initial weights. `festina.theory.saddles.mode_drop_times`
        includes the delay. If singular values coincide, only the sum of the strengths of their
        modes is well defined.
    """
    return initial_mode_amplitudes(network, task)


class DecoupledStrengths(NamedTuple):
    r"""Result of `measured_layer_strengths`: the strength of each mode in each layer.

    Decoupled weights have the form $W^l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top$ with orthonormal
    frames $R_l$.

    - `strengths`: $b_{l\alpha}$, the first layer first; their product is $a_\alpha$.
    - `residual`: the largest deviation of a layer from the decoupled form, as a fraction of the
      size of the layer, or of a frame from orthonormality.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.2, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, -0.3]]])
    >>> task = from_moments([[3.0, 0.0], [0.0, 1.0]])
    >>> linear.measured_layer_strengths(network, task).strengths.prod(axis=0)
    array([ 0.02, -0.03])
    """

    strengths: Float[np.ndarray, "layer mode"]
    residual: float


def measured_layer_strengths(
    network: DeepLinear, task: AbstractTask, *, tolerance: float = 1e-8
) -> DecoupledStrengths:
    r"""Return the strength of each mode in each layer, for weights with decoupled modes.

    In a decoupled network every layer maps each mode to a single direction:
    $W^1v_\alpha = b_{1\alpha}r_{1\alpha}$, $W^2r_{1\alpha} = b_{2\alpha}r_{2\alpha}$, …, up to the
    last layer, which returns $b_{D\alpha}u_\alpha$. All $b_{l\alpha}$ except the last are positive
    by convention. Each mode then learns as an independent chain. The curve of the chain is
    `mode_strengths` if all layers are equally strong, and `unbalanced_strength` for two layers of
    different strength.

    **Arguments:**

    - `network`: a `DeepLinear` of any depth.
    - `task`: the task that the network learns.
    - `tolerance`: largest accepted `residual` of decoupled weights, and the `tolerance` of `modes`.
      With `math.inf` the function returns the nearest strengths of any weights.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.2, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, -0.3]]])
    >>> task = from_moments([[3.0, 0.0], [0.0, 1.0]])
    >>> linear.measured_layer_strengths(network, task).strengths
    array([[ 0.2,  0.1],
           [ 0.1, -0.3]])
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
            f"The weights are not decoupled: a part of {residual:.3g} couples modes, above "
            f"`tolerance` {tolerance:.3g}. For small random weights of two layers use "
            "`effective_initial_strengths`; for other weights simulate with "
            "`festina.gradient_flow`."
        )
    return DecoupledStrengths(np.array(strengths), float(residual))


def _frames(
    layers: list[np.ndarray], right: np.ndarray, left: np.ndarray
) -> list[Float[np.ndarray, "unit mode"]]:
    """Return the frames R_0 = V, R_1, …, R_D = U: the direction of each mode after each layer.

    The directions follow from the inputs; after a layer that maps a mode to zero, they follow from
    the outputs.
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
    """Normalise columns; columns of the size of rounding errors become zero."""
    length = np.linalg.norm(columns, axis=0)
    seen = length > 1e-13 * max(length.max(), 1e-300)
    return np.where(seen, columns / np.where(seen, length, 1.0), 0.0)
