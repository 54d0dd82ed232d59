"""Exact gradient flow of two-layer linear networks with balanced weights, from lazy to rich."""

import warnings
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ..._checks import check_finite, check_positive, check_size, check_times
from ..._objective import LossConvention
from ..._precision import compiled, is_traced
from ..._pytree import pytree
from ..._result import Result
from ..._types import Array, ArrayLike
from ...networks import AbstractNetwork
from ...tasks import AbstractTask
from .._statistics import moments
from ._assumptions import (
    BalanceWarning,
    ObstructionWarning,
    check_white,
    is_exact,
    own_balance,
    residual,
    two_layers,
)
from ._balanced_solution import BalancedSolution, as_array
from ._balanced_solve import factor

FOREVER = 1e250  # a time at which, of two different rates, the faster always dominates


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class BalancedFlow(Result):
    """Result of `balanced_flow`: exact training of balanced weights; call it with times.

    **Attributes:**

    - `first`, `second`: initial weights W₁ and W₂.
    - `correlation`: the input-output correlation Σ = ⟨yxᵀ⟩.
    - `tau`: time constant of a layer.
    - `balance`: λ in W₂ᵀW₂ − W₁W₁ᵀ = λI.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.1]]])
    >>> flow = linear.balanced_flow(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> flow([0.0, 1.0, 3.0]).loss().round(3)
    array([4.96 , 1.248, 0.019])
    >>> flow.limit().loss()
    array([0.])
    """

    first: Float[Array, "*batch hidden input"]
    second: Float[Array, "*batch output hidden"]
    correlation: Float[Array, "*task output input"]
    tau: Float[Array, "*tau"]
    balance: Float[Array, "*balance"]

    def __call__(self, times: ArrayLike) -> BalancedSolution:
        """Return the network at these times; for a single time the results have no time axis."""
        check_times(times)
        times = as_array(times)
        inward, outward, reached = self.solve(times.reshape(-1))
        if not is_traced(inward, reached) and not np.all(reached):
            self._warn(reached)
        return self.state(times, inward, outward)

    def _warn(self, reached: Array) -> None:
        loss = np.asarray(self.limit().loss())[..., 0]
        many = f" in {np.sum(~reached)} of {reached.size} networks" if np.ndim(reached) else ""
        warnings.warn(
            f"The weights cannot reach the task{many}, and the flow ends at a saddle with a loss "
            f"of up to {loss[~reached].max():.3g}: see `BalancedFlow.obstructed`. To learn the "
            "task, use other initial weights or a balance other than 0.",
            ObstructionWarning,
            stacklevel=3,
        )

    def solve(self, times: Array) -> tuple[Array, Array, Array]:
        """Return both blocks of the factor B at these times, and whether the task is learned."""
        return _blocks(times, self.first, self.second, self.correlation, self.tau, self.balance)

    def state(self, times: Array, inward: Array, outward: Array) -> BalancedSolution:
        """Return a `BalancedSolution` from these times and the two blocks of the factor B."""
        batch = self.first.shape[:-2]
        times = np.broadcast_to(times, (*batch, *np.shape(times))) if batch else times
        return BalancedSolution(
            times, inward, outward, self.first, self.second, self.correlation, self.balance
        )

    def limit(self) -> BalancedSolution:
        r"""Return the network at infinite time, where the flow ends.

        The stacked weights $Q = (W_1^\top; W_2)$ have $QQ^\top \to 2PF$, with $F$ as in
        `balanced_flow`. $P$ projects on the fastest growing eigenvectors of $F$ that the initial
        weights reach, at most one for each hidden unit. Generic initial weights reach the $N_h$
        largest positive eigenvalues. With $\Sigma = USV^\top$, $S_\lambda = \sqrt{S^2 +
        \lambda^2/4}$ and $N_h = \min(N_i, N_o)$ the limit is $W_2W_1 = \Sigma$, $W_1^\top W_1 =
        V(S_\lambda - \frac\lambda2)V^\top$ and $W_2W_2^\top = U(S_\lambda +
        \frac\lambda2)U^\top$. The limit may be a saddle: see `obstructed`.
        """
        inward, outward, _ = self.solve(self.tau * np.array([FOREVER]))
        return self.state(np.array([np.inf]), inward, outward)

    @property
    def obstructed(self) -> Bool[Array, "*batch"]:
        r"""Return whether the flow ends at a saddle because the weights cannot reach the task.

        For $\lambda = 0$ and square full-rank weights, the sign of $\det W_2W_1$ is conserved. In
        half of random draws the sign of $\det W_2W_1$ differs from the sign of $\det\Sigma$. The
        weakest mode, with singular value $s_{\min}$, is then never learned, and the loss stays at
        $s_{\min}^2/2$ or above. Weights that are zero along a mode also obstruct the flow.
        `limit().loss()` is the loss at the saddle.

        The saddle is unstable. A network trained in double precision leaves the saddle through
        rounding errors, after a time of about $36\tau/s_{\min}$; this exact solution stays there.
        An overlap of the weights with a mode counts as zero below $10^{-13}$ of the weights.
        """
        reached = self.solve(np.zeros(1))[2]
        return ~reached if is_traced(reached) else np.asarray(~reached)

    @property
    def balance_residual(self) -> Float[np.ndarray, "*batch"]:
        r"""Return $\lVert W_2^\top W_2 - W_1W_1^\top - \lambda I\rVert_2$, a conserved quantity."""
        return residual(*(np.asarray(a) for a in (self.first, self.second, self.balance)))

    def error_estimate(self, times: ArrayLike) -> Float[np.ndarray, "*batch"]:
        r"""Estimate the relative error due to weights that are not exactly balanced.

        With $\Delta = W_2^\top W_2 - W_1W_1^\top - \lambda I$ and $J = \mathrm{diag}(-I, I)$, the
        stacked weights $Q = (W_1^\top; W_2)$ follow $\tau\dot Q = FQ - \frac12QQ^\top Q + \frac12
        JQ\Delta$. If Δ were a multiple of the identity, $\Delta = \pm\delta I$, this flow would be
        the balanced flow with $\lambda\pm\delta$. The estimate is the largest change of $M =
        QQ^\top$ if $\lambda$ changes by $\pm\lVert\Delta\rVert_2$, as a fraction of $\lVert
        M\rVert_F$. The estimate gives the size of the error; it is not a bound.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ObstructionWarning)  # calling the flow already warns
            return self._error_estimate(times)

    def _error_estimate(self, times: ArrayLike) -> Float[np.ndarray, "*batch"]:
        own = self(times).factor
        shift = self.balance_residual
        there = [
            replace(self, balance=np.asarray(self.balance + sign * shift))(times).factor
            for sign in (-1.0, 1.0)
        ]
        square = lambda b: b @ b.swapaxes(-1, -2)
        norm = lambda m: np.linalg.norm(m, axis=(-2, -1))
        away = np.max([norm(square(b) - square(own)) for b in there], axis=0)
        return np.asarray(away / np.maximum(norm(square(own)), np.finfo(float).tiny))


def balanced_flow(
    network: AbstractNetwork,
    task: AbstractTask,
    *,
    loss: LossConvention = "half",
    tau: ArrayLike = 1.0,
    balance: ArrayLike | None = None,
    tolerance: float = 0.1,
) -> BalancedFlow:
    r"""Return the exact gradient flow of a two-layer linear network with balanced weights.

    The loss is $L = \frac12\langle\lVert y - W_2W_1x\rVert^2\rangle$ with white inputs, the flow is
    $\tau\dot W = -\partial L/\partial W$, and the weights satisfy $W_2^\top W_2 - W_1W_1^\top =
    \lambda I$ at any size, from lazy to rich. The stacked weights $Q = (W_1^\top; W_2)$ follow
    $\tau\dot Q = FQ - \frac12QQ^\top Q$, and $M = QQ^\top$ follows a matrix Riccati equation. With
    the input-output correlation $\Sigma = \langle yx^\top\rangle$ the solution is

    $$M(t) = e^{Ft/\tau}Q_0\left[I + Q_0^\top\int_0^{t/\tau}\!e^{2Fr}\,dr\;Q_0\right]^{-1}
      Q_0^\top e^{Ft/\tau},\qquad
      F = \begin{pmatrix}-\frac\lambda2I & \Sigma^\top\\ \Sigma & \frac\lambda2I\end{pmatrix}.$$

    Braun et al. (2022) solved this equation for $\lambda = 0$, and Dominé et al. (2025) for any λ.
    `balanced_gram` evaluates the form of Dominé et al. in singular vectors, with a corrected
    exponent. The rank of Σ and the number of hidden units are not restricted. Learning with large
    $|\lambda|$ is lazy if the network has as many hidden units as outputs ($\lambda > 0$) or as
    inputs ($\lambda < 0$). With fewer hidden units learning is rich with a delay
    (`learning_regime`).

    The evaluation avoids differences of large numbers, so it is accurate at any time and for any λ.
    The result can be differentiated with respect to all numbers. Derivatives with respect to Σ are
    NaN if singular values of Σ coincide or vanish.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers, or a batch of them.
    - `task`: the task that the network learns, with white inputs, $\langle xx^\top\rangle = I$
      (means are not subtracted). Only the correlation Σ = ⟨yxᵀ⟩ of the task enters the solution.
    - `loss`: the convention of the loss, as for `festina.gradient_flow`. The convention of the loss
      also scales $\langle xx^\top\rangle$: one-hot items are white with "half-sum".
    - `tau`: time constant of a layer, one over the learning rate.
    - `balance`: λ, one number or one for each network. The default is the balance of the weights,
      $\mathrm{tr}(W_2^\top W_2 - W_1W_1^\top)/N_h$.
    - `tolerance`: largest accepted $\lVert\Delta\rVert_2$ with $\Delta = W_2^\top W_2 -
      W_1W_1^\top - \lambda I$, as a fraction of the fastest rate $\sqrt{s_1^2+\lambda^2/4}$.
      Accepted weights that are not balanced up to rounding, such as small random weights, cause a
      `BalanceWarning`. The error for random weights is proportional to their variance.

    **Returns:**

    A `BalancedFlow`: `flow(times)` is the network at these times, `flow.limit()` the final network.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.1]]])
    >>> flow = linear.balanced_flow(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> flow(1.0).map
    array([[1.723, 0.    ],
           [0.   , 0.0695]])

    !!! note "When it stops being exact"

        The solution assumes white inputs, an infinitesimal learning rate and balanced weights.
        `BalancedFlow.error_estimate` estimates the error due to unbalanced weights. For networks
        that violate these assumptions, use `festina.gradient_flow`.
    """
    first, second = two_layers(network)
    seen = moments(task, loss)
    network.check_fit(task.input_shape, task.outputs)
    check_white(seen.covariance)
    correlation = as_array(seen.correlation)
    for name, value in (("first", first), ("second", second)):
        check_size(name, value)
    check_positive("tau", tau)
    if balance is None:
        balance = _own_balance(first, second)
    else:
        check_finite("balance", balance)
    balance, tau = as_array(balance), as_array(tau)
    if tau.ndim:
        raise ValueError(
            f"`tau` must be a single number, got shape {tau.shape}. Times are in units of `tau`: "
            "for several values, rescale `times`."
        )
    if balance.ndim and balance.shape != first.shape[:-2]:
        raise ValueError(
            f"`balance` must be one number, or one for each network of the batch with shape "
            f"{first.shape[:-2]}, got shape {balance.shape}."
        )
    if not is_traced(first, second, correlation, balance):
        _check_balance(first, second, correlation, np.asarray(balance), tolerance)
    return BalancedFlow(first, second, correlation, tau, balance)


@compiled()
def _blocks(
    times: Float[Array, " time"],
    first: Float[Array, "*batch hidden input"],
    second: Float[Array, "*batch output hidden"],
    correlation: Float[Array, "*task output input"],
    tau: Float[Array, ""],
    balance: Float[Array, "*balance"],
) -> tuple[
    Float[Array, "*batch input unit time"],
    Float[Array, "*batch output unit time"],
    Bool[Array, "*batch"],
]:
    batch, inputs = first.shape[:-2], first.shape[-1]
    each = [
        jnp.broadcast_to(part, (*batch, *shape)).reshape(-1, *shape)
        for part, shape in (
            (first, first.shape[-2:]),
            (second, second.shape[-2:]),
            (correlation, correlation.shape[-2:]),
            (balance, ()),
        )
    ]

    def one(parts: list[Array]) -> tuple[Array, Array]:
        first, second, correlation, balance = parts
        return factor(times, first, second, correlation, tau, balance)

    # One network at a time: the columns of many networks would not fit into the cache.
    both, reached = (part.reshape(*batch, *part.shape[1:]) for part in jax.lax.map(one, each))
    return both[..., :inputs, :, :], both[..., inputs:, :, :], reached


def _own_balance(first: Array, second: Array) -> Array:
    """Return λ of the weights; zero if λ is only a rounding error, which would grow over time."""
    above, below = ((weights**2).sum(axis=(-2, -1)) for weights in (second, first))
    value = (above - below) / first.shape[-2]
    rounding = abs(above - below) <= 64 * np.finfo(first.dtype).eps * (above + below)
    return (
        value - jax.lax.stop_gradient(value) * rounding
        if is_traced(value)
        else np.where(rounding, 0.0, value)
    )


def _check_balance(
    first: Array, second: Array, correlation: Array, value: np.ndarray, tolerance: float
) -> None:
    first, second = np.asarray(first), np.asarray(second)
    found = residual(first, second, value)
    if is_exact(first, second, found).all():
        return
    rate = np.hypot(np.linalg.norm(np.asarray(correlation), 2, axis=(-2, -1)), value / 2)
    own = own_balance(first, second)
    found, rate, value, own = np.broadcast_arrays(found, rate, value, own)
    part = np.divide(found, rate, out=np.full(found.shape, np.inf), where=rate > 0)
    worst = np.unravel_index(np.argmax(part), part.shape)  # index of the least balanced network
    which = f" (network {', '.join(map(str, worst))})" if worst else ""
    words = (
        f"W₂ᵀW₂ − W₁W₁ᵀ differs from {value[worst]:.6g} I by {found[worst]:.3g}{which}, which is "
        f"{part[worst]:.2g} of the fastest rate {rate[worst]:.3g}"
    )
    if not part[worst] <= tolerance:
        same = np.isclose(own[worst], value[worst])
        hint = "" if same else f"The balance of the weights is {own[worst]:.6g}. "
        raise ValueError(
            f"The weights are not balanced: {words}, above `tolerance` {tolerance:g}. {hint}For "
            "unbalanced weights integrate the flow, festina.gradient_flow(network, task), or "
            "accept the error with a larger `tolerance`."
        )
    warnings.warn(
        f"The weights are not quite balanced: {words}. Expect relative errors of about "
        f"{part[worst]:.2g}; `BalancedFlow.error_estimate(times)` estimates them.",
        BalanceWarning,
        stacklevel=3,
    )
