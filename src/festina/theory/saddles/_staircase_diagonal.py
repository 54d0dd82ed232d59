r"""Staircase of a diagonal linear network: the successive saddles of Pesme & Flammarion.

For $f = \sum_i u_i v_i x_i = \beta\cdot x$ gradient flow is a mirror flow. Let
$p_i = \frac12(u_i + v_i)(0)$, $m_i = \frac12(u_i - v_i)(0)$, and let the negative gradient be
$g = -\partial L/\partial\beta = b - C\beta$, with $b = \langle yx\rangle$ and
$C = \langle xx^\top\rangle$. Then at all times

$$\beta_i = p_i^2 e^{2 s_i} - m_i^2 e^{-2 s_i},\qquad \dot s_i = g_i,\qquad s_i(0) = 0.$$

A coordinate $\beta_i$ is of order one only if $s_i$ has increased to $\ln(1/|p_i|)$ or decreased to
$-\ln(1/|m_i|)$. In units of $\ln(1/\epsilon)$ these thresholds are $\pm1$ for an initial scale
$\epsilon$. In the limit $\epsilon \to 0$, $s$ moves along straight lines until a coordinate reaches
a threshold. Then $\beta$ jumps to the least-squares solution on the coordinates at $\pm1$, with
their signs (Pesme & Flammarion 2023, Algorithm 1).

At finite $\epsilon$ the flow of $s$ is integrated. On plateaus $s$ moves along straight lines, so
an implicit method needs few steps, however long the plateau is.
"""

import functools

import numpy as np
from jaxtyping import Float

from ...tasks._task import Statistics
from ._course import Course, Saddle, passage, refined
from ._stairs import Staircase, warn_unless_ended

_RTOL = 1e-9
_LEARNED = 1e-10  # fraction of the initial loss that may remain at the end
_LONGEST = 1e6  # coordinates slower than the fastest by this factor are not followed


def diagonal_staircase(
    u: Float[np.ndarray, " input"], v: Float[np.ndarray, " input"], seen: Statistics
) -> Staircase:
    r"""Predict the staircase of a diagonal linear network.

    On the plateau with the active coordinates $A$ and their signs, $\beta_A$ is the least-squares
    solution on $A$. The level is
    $L_A = L_\mathrm{floor} + \frac12(\beta-\beta^*)^\top C(\beta - \beta^*)$, with the
    least-squares loss $L_\mathrm{floor}$ and solution $\beta^*$. The least-squares solutions
    $\beta_A$ are the saddles of Pesme & Flammarion (2023). The mirror flow of the given initial
    weights determines which saddles the flow passes, and when. A coordinate that would change its
    sign returns to zero and becomes dormant again.

    A coordinate with $u_i(0) = -v_i(0)$ never becomes positive, and one with $u_i(0) = v_i(0)$
    never becomes negative. Drops below $10^{-10}$ of the initial loss are not followed. If $C$ is
    singular, the least-squares solution of minimal norm is used.
    """
    from scipy.integrate import solve_ivp

    b, c, p, m = seen.correlation[0], seen.covariance, 0.5 * (u + v), 0.5 * (u - v)
    with np.errstate(divide="ignore"):
        up, down = np.log(np.abs(p)), np.log(np.abs(m))
    best = np.linalg.pinv(c, rcond=1e-13 * len(b), hermitian=True) @ b

    def parts(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positive and negative part of β, bounded for trial steps that are too long."""
        return np.exp(np.minimum(2.0 * (up + s), 50.0)), np.exp(np.minimum(2.0 * (down - s), 50.0))

    def beta(s: np.ndarray) -> Float[np.ndarray, "*time input"]:
        positive, negative = parts(s)
        return positive - negative

    def excess(at: np.ndarray) -> Float[np.ndarray, "*time"]:
        return np.asarray(0.5 * np.sum((at - best) @ c * (at - best), axis=-1))

    def squared_gradient(s: np.ndarray) -> Float[np.ndarray, "*time"]:
        return np.asarray(2.0 * np.sum((b - beta(s) @ c) ** 2 * sum(parts(s)), axis=-1))

    signs = np.stack([p != 0.0, m != 0.0]) * np.array([[1.0], [-1.0]])
    final = excess(_least_squares(b, c, np.concatenate(signs)))
    start = excess(beta(np.zeros_like(b)))

    def ended(_: float, s: np.ndarray) -> float:
        return float(excess(beta(s)) - final - _LEARNED * start)

    ended.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    waits = np.concatenate([-up[p != 0.0], -down[m != 0.0]]).clip(0.0)
    longest = _LONGEST * (1.0 + waits.max(initial=0.0)) / (np.abs(b).max() or 1.0)
    moves = ended(0.0, np.zeros_like(b)) > 0.0
    solution = solve_ivp(
        lambda _, s: b - c @ beta(s),
        (0.0, longest if moves else 0.0),
        np.zeros_like(b),
        method="LSODA",
        rtol=_RTOL,
        atol=_RTOL,
        jac=lambda _, s: -2.0 * c * sum(parts(s)),
        events=ended,
        dense_output=True,
    )
    if moves and len(solution.t) == 1:
        raise ValueError(
            f"`u` and `v` must be small for a staircase, got weights up to "
            f"{np.abs([p + m, p - m]).max():.3g}, from which the flow cannot be integrated. Start "
            "from smaller weights."
        )
    if moves:
        warn_unless_ended(solution)
    time = refined(solution.t)
    rows = solution.sol(time).T
    losses = excess(beta(rows))

    def saddle(row: int) -> Saddle:
        near = _near(b, c, beta(rows[row]))
        learned = np.abs(near) > 1e-12 * np.abs(best).max()  # other coordinates explain nothing
        return Saddle(float(excess(near)), tuple(np.flatnonzero(learned).tolist()))

    between = lambda t: float(excess(beta(solution.sol(t))))
    passed = functools.partial(passage, time, losses, between)
    flow = Course(time, losses, squared_gradient(rows), saddle, passed)
    return flow.staircase("coordinates", len(b), seen.floor)


def _near(b: np.ndarray, c: np.ndarray, beta: np.ndarray) -> Float[np.ndarray, " input"]:
    """Return the saddle near β, with all coordinates of β that have reached half of its values."""
    signs = np.sign(beta)
    while True:
        saddle = _least_squares(b, c, signs)
        early = (signs != 0.0) & (np.abs(beta) < 0.5 * np.abs(saddle))
        if not early.any():
            return saddle
        signs[np.argmin(np.where(early, np.abs(beta / np.where(early, saddle, 1.0)), np.inf))] = 0.0


def _least_squares(b: np.ndarray, c: np.ndarray, signs: np.ndarray) -> Float[np.ndarray, " input"]:
    """Return the least-squares solution whose coordinates have given signs, or are zero.

    Coordinates with sign 0 are zero. `signs` may have two entries for each coordinate, all second
    entries after all first entries: each coordinate may then have either of its two signs.
    """
    from scipy.optimize import nnls

    which = np.flatnonzero(signs)
    if not which.size:  # without columns SciPy's `nnls` aborts Python
        return np.zeros(len(b))
    # ½βᵀCβ − bᵀβ is ½|Rβ − d|² with C = RᵀR, Rᵀd = b.
    variance, axes = np.linalg.eigh(c)
    seen = variance > 1e-13 * len(c) * variance[-1]
    root = np.sqrt(variance[seen])
    matrix = root[:, None] * axes[:, seen].T
    used = which % len(b)
    solution, _ = nnls(matrix[:, used] * signs[which], (axes[:, seen].T @ b) / root)
    found = np.zeros(len(b))
    np.add.at(
        found,
        used,
        signs[which] * np.where(solution > 1e-12 * solution.max(initial=0.0), solution, 0.0),
    )
    return found
