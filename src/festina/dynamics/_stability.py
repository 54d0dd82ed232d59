"""Learning rates that are too large: 2 / sharpness along the path of the flow."""

import numpy as np
from jaxtyping import Float

from .._objective import Objective
from ._curvature import extreme_curvatures
from ._drive import drive, initial_state
from ._logbook import SaveResolution
from ._program import NEVER, Controls, start
from ._runge_kutta import runge_kutta_step


def cause_of_divergence(
    problem: Objective, initial: Float[np.ndarray, " weight"], learning_rate: float, momentum: float
) -> str:
    """The likely one: a step beyond 2/sharpness of the path of the flow."""
    limit = stability_limit(problem, initial, momentum)
    if learning_rate > limit:
        return too_large(learning_rate, limit, momentum)
    return (
        f"The learning rate {learning_rate:g} is below the stability limit {limit:.3g} "
        "of the path that gradient flow takes, so that the cause is another."
    )


def too_large(learning_rate: float, limit: float, momentum: float) -> str:
    """In words."""
    return (
        f"The learning rate {learning_rate:g} is above the stability limit {limit:.3g} "
        f"({2 * (1 + momentum):g} / sharpness) of the path that gradient flow takes: use a smaller "
        "one."
    )


def stability_limit(
    problem: Objective, initial: Float[np.ndarray, " weight"], momentum: float
) -> float:
    """2 / sharpness where it is largest along the flow, from plateau to plateau and at its end.

    Of a heavy ball, 1 + μ times as much.
    """
    one, weights = np.ones(1), initial[:, None]
    at_start = start(weights, problem.data, structure=problem.structure)
    state = initial_state(weights, at_start)
    rtol = 1e-4
    resolution = SaveResolution()
    controls = Controls(
        stops=np.array([np.inf]),
        at_stops=np.asarray(False),
        rtol=np.asarray(rtol),
        most_steps=np.asarray(3000),
        most_samples=np.asarray(resolution.most),
        rate_resolution=np.asarray(resolution.rate),
        loss_resolution=resolution.loss * np.asarray(state.loss),
        atol=rtol * np.asarray(at_start.size),
        loss_scale=np.asarray(state.loss),
        loss_tolerance=1e-6 * np.asarray(state.loss),
        gain_tolerance=NEVER * one,
        learning_rate=one,
        momentum=0.0 * one,
    )
    never = lambda lane, state: False
    flow = drive(problem, state, controls, step=runge_kutta_step, goes_on=never, progress=None)
    path = flow.samples.weights[0]
    chosen = np.unique(np.linspace(0, len(path) - 1, 12).astype(int))
    sharpness = max(extreme_curvatures(problem.structure, path[i], problem.data)[1] for i in chosen)
    return 2.0 * (1.0 + momentum) / sharpness if sharpness > 0 else float("inf")


def restlessness(
    problem: Objective, weights: Float[np.ndarray, " weight"], learning_rate: float, momentum: float
) -> str:
    """That steps are too large for the valley here; nothing where they are not."""
    # Here and a step further: to and fro the valley is steeper on one side.
    here = weights[:, None]
    slope = start(here, problem.data, structure=problem.structure)
    there = here + learning_rate * np.asarray(slope.velocity)
    sides = np.concatenate((here, there), axis=1)
    if not np.isfinite(sides).all():
        return ""
    sharpness = max(
        extreme_curvatures(problem.structure, side, problem.data)[1] for side in sides.T
    )
    limit = 2.0 * (1.0 + momentum)
    if learning_rate * sharpness <= limit:
        return ""
    return (
        f"going up and down: {limit:g} / sharpness is {limit / sharpness:.3g} here, and the "
        f"learning rate {learning_rate:g} is above it. Use a smaller one."
    )
