r"""Linear case: the timescales that separate directions (Zhang, Saxe and Latham, Section 5.1, G).

The network is $f = \sum_i v_i u_i^\top z = Wz$ (Eq. 8). Its loss is
$L = \frac12\langle\lVert y - f\rVert^2\rangle$ and its time is that of $\dot\theta = -\partial
L/\partial\theta$, so that (Eq. 9)

$$\dot v_i = (\Sigma_{yz} - W\Sigma_{zz})\,u_i,\qquad
  \dot u_i = (\Sigma_{yz} - W\Sigma_{zz})^\top v_i.$$

The paper's experiments use $\langle\lVert y - f\rVert^2\rangle = 2L$ (Eq. 64): $n$ steps of size
$\eta$ on a loss $cL$ are time $t = c\eta n$. Everywhere $\Sigma_{yz} = \sum_k s_k q_k r_k^\top$, of
shape `(N_v, N_u)`, with $s_1 \ge s_2 \ge \dots$
"""

import itertools
import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ._statistics import covariance_of, finite

# A mode's share of the loss, λ(a* − a)²/2, has fallen by half when a = (1 − 1/√2) a*.
_HALF = 1.0 - 1.0 / math.sqrt(2.0)

# The series of `_linearised` falls like _HALF^j: 40 terms are beyond float64.
_TERMS = 40

_EPS = float(np.finfo(np.float64).eps)


def mode_amplitudes(
    u: ArrayLike, v: ArrayLike, correlation: ArrayLike
) -> Float[np.ndarray, "*batch mode"]:
    r"""How much of each growing mode the initial weights hold.

    $$a_k(0) = \sum_i c_{ki}^2,\qquad
      c_{ki} = \tfrac12\left(q_k^\top v_i(0) + r_k^\top u_i(0)\right),$$

    with $c_{ki}$ from Eq. (35a) of Zhang, Saxe and Latham: the part of unit $i$ that grows as
    $e^{s_k t}$ near zero. Once the decaying part is gone $q_k^\top W r_k = a_k(0)\,e^{2 s_k t}$.
    Weights drawn from $\mathcal N(0, \epsilon^2)$ have mean $H\epsilon^2/2$.

    **Arguments:**

    - `u`: $u_i$, shape `(..., unit, N_u)`; leading axes are batch axes, shared with `v`.
    - `v`: $v_i$, shape `(..., unit, N_v)`.
    - `correlation`: $\Sigma_{yz}$, shape `(N_v, N_u)`.

    **Returns:**

    $a_k(0)$ with shape `(..., mode)`, $k = 1, \dots, \min(N_v, N_u)$, largest $s_k$ first.

    !!! note "When it is not defined"

        If singular values coincide the vectors $q_k, r_k$ are a choice, and so is how the total of
        their $a_k(0)$ is divided. `mode_drop_times` does not depend on that choice.
    """
    u, v, correlation = _checked(u, v, correlation)
    q, _, rt = np.linalg.svd(correlation, full_matrices=False)
    return np.sum(_growing(u, v, q, rt.T) ** 2, axis=-2)


def mode_drop_times(
    u: ArrayLike,
    v: ArrayLike,
    correlation: ArrayLike,
    covariance: ArrayLike,
    *,
    learning_rate: float | None = None,
    loss_factor: float = 1.0,
    tolerance: float = 1e-6,
    degeneracy: float = 1e-9,
) -> Float[np.ndarray, "*batch mode"]:
    r"""When each mode of a two-layer linear network is learned, from its initial weights alone.

    Let the inputs' covariance share the singular directions of the correlation,
    $\Sigma_{zz} r_k = \lambda_k r_k$. Then $e_k = q_k$ in Eqs. (40)–(42) of Zhang, Saxe and Latham:
    on every plateau the modes not yet learned still grow at their own rate $s_k$, and the strength
    $a_k = q_k^\top W r_k$ of each follows a logistic curve towards $a_k^* = s_k/\lambda_k$,

    $$\dot a_k = 2 a_k (s_k - \lambda_k a_k).$$

    Its share of the loss, $\frac12\lambda_k (a_k^* - a_k)^2$, has fallen by half when
    $a_k = x a_k^*$ with $x = 1 - 1/\sqrt2$, at

    $$t_k = \frac{1}{2 s_k} \ln\frac{\psi(x)}{\psi(\bar a_k/a_k^*)},\qquad
      \psi(a) = \frac{a}{1-a}.$$

    **Units are shared.** $\bar a_k$ is not all of $a_k(0) = \lVert c_k\rVert^2$, see
    `mode_amplitudes`. What $c_k$, a vector over units, has along the $c_l$ of the modes learned
    before would make $W$ mix modes $k$ and $l$, and the dynamics removes it once $l$ is learned.
    What is left is Gram–Schmidt in the order of learning: with $G_{kl} = c_k\cdot c_l$,

    $$\bar a_k = \frac{\det G_{1\dots k}}{\det G_{1\dots k-1}} \le a_k(0).$$

    (White inputs and balanced weights: $C^{-1}(t) = e^{-St}G^{-1}e^{-St} + S^{-1}(1 - e^{-2St})$
    solves $\dot C = SC + CS - 2C^2$; take the Schur complement over the modes that are still
    small.) The paper has no such term; it is $1/H$ of $a_k(0)$ in the mean for the second mode, and
    decides the result when units are few. With fewer than $k$ units mode $k$ finds none: infinity.

    **Gradient descent.** One step on $cL$ maps $a/a^* \mapsto F(a/a^*)$ with $F(a) =
    a(1 + h(1-a))^2$, $h = c\eta s_k$. The number of steps is exactly

    $$n_k = \frac{1}{2\ln(1+h)} \ln\frac{\psi_h(x)}{\psi_h(\bar a_k/a_k^*)},\qquad
      \psi_h(F(a)) = (1+h)^2\,\psi_h(a),$$

    $\psi_h$ being the Koenigs function of $F$ at zero, $\psi_h(a) = a + \frac{2 a^2}{(1+h)(2+h)} +
    \dots \to a/(1-a)$. With $a/(1-a)$ in its place the count is about 1/4 of a step too large.

    **Arguments:**

    - `u`, `v`: initial weights, shapes `(..., unit, N_u)` and `(..., unit, N_v)`.
    - `correlation`: $\Sigma_{yz}$, shape `(N_v, N_u)`.
    - `covariance`: $\Sigma_{zz}$, shape `(N_u, N_u)`.
    - `learning_rate`: $\eta$. Without it the flow's time $t_k$ is returned.
    - `loss_factor`: $c$, the loss that is descended is $cL$ with the half in $L$: 1 for
      $\frac12\langle\lVert y - f\rVert^2\rangle$, 2 without the half (Eq. 64), $2/N_v$ if outputs
      are averaged as well (as in the paper's Figure 1B: 1 for two outputs); `festina.dynamics` has
      `loss_factor(convention, task)`. Only read together with `learning_rate`.
    - `tolerance`: largest $\lVert\Sigma_{zz} r_k - \lambda_k r_k\rVert/\lVert\Sigma_{zz}\rVert$
      that passes for shared directions.
    - `degeneracy`: singular values closer than this fraction of $s_1$ count as equal. Then only the
      subspace is defined, and $\bar a_k$ are the eigenvalues of its (Schur-complemented) $G$.

    **Returns:**

    $t_k$, or $n_k$ as a real number, shape `(..., mode)`, in the order of $s_k$ (largest first; of
    falling $\bar a_k$ where $s_k$ are equal). Zero where $\bar a_k$ is past $x a_k^*$ already,
    infinity where the mode is not learned ($s_k = 0$, or fewer than $k$ units).

    !!! note "When it stops being exact"

        Corrections to $2 s_k t_k$ are $O(b_k/a_k^*)$ from the decaying components, $b_k = \sum_i
        b_{ki}^2$ of Eq. (35b), whose product with $a_k$ is conserved; $O(a^{1-s_{k+1}/s_k})$ with
        $a \sim \bar a_{k+1}/a^*_{k+1}$ from the mode that is next; and what is left of the mode
        before: there must be a plateau between drops. (600 random tasks of rank two with 2 to 40
        units: within 0.04 % of gradient descent for $\epsilon \le 10^{-4}$ and $s_2/s_1 \le 0.65$,
        0.2 % up to $\epsilon = 10^{-2}$, 2 % at $s_2/s_1 = 0.9$.)
        For singular values that nearly but not quite coincide neither form is right.
        Equal $s_k$ with *different* $\lambda_k$ compete while they saturate: then only the
        logarithm is right, up to $O(1)/2s_k$.
        Where the directions are not shared the error is not small: mode $k$ then grows on later
        plateaus at a rate of Eq. (42) that is not $s_k$.
    """
    u, v, correlation = _checked(u, v, correlation)
    q, s, r, lam = _shared_modes(correlation, covariance, tolerance, degeneracy)
    learned = s > 0
    amplitude = _independent_amplitudes(_growing(u, v, q, r), _groups(s, degeneracy))

    with np.errstate(divide="ignore"):
        start = np.where(learned, amplitude * lam / np.where(learned, s, 1.0), 0.0)  # ā/a*
        if learning_rate is None:
            step, rate = np.zeros_like(s), 2.0 * s
        else:
            step = _step(learning_rate, loss_factor, s)
            rate = 2.0 * np.log1p(step)
        growth = np.log(_linearised(_HALF, step) / _linearised(np.minimum(start, _HALF), step))
        return np.where(learned, growth / np.where(learned, rate, 1.0), np.inf)


def linear_phase(
    u: ArrayLike, v: ArrayLike, correlation: ArrayLike, times: ArrayLike
) -> tuple[Float[np.ndarray, "*batch time unit n_u"], Float[np.ndarray, "*batch time unit n_v"]]:
    r"""Weights of a linear network near zero, as long as its output is negligible.

    Exact solution of $\dot v_i = \Sigma_{yz} u_i$, $\dot u_i = \Sigma_{yz}^\top v_i$ (Eq. 10 of
    Zhang, Saxe and Latham), which is their Eq. (34),

    $$\begin{bmatrix} v_i \\ u_i \end{bmatrix}(t) = \sum_k \left(c_{ki} e^{s_k t}
      \begin{bmatrix} q_k \\ r_k \end{bmatrix} + b_{ki} e^{-s_k t}
      \begin{bmatrix} q_k \\ -r_k \end{bmatrix}\right) + \xi_i,$$

    with $c_{ki}, b_{ki} = \frac12(q_k^\top v_i(0) \pm r_k^\top u_i(0))$ and $\xi_i$ what is left of
    the initial weights. Time is that of $L = \frac12\langle\lVert y-f\rVert^2\rangle$.

    **Arguments:**

    - `u`, `v`: initial weights, shapes `(..., unit, N_u)` and `(..., unit, N_v)`.
    - `correlation`: $\Sigma_{yz}$, shape `(N_v, N_u)`.
    - `times`: shape `(time,)`.

    **Returns:**

    `(u, v)` with shapes `(..., time, unit, N_u)` and `(..., time, unit, N_v)`.

    !!! note "When it stops being exact"

        Eq. (10) leaves out $W\Sigma_{zz}$: good while $\lVert W\Sigma_{zz}\rVert \ll s_1$, that is
        up to the first drop of the loss.
    """
    u, v, correlation = _checked(u, v, correlation)
    times = finite("times", times)
    if times.ndim != 1:
        raise ValueError(f"`times` must be one-dimensional, got shape {times.shape}.")
    q, s, rt = np.linalg.svd(correlation, full_matrices=False)
    qv, ru = v @ q, u @ rt.T
    t = times[:, None, None]
    grow = (0.5 * (qv + ru))[..., None, :, :] * np.exp(s * t)
    decay = (0.5 * (qv - ru))[..., None, :, :] * np.exp(-s * t)
    rest_u, rest_v = u - ru @ rt, v - qv @ q.T
    return (
        (grow - decay) @ rt + rest_u[..., None, :, :],
        (grow + decay) @ q.T + rest_v[..., None, :, :],
    )


def escape_time(
    u: ArrayLike,
    v: ArrayLike,
    correlation: ArrayLike,
    size: float = 1.0,
    *,
    degeneracy: float = 1e-9,
) -> Float[np.ndarray, "*batch unit"]:
    r"""When the growing part of each unit reaches a given size in the linear phase.

    $$T_i = \frac{1}{s_1}\ln\frac{\text{size}}{\lVert P\theta_i(0)\rVert},\qquad
      \lVert P\theta_i(0)\rVert^2 = 2\sum_{k\le r} c_{ki}^2,$$

    Eq. (37) of Zhang, Saxe and Latham (Theorem 4), with $P$ (Eq. 11) the projection on the $r$ top
    singular directions, $r$ the multiplicity of $s_1$. Time is that of
    $L = \frac12\langle\lVert y-f\rVert^2\rangle$. At $T_i$ the rest of the unit is
    $O(\epsilon^{1 - s_{r+1}/s_1})$, see `residual_exponent`.

    **Arguments:**

    - `u`, `v`: initial weights, shapes `(..., unit, N_u)` and `(..., unit, N_v)`.
    - `correlation`: $\Sigma_{yz}$, shape `(N_v, N_u)`.
    - `size`: what counts as $O(1)$.
    - `degeneracy`: singular values closer than this fraction of $s_1$ count as equal.

    **Returns:**

    $T_i$ with shape `(..., unit)`: zero for a unit that starts beyond `size`, infinity for one that
    holds nothing of the top directions, or if the correlation is zero.

    !!! note "When it stops being exact"

        Exact for the linear system (10). In the network all units saturate together, when
        $\sum_i c_{1i}^2 e^{2s_1t}$ is of order $s_1/\lambda_1$: see `mode_drop_times`.
    """
    u, v, correlation = _checked(u, v, correlation)
    if not (np.isfinite(size) and size > 0):
        raise ValueError(f"`size` must be a positive number, got {size!r}.")
    q, s, rt = np.linalg.svd(correlation, full_matrices=False)
    if s[0] == 0.0:
        return np.full(np.broadcast_shapes(u.shape[:-1], v.shape[:-1]), np.inf)
    top = _groups(s, degeneracy)[0]
    held = np.sqrt(2.0 * np.sum(_growing(u, v, q[:, top], rt[top].T) ** 2, axis=-1))
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(size / held) / s[0], 0.0)


def residual_exponent(singular_values: ArrayLike, *, degeneracy: float = 1e-9) -> float:
    r"""Power of the initial scale that is left outside the top directions at the escape.

    Theorem 4 of Zhang, Saxe and Latham (Eq. 39): when the part of a unit along the top singular
    directions is $O(1)$, the rest is $O(\epsilon^p)$ with

    $$p = 1 - s_{r+1}/s_1,$$

    $r$ the multiplicity of $s_1$. The larger the exponent, the closer to rank $r$ the weights are,
    and the cleaner the plateau that follows.

    **Arguments:**

    - `singular_values`: $s_k$ of $\Sigma_{yz}$, in any order, shape `(mode,)`.
    - `degeneracy`: values closer than this fraction of $s_1$ count as equal.

    **Returns:**

    $p$ between 0 and 1. If no smaller singular value exists ($r = D$, which the theorem leaves out)
    the rest does not grow and $p = 1$.
    """
    s = finite("singular_values", singular_values)
    if s.ndim != 1 or s.size == 0 or s.min() < 0 or s.max() == 0:
        raise ValueError(
            "`singular_values` must be a non-empty list of numbers ≥ 0, not all zero, "
            f"got {np.array2string(s, threshold=8)}."
        )
    s = np.sort(s)[::-1]
    rest = s[_groups(s, degeneracy)[0].stop :]
    return 1.0 - float(rest[0] / s[0]) if rest.size else 1.0


def _growing(u: np.ndarray, v: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """c_ki of Eq. (35a), shape (..., unit, mode)."""
    return 0.5 * (v @ q + u @ r)


def _groups(s: np.ndarray, degeneracy: float) -> list[slice]:
    """Runs of equal singular values, `s` falling."""
    edges = [0, *(np.flatnonzero(-np.diff(s) > degeneracy * s[0]) + 1).tolist(), s.size]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _independent_amplitudes(c: np.ndarray, groups: list[slice]) -> np.ndarray:
    """What each mode holds orthogonally (over units) to the modes learned before it.

    With c = QR over units this is the squared diagonal of R; for a group of equal s, the squared
    singular values of its diagonal block, which no choice of basis within the group can change.
    """
    units, modes = c.shape[-2:]
    if units < modes:
        c = np.concatenate([c, np.zeros((*c.shape[:-2], modes - units, modes))], axis=-2)
    triangle = np.asarray(np.linalg.qr(c, mode="r"))
    norm = np.linalg.norm(c, axis=-2)
    left = np.empty(norm.shape)
    for group in groups:
        block = triangle[..., group, group]
        left[..., group] = (
            np.abs(block[..., 0])
            if block.shape[-1] == 1
            else np.linalg.svd(block, compute_uv=False)
        )
        # A vector within the span of those before it leaves round-off, not zero.
        floor = 8.0 * _EPS * max(units, modes) * norm[..., group].max(axis=-1, keepdims=True)
        left[..., group] *= left[..., group] > floor
    return left**2


def _linearised(a: np.ndarray | float, step: np.ndarray) -> np.ndarray:
    r"""Koenigs function ψ of F(a) = a (1 + h(1 − a))² at its repelling fixed point a = 0.

    ψ(F(a)) = μ ψ(a), ψ(a) = a + …, μ = (1 + h)²: the coordinate in which gradient descent on one
    mode is multiplication by μ at every step. Matching powers of a, with g = h/(1 + h),

        p_j (μ^{j−1} − 1) = − Σ_{i<j} p_i μ^{i−1} binom(2i, j−i) (−g)^{j−i},    p_1 = 1,

    which tends to p_j = 1, ψ = a/(1 − a), as h → 0. The nearest singularity is the other fixed
    point a = 1 (critical values of F lie at 0, on another branch, and beyond 1), so the series
    converges like a^j; here a ≤ 1 − 1/√2.
    """
    a = np.asarray(a, dtype=np.float64)
    h = np.asarray(step, dtype=np.float64)
    small = h < 1e-12
    h = np.where(small, 1.0, h)  # h = 0 has the closed form below
    g, log_mu = h / (1.0 + h), 2.0 * np.log1p(h)
    p = [np.ones_like(h)]
    for j in range(2, _TERMS + 1):
        total = np.zeros_like(h)
        for i in range((j + 2) // 3, j):
            total += p[i - 1] * np.exp((i - 1) * log_mu) * math.comb(2 * i, j - i) * (-g) ** (j - i)
        p.append(-total / np.expm1((j - 1) * log_mu))
    series = np.zeros(np.broadcast_shapes(a.shape, h.shape))
    for coefficient in reversed(p):
        series = a * (coefficient + series)
    return np.where(small, a / (1.0 - a), series)


def _step(learning_rate: float, loss_factor: float, s: np.ndarray) -> np.ndarray:
    for name, value in (("learning_rate", learning_rate), ("loss_factor", loss_factor)):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"`{name}` must be a positive number, got {value!r}.")
    step = loss_factor * learning_rate * s
    if step.max() >= 1.0:
        raise ValueError(
            f"`learning_rate` {learning_rate:.3g} is unstable: the learned mode contracts by "
            f"|1 − 2cηs₁| per step and cηs₁ = {step.max():.3g} is not below 1. "
            f"Use less than {1.0 / (loss_factor * s[0]):.3g}."
        )
    return step


def _shared_modes(
    correlation: np.ndarray, covariance: ArrayLike, tolerance: float, degeneracy: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """q, s, r, λ with Σ_yz = Σ s q rᵀ and Σ_zz r = λ r, or a ValueError that says how far off."""
    covariance = covariance_of(covariance, correlation.shape[1])
    scale = np.linalg.norm(covariance, 2)
    q, s, rt = np.linalg.svd(correlation, full_matrices=False)
    r = rt.T
    s = np.where(s > 8.0 * _EPS * max(correlation.shape) * s[0], s, 0.0)
    for group in _groups(s, degeneracy):
        # Equal singular values leave the basis open: take the one in which Σ_zz is diagonal.
        if group.stop - group.start > 1 and s[group.start] > 0:
            turn = np.linalg.eigh(r[:, group].T @ covariance @ r[:, group])[1]
            q[:, group], r[:, group] = q[:, group] @ turn, r[:, group] @ turn
    lam = np.einsum("ik,ij,jk->k", r, covariance, r)
    learned = s > 0
    if not learned.any():
        return q, s, r, lam
    violation = np.linalg.norm(covariance @ r - lam * r, axis=0)[learned].max() / scale
    if violation > tolerance:
        raise ValueError(
            "`covariance` and `correlation` must share their singular directions: "
            f"|Σ_zz r_k − λ_k r_k| is {violation:.3g} of |Σ_zz|, above `tolerance` "
            f"{tolerance:.3g}. Raise `tolerance` if this is sampling noise; otherwise the modes "
            "mix: `staircase` follows them, from one network at a time."
        )
    if lam[learned].min() <= 0:
        raise ValueError(
            f"`covariance` has the value {lam[learned].min():.3g} along a direction that "
            "`correlation` uses: the input does not vary there, so nothing can correlate with it."
        )
    return q, s, r, lam


def _checked(
    u: ArrayLike, v: ArrayLike, correlation: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    u, v, correlation = finite("u", u), finite("v", v), finite("correlation", correlation)
    if correlation.ndim != 2 or 0 in correlation.shape:
        raise ValueError(f"`correlation` must have shape (N_v, N_u), got {correlation.shape}.")
    n_v, n_u = correlation.shape
    for name, weight, size in (("u", u, n_u), ("v", v, n_v)):
        if weight.ndim < 2 or weight.shape[-1] != size:
            raise ValueError(
                f"`{name}` must have shape (..., unit, {size}) to go with `correlation` of shape "
                f"{correlation.shape}, got {weight.shape}."
            )
    if u.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            "`u` and `v` must agree in all axes but the last (batch axes, then units), got "
            f"{u.shape} and {v.shape}."
        )
    return u, v, correlation
