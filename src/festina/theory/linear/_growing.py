r"""Small random weights of two layers: what of them grows, and what it grows into.

Near zero $W_1v_\alpha + W_2^\top u_\alpha$ grows while the difference of the two decays, so that
soon only $c_\alpha = \frac12(W_1v_\alpha + W_2^\top u_\alpha)$ is left in both layers. Such weights
are balanced, and their flow is known.
"""

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_positive, check_times


def growing_gram(
    first: Float[np.ndarray, "*batch hidden input"],
    second: Float[np.ndarray, "*batch output hidden"],
    left: Float[np.ndarray, "output mode"],
    right: Float[np.ndarray, "input mode"],
) -> Float[np.ndarray, "*batch mode mode"]:
    r"""$G_{\alpha\beta} = c_\alpha\cdot c_\beta$ over hidden units, of the part that grows.

    Its diagonal are the `effective_strengths`; what is beside it is the race of modes for units.

    **Arguments:**

    - `first`, `second`: $W_1$ and $W_2$; leading axes are those of a batch.
    - `left`, `right`: $u_\alpha$ and $v_\alpha$ in columns, as `modes` gives them.
    """
    c = 0.5 * (first @ right + second.swapaxes(-1, -2) @ left)
    return c.swapaxes(-1, -2) @ c


def growing_strengths(
    times: Float[np.ndarray, " time"],
    gram: Float[np.ndarray, "*batch mode mode"],
    singular_values: Float[np.ndarray, " mode"],
) -> Float[np.ndarray, "*batch time mode mode"]:
    r"""$U^\top W(t) V$ from the growing part of small initial weights, for white inputs.

    With τ = 1 and all modes of the data given,

    $$\dot A = SA + AS - 2A^2,\qquad
      A^{-1}(t) = e^{-St}G^{-1}e^{-St} + S^{-1}\bigl(1 - e^{-2St}\bigr),$$

    the solution of Braun et al. (2022) in this basis. It has the race of modes for hidden units in
    it, which independent chains leave out.

    **Arguments:**

    - `times`: when to evaluate.
    - `gram`: $G$, see `growing_gram`.
    - `singular_values`: $s_\alpha$, all positive.

    !!! note "When it stops being exact"

        What it leaves out is of second order in the initial weights, to be compared with the
        smallest eigenvalue of $G$: there must be at least as many hidden units as modes.
    """
    check_times(times)
    check_finite("gram", gram)
    check_positive("singular_values", singular_values)
    size = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
    if not size.all() or (np.linalg.matrix_rank(_cosines(gram, size)) < gram.shape[-1]).any():
        raise ValueError(
            f"`gram` must have full rank, {gram.shape[-1]}: with fewer hidden units than modes "
            "some mode finds none. Use `balanced_flow` there."
        )
    s, inverse = singular_values, np.linalg.inv(gram)[..., None, :, :]
    decay = np.exp(-s * times[:, None])
    rest = ((1 - decay**2) / s)[..., None] * np.eye(len(s))
    return np.linalg.inv(decay[:, :, None] * inverse * decay[:, None, :] + rest)


def _cosines(
    gram: Float[np.ndarray, "*batch mode mode"], size: Float[np.ndarray, "*batch mode"]
) -> Float[np.ndarray, "*batch mode mode"]:
    """Angles alone: strengths may differ by any factor."""
    return gram / (size[..., :, None] * size[..., None, :])
