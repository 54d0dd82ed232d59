"""Drop times of the modes of a two-layer linear network, predicted from its initial weights."""

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
    r"""Predict from the initial weights when a two-layer linear network learns each mode.

    The input covariance $\Sigma_{zz}$ must share the singular directions $r_k$ of the correlation
    $\Sigma_{yz} = \sum_k s_k q_k r_k^\top$, that is $\Sigma_{zz} r_k = \lambda_k r_k$. Then
    $e_k = q_k$ in Eqs. (40)–(42) of Zhang, Saxe & Latham. On every plateau a mode that is not yet
    learned grows at its own rate $s_k$. Its strength $a_k = q_k^\top W r_k$ follows a logistic
    curve towards $a_k^* = s_k/\lambda_k$,

    $$\dot a_k = 2 a_k (s_k - \lambda_k a_k).$$

    The mode's share of the loss is $\frac12\lambda_k (a_k^* - a_k)^2$. This share has fallen by
    half when $a_k = x a_k^*$ with $x = 1 - 1/\sqrt2$, at the time

    $$t_k = \frac{1}{2 s_k} \ln\frac{\psi(x)}{\psi(\bar a_k/a_k^*)},\qquad
      \psi(a) = \frac{a}{1-a}.$$

    **Modes share units.** The effective initial strength $\bar a_k$ is smaller than the initial
    amplitude $a_k(0) = \lVert c_k\rVert^2$ of `initial_mode_amplitudes`. The vector $c_k$ (one
    entry for each unit) overlaps with the vectors $c_l$ of modes that are learned earlier. The
    overlap of $c_k$ with $c_l$ would make $W$ mix modes $k$ and $l$, and the dynamics removes the
    overlap once mode $l$ is learned. Only the part of $c_k$ that is orthogonal to all earlier $c_l$
    remains (Gram–Schmidt in the order of learning). With the overlaps $G_{kl} = c_k\cdot c_l$,

    $$\bar a_k = \frac{\det G_{1\dots k}}{\det G_{1\dots k-1}} \le a_k(0).$$

    For white inputs and balanced weights the derivation is short: the matrix $C$ with $C^{-1}(t) =
    e^{-St}G^{-1}e^{-St} + S^{-1}(1 - e^{-2St})$ solves $\dot C = SC + CS - 2C^2$, and $\bar a_k$ is
    the Schur complement over the modes that are still small. The paper uses $a_k(0)$ without this
    correction. For the second mode and $H$ units, the overlap is on average a fraction $1/H$ of
    $a_k(0)$, so the overlap matters most for few units. With fewer than $k$ units mode $k$ is never
    learned, and its time is infinite.

    **Gradient descent.** One step of size $\eta$ on the loss $cL$ maps $a/a^* \mapsto F(a/a^*)$
    with $F(a) = a(1 + h(1-a))^2$ and $h = c\eta s_k$. The exact number of steps is

    $$n_k = \frac{1}{2\ln(1+h)} \ln\frac{\psi_h(x)}{\psi_h(\bar a_k/a_k^*)},\qquad
      \psi_h(F(a)) = (1+h)^2\,\psi_h(a).$$

    Here $\psi_h(a) = a + \frac{2 a^2}{(1+h)(2+h)} + \dots$ is the Koenigs function of $F$ at zero,
    which tends to $a/(1-a)$ as $h \to 0$. With $a/(1-a)$ instead of $\psi_h$ the result would be
    about 1/4 of a step too large.

    **Arguments:**

    - `network`: the initial weights of a linear layer or of a `DeepLinear` of two layers; or a
      batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ and $\Sigma_{zz}$ enter.
    - `loss`: the convention $cL$ of the loss, which sets the unit of time: $c$ is 1 for `"half"`, 2
      for `"mean-square"` (Eq. 64), and $2/N_v$ with $N_v$ outputs for `"mean-over-outputs"` (as in
      the paper's Figure 1B).
    - `learning_rate`: step size $\eta$ of gradient descent. If `learning_rate` is None, the
      function returns the times $t_k/c$ of gradient flow.
    - `tolerance`: largest $\lVert\Sigma_{zz} r_k - \lambda_k r_k\rVert/\lVert\Sigma_{zz}\rVert$ at
      which directions count as shared.
    - `degeneracy`: singular values closer than this fraction of $s_1$ count as equal. Equal
      singular values define only a subspace, and their $\bar a_k$ are the eigenvalues of the
      (Schur-complemented) $G$ on that subspace.

    **Returns:**

    Times $t_k/c$, or numbers of steps $n_k$ as real numbers, shape `(*batch, mode)`. Modes are in
    the order of decreasing $s_k$, and of decreasing $\bar a_k$ where $s_k$ are equal. The time is
    zero if $\bar a_k$ already exceeds $x a_k^*$. The time is infinite if the mode is never learned
    ($s_k = 0$, or fewer than $k$ units).

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import fully_connected, seeds
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import mode_drop_times
    >>> task = linear_teacher(np.diag([2.0, 1.0]))
    >>> network = fully_connected(2, 20, 2, scale=1e-4, key=seeds(1)[0])
    >>> mode_drop_times(network, task).round(2)
    array([4.09, 7.43])
    >>> mode_drop_times(network, task, learning_rate=0.01).round()  # steps
    array([413., 747.])

    !!! note "When it stops being exact"

        The formula for $2 s_k t_k$ has three errors. The decaying components
        $b_k = \sum_i b_{ki}^2$ of Eq. (35b), whose product with $a_k$ is conserved, contribute
        $O(b_k/a_k^*)$. The next mode contributes $O(a^{1-s_{k+1}/s_k})$ with
        $a \sim \bar a_{k+1}/a^*_{k+1}$. The unlearned remainder of the previous mode contributes
        unless a plateau separates the drops of the two modes.

        Predictions were compared with gradient descent on 600 random tasks of rank two, with 2 to
        40 units. The error was at most 0.04 % for an initial scale $\epsilon \le 10^{-4}$ and
        $s_2/s_1 \le 0.65$. The error was at most 0.2 % up to $\epsilon = 10^{-2}$, and 2 % at
        $s_2/s_1 = 0.9$.

        The result is wrong for singular values that nearly but not quite coincide. Modes with equal
        $s_k$ but *different* $\lambda_k$ compete while they saturate: then only the logarithmic
        term of $t_k$ is right, and the error is $O(1)/2s_k$. If $\Sigma_{zz}$ and $\Sigma_{yz}$ do
        not share their directions, the error is large: mode $k$ then grows on later plateaus at a
        rate of Eq. (42) that differs from $s_k$.
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
    """Return the squared length of each mode's part orthogonal to the modes learned before it.

    The vector of a mode, a column of `c`, has one entry per unit. With the QR decomposition
    $c = QR$ the result is the squared diagonal entry of $R$. For a group of equal $s_k$ the
    function returns the squared singular values of the diagonal block of $R$, which do not depend
    on the choice of basis within the group.
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
        # A vector in the span of earlier vectors leaves round-off instead of zero.
        floor = _ROUND_OFF * max(units, count) * norm[..., group].max(axis=-1, keepdims=True)
        left[..., group] *= left[..., group] > floor
    return left**2


def _step(learning_rate: float, factor: float, s: np.ndarray) -> np.ndarray:
    if not number("learning_rate", learning_rate) > 0:
        raise ValueError(f"`learning_rate` must be a positive number, got {learning_rate!r}.")
    step = factor * learning_rate * s
    if step.max() >= 1.0:
        raise ValueError(
            f"`learning_rate` {learning_rate:.3g} is unstable: near the solution, each "
            f"step multiplies the error of mode 1 by 1 − 2cηs₁, and cηs₁ = {step.max():.3g} ≥ 1. "
            f"Use less than {1.0 / (factor * s[0]):.3g}."
        )
    return step
