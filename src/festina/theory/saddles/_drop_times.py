"""When each mode of a two-layer linear network is learned, from its initial weights alone."""

import math

import numpy as np
from jaxtyping import Float

from ..._checks import number
from ..._objective import LossConvention, loss_factor
from ...networks import AbstractNetwork
from ...tasks import AbstractTask
from .._modes import equals, modes_of
from ._koenigs import koenigs
from ._linear_layer import linear_layer
from ._linear_phase import growing

# A mode's share of the loss, λ(a* − a)²/2, has fallen by half when a = (1 − 1/√2) a*.
_HALF = 1.0 - 1.0 / math.sqrt(2.0)

_ROUND_OFF = 8.0 * float(np.finfo(float).eps)


def mode_drop_times(
    network: AbstractNetwork,
    task: AbstractTask,
    *,
    loss: LossConvention = "half",
    learning_rate: float | None = None,
    tolerance: float = 1e-6,
    degeneracy: float = 1e-9,
) -> Float[np.ndarray, "*batch mode"]:
    r"""Return when each mode of a two-layer linear network is learned, from its initial weights.

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
    `initial_mode_amplitudes`. What $c_k$, a vector over units, has along the $c_l$ of the modes
    learned before would make $W$ mix modes $k$ and $l$, and the dynamics removes it once $l$ is
    learned. What is left is Gram–Schmidt in the order of learning: with $G_{kl} = c_k\cdot c_l$,

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

    - `network`: the initial weights of a linear layer or of a `DeepLinear` of two layers; or a
      batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ and $\Sigma_{zz}$ enter.
    - `loss`: the convention $cL$, which sets the clock: $c$ is 1 for `"half"`, 2 for
      `"mean-square"` (Eq. 64), $2/N_v$ for `"mean-over-outputs"` (as in the paper's Figure 1B).
    - `learning_rate`: $\eta$. Without it the flow's time $t_k/c$ is returned.
    - `tolerance`: largest $\lVert\Sigma_{zz} r_k - \lambda_k r_k\rVert/\lVert\Sigma_{zz}\rVert$
      that passes for shared directions.
    - `degeneracy`: singular values closer than this fraction of $s_1$ count as equal. Then only the
      subspace is defined, and $\bar a_k$ are the eigenvalues of its (Schur-complemented) $G$.

    **Returns:**

    $t_k/c$, or $n_k$ as a real number, shape `(*batch, mode)`, in the order of $s_k$ (largest
    first; of falling $\bar a_k$ where $s_k$ are equal). Zero where $\bar a_k$ is past $x a_k^*$
    already, infinity where the mode is not learned ($s_k = 0$, or fewer than $k$ units).

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
    u, v, correlation, covariance = linear_layer(network, task)
    factor = loss_factor(loss, task)
    found = modes_of(correlation, covariance, tolerance, degeneracy)
    s, lam = np.asarray(found.singular_values), np.asarray(found.input_variance)
    learned = s > 0
    held = growing(u, v, np.asarray(found.left), np.asarray(found.right))
    amplitude = _independent_amplitudes(held, equals(s, degeneracy))

    with np.errstate(divide="ignore"):
        start = np.where(learned, amplitude * lam / np.where(learned, s, 1.0), 0.0)  # ā/a*
        if learning_rate is None:
            step, rate = np.zeros_like(s), 2.0 * s
        else:
            step = _step(learning_rate, factor, s)
            rate = 2.0 * np.log1p(step)
        growth = np.log(koenigs(_HALF, step) / koenigs(np.minimum(start, _HALF), step))
        times = np.where(learned, growth / np.where(learned, rate, 1.0), np.inf)
    return times / factor if learning_rate is None else times


def _independent_amplitudes(c: np.ndarray, groups: list[slice]) -> np.ndarray:
    """Return the part of each mode that is orthogonal (over units) to modes learned before.

    With c = QR over units this is the squared diagonal of R; for a group of equal s, the squared
    singular values of its diagonal block, which no choice of basis within the group can change.
    """
    units, count = c.shape[-2:]
    if units < count:
        c = np.concatenate([c, np.zeros((*c.shape[:-2], count - units, count))], axis=-2)
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
        floor = _ROUND_OFF * max(units, count) * norm[..., group].max(axis=-1, keepdims=True)
        left[..., group] *= left[..., group] > floor
    return left**2


def _step(learning_rate: float, factor: float, s: np.ndarray) -> np.ndarray:
    if not number("learning_rate", learning_rate) > 0:
        raise ValueError(f"`learning_rate` must be a positive number, got {learning_rate!r}.")
    step = factor * learning_rate * s
    if step.max() >= 1.0:
        raise ValueError(
            f"`learning_rate` {learning_rate:.3g} is unstable: the learned mode contracts by "
            f"|1 − 2cηs₁| per step and cηs₁ = {step.max():.3g} is not below 1. "
            f"Use less than {1.0 / (factor * s[0]):.3g}."
        )
    return step
