r"""Learning from small random weights in two-layer linear networks, with coupled modes.

For small weights the sum $W_1v_\alpha + W_2^\top u_\alpha$ grows while the difference of the two
terms decays. Soon both layers contain only $c_\alpha = \frac12(W_1v_\alpha + W_2^\top u_\alpha)$.
Weights along the directions $c_\alpha$ alone are balanced, and their gradient flow has a closed
form.
"""

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times, finite, number
from ..._types import ArrayLike


def initial_mode_overlaps(
    first: ArrayLike, second: ArrayLike, left: ArrayLike, right: ArrayLike
) -> Float[np.ndarray, "*batch mode mode"]:
    r"""Return the overlaps $G_{\alpha\beta}$ of modes in the hidden layer at initialisation.

    From small weights, mode $\alpha$ grows along the hidden direction $c_\alpha =
    \frac12(W_1v_\alpha + W_2^\top u_\alpha)$, and $G_{\alpha\beta} = c_\alpha\cdot c_\beta$. The
    diagonal of $G$ contains the `effective_initial_strengths`. The off-diagonal elements couple
    modes that compete for the same hidden units.

    **Arguments:**

    - `first`, `second`: $W_1$, `(..., hidden, input)`, and $W_2$, `(..., output, hidden)`; leading
      axes are batch axes.
    - `left`, `right`: singular vectors $u_\alpha$ and $v_\alpha$ in columns, as in `Modes`.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> first, second = [[0.1, 0.0], [0.1, 0.1]], [[0.1, 0.0], [0.0, 0.1]]
    >>> linear.initial_mode_overlaps(first, second, modes.left, modes.right).round(4)
    array([[0.0125, 0.005 ],
           [0.005 , 0.01  ]])
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
            "`first` must have shape (…, hidden, input) and `second` (…, output, hidden), to go "
            "with `left` (output, mode) and `right` (input, mode): got "
            f"{', '.join(map(str, shapes[:3]))} and {shapes[3]}."
        )
    c = 0.5 * (first @ right + second.swapaxes(-1, -2) @ left)
    return c.swapaxes(-1, -2) @ c


def coupled_mode_strengths(
    times: ArrayLike, gram: ArrayLike, singular_values: ArrayLike, *, tau: float = 1.0
) -> Float[np.ndarray, "*batch_time mode mode"]:
    r"""Return all mode strengths $A(t) = U^\top W_2W_1 V$ from small weights, with coupled modes.

    For white inputs and with $S = \mathrm{diag}(s_\alpha)$ containing all modes of the data,

    $$\tau\dot A = SA + AS - 2A^2,\qquad
      A^{-1}(t) = e^{-St/\tau}G^{-1}e^{-St/\tau} + S^{-1}\bigl(1 - e^{-2St/\tau}\bigr),$$

    where $G$ is the matrix of initial overlaps of the modes. The formula for $A^{-1}$ is the
    solution of Braun et al. (2022) in the basis of the singular vectors. The solution includes the
    competition of modes for hidden units, which independent chains neglect.

    **Arguments:**

    - `times`: times in the units of `tau`; for a single time the result has no time axis.
    - `gram`: $G$, see `initial_mode_overlaps`.
    - `singular_values`: $s_\alpha$, all positive.
    - `tau`: time constant of a layer.

    **Example:**

    >>> from festina.theory import linear
    >>> gram = [[0.0125, 0.005], [0.005, 0.01]]
    >>> linear.coupled_mode_strengths(1.0, gram, [3.0, 1.0]).round(3)
    array([[1.875, 0.097],
           [0.097, 0.061]])

    !!! note "When it stops being exact"

        The error of a mode strength $A_{\alpha\alpha}$ is of second order in the initial weights.
        $G$ is of second order too, so the result is accurate only once modes have grown. The errors
        of $A_{\alpha\beta}$ and $A_{\beta\alpha}$, with $s_\beta < s_\alpha$, are of order
        $1 + s_\beta/s_\alpha$ in the initial weights. The hidden directions $c_\alpha$ of
        `initial_mode_overlaps` have errors of third order, which must be small compared with the
        square root of the smallest eigenvalue of $G$. At least as many hidden
        units as modes are needed.
    """
    check_times(times)
    check_positive("singular_values", singular_values)
    check_positive("tau", tau)
    gram, s = finite("gram", gram), np.asarray(singular_values, dtype=float)
    if s.ndim != 1 or gram.shape[-2:] != (len(s), len(s)):
        raise ValueError(
            "`gram` must be (…, mode, mode) with one mode for each of the `singular_values`, got "
            f"shapes {gram.shape} and {s.shape}."
        )
    size = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0.0))
    twisted = np.abs(gram - gram.swapaxes(-1, -2))
    if (twisted > 1e-9 * size[..., :, None] * size[..., None, :]).any():
        raise ValueError("`gram` must be symmetric: use the result of `initial_mode_overlaps`.")
    if not size.all() or (np.linalg.matrix_rank(_cosines(gram, size)) < gram.shape[-1]).any():
        raise ValueError(
            f"`gram` must have full rank, {gram.shape[-1]}: a network with fewer hidden units than "
            "modes cannot learn all modes. Use `balanced_flow` for such networks."
        )
    t = np.asarray(times, dtype=float) / number("tau", tau)
    inverse = np.linalg.inv(gram).reshape(*gram.shape[:-2], *(1,) * t.ndim, *gram.shape[-2:])
    decay = np.exp(-s * t[..., None])
    rest = ((1 - decay**2) / s)[..., None] * np.eye(len(s))
    return np.linalg.inv(decay[..., :, None] * inverse * decay[..., None, :] + rest)


def _cosines(
    gram: Float[np.ndarray, "*batch mode mode"], size: Float[np.ndarray, "*batch mode"]
) -> Float[np.ndarray, "*batch mode mode"]:
    """Return the cosines of the angles between modes, whose strengths may differ by any factor."""
    return gram / (size[..., :, None] * size[..., None, :])
