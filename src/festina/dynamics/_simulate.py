"""What gradient flow and full-batch descent share: set-up, the run itself, the result."""

import jax
import numpy as np
from jaxtyping import Float

from .._objective import Objective, objective
from ..networks._network import Network
from ..tasks import AbstractTask
from ._course import Course, Method
from ._drive import drive, initial_state
from ._logbook import Logbook
from ._observe import Observation
from ._program import NEVER, STATIONARY, Controls, State
from ._trajectory import Samples, Trajectory
from ._verdict import Verdict, at_rest
from ._width import condense


class OutOfPatience(Exception):
    """More than half of the networks of a batch take more steps than was thought worth while."""


def simulate(
    network: Network, task: AbstractTask, method: Method, course: Course
) -> Trajectory[Network]:
    """Run every network of a batch and put the samples into one `Trajectory`."""
    condensed, widen = condense(network)
    problem = objective(condensed, task, method.loss)
    observation = None if course.observe is None else Observation(course.observe, network)
    initial = problem.structure.columns(*condensed.parts)
    state = initial_state(problem, initial, method.step_size)
    if not course.at_stops:
        state = state._replace(status=np.where(at_rest(problem, state), STATIONARY, state.status))
    size = np.sqrt(np.sum(initial**2, axis=0) / network.structure.size)

    def networks(weights: Float[np.ndarray, "lane save weight"]) -> Network:
        return network.with_parts(*problem.structure.arrays(np.moveaxis(weights, -1, 0)))

    def note(lane: int, weights: Float[np.ndarray, "save weight"]) -> np.ndarray:
        if observation is None:
            return weights
        wide = widen(networks(weights[None]), slice(lane, lane + 1))
        return observation.rows(jax.tree.map(lambda leaf: leaf[0], wide))

    controls = _controls(problem, state, size, method, course)
    verdict = Verdict(problem, method, controls)

    def watch(book: Logbook) -> None:
        # Of all lanes, ended or not: who has got how far by now depends on the machine.
        if 2 * np.sum(book.steps > course.patience) > len(book.steps):
            raise OutOfPatience

    book = drive(
        problem,
        state,
        controls,
        step=method.step,
        judge=verdict,
        resolution=course.resolution,
        max_steps=course.max_steps,
        progress=course.progress,
        watch=None if course.patience is None else watch,
        note=note,
    )
    table, saves = book.table()
    weights, observed = table.weights, {}
    if observation is not None:
        observed = observation.arrays(weights.reshape(*network.batch_shape, *weights.shape[1:]))
        weights = np.where(saves > 0, book.sampled, np.nan).T[:, None]
    batch, longest = network.batch_shape, table.time.shape[1]
    over = (*batch, longest)
    # The axis is the one asked for, also beyond where a lane broke off; `saves` says where.
    time = np.broadcast_to(course.stops[:longest], over).copy() if course.at_stops else table.time
    return Trajectory(
        time=time.reshape(over),
        loss=table.loss.reshape(over) + problem.floor,
        squared_gradient=table.rate.reshape(over),
        weights=Samples(networks(weights), widen, batch, last_alone=bool(observed)),
        saves=saves.reshape(batch),
        endings=tuple(verdict.endings[lane] for lane in range(len(saves))),
        floor=problem.floor,
        evaluations=(1 + method.evaluations * book.steps).reshape(batch),
        convention=method.loss,
        method=method.name,
        solver=method.solver,
        learning_rate=method.learning_rate,
        shared_times=course.at_stops,
        observed=observed,
    )


def _controls(
    problem: Objective,
    state: State,
    size: Float[np.ndarray, " lane"],
    method: Method,
    course: Course,
) -> Controls:
    """What a method and a course come to for weights of this size."""
    each, rtol, rates = np.ones(len(size)), method.rtol, method.learning_rate
    # Large weights may start far above the loss of none, which is then what there is to learn. And
    # weights known to a relative error rtol leave a loss of order rtol² that no step can remove.
    silent = _loss_of_silence(problem)
    to_learn = np.minimum(state.loss, silent if silent > 0 else np.inf)
    precision = np.maximum(course.converged * to_learn, 100 * rtol**2 * state.loss)
    tolerance = each * NEVER if course.at_stops else precision
    return Controls(
        stops=course.stops,
        rtol=np.asarray(rtol),
        atol=rtol * np.where(size > 0, size, 1.0) if method.atol is None else each * method.atol,
        loss_tolerance=tolerance,
        gain_tolerance=tolerance.copy(),
        learning_rate=each if rates is None else rates.reshape(-1).astype(float),
    )


def _loss_of_silence(problem: Objective) -> float:
    """The loss, above what training can reach, of a network that computes nothing."""
    _, y, weight = problem.data
    return 0.5 * float(np.sum(np.asarray(weight)[:, None] * np.square(y)))
