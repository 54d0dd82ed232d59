"""Gradient flow: simulate training in continuous time."""

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

    Without `times` the flow runs until it has converged. Samples are then dense where the loss
    changes quickly. A saddle does not count as converged: the gradient must be small compared with
    its largest value so far, and no direction of negative curvature may lead away. A batch of
    networks (leading axes of the weights) is trained by one compiled program.

    **Arguments:**

    - `network`: network with its initial weights, or a batch of networks.
    - `task`: task to learn. For units with fixed features the cost does not depend on the number of
      examples.
    - `times`: increasing times of the samples; the flow ends at the last time.
    - `t_end`: latest time, for a flow without `times`.
    - `loss`: loss convention, which sets the unit of time: `"half"` is
      $\frac12\langle|y-f|^2\rangle$. Further conventions are `"mean-square"`,
      `"mean-over-outputs"`, `"half-sum"` and `"sum-square"`; see `festina.dynamics.loss_formula`.
    - `solver`: `"explicit"` takes Dormand–Prince 5(4) steps. `"implicit"` takes Rodas 4(3) steps
      with the exact Hessian; their number does not grow with the length of plateaus. `"automatic"`
      chooses the cheaper solver and prefers explicit steps. `"automatic"` considers implicit steps
      only for a layer of units of order two or higher, such as quadratic units and attention heads.
    - `rtol`, `atol`: error allowed in each step, relative to each weight and absolute. The default
      `rtol` is 1e-8 for explicit steps and 1e-6 for implicit steps. The default `atol` is `rtol`
      times the size of a typical initial weight. Leaving a saddle amplifies errors: drop times
      change by about `rtol` divided by the escape rate. With units that have a kink (ReLU) the
      default `rtol` is 1e-5, because a trajectory can slide along a kink: the flow on both sides
      points to the kink, and every step crosses it. During a slide the tolerance rises step by step
      to at most the smaller of √`rtol` and 3e-3, and the run's `endings` report the increase.
    - `resolution`: change of loss or gradient between samples of a flow without `times`. Samples
      are at most as dense as the solver's steps. If the loss oscillates without end, then after
      some two thousand samples only new minima of the loss are saved, and one sample whenever the
      time has grown by 1 %.
    - `observe`: function from one network to an array, or a dictionary of such functions by name.
      The trajectory then stores the functions' values at every sample as `observed` instead of all
      weights, and has `final` but no `network`. Calling a function takes tens of microseconds for
      each sample with NumPy, and longer with JAX. An empty dictionary stores only losses and
      `final`, which saves memory for very many seeds.
    - `converged`: tolerance $c$ of convergence, relative to $L_0$. $L_0$ is the initial loss, or
      the loss of a network with zero output if that is smaller. Training has converged when the
      loss is within $cL_0$ of its lowest possible value, or when training for as long again would
      lower the loss by less than $cL_0$. For a loose `rtol`, $c$ is raised to the level of the
      solver's noise. A slide along a kink has converged when, while the time doubles, the loss
      changes by less than 1e-4 of itself and no unit's weights by more than 1e-3 of theirs. Many
      slides never converge in this sense: set `t_end` to end a slide.
    - `max_steps`: largest number of steps for each network.
    - `progress`: function that is called with a text and the fraction of the work that is done.

    **Returns:**

    A `festina.dynamics.Trajectory` with times, losses, squared gradients and weights of all
    samples, and the trained network as `final`. A failed run is returned as well, and its attribute
    `endings` gives the reason.

    **Example:**

    >>> import numpy as np
    >>> import festina
    >>> network = festina.networks.deep_linear_from([0.1 * np.eye(2), 0.1 * np.eye(2)])
    >>> task = festina.tasks.from_arrays(np.eye(2), np.diag([2.0, 1.0]))
    >>> run = festina.gradient_flow(network, task)
    >>> run.endings[0].reason
    'converged'
    >>> run.final.end_to_end().round(3)
    array([[2., 0.],
           [0., 1.]])
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
            f"`solver` 'implicit' would invert a matrix of {rows} rows in every step, and at most "
            f"{MOST_ROWS} rows are allowed. Use `solver='explicit'`, fewer samples or a narrower "
            "network."
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
    """Return the method with explicit steps and the method with implicit steps."""
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
