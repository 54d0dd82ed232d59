"""Integrate a differential equation until it converges."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import DOP853, LSODA

_NEVER = 1e15
_STILL, _GROWTH = 1e-6, 1e-3
_WITHIN = 4  # samples in each step

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
    """Return times and observations until the second half of the elapsed time changes little.

    "Changes little" means that no `size` changes by more than 10⁻⁶ of the largest size, and no
    `size` grows by more than 10⁻³ of itself, because small sizes need time to grow. The test begins
    after the first change from the start. `rate` is the initial rate of change, and its inverse
    sets the longest time.
    """
    last = _NEVER / max(rate, 1e-280)
    solver = (DOP853 if explicit else LSODA)(velocity, 0.0, start, last, rtol=rtol, atol=atol)
    times, sizes, seen, changed = [0.0], [size(start)], [observe(start)], False
    while solver.status == "running":
        solver.step()
        if solver.status == "failed":
            raise RuntimeError(
                f"The integrator failed at time {solver.t:.4g}: no step is small enough. Try a "
                "larger `rtol`."
            )
        within, last = solver.dense_output(), times[-1]
        for time in np.linspace(last, solver.t, _WITHIN + 1)[1:]:
            state = within(time)
            times.append(float(time))
            sizes.append(size(state))
            seen.append(observe(state))
        before, now = sizes[int(np.searchsorted(times, times[-1] / 2))], sizes[-1]
        moved = np.abs(now - before) > _STILL * now.max()
        if changed and not (moved | (now > (1 + _GROWTH) * before)).any():
            break
        changed = changed or bool((np.abs(now - sizes[0]) > _GROWTH * sizes[0]).any())
    return np.array(times), np.array(seen)
