r"""Small random weights of two layers: what of them grows, and what it grows into.

Near zero $W_1v_\alpha + W_2^\top u_\alpha$ grows while the difference of the two decays, so that
soon only $c_\alpha = \frac12(W_1v_\alpha + W_2^\top u_\alpha)$ is left in both layers. Such weights
are balanced, and their flow is known.
"""

import numpy as np
from jaxtyping import Float


def growing_gram(
    first: Float[np.ndarray, "*seed hidden input"],
    second: Float[np.ndarray, "*seed output hidden"],
    left: Float[np.ndarray, "output mode"],
    right: Float[np.ndarray, "input mode"],
) -> Float[np.ndarray, "*seed mode mode"]:
    r"""$G_{\alpha\beta} = c_\alpha\cdot c_\beta$ over hidden units: its diagonal is strengths."""
    c = 0.5 * (first @ right + second.swapaxes(-1, -2) @ left)
    return c.swapaxes(-1, -2) @ c


def growing_strengths(
    times: Float[np.ndarray, " time"],
    gram: Float[np.ndarray, "*seed mode mode"],
    singular_values: Float[np.ndarray, " mode"],
) -> Float[np.ndarray, "*seed time mode mode"]:
    r"""$U^\top W(t) V$ from the growing part of small initial weights, for white inputs.

    With τ = 1 and all modes of the data given,

    $$\dot A = SA + AS - 2A^2,\qquad
      A^{-1}(t) = e^{-St}G^{-1}e^{-St} + S^{-1}\bigl(1 - e^{-2St}\bigr),$$

    the solution of Braun et al. (2022) in this basis. It has the race of modes for hidden units in
    it, which independent chains leave out; what it leaves out itself is of second order in the
    initial weights, and to be compared with the smallest eigenvalue of G. There must be as many
    hidden units as modes.
    """
    s, inverse = singular_values, np.linalg.inv(gram)[..., None, :, :]
    decay = np.exp(-s * times[:, None])
    rest = (1 - decay**2) / s
    return np.linalg.inv(decay[:, :, None] * inverse * decay[:, None, :] + _diagonal(rest))


def passage_times(
    times: Float[np.ndarray, " time"], share: Float[np.ndarray, "*lane time"]
) -> Float[np.ndarray, "*lane"]:
    """When curves that rise from near 0 to 1 first pass one half; NaN for those that do not.

    Between samples the logit of a logistic curve is a straight line.
    """
    share = np.clip(share, 1e-12, 1 - 1e-12)
    logit = np.log(share) - np.log1p(-share)
    above = logit >= 0
    after = np.argmax(above, axis=-1)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(logit, i[..., None], -1)[..., 0] for i in (before, after))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, -low / (high - low), 0.0)
    found = times[before] + part * (times[after] - times[before])
    return np.where(above.any(axis=-1), found, np.nan)


def _diagonal(values: Float[np.ndarray, "time mode"]) -> Float[np.ndarray, "time mode mode"]:
    return values[..., None] * np.eye(values.shape[-1])
