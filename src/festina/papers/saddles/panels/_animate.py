"""Animate a panel: the loss with a moving dot, and the weights of every unit.

With frames at equal times, nothing would move most of the time. Frames are therefore equally spaced
along the path of the loss and the weights, so that all frames show the same amount of change. The
animation rests briefly on each plateau.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.animation import FuncAnimation
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ....experiments.figures import SIMULATION_STYLE, THEORY_STYLE, styled
from ._draw import labels, shown_seed, weight_axes
from ._reading import END, Reading

_MOVING = 110  # frames along the path
_REST = 9  # further frames on a plateau and at the end
_INTERVAL = 60  # milliseconds

_SIZE = (7.2, 3.3)
_LOSS = (0.085, 0.15, 0.42, 0.67)
_WEIGHTS = (0.625, 0.15, 0.67 * _SIZE[1] / _SIZE[0], 0.67)


@styled
def animate_panel(
    reading: Reading,
    title: str,
    drawn: Mapping[str, int],
    symbol: str,
) -> FuncAnimation:
    """Animate one seed of a panel, from its initial weights to the end of training."""
    seed = shown_seed(reading)
    step, loss, dots = _path(reading, seed, drawn)
    limit = 1.2 * np.abs(dots).max() or 1.0

    figure = Figure(figsize=_SIZE)
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.02, y=0.97, ha="left", weight="bold")
    curve, weights = figure.add_axes(_LOSS), figure.add_axes(_WEIGHTS)
    curve.plot(step, loss, color="0.85", lw=1)
    levels = reading.theory["level"].values
    for level in levels:
        curve.axhline(level, **THEORY_STYLE)
    top = max(levels[0], loss.max()) or 1.0
    curve.set(xlim=(0, step[-1] or 1.0), ylim=(-0.04 * top, 1.08 * top), **labels(reading))
    weight_axes(reading, END, limit, symbol, weights)
    weights.set_title("first-layer weights of every unit")
    (travelled,) = curve.plot([], [], **SIMULATION_STYLE, color="C0", alpha=0.7)
    (here,) = curve.plot([], [], "o", color="black", ms=6, mew=0)
    trails = weights.plot(*np.moveaxis(dots[:1], -1, 0), color="C0", lw=1, alpha=0.3)
    (units,) = weights.plot([], [], "o", color="black", ms=4, alpha=0.7, mew=0)
    clock = curve.set_title("", loc="right")
    clock_word = "t/η =" if reading.parameters.method == "flow" else "step"

    def show(frame: int) -> tuple[Artist, ...]:
        travelled.set_data(step[: frame + 1], loss[: frame + 1])
        here.set_data(step[frame : frame + 1], loss[frame : frame + 1])
        units.set_data(*dots[frame].T)
        for trail, way in zip(trails, np.moveaxis(dots[: frame + 1], 1, 0), strict=True):
            trail.set_data(*way.T)
        clock.set_text(f"{clock_word} {step[frame]:.0f}")
        return travelled, here, units, clock, *trails

    return FuncAnimation(figure, show, frames=len(step), interval=_INTERVAL, blit=False)


def _path(
    reading: Reading, seed: int, drawn: Mapping[str, int] = {}
) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, "frame unit 2"]]:
    """Return the step, loss and drawn weights of each frame."""
    step, loss = (part[seed] for part in reading.curves)
    drops = reading.drops["step"].values[seed]
    if np.isfinite(drops).all():
        # Stop soon after the drops: later only the last digits of the loss change.
        until = int(np.searchsorted(step, 1.25 * drops.max())) + 1
        step, loss = step[:until], loss[:until]
    u = reading.simulation["u"].isel(seed=seed, save=slice(len(step))).isel(drawn)
    dots = u.values[..., :2]
    flat = dots.reshape(len(step), -1)
    # Arc length along the path: the loss and the weights contribute half each.
    along = np.zeros(len(step))
    for part in (loss[:, None], flat):
        way = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(part, axis=0), axis=1)))
        along += way / max(way[-1], np.finfo(float).tiny)
    along /= along[-1] or 1.0

    frames = np.linspace(0.0, 1.0, _MOVING)
    rests = reading.plateaus["save"].values[seed, 1 : reading.counts[seed] - 1].astype(int)
    corners = along[rests[rests < len(along)]]
    frames = np.sort(np.concatenate((frames, np.repeat(np.append(corners, 1.0), _REST))))
    between = np.stack([np.interp(frames, along, column) for column in (step, loss, *flat.T)])
    return between[0], between[1], between[2:].T.reshape(-1, *dots.shape[1:])
