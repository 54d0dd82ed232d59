"""Continual learning: exact training on one task after another, without replay."""

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

_DOUBTFUL = 1e-6  # warn above this relative error of an overlap that decides a learning time


@dataclass(frozen=True, eq=False, repr=False)
class Curriculum(Result, also=("after", "forgetting"), drawn="losses"):
    """Result of `continual_learning`: the loss of each task while tasks are learned in turn.

    **Attributes:**

    - `time`: time since the beginning of the first task. If a stage starts at time 0, the moment
      at which it begins occurs twice: at the end of the previous stage and at its start.
    - `stage`: index of the task that is being learned, counted from 0.
    - `map`: the map W₂W₁ of the network.
    - `losses`: ½‖Σ_j − W₂W₁‖² for every task j, the loss above the least-squares loss.
    - `floor`: the least-squares loss of every task, the smallest loss of a linear map. The total
      losses are `losses + floor`.
    - `states`: a `BalancedSolution` for each stage.
    - `correlations`: the input-output correlation Σ_j of every task.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.1]]])
    >>> tasks = [from_moments([[3.0, 0.0], [0.0, 1.0]]), from_moments([[1.0, 0.0], [0.0, 3.0]])]
    >>> run = linear.continual_learning(network, tasks, [10.0, 10.0])
    >>> run.after.round(3)  # one row for each trained task, one column for each tested task
    array([[0., 4.],
           [4., 0.]])
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
        """Return the loss of every task at the end of every stage."""
        return np.array([self.losses[self.stage == k][-1] for k in range(len(self.states))])

    @property
    def forgetting(self) -> Float[np.ndarray, "trained task"]:
        """Return the rise of each task's loss since the end of its own stage; NaN before that."""
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
    r"""Return the exact gradient flow on one task after another, from balanced weights.

    The flow conserves balance and depends only on $M = QQ^\top$, where $Q = (W_1^\top; W_2)$ are
    the stacked weights. The final state of one task is therefore a valid initial state for the next
    (Braun et al., 2022). All tasks have white inputs. The loss of task $j$ above its least-squares
    loss is $\frac12\lVert\Sigma_j - W_2W_1\rVert_F^2$, with the input-output correlation
    $\Sigma_j$. If tasks $i$ and $k$ are both learned completely, learning $k$ raises the loss of
    task $i$ by $\frac12\lVert\Sigma_i - \Sigma_k\rVert_F^2$, for any balance (`interference`).

    Components of the weights that decay during a task are kept with as many digits as necessary
    (for a total $s_1t/\tau$ of up to about 1500). The digits matter if a task is reversed after
    long training: the tiny components determine when the network learns the reversed task. The
    function warns if rounding errors determine when a task is learned. An `ObstructionWarning`
    means that the final weights of one task cannot reach the next task.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers.
    - `tasks`: the tasks in the order in which the network learns them.
    - `times`: for each task, the times at which the result is evaluated, counted from the beginning
      of the task. Training on the task ends at the last of these times. A single number means that
      the result contains only the end of the task.
    - `loss`, `tau`, `balance`, `tolerance`: as in `balanced_flow`.

    **Returns:**

    A `Curriculum` with the losses of all tasks over time and the forgetting.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.1]]])
    >>> tasks = [from_moments([[3.0, 0.0], [0.0, 1.0]]), from_moments([[1.0, 0.0], [0.0, 3.0]])]
    >>> linear.continual_learning(network, tasks, [10.0, 10.0]).forgetting.round(3)
    array([[ 0., nan],
           [ 4.,  0.]])
    """
    if not len(tasks) or len(tasks) != len(times):
        raise ValueError(
            "`tasks` and `times` must both have an entry for each task, got "
            f"{len(tasks)} and {len(times)} entries."
        )
    for t in times:
        check_times(t)
    stages = [np.atleast_1d(np.asarray(t, dtype=float)) for t in times]
    if any((np.diff(t) < 0).any() for t in stages):
        raise ValueError("`times` must increase within each task: training ends at the last time.")
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
                f"The weights that grow in task {number} started from components left by earlier "
                f"tasks, which are known only to a relative error of {min(doubt, 1.0):.1g}. The "
                "learning curve and the learning time of this task are uncertain to that extent.",
                stacklevel=2,
            )
        # The factor is Q up to a rotation of the hidden units, which does not affect the flow.
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
        f" Overlaps of weights with modes below {ROUNDING:.1g} of their largest terms count as "
        "zero, so rounding may decide whether the task is learned."
    )
    warnings.warn(
        f"The weights cannot reach the correlation in task {number}, and the flow ends at a saddle "
        f"with a loss of up to {loss:.3g}.{left if number else ''} To learn the task, use other "
        "initial weights or a balance other than 0.",
        ObstructionWarning,
        stacklevel=3,
    )


def interference(
    correlations: ArrayLike, *, hidden: int | None = None
) -> Float[np.ndarray, "learned task"]:
    r"""Return the rise of the loss of each task after another task has been learned completely.

    If the network has enough hidden units for the rank of both correlations, learning task $k$
    raises the loss of task $i$ by $\frac12\lVert\Sigma_i - \Sigma_k\rVert_F^2$, for any balance and
    depth. A network with fewer hidden units, $N_h$, learns only the $N_h$ strongest modes
    $\Sigma^{(h)}$ of a task, and the rise is $\frac12\lVert\Sigma_i - \Sigma_k^{(h)}\rVert_F^2 -
    \frac12\lVert\Sigma_i - \Sigma_i^{(h)}\rVert_F^2$. `Curriculum.forgetting` tends to the result
    of `interference` for long stages if no stage ends at a saddle.

    **Arguments:**

    - `correlations`: $\Sigma_i$ of each task, shape `(task, output, input)`.
    - `hidden`: $N_h$, the number of hidden units. By default there are enough hidden units for all
      modes.

    **Returns:**

    Rise of the loss with shape `(learned, task)`: rows are learned tasks $k$, columns tested tasks
    $i$.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.interference([[[1.0, 0.0]], [[0.0, 2.0]]])
    array([[0. , 2.5],
           [2.5, 0. ]])
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
