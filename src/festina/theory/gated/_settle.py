"""A differential equation, integrated until it has converged."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import DOP853, LSODA

_NEVER = 1e15
_STILL, _GROWTH = 1e-6, 1e-3
_WITHIN = 4  # samples of a step

State = Float[np.ndarray, " n"]


def settle(
    velocity: Callable[[float, State], State],
    start: State,
    size: Callable[[State], Float[np.ndarray, " _"]],
    observe: Callable[[State], Any] = lambda y: y,
    *,
    rate: float,
    explicit: bool = False,
    rtol: float,
    atol: float,
) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "time *n"]]:
    """Return what is observed, until the last half of all time changed next to nothing.

    That is no `size` by 10⁻⁶ of the largest, or by 10⁻³ of itself if it grows: what is small has to
    be given its time. At the start nothing has changed yet, which is not meant. The `rate` at which
    it starts says what is long.
    """
    last = _NEVER / max(rate, 1e-280)
    solver = (DOP853 if explicit else LSODA)(velocity, 0.0, start, last, rtol=rtol, atol=atol)
    times, sizes, seen, changed = [0.0], [size(start)], [observe(start)], False
    while solver.status == "running":
        solver.step()
        if solver.status == "failed":
            raise RuntimeError(
                f"No step is small enough at time {solver.t:.4g}. Try a larger `rtol`."
            )
        within, last = solver.dense_output(), times[-1]
        for time in np.linspace(last, solver.t, _WITHIN + 1)[1:]:
            times.append(float(time))
            sizes.append(size(within(time)))
            seen.append(observe(within(time)))
        before, now = sizes[int(np.searchsorted(times, times[-1] / 2))], sizes[-1]
        moved = np.abs(now - before) > _STILL * now.max()
        if changed and not (moved | (now > (1 + _GROWTH) * before)).any():
            break
        changed = changed or bool((np.abs(now - sizes[0]) > _GROWTH * sizes[0]).any())
    return np.array(times), np.array(seen)
