"""Continual learning: one task after the other, without looking back."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..._checks import check_alone, check_times, finite, whole_number
from ..._objective import LossConvention
from ..._result import Result
from ..._types import ArrayLike
from ...networks import AbstractNetwork
from ...tasks import AbstractTask
from .._statistics import moments
from ._assumptions import ObstructionWarning, check_white
from ._balanced import BalancedFlow, balanced_flow
from ._balanced_solution import BalancedSolution
from ._carried import ROUNDING, carried, follow

_DOUBTFUL = 1e-6  # of an overlap that decides when a task is learned


@dataclass(frozen=True, eq=False, repr=False)
class Curriculum(Result, also=("after", "forgetting"), drawn="losses"):
    """Result of `continual_learning`: the loss of each task while tasks are learned in turn.

    **Attributes:**

    - `time`: since the beginning of the first task; where one ends and the next begins, twice.
    - `stage`: which task is being learned, counted from 0.
    - `map`: W₂W₁.
    - `losses`: ½‖Σ_j − W₂W₁‖² for every task j, above its loss of least squares.
    - `floor`: that loss of least squares for every task, which nothing can reduce. `losses + floor`
      are the losses themselves.
    - `states`: one for each stage, with all that a `BalancedSolution` knows.
    - `correlations`: Σ_j.
    """

    time: Float[np.ndarray, " time"]
    stage: Int[np.ndarray, " time"]
    map: Float[np.ndarray, "time output input"]
    losses: Float[np.ndarray, "time task"]
    floor: Float[np.ndarray, " task"]
    states: tuple[BalancedSolution, ...]
    correlations: Float[np.ndarray, "task output input"]

    @property
    def after(self) -> Float[np.ndarray, "trained task"]:
        """Loss of every task at the end of every stage."""
        return np.array([self.losses[self.stage == k][-1] for k in range(len(self.states))])

    @property
    def forgetting(self) -> Float[np.ndarray, "trained task"]:
        """How far a task's loss has risen since the end of its own stage; NaN before that."""
        after = self.after
        risen = after - np.diagonal(after)
        return np.where(np.tri(len(after), dtype=bool), risen, np.nan)


def continual_learning(
    network: AbstractNetwork,
    tasks: Sequence[AbstractTask],
    times: Sequence[ArrayLike] | np.ndarray,
    *,
    loss: LossConvention = "half",
    tau: float = 1.0,
    balance: float | None = None,
    tolerance: float = 0.1,
) -> Curriculum:
    r"""Return the exact learning of one task after another, from balanced weights.

    Balance is conserved and $M = QQ^\top$ is all that the flow depends on, so that the state at the
    end of a task is the start of the next (Braun et al., 2022). All tasks have white inputs. The
    loss of each, up to that of least squares, is $\frac12\lVert\Sigma_j - W_2W_1\rVert_F^2$; once
    both are learned to the end, learning $k$ has cost task $i$ exactly
    $\frac12\lVert\Sigma_i - \Sigma_k\rVert_F^2$ whatever the balance (`interference`). A task that
    is never learned, because the weights left by the one before do not reach it, is warned of.
    What they hold of directions that have decayed is carried along in as many digits as it takes
    (for $s_1t/\tau$ up to some 1500 in all): a task that is reversed after it has been learned for
    long is learned again, as late as that makes it. Where rounding decides, that is warned of too.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers.
    - `tasks`: what it learns, in this order.
    - `times`: for each task when to look, from its beginning; it is left after the last of them.
      A number looks at the end only.
    - `loss`, `tau`, `balance`, `tolerance`: as in `balanced_flow`.

    **Returns:**

    A `Curriculum`: the losses of all tasks over time, and what was forgotten.
    """
    if not len(tasks) or len(tasks) != len(times):
        raise ValueError(
            f"`tasks` and `times` must have an entry for each task, got {len(tasks)} and "
            f"{len(times)}."
        )
    for t in times:
        check_times(t)
    stages = [np.atleast_1d(np.asarray(t, dtype=float)) for t in times]
    if any((np.diff(t) < 0).any() for t in stages):
        raise ValueError("`times` must increase within a task: it is left after the last.")
    check_alone(network.batch_shape)
    how = {"loss": loss, "tau": tau, "balance": balance, "tolerance": tolerance}
    flow = balanced_flow(network, tasks[0], **how)
    seen = [moments(task, loss) for task in tasks]
    for task, each in zip(tasks, seen, strict=True):
        network.check_fit(task.input_shape, task.outputs)
        check_white(each.covariance)
    sigmas = [np.asarray(each.correlation) for each in seen]
    states, at, doubt = [], carried(flow), 0.0
    for number, (sigma, t) in enumerate(zip(sigmas, stages, strict=True)):
        flow = BalancedFlow(flow.first, flow.second, sigma, flow.tau, flow.balance)
        both, reached, own, at = follow(flow, t, at)
        inward, outward = np.split(both, [sigma.shape[-1]])
        states.append(flow.state(t, inward, outward))
        doubt += own
        if not reached:
            _warn(number, float(flow.limit().loss()[0]))
        elif doubt > _DOUBTFUL:
            warnings.warn(
                f"How much the tasks before have left of what grows in task {number} is known to a "
                f"part of {min(doubt, 1.0):.1g} only: to that extent rounding decides what it "
                "looks like and when it is learned.",
                stacklevel=2,
            )
        # The factor is Q up to a rotation of the hidden units, which nothing depends on.
        flow = BalancedFlow(inward[..., -1].T, outward[..., -1], sigma, flow.tau, flow.balance)
    starts = np.cumsum([0.0, *(t[-1] for t in stages[:-1])])
    return Curriculum(
        time=np.concatenate([start + t for start, t in zip(starts, stages, strict=True)]),
        stage=np.repeat(np.arange(len(stages)), [len(t) for t in stages]),
        map=np.concatenate([state.map for state in states]),
        losses=np.concatenate(
            [np.stack([state.loss(sigma) for sigma in sigmas], axis=-1) for state in states]
        ),
        states=tuple(states),
        floor=np.array([each.floor for each in seen]),
        correlations=np.stack(sigmas),
    )


def _warn(number: int, loss: float) -> None:
    left = (
        f" Overlaps below {ROUNDING:.1g} of what they are sums of count as none: where an "
        "earlier task has left less than that, rounding decides."
    )
    warnings.warn(
        f"The weights do not reach what is to be learned in task {number}, and the flow ends at a "
        f"saddle of loss up to {loss:.3g}.{left if number else ''} Other initial weights, or a "
        "balance other than 0, go on.",
        ObstructionWarning,
        stacklevel=3,
    )


def interference(
    correlations: ArrayLike, *, hidden: int | None = None
) -> Float[np.ndarray, "learned task"]:
    r"""Return by how much the loss of one task rises when another is learned to the end.

    $\frac12\lVert\Sigma_i - \Sigma_k\rVert_F^2$ where there are units enough for the rank of both;
    it depends on neither balance nor depth. With fewer, $N_h$, what is learned of a task are its
    $N_h$ strongest modes $\Sigma^{(h)}$, and the rise is $\frac12\lVert\Sigma_i -
    \Sigma_k^{(h)}\rVert_F^2 - \frac12\lVert\Sigma_i - \Sigma_i^{(h)}\rVert_F^2$. The limit of
    `Curriculum.forgetting` for long stages, if none ends at a saddle.

    **Arguments:**

    - `correlations`: $\Sigma_i$ of each task, shape `(task, output, input)`.
    - `hidden`: $N_h$, the number of hidden units; enough of them if not given.
    """
    sigma = finite("correlations", correlations)
    if sigma.ndim != 3:
        raise ValueError(
            f"`correlations` must have shape (task, output, input), got {sigma.shape}."
        )
    hidden = None if hidden is None else whole_number("hidden", hidden)
    u, s, vt = np.linalg.svd(sigma, full_matrices=False)
    learned = (u * s[:, None])[..., :hidden] @ vt[:, :hidden]
    after = np.sum((sigma - learned[:, None]) ** 2, axis=(-2, -1)) / 2
    return after - np.diagonal(after)
