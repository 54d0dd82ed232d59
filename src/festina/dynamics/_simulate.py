"""What gradient flow and full-batch descent share: set-up, judgement of ends, the result."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from .._objective import Objective, objective
from ..networks._network import Network
from ..tasks import AbstractTask
from ._adaptive import first_step
from ._curvature import extreme_curvatures
from ._drive import Progress, drive, initial_state
from ._logbook import Logbook, Resolution
from ._program import (
    AT_FLOOR,
    FINISHED,
    NOT_FINITE,
    STATIONARY,
    STEP_UNDERFLOW,
    Controls,
    State,
    Step,
)
from ._runge_kutta import runge_kutta_step
from ._trajectory import Ending, Samples, TakenSolver, Trajectory
from ._width import Widen, condense

_NEVER = -1.0


class OutOfPatience(Exception):
    """Most networks of a batch take more steps than was thought worth while."""


def simulate(
    network: Network,
    task: AbstractTask,
    *,
    loss: str,
    method: str,
    solver: TakenSolver,
    step: Step,
    step_size: Callable[[np.ndarray, np.ndarray], np.ndarray],
    evaluations_per_step: int,
    stops: Float[np.ndarray, " stop"],
    times_requested: bool,
    rtol: float,
    atol: float | None,
    converged: float,
    learning_rate: Float[np.ndarray, "*batch"] | None,
    resolution: Resolution,
    max_steps: int,
    progress: Progress | None,
    patience: int | None = None,
) -> Trajectory[Network]:
    """Run every network of a batch and put the samples into one `Trajectory`.

    With `patience`, `OutOfPatience` is raised when more than half of them have taken more steps.
    """
    condensed, widen = condense(network)
    problem = objective(condensed, task, loss)
    initial = problem.structure.columns(*condensed.parts)
    each = np.ones(initial.shape[1])
    rates = each if learning_rate is None else learning_rate.reshape(-1)
    state = initial_state(problem, initial, step_size)
    if not times_requested:
        state = state._replace(status=np.where(_at_rest(problem, state), STATIONARY, state.status))
    size = np.sqrt(np.sum(initial**2, axis=0) / network.structure.size)
    # Large weights may start far above the loss of none, which is then what there is to learn. And
    # weights known to a relative error rtol leave a loss of order rtol² that no step can remove.
    silent = _loss_of_silence(problem)
    to_learn = np.minimum(state.loss, silent if silent > 0 else np.inf)
    precision = np.maximum(converged * to_learn, 100 * rtol**2 * state.loss)
    never = each * _NEVER
    controls = Controls(
        stops=stops,
        rtol=np.asarray(rtol),
        atol=each * atol if atol is not None else rtol * np.where(size > 0, size, 1.0),
        loss_tolerance=never if times_requested else precision,
        gain_tolerance=never.copy() if times_requested else precision.copy(),
        learning_rate=rates.astype(float),
    )

    endings: dict[int, Ending] = {}

    def judge(lane: int, status: int, book: Logbook) -> bool:
        if status == STATIONARY:
            time, _, rate = book.latest[:, lane]
            elapsed = float(time * controls.learning_rate[lane])
            verdict = _stationary(problem, book.weights[:, lane], float(rate), elapsed)
            if verdict is None:
                # On the way past a saddle: go on, and ask again at a tenth of this gradient.
                controls.gain_tolerance[lane] *= 1e-2
                return False
            endings[lane] = verdict
        else:
            rate = float(controls.learning_rate[lane])
            endings[lane] = _ending(status, problem, book, lane, rate, method)
        remarks = ""
        if solver == "implicit":
            count = int(book.steps[lane])
            remarks += f" It took {count} implicit step{'s' * (count != 1)}."
        if book.slack[lane] > 1.0:
            remarks += (
                " It slid along kinks on the way, where the tolerance was loosened up to "
                f"{book.slack[lane]:.3g}-fold."
            )
        endings[lane] = Ending(endings[lane].reason, endings[lane].message + remarks)
        return True

    def watch(book: Logbook) -> None:
        # Of all lanes, ended or not: who has got how far by now depends on the machine.
        if 2 * np.sum(book.steps > patience) > len(book.steps):
            raise OutOfPatience

    book = drive(
        problem,
        state,
        controls,
        step=step,
        judge=judge,
        resolution=None if times_requested else resolution,
        max_steps=max_steps,
        progress=progress,
        watch=None if patience is None else watch,
    )
    return _assemble(
        network,
        problem,
        widen,
        book,
        endings,
        stops,
        times_requested,
        evaluations_per_step,
        loss,
        method,
        solver,
        learning_rate,
    )


def _loss_of_silence(problem: Objective) -> float:
    """The loss, above what training can reach, of a network that computes nothing."""
    _, y, weight = problem.data
    return 0.5 * float(np.sum(np.asarray(weight)[:, None] * np.square(y)))


def _at_rest(problem: Objective, state: State) -> Bool[np.ndarray, " lane"]:
    """Which lanes start where the gradient is nothing but rounding.

    Small weights near a saddle have a small gradient too, of the order of weights times curvature.
    """
    square = np.sum(np.square(state.weights), axis=0)
    still = np.asarray(state.rate) <= 1e-20 * square
    for lane in np.flatnonzero(still):
        ends = extreme_curvatures(problem.structure, state.weights[:, lane], problem.data)
        curvature = np.abs(ends).max()
        still[lane] = state.rate[lane] <= (1e-12 * curvature) ** 2 * square[lane]
    return still


def _stationary(
    problem: Objective, weights: np.ndarray, rate: float, elapsed: float
) -> Ending | None:
    """Is a point with a small gradient a minimum, or a saddle on the way (None)?

    A saddle is one that would be left, at the rate of its most negative curvature, within a
    thousand times the time elapsed. Near a minimum there is negative curvature too, in proportion
    to what is left of the residual, but it leads nowhere in such a time.
    """
    smallest, largest = extreme_curvatures(problem.structure, weights, problem.data)
    escapes = -smallest * elapsed > 1e-3
    if elapsed == 0.0:
        saddle = smallest < 0.0
        kind = f"a saddle of curvature {smallest:.3g}" if saddle else "a stationary point"
        return Ending(
            "saddle" if saddle else "stationary",
            f"The gradient is zero to rounding: the network starts on {kind} and does not move.",
        )
    if escapes:
        return None
    if smallest == largest == 0.0:
        return Ending(
            "stationary",
            "Gradient and curvature are zero: no unit responds to any sample any more. Smaller "
            "weights, and in descent a smaller learning rate, keep them alive.",
        )
    return Ending("converged", f"A minimum: gradient {np.sqrt(rate):.3g} and no way out.")


def _ending(
    status: int, problem: Objective, book: Logbook, lane: int, learning_rate: float, method: str
) -> Ending:
    time, loss, _ = book.latest[:, lane]
    where = f"time {time:.6g}" if method == "gradient flow" else f"step {time:.0f}"
    excess, loss = loss, loss + problem.floor
    if status == AT_FLOOR:
        return Ending(
            "converged", f"At {where} the loss came within {excess:.3g} of the lowest possible one."
        )
    if status == FINISHED:
        restless = _restlessness(problem, book, lane, learning_rate, method)
        how = f", {restless}" if restless else "."
        return Ending("finished", f"Ran to {where} as asked{how}")
    if status == STEP_UNDERFLOW:
        return Ending(
            "step underflow",
            f"At {where}, loss {loss:.6g}, no step was small enough for the tolerance asked for. "
            "A looser `rtol` gets past a kink.",
        )
    if status == NOT_FINITE:
        start = book.initial_weights(lane)[:, None]
        return Ending(
            "diverged", f"Not finite after {where}. " + _why(problem, start, learning_rate)
        )
    return Ending(
        "out of steps",
        f"Stopped after {book.steps[lane]} steps at {where}, loss {loss:.6g}, "
        + _what_goes_on(problem, book, lane, learning_rate, method),
    )


def _what_goes_on(
    problem: Objective, book: Logbook, lane: int, learning_rate: float, method: str
) -> str:
    """Why so many steps did not suffice, and what would."""
    if book.slack[lane] > 1.0:
        return "short ones, because of kinks: a looser `rtol` gets further than more `max_steps`."
    if method != "gradient flow" and book.has_gone_up(lane):
        start = book.initial_weights(lane)[:, None]
        limit = _stability_limit(problem, start)
        if learning_rate > limit:
            now = "going up and down. " if book.goes_up(lane) else "after going up and down. "
            return now + _too_large(learning_rate, limit)
    return (
        "still learning slowly: a larger `converged` or a time to end at are cheaper than more "
        "`max_steps`." + (" So may be `solver='implicit'`." if method == "gradient flow" else "")
    )


def _restlessness(
    problem: Objective, book: Logbook, lane: int, learning_rate: float, method: str
) -> str:
    """That the loss does not come to rest because steps are too large; nothing where it does."""
    if method == "gradient flow" or not book.goes_up_and_down(lane):
        return ""
    # Here and a step further: to and fro the valley is steeper on one side.
    here = book.weights[:, [lane]]
    there = here + learning_rate * np.asarray(initial_state(problem, here, first_step).velocity)
    sides = np.concatenate((here, there), axis=1)
    if not np.isfinite(sides).all():
        return ""
    sharpness = max(
        extreme_curvatures(problem.structure, side, problem.data)[1] for side in sides.T
    )
    if learning_rate * sharpness <= 2.0:
        return ""
    return (
        f"going up and down: 2 / sharpness is {2.0 / sharpness:.3g} here, and the learning rate "
        f"{learning_rate:g} is above it. Use a smaller one."
    )


def _why(problem: Objective, weights: Float[np.ndarray, "weight 1"], learning_rate: float) -> str:
    """The likely cause of divergence: a step beyond 2/sharpness of the path of the flow."""
    limit = _stability_limit(problem, weights)
    if learning_rate > limit:
        return _too_large(learning_rate, limit)
    return (
        f"The learning rate {learning_rate:g} is below the stability limit {limit:.3g} "
        "of the path that gradient flow takes, so that the cause is another."
    )


def _too_large(learning_rate: float, limit: float) -> str:
    return (
        f"The learning rate {learning_rate:g} is above the stability limit {limit:.3g} "
        "(2 / sharpness) of the path that gradient flow takes: use a smaller one."
    )


def _stability_limit(problem: Objective, weights: Float[np.ndarray, "weight 1"]) -> float:
    """2 / sharpness where it is largest along the flow, from plateau to plateau and at its end."""
    one = np.ones(1)
    state = initial_state(problem, weights, first_step)
    rtol = 1e-4
    controls = Controls(
        stops=np.array([np.inf]),
        rtol=np.asarray(rtol),
        atol=rtol * np.sqrt(np.mean(weights**2, axis=0)),
        loss_tolerance=1e-6 * np.asarray(state.loss),
        gain_tolerance=_NEVER * one,
        learning_rate=one,
    )
    flow = drive(
        problem,
        state,
        controls,
        step=runge_kutta_step,
        judge=lambda lane, status, book: True,
        resolution=Resolution(),
        max_steps=3000,
        progress=None,
    )
    path = flow.table()[0].weights[0]
    chosen = np.unique(np.linspace(0, len(path) - 1, 12).astype(int))
    sharpness = max(extreme_curvatures(problem.structure, path[i], problem.data)[1] for i in chosen)
    return 2.0 / sharpness if sharpness > 0 else float("inf")


def _assemble(
    network: Network,
    problem: Objective,
    widen: Widen,
    book: Logbook,
    endings: dict[int, Ending],
    stops: np.ndarray,
    times_requested: bool,
    evaluations_per_step: int,
    loss: str,
    method: str,
    solver: TakenSolver,
    learning_rate: Float[np.ndarray, "*batch"] | None,
) -> Trajectory[Network]:
    table, saves = book.table()
    columns = np.moveaxis(table.weights, -1, 0)
    trained = network.with_parts(*problem.structure.arrays(columns))
    batch, longest = network.batch_shape, table.time.shape[1]
    over = (*batch, longest)
    # The axis is the one asked for, also beyond where a lane broke off; `saves` says where.
    time = np.broadcast_to(stops[:longest], over).copy() if times_requested else table.time
    return Trajectory(
        time=time.reshape(over),
        loss=table.loss.reshape(over) + problem.floor,
        squared_gradient=table.rate.reshape(over),
        weights=Samples(trained, widen, batch),
        saves=saves.reshape(batch),
        endings=tuple(endings[lane] for lane in range(len(saves))),
        floor=problem.floor,
        evaluations=(1 + evaluations_per_step * book.steps).reshape(batch),
        convention=loss,
        method=method,
        solver=solver,
        learning_rate=learning_rate,
        shared_times=times_requested,
    )
