"""Gradient flow: the one way a network is simulated in continuous time."""

import contextlib

import numpy as np
from jaxtyping import Float

from .._checks import real_number, whole_number
from .._objective import LossConvention
from .._precision import float64
from ..networks import AbstractNetwork
from ..networks._network import Network
from ..tasks import AbstractTask
from ._course import Course, Method
from ._implicit_solve import derivatives_per_solve
from ._logbook import SaveResolution
from ._observe import Observe
from ._rosenbrock import STAGES, rosenbrock_step
from ._runge_kutta import kinked_runge_kutta_step, runge_kutta_step
from ._simulate import OutOfPatience, begin, simulate
from ._stiffness import (
    IMPLICIT_RTOL,
    MOST_ROWS,
    Solver,
    explicit_steps_for_implicit,
    learns_by_units,
    prefers_implicit,
    rows_to_solve,
)
from ._trajectory import Trajectory
from ._worker import Progress

_SMOOTH, _KINKED = 1e-8, 1e-5  # default tolerances
_EXPLICIT_STAGES = 6


@float64
def gradient_flow(
    network: Network,
    task: AbstractTask,
    times: Float[np.ndarray, " time"] | None = None,
    *,
    t_end: float | None = None,
    loss: LossConvention = "half",
    solver: Solver = "automatic",
    rtol: float | None = None,
    atol: float | None = None,
    resolution: SaveResolution | None = None,
    observe: Observe | None = None,
    converged: float = 1e-9,
    max_steps: int = 50_000,
    progress: Progress | None = None,
) -> Trajectory[Network]:
    r"""Train by gradient flow, $\dot\theta = -\partial L/\partial\theta$, in float64.

    Without `times` the flow runs until it has converged, and samples lie densely where the loss
    moves. It is not taken in by saddles: a small gradient counts only against the largest one seen,
    and only where no direction of negative curvature leads away. A batch of networks (leading axes
    of the weights) runs in one compiled program, and other values never compile anew.

    **Arguments:**

    - `network`: the initial weights.
    - `task`: what is learned. For units with fixed features the cost does not depend on the number
      of samples.
    - `times`: exactly these, in increasing order; the flow then runs to the last of them.
    - `t_end`: latest time at which to stop.
    - `loss`: the loss convention, which sets the clock: `"half"` $\frac12\langle|y-f|^2\rangle$ by
      default, `"mean-square"`, `"mean-over-outputs"`, `"half-sum"` or `"sum-square"`.
    - `solver`: `"explicit"` steps (Dormand–Prince 5(4)), or `"implicit"` ones (Rodas 4(3), with the
      exact Hessian), whose number does not grow with the length of plateaus. `"automatic"` chooses
      implicit ones for a layer of units of lowest order two and more (quadratic, cubic, attention)
      that starts so small that explicit steps would cost more, or has taken more of them than
      implicit ones would cost; `solver` of the trajectory says which it was.
    - `rtol`, `atol`: error allowed per step, relative to each weight and absolute (`rtol` times the
      size of a typical initial weight by default). Leaving a saddle amplifies errors: the drop
      times move by about `rtol` over the rate of escape. `rtol` is 1e-8 by default. For implicit
      steps it is 1e-6, with which the drop times of a quadratic network are right to about 1e-6 of
      themselves. For units with a kink (ReLU) it is 1e-5, because other networks than those of
      theory slide along it: both sides push towards it and every step crosses it. There the
      tolerance is loosened step by step, up to √`rtol` but no more than 3e-3, and the ending says
      so.
    - `resolution`: how far loss or gradient must move before the next step is saved; no finer than
      the steps themselves, which follow from `rtol`. Ask for `times` where you need more. Of
      a loss that moves to and fro without end, after some two thousand samples (by default) only
      new lows are kept, and one sample whenever the time has grown by a hundredth.
    - `observe`: what to keep of the network at every sample instead of all its weights: a function
      from one network to an array, or a dictionary of such functions by name. The trajectory has
      `observed` then, and `final`, but no `network`. It is called for one sample after the other,
      which takes tens of microseconds each by NumPy and more by JAX: where all weights fit into
      memory, `network` is faster. With an empty dictionary, `{}`, there are losses and `final`
      alone, which is what to ask for of a hundred thousand seeds.
    - `converged`: training has converged when the loss is above its lowest possible value by less
      than this fraction of the initial loss, or of that of a network without output where large
      weights start higher (never less than 100 `rtol`² of the initial one, which is noise, up to a
      thousandth of what there is to learn), or when training as long again would gain no more. A
      flow that slides along kinks, where the gradient does not vanish, has converged when the loss
      changes by less than 1e-4 of itself, and no unit's weights by more than 1e-3 of theirs, while
      the time doubles. With `t_end`, a slide runs up to that time. Many slides never come to such a
      rest: without `t_end` they run out of steps, and the ending says when the loss came within 1 %
      of its last value.
    - `max_steps`: most steps for each network.
    - `progress`: called with words and the fraction done.

    **Returns:**

    A `festina.dynamics.Trajectory`: time (of the flow of this loss), loss, squared gradient and
    weights at each sample, `final` for the trained network. One that fails is a result as well:
    see its `endings`.
    """
    if not 0 < real_number("converged", converged) < 1:
        raise ValueError(f"`converged` must lie between 0 and 1, got {converged}.")
    if solver not in ("automatic", "explicit", "implicit"):
        raise ValueError(f"`solver` must be 'automatic', 'explicit' or 'implicit', got {solver!r}.")
    if rtol is not None and not 0 < real_number("rtol", rtol) < 0.1:
        raise ValueError(f"`rtol` must lie between 0 and 0.1, got {rtol}.")
    if atol is not None and not 0 < real_number("atol", atol) < np.inf:
        raise ValueError(f"`atol` must be positive and finite, got {atol}.")
    max_steps = whole_number("max_steps", max_steps)
    stops = _stops(times, t_end)

    asked = {"atol": atol, "t_end": t_end, "converged": converged if times is None else None}
    given = {name: value for name, value in asked.items() if value is not None}

    def flow(method: Method, patience: int | None = None, spent: int = 1) -> Trajectory[Network]:
        course = Course(
            stops=stops,
            resolution=(resolution or SaveResolution()) if times is None else None,
            converged=converged,
            max_steps=max_steps,
            observe=observe,
            progress=progress,
            patience=patience,
            spent=spent,
            settings={"rtol": method.rtol, "max_steps": max_steps, **given},
        )
        return simulate(beginning, method, course)

    beginning = begin(network, task, loss)
    problem, start = beginning.problem, beginning.start
    explicit, implicit = _methods(network, rtol, atol)
    rows = rows_to_solve(network, problem)
    if solver == "implicit" and rows > MOST_ROWS:
        raise ValueError(
            f"`solver` 'implicit' would invert a matrix of {rows} rows in every step. Use "
            "'explicit', fewer samples or a narrower network."
        )
    if solver == "implicit":
        return flow(implicit)
    if solver == "explicit" or rows > MOST_ROWS or not learns_by_units(network):
        return flow(explicit)
    if prefers_implicit(network, problem, start, implicit.rtol):
        return flow(implicit)
    patience = explicit_steps_for_implicit(network, problem, implicit.rtol)
    with contextlib.suppress(OutOfPatience):
        return flow(explicit, patience)
    return flow(implicit, spent=1 + _EXPLICIT_STAGES * patience)


def _methods(
    network: AbstractNetwork, rtol: float | None, atol: float | None
) -> tuple[Method, Method]:
    """By explicit steps, and by implicit ones."""
    explicit = Method(
        name="gradient flow",
        solver="explicit",
        step=kinked_runge_kutta_step if network.kinked else runge_kutta_step,
        evaluations=_EXPLICIT_STAGES,
        rtol=rtol or (_KINKED if network.kinked else _SMOOTH),
        atol=atol,
    )
    implicit = Method(
        name="gradient flow",
        solver="implicit",
        step=rosenbrock_step,
        evaluations=STAGES + derivatives_per_solve(network.structure),
        rtol=rtol or IMPLICIT_RTOL,
        atol=atol,
    )
    return explicit, implicit


def _stops(times: np.ndarray | None, t_end: float | None) -> np.ndarray:
    if times is None:
        if t_end is not None and not real_number("t_end", t_end) > 0:
            raise ValueError(f"`t_end` must be positive, got {t_end}.")
        return np.array([np.inf if t_end is None else float(t_end)])
    if t_end is not None:
        raise ValueError("Give `times` or `t_end`, not both: the flow ends at the last of `times`.")
    stops = np.atleast_1d(np.asarray(times, dtype=float))
    if stops.ndim != 1 or not len(stops) or not np.isfinite(stops).all():
        raise ValueError(f"`times` must be a list of finite numbers, got shape {stops.shape}.")
    if stops[0] < 0 or (np.diff(stops) <= 0).any():
        raise ValueError("`times` must increase and start at 0 or later.")
    return stops
