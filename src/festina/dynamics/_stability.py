"""Detect learning rates above 2 / sharpness along the path of gradient flow."""

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
    """Return a text that says whether training diverged because the learning rate is too large."""
    limit = stability_limit(problem, initial, momentum)
    if learning_rate > limit:
        return too_large(learning_rate, limit, momentum)
    return (
        f"The learning rate {learning_rate:g} is below the stability limit {limit:.3g} "
        "of the path of gradient flow, so training diverged for another reason."
    )


def too_large(learning_rate: float, limit: float, momentum: float) -> str:
    """Return a text that compares a learning rate with its stability limit."""
    return (
        f"The learning rate {learning_rate:g} is above the stability limit {limit:.3g} "
        f"({2 * (1 + momentum):g} / sharpness) of the path of gradient flow. Use a smaller "
        "learning rate."
    )


def stability_limit(
    problem: Objective, initial: Float[np.ndarray, " weight"], momentum: float
) -> float:
    """Return (2 + 2μ) / sharpness for the largest sharpness along the path of gradient flow.

    The sharpness is computed at twelve samples of the flow, μ is the momentum.
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
    """Return a text if steps are too large for the sharpness at these weights, or `""`."""
    # Check both ends of an oscillation, because one side of the valley is steeper.
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
        f"but the loss goes up and down: {limit:g} / sharpness is {limit / sharpness:.3g} here, "
        f"and the learning rate {learning_rate:g} is larger. Use a smaller learning rate."
    )
