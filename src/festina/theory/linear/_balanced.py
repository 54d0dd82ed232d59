"""From lazy to rich: the exact learning of two-layer linear networks with balanced weights."""

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

FOREVER = 1e250  # every difference of rates has decided by then


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class BalancedFlow(Result):
    """The exact learning of a network with balanced weights: call it with times."""

    first: Float[Array, "*batch hidden input"]
    second: Float[Array, "*batch output hidden"]
    correlation: Float[Array, "*task output input"]
    tau: Float[Array, "*tau"]
    balance: Float[Array, "*balance"]

    def __call__(self, times: ArrayLike) -> BalancedSolution:
        """Return the solution at these times, in the order given; a single time has no axis."""
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
            f"The weights do not reach what is to be learned{many}, and the flow ends at a saddle "
            f"of loss up to {loss[~reached].max():.3g}: see `BalancedFlow.obstructed`. Other "
            "initial weights, or a balance other than 0, go on.",
            ObstructionWarning,
            stacklevel=3,
        )

    def solve(self, times: Array) -> tuple[Array, Array, Array]:
        """Return both blocks of the factor at a list of times, and whether the task is reached."""
        return _blocks(times, self.first, self.second, self.correlation, self.tau, self.balance)

    def state(self, times: Array, inward: Array, outward: Array) -> BalancedSolution:
        """Return a solution as the network at these times."""
        batch = self.first.shape[:-2]
        times = np.broadcast_to(times, (*batch, *np.shape(times))) if batch else times
        return BalancedSolution(
            times, inward, outward, self.first, self.second, self.correlation, self.balance
        )

    def limit(self) -> BalancedSolution:
        r"""The state at time infinity, where the flow ends.

        $M \to 2PF$, with $P$ the projector on the fastest growing eigenvectors of $F$ that the
        initial weights reach, at most one for each hidden unit: generically the $N_h$ largest
        positive eigenvalues. For $N_h = \min(N_i, N_o)$ that is $W_2W_1 = \Sigma$,
        $W_1^\top W_1 = V(S_\lambda - \frac\lambda2)V^\top$ and $W_2W_2^\top = U(S_\lambda +
        \frac\lambda2)U^\top$. It may be a saddle: see `obstructed`.
        """
        inward, outward, _ = self.solve(self.tau * np.array([FOREVER]))
        return self.state(np.array([np.inf]), inward, outward)

    @property
    def obstructed(self) -> Bool[Array, "*batch"]:
        r"""Whether the flow ends at a saddle, because the weights cannot reach the task.

        For $\lambda = 0$ and square full-rank weights the sign of $\det W_2W_1$ is conserved. Where
        it is not that of $\det\Sigma$, as in half of random draws, the weakest mode is not learned
        and the loss stays at $s_\min^2/2$ or above; so it does where weights are zero. The loss is
        that of `limit()`. The saddle is unstable: a network that is trained leaves it by
        rounding, after a time of about $36\tau/s_\min$, and this solution does not. Overlaps count
        as none below $10^{-13}$ of the weights.
        """
        reached = self.solve(np.zeros(1))[2]
        return ~reached if is_traced(reached) else np.asarray(~reached)

    @property
    def balance_residual(self) -> Float[np.ndarray, "*batch"]:
        r"""$\lVert W_2^\top W_2 - W_1W_1^\top - \lambda I\rVert_2$, conserved along the flow."""
        return residual(*(np.asarray(a) for a in (self.first, self.second, self.balance)))

    def error_estimate(self, times: ArrayLike) -> Float[np.ndarray, "*batch"]:
        r"""Estimated error due to weights that are not exactly balanced.

        With $\Delta = W_2^\top W_2 - W_1W_1^\top - \lambda I$ the exact flow is $\tau\dot Q = FQ -
        \frac12QQ^\top Q + \frac12 JQ\Delta$, $J = \mathrm{diag}(-I, I)$: each unit has a balance of
        its own. Were Δ the same for all, $\Delta = \pm\delta I$, this is the solution for
        $\lambda\pm\delta$. The estimate is how far that is away for $\delta =
        \lVert\Delta\rVert_2$, as a fraction of $\lVert M\rVert_F$: a size, not a bound.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ObstructionWarning)  # said before
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
    r"""Return the exact learning of $W_2W_1$ from balanced weights of any size, lazy to rich.

    For white inputs, loss $L = \frac12\langle\lVert y - W_2W_1x\rVert^2\rangle$, $\tau\dot W =
    -\partial L/\partial W$ and weights with $W_2^\top W_2 - W_1W_1^\top = \lambda I$ the stack
    $Q = (W_1^\top; W_2)$ follows $\tau\dot Q = FQ - \frac12QQ^\top Q$, and $M = QQ^\top$ a matrix
    Riccati equation with the solution

    $$M(t) = e^{Ft/\tau}Q_0\left[I + Q_0^\top\int_0^{t/\tau}\!e^{2Fr}\,dr\;Q_0\right]^{-1}
      Q_0^\top e^{Ft/\tau},\qquad
      F = \begin{pmatrix}-\frac\lambda2I & \Sigma^\top\\ \Sigma & \frac\lambda2I\end{pmatrix}.$$

    Braun et al. (2022) for $\lambda = 0$, Dominé et al. (2025) for any λ; their form in singular
    vectors is `balanced_gram`, with an exponent corrected. Neither the rank of Σ nor the number
    of hidden units is restricted. Large $|\lambda|$ is lazy where there are as many hidden units
    as outputs ($\lambda > 0$) or as inputs ($\lambda < 0$), and rich with a delay where there are
    fewer (`learning_regime`).

    It is evaluated without differences of large numbers: any time, any λ. The result can be
    differentiated with respect to everything but, where singular values of Σ coincide or vanish,
    Σ itself (NaN there).

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers. A batch of them has
      its curves computed in one call.
    - `task`: what it learns, with white inputs, without a mean or with one as part of
      $\langle xx^\top\rangle$. Only $\Sigma = \langle yx^\top\rangle$ enters.
    - `loss`: its convention, as for `festina.gradient_flow`. The moments that have to be white are
      those of the loss: one-hot items are with "half-sum".
    - `tau`: time constant of a layer, one over the learning rate.
    - `balance`: λ, a number or one for each network; if not given that of the weights,
      $\mathrm{tr}(W_2^\top W_2 - W_1W_1^\top)/N_h$.
    - `tolerance`: how far from balanced the weights may be: the residual
      $\lVert\Delta\rVert_2$ as a fraction of the fastest rate $\sqrt{s_1^2+\lambda^2/4}$. Weights
      within it, but not balanced to rounding, get a `BalanceWarning`; small random weights are an
      example, and the error falls as their variance.

    **Returns:**

    A `BalancedFlow`: `flow(times)` is the network at these times, `flow.limit()` where it ends.

    !!! note "When it stops being exact"

        Inputs that are not white, finite learning rates, and unbalanced weights: see
        `BalancedFlow.error_estimate`, and `festina.gradient_flow` for those.
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
            f"`tau` must be a number, got shape {tau.shape}: times are in units of it, so that "
            "another τ is another list of times."
        )
    if balance.ndim and balance.shape != first.shape[:-2]:
        raise ValueError(
            f"`balance` must be a number or one for each network, {first.shape[:-2]} of them, got "
            f"shape {balance.shape}."
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

    # One network after the other: the columns of many at a time would not fit into a cache.
    both, reached = (part.reshape(*batch, *part.shape[1:]) for part in jax.lax.map(one, each))
    return both[..., :inputs, :, :], both[..., inputs:, :, :], reached


def _own_balance(first: Array, second: Array) -> Array:
    """λ of the weights; rounding is zero, or a long time would make something of it."""
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
    worst = np.unravel_index(np.argmax(part), part.shape)  # of a batch
    which = f" (network {', '.join(map(str, worst))})" if worst else ""
    words = (
        f"W₂ᵀW₂ − W₁W₁ᵀ differs from {value[worst]:.6g} I by {found[worst]:.3g}{which}, which is "
        f"{part[worst]:.2g} of the fastest rate {rate[worst]:.3g}"
    )
    if not part[worst] <= tolerance:
        same = np.isclose(own[worst], value[worst])
        hint = "" if same else f"The weights' own `balance` is {own[worst]:.6g}. "
        raise ValueError(
            f"The weights are not balanced: {words}, above `tolerance` {tolerance:g}. {hint}For "
            "such weights integrate the flow, festina.gradient_flow(network, task), or accept the "
            "error with a larger `tolerance`."
        )
    warnings.warn(
        f"The weights are not quite balanced: {words}. Expect relative errors of that order; "
        "`error_estimate(times)` says more.",
        BalanceWarning,
        stacklevel=3,
    )
