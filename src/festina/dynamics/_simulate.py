"""Set-up, run and result that gradient flow and full-batch gradient descent share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._objective import Objective, objective
from ..networks import AbstractNetwork
from ..tasks import AbstractTask
from ._course import Course, Method
from ._drive import drive, initial_state
from ._logbook import Logbook, SaveResolution
from ._observe import Observation
from ._program import (
    FINISHED,
    NEVER,
    OUT_OF_STEPS,
    RUNNING,
    SLIDING,
    Controls,
    Start,
    State,
    start,
)
from ._trajectory import Samples, Trajectory
from ._verdict import Verdict, first_status
from ._width import Widen, condense

_MOST_NOISE = 1e-3  # largest tolerance for solver noise, as a fraction of the learnable loss


class OutOfPatience(Exception):
    """Raised when most networks take so many explicit steps that implicit steps are cheaper."""


class Beginning(NamedTuple):
    """Networks with their loss and their state before the first step."""

    network: Any  # as the user passed it
    loss: str
    widen: Widen  # maps networks with fewer equivalent units back to the user's width
    problem: Objective
    weights: Float[np.ndarray, "weight lane"]
    start: Start


def begin(network: AbstractNetwork, task: AbstractTask, loss: str) -> Beginning:
    """Prepare a simulation; raise `ValueError` if network and task do not fit."""
    condensed, widen = condense(network)
    problem = objective(condensed, task, loss)
    weights = problem.structure.columns(*condensed.parts)
    at_start = start(weights, problem.data, structure=problem.structure)
    return Beginning(network, loss, widen, problem, weights, at_start)


def simulate(beginning: Beginning, method: Method, course: Course) -> Trajectory[Any]:
    """Train every network of a batch, and return all samples as one `Trajectory`."""
    problem, at_start = beginning.problem, beginning.start
    state, size = initial_state(beginning.weights, at_start), np.asarray(at_start.size)
    controls = _controls(problem, np.asarray(state.loss), size, method, course)
    state = state._replace(status=first_status(problem, state, controls, size))
    # The start state is left out, so that its memory, as large as the weights, can be freed.
    return _trained(beginning[:4], method, course, controls, state)


def _trained(
    given: tuple[Any, str, Widen, Objective],  # first fields of `Beginning`
    method: Method,
    course: Course,
    controls: Controls,
    state: State,
    before: Logbook | None = None,
) -> Trajectory[Any]:
    """Train from any state, and append to the samples of an earlier logbook if there is one."""
    network, loss, widen, problem = given
    observation = None if course.observe is None else Observation(course.observe, network)
    verdict = Verdict(problem, method, controls)

    def note(lane: int, weights: Float[np.ndarray, "save weight"]) -> np.ndarray:
        assert observation is not None
        few = network.with_parts(*problem.structure.arrays(weights.T[:, None]))
        wide = widen(few, slice(lane, lane + 1))
        return observation.rows(jax.tree.map(lambda leaf: leaf[0], wide))

    def watch(book: Logbook) -> None:
        # Count all lanes, ended or not: which lanes run at this moment depends on the machine.
        if 2 * np.sum(book.steps > course.patience) > len(book.steps):
            raise OutOfPatience

    book = drive(
        problem,
        state,
        controls,
        step=method.step,
        goes_on=verdict.goes_on,
        progress=course.progress,
        watch=None if course.patience is None else watch,
        note=None if observation is None else note,
        keeps_weights=course.observe != {},
        before=before,
    )
    samples, saves = book.samples, book.samples.saves.copy()
    time, losses, rate = samples.numbers
    batch, longest = network.batch_shape, time.shape[1]
    over = (*batch, longest)
    observed = {} if observation is None else observation.of(samples, batch)
    if course.at_stops:  # the time axis is the requested one, even where a lane stopped early
        time = np.broadcast_to(course.stops[:longest], over).copy()
        broke_off = saves[:, None] <= np.arange(longest)
        losses[broke_off] = rate[broke_off] = np.nan
    sampled = np.asarray(book.sampled)
    last = sampled if saves.all() else np.where(saves > 0, sampled, np.nan)
    known = samples if observation is None else None

    def resume(
        stops: Float[np.ndarray, " stop"], settings: Mapping[str, float | int]
    ) -> Trajectory[Any]:
        last = book.last
        goes_on = np.isin(last.status, (FINISHED, OUT_OF_STEPS, SLIDING))
        velocity = last.velocity  # with momentum, the velocity is part of the state
        if method.momentum is None:
            velocity = start(last.weights, problem.data, structure=problem.structure).velocity
        there = last._replace(
            status=np.where(goes_on, RUNNING, last.status),
            stop=last.stop * course.at_stops,
            velocity=velocity,
        )
        stops = np.append(course.stops[: longest * course.at_stops], stops)
        more = course.max_steps if method.continuous else int(stops[-1])
        further = replace(
            course, stops=stops, patience=None, settings={**course.settings, **settings}
        )
        changed = controls._replace(stops=stops, most_steps=np.asarray(book.steps.max() + more))
        return _trained(given, method, further, changed, there, book)

    return Trajectory(
        time=time.reshape(over),
        loss=(losses + problem.floor if problem.floor else losses).reshape(over),
        squared_gradient=rate.reshape(over),
        weights=Samples(network, problem.structure, widen, known, last.T[:, None]),
        saves=saves.reshape(batch),
        endings=verdict.endings(book.last, book.initial, time.reshape(losses.shape), losses, saves),
        floor=problem.floor,
        evaluations=(course.spent + method.evaluations * book.steps).reshape(batch),
        convention=loss,
        method=method.name,
        solver=method.solver,
        learning_rate=method.learning_rate,
        momentum=method.momentum,
        shared_times=course.at_stops,
        settings=course.settings,
        observed=observed,
        losses_alone=course.observe == {},
        labels=network.labels,
        resume=resume,
    )


def _controls(
    problem: Objective,
    initial: Float[np.ndarray, " lane"],  # loss
    size: Float[np.ndarray, " lane"],
    method: Method,
    course: Course,
) -> Controls:
    """Return the solver's settings for a method and a course, for weights of the given size."""
    each, rtol, rates = np.ones(len(size)), method.rtol, method.learning_rate
    momentum = 0.0 * each if method.momentum is None else method.momentum.reshape(-1)
    rates = each if rates is None else rates.reshape(-1).astype(float)
    # The learnable loss: with large weights the initial loss may be far above the loss of a network
    # with zero output, so the smaller of both counts. Weights with a relative error rtol leave a
    # loss of order rtol² that no step can remove; the tolerance must not be below this noise.
    _, y, weight = problem.data
    silent = 0.5 * float(np.sum(np.asarray(weight)[:, None] * np.square(y)))
    to_learn = np.minimum(initial, silent if silent > 0 else np.inf)
    noise = np.minimum(100 * rtol**2 * initial, _MOST_NOISE * to_learn)
    precision = np.maximum(course.converged * to_learn, noise)
    tolerance = each * NEVER if course.at_stops else precision
    resolution = course.resolution or SaveResolution()
    return Controls(
        stops=course.stops,
        at_stops=np.asarray(course.at_stops),
        rtol=np.asarray(rtol),
        most_steps=np.asarray(course.max_steps),
        most_samples=np.asarray(float(resolution.most)),
        rate_resolution=np.asarray(resolution.rate),
        loss_resolution=resolution.loss * np.where(initial > 0, initial, 1.0),
        atol=rtol * np.where(size > 0, size, 1.0) if method.atol is None else each * method.atol,
        loss_scale=np.full_like(size, silent)
        if silent > 0
        else np.where(initial > 0, initial, 1.0),
        loss_tolerance=tolerance,
        gain_tolerance=tolerance,
        learning_rate=rates,
        momentum=momentum,
    )
