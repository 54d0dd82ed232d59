r"""Small random weights of two layers: the part of them that grows, with modes coupled.

Near zero $W_1v_\alpha + W_2^\top u_\alpha$ grows while the difference of the two decays, so that
soon only $c_\alpha = \frac12(W_1v_\alpha + W_2^\top u_\alpha)$ is left in both layers. Such weights
are balanced, and their flow is known.
"""

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times, finite, number
from ..._types import ArrayLike


def initial_mode_overlaps(
    first: ArrayLike, second: ArrayLike, left: ArrayLike, right: ArrayLike
) -> Float[np.ndarray, "*batch mode mode"]:
    r"""Return $G_{\alpha\beta} = c_\alpha\cdot c_\beta$, the overlaps over hidden units of growing
    modes.

    Its diagonal are the `effective_initial_strengths`; what is beside it is the race of modes for
    units.

    **Arguments:**

    - `first`, `second`: $W_1$, `(..., hidden, input)`, and $W_2$, `(..., output, hidden)`; leading
      axes are those of a batch.
    - `left`, `right`: $u_\alpha$ and $v_\alpha$ in columns, as `modes` gives them.
    """
    first, second = finite("first", first), finite("second", second)
    left, right = finite("left", left), finite("right", right)
    shapes = first.shape, second.shape, left.shape, right.shape
    if (
        min(map(len, shapes)) < 2
        or first.shape[-2] != second.shape[-1]
        or (second.shape[-2], first.shape[-1]) != (len(left), len(right))
        or left.shape[-1] != right.shape[-1]
    ):
        raise ValueError(
            "`first` must be (…, hidden, input) and `second` (…, output, hidden), to go with "
            "`left` (output, mode) and `right` (input, mode): got "
            f"{', '.join(map(str, shapes[:3]))} and {shapes[3]}."
        )
    c = 0.5 * (first @ right + second.swapaxes(-1, -2) @ left)
    return c.swapaxes(-1, -2) @ c


def coupled_mode_strengths(
    times: ArrayLike, gram: ArrayLike, singular_values: ArrayLike, *, tau: float = 1.0
) -> Float[np.ndarray, "*batch_time mode mode"]:
    r"""Return $U^\top W(t) V$ from small initial weights, modes coupled, for white inputs.

    With all modes of the data given,

    $$\tau\dot A = SA + AS - 2A^2,\qquad
      A^{-1}(t) = e^{-St/\tau}G^{-1}e^{-St/\tau} + S^{-1}\bigl(1 - e^{-2St/\tau}\bigr),$$

    the solution of Braun et al. (2022) in this basis. It has the race of modes for hidden units in
    it, which independent chains leave out.

    **Arguments:**

    - `times`: when to evaluate, in the units of `tau`; one time has no axis in the result.
    - `gram`: $G$, see `initial_mode_overlaps`.
    - `singular_values`: $s_\alpha$, all positive.
    - `tau`: time constant of a layer.

    !!! note "When it stops being exact"

        What it leaves out is of second order in the initial weights, to be compared with the
        smallest eigenvalue of $G$: there must be at least as many hidden units as modes.
    """
    check_times(times)
    check_positive("singular_values", singular_values)
    check_positive("tau", tau)
    gram, s = finite("gram", gram), np.asarray(singular_values, dtype=float)
    if s.ndim != 1 or gram.shape[-2:] != (len(s), len(s)):
        raise ValueError(
            "`gram` must be (…, mode, mode) with a mode for each of `singular_values`, got shapes "
            f"{gram.shape} and {s.shape}."
        )
    size = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0.0))
    twisted = np.abs(gram - gram.swapaxes(-1, -2))
    if (twisted > 1e-9 * size[..., :, None] * size[..., None, :]).any():
        raise ValueError("`gram` must be symmetric, products of hidden directions with each other.")
    if not size.all() or (np.linalg.matrix_rank(_cosines(gram, size)) < gram.shape[-1]).any():
        raise ValueError(
            f"`gram` must have full rank, {gram.shape[-1]}: with fewer hidden units than modes "
            "some mode finds none. Use `balanced_flow` there."
        )
    t = np.asarray(times, dtype=float) / number("tau", tau)
    inverse = np.linalg.inv(gram).reshape(*gram.shape[:-2], *(1,) * t.ndim, *gram.shape[-2:])
    decay = np.exp(-s * t[..., None])
    rest = ((1 - decay**2) / s)[..., None] * np.eye(len(s))
    return np.linalg.inv(decay[..., :, None] * inverse * decay[..., None, :] + rest)


def _cosines(
    gram: Float[np.ndarray, "*batch mode mode"], size: Float[np.ndarray, "*batch mode"]
) -> Float[np.ndarray, "*batch mode mode"]:
    """Angles alone: strengths may differ by any factor."""
    return gram / (size[..., :, None] * size[..., None, :])
