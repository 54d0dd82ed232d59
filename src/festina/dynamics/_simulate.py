"""What gradient flow and full-batch descent share: set-up, the run itself, the result."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._objective import Objective, objective
from ..networks import AbstractNetwork
from ..networks._past import Past
from ..tasks import AbstractTask
from ._course import Course, Method
from ._drive import drive, initial_state
from ._logbook import Logbook, SaveResolution
from ._observe import Observation
from ._program import NEVER, Controls, Start, State, start
from ._trajectory import Samples, Trajectory
from ._verdict import Verdict, first_status
from ._width import Widen, condense

_MOST_NOISE = 1e-3  # of what there is to learn


class OutOfPatience(Exception):
    """More than half of the networks of a batch take more steps than was thought worth while."""


class Beginning(NamedTuple):
    """Networks in front of their task."""

    network: Any  # as it was given
    loss: str
    widen: Widen  # to it, from the few units that learn the same
    problem: Objective
    weights: Float[np.ndarray, "weight lane"]
    start: Start


def begin(network: AbstractNetwork, task: AbstractTask, loss: str) -> Beginning:
    """Everything but steps; raises where network and task do not fit."""
    condensed, widen = condense(network)
    problem = objective(condensed, task, loss)
    weights = problem.structure.columns(*condensed.parts)
    at_start = start(weights, problem.data, structure=problem.structure)
    return Beginning(network, loss, widen, problem, weights, at_start)


def simulate(beginning: Beginning, method: Method, course: Course) -> Trajectory[Any]:
    """Run every network of a batch and put the samples into one `Trajectory`."""
    network, loss, widen, problem, initial, at_start = beginning
    observation = None if course.observe is None else Observation(course.observe, network)
    state = initial_state(initial, at_start)
    size = np.asarray(at_start.size)
    past = _recalled(network.past, state, size, method)
    state = state._replace(peak=past.peak, step_size=past.step_size)

    def note(lane: int, weights: Float[np.ndarray, "save weight"]) -> np.ndarray:
        assert observation is not None
        few = network.with_parts(*problem.structure.arrays(weights.T[:, None]))
        wide = widen(few, slice(lane, lane + 1))
        return observation.rows(jax.tree.map(lambda leaf: leaf[0], wide))

    controls = _controls(problem, np.asarray(state.loss), past, method, course)
    state = state._replace(status=first_status(problem, state, controls, size))
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
        goes_on=verdict.goes_on,
        progress=course.progress,
        watch=None if course.patience is None else watch,
        note=None if observation is None else note,
        keeps_weights=course.observe != {},
    )
    samples, saves = book.samples, book.samples.saves.copy()
    time, losses, rate = samples.numbers()
    batch, longest = network.batch_shape, time.shape[1]
    over = (*batch, longest)
    observed = {} if observation is None else observation.of(samples, batch)
    if course.at_stops:  # the axis is the one asked for, also beyond where a lane broke off
        time = np.broadcast_to(course.stops[:longest], over).copy()
        broke_off = saves[:, None] <= np.arange(longest)
        losses[broke_off] = rate[broke_off] = np.nan
    sampled = np.asarray(book.sampled)
    last = sampled if saves.all() else np.where(saves > 0, sampled, np.nan)
    known = samples if observation is None else None
    return Trajectory(
        time=time.reshape(over),
        loss=(losses + problem.floor if problem.floor else losses).reshape(over),
        squared_gradient=rate.reshape(over),
        weights=Samples(network, problem.structure, widen, known, last.T[:, None]),
        saves=saves.reshape(batch),
        endings=verdict.endings(book.last, book.initial, time.reshape(losses.shape), losses, saves),
        floor=problem.floor,
        evaluations=(1 + method.evaluations * book.steps).reshape(batch),
        convention=loss,
        method=method.name,
        solver=method.solver,
        learning_rate=method.learning_rate,
        momentum=method.momentum,
        shared_times=course.at_stops,
        observed=observed,
        losses_alone=course.observe == {},
        labels=network.labels,
        past=_past(past, book.last, controls).over(batch),
    )


def _recalled(
    past: Past | None, state: State, size: Float[np.ndarray, " lane"], method: Method
) -> Past:
    """What networks remember of this task; of those that do not, what they start with."""
    loss, rate = np.asarray(state.loss), np.asarray(state.rate)
    none = np.zeros(loss.shape)
    fresh = Past(loss, rate, none, rate, loss, size, np.asarray(state.step_size), method.solver)
    if past is None:
        return fresh
    past = past.flat()
    same = past.ends_at(loss, rate)
    if past.solver != method.solver:
        past = past._replace(step_size=fresh.step_size)
    pairs = zip(past[:-1], fresh[:-1], strict=True)
    return Past(*(np.where(same, *pair) for pair in pairs), solver=method.solver)


def _past(before: Past, last: State, controls: Controls) -> Past:
    """What training leaves for the next."""
    return before._replace(
        loss=last.loss,
        squared_gradient=last.rate,
        elapsed=before.elapsed + last.time * controls.speed,
        peak=last.peak,
        step_size=last.step_size,
    )


def _controls(
    problem: Objective, now: Float[np.ndarray, " lane"], past: Past, method: Method, course: Course
) -> Controls:
    """What a method and a course come to for weights of this size."""
    size, initial = past.initial_size, past.initial_loss
    each, rtol, rates = np.ones(len(size)), method.rtol, method.learning_rate
    momentum = 0.0 * each if method.momentum is None else method.momentum.reshape(-1)
    rates = each if rates is None else rates.reshape(-1).astype(float)
    # Large weights may start far above the loss of a network that computes nothing, which is then
    # what there is to learn. And weights known to a relative error rtol leave a loss of order rtol²
    # that no step can remove; where that is much of what there is to learn, nothing has converged.
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
        loss_resolution=resolution.loss * np.where(now > 0, now, 1.0),
        atol=rtol * np.where(size > 0, size, 1.0) if method.atol is None else each * method.atol,
        loss_scale=np.full_like(size, silent)
        if silent > 0
        else np.where(initial > 0, initial, 1.0),
        loss_tolerance=tolerance,
        gain_tolerance=tolerance,
        learning_rate=rates,
        elapsed=past.elapsed * (1.0 - momentum) / rates,
        momentum=momentum,
    )
