"""Draw a panel: the loss with predicted levels and drops, and the first-layer weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ....experiments.figures import GUIDE_STYLE, SIMULATION_STYLE, THEORY_STYLE, styled
from ._reading import END, PLATEAU, Reading

# All panels have the same layout, fixed here in inches. Constrained layout would take as long as
# the rest of drawing.
_SIZE = (4.7, 5.2)
_LOSS = (0.76, 2.74, 3.70, 1.76)
_ON_PLATEAU = (0.76, 0.5, 1.5, 1.5)
_AT_END = (2.96, 0.5, 1.5, 1.5)


@styled
def draw_panel(
    reading: Reading,
    title: str,
    drawn: Mapping[str, int] = {},
    symbol: str = "first-layer weight u",
    *,
    shown: int | None = None,
    because: str = "",
) -> Figure:
    """Plot the loss of every seed, and the weights of one seed on the plateau and at the end.

    `shown` is the index of the seed whose weights are plotted, by default that of `shown_seed`.
    `because` is added to the label of that seed.
    """
    shown = shown_seed(reading) if shown is None else shown
    figure = Figure(figsize=_SIZE)
    figure.suptitle(title, x=0.02, y=0.985, ha="left", weight="bold")
    loss, on_plateau, at_end = (
        figure.add_axes(tuple(np.array(place) / (*_SIZE, *_SIZE)))
        for place in (_LOSS, _ON_PLATEAU, _AT_END)
    )
    _draw_loss(reading, shown, because, loss)
    stages = {PLATEAU: on_plateau, END: at_end}
    if reading.counts[shown] < 3:
        del stages[PLATEAU]
        on_plateau.set_axis_off()
        on_plateau.text(0.5, 0.5, "no intermediate\nplateau", ha="center", va="center")
    # Two coordinates of every unit's first-layer weights.
    dots = {k: reading.weights(shown, k)[0].isel(drawn).values[:, :2] for k in stages}
    limit = 1.2 * max(np.abs(each).max() for each in dots.values()) or 1.0
    for stage, ax in stages.items():
        weight_axes(reading, stage, limit, symbol, ax)
        ax.plot(*dots[stage].T, "o", color="black", ms=4, alpha=0.7, mew=0)
        ax.set_title("at the end" if stage == END else "on the plateau")
    return figure


def shown_seed(reading: Reading) -> int:
    """Return the first seed with the most common number (≥ 3) of plateaus, else seed 0."""
    rested = reading.counts[reading.counts >= 3]
    return int(np.argmax(reading.counts == np.bincount(rested).argmax())) if rested.size else 0


def _draw_loss(reading: Reading, shown: int, because: str, ax: Axes) -> None:
    steps, losses, levels = *reading.curves, reading.theory["level"].values
    right, scale = _span(reading)
    stays = _stays(reading)
    for seed in sorted(range(reading.seeds), key=lambda seed: seed == shown):
        step, loss = steps[seed], losses[seed]
        if stays[seed]:
            step, loss = np.append(step, max(right, step[-1])), np.append(loss, loss[-1])
        here = {"color": "C0", "alpha": 0.7} if seed == shown else {"color": "0.6", "alpha": 0.25}
        ax.plot(step, loss, **SIMULATION_STYLE, **here)
    label = f"seed {reading.names[shown]}{because}" if reading.seeds > 1 else "simulation"
    ax.lines[-1].set_label(label)
    if others := reading.seeds - 1:
        words = f"{others} other seed" + "s" * (others > 1)
        ax.plot([], [], **SIMULATION_STYLE, color="0.6", alpha=0.4, label=words)
    drops = reading.theory.get("drop_step")
    lines = [ax.axhline(level, **THEORY_STYLE) for level in levels]
    falls = [] if drops is None else drops.values[shown][np.isfinite(drops.values[shown])]
    marked = ("", ", first drop", ", drops")[min(len(falls), 2)]
    of = f" of seed {reading.names[shown]}" if len(falls) and reading.seeds > 1 else ""
    lines[0].set_label(f"theory: levels{marked}{of}")
    for step in falls:
        ax.axvline(step, **THEORY_STYLE)
    if "ray_angle" in reading.theory:
        ax.plot([], [], **THEORY_STYLE, label="theory, below: directions of u")
    # A diverging seed may leave the axes at the top; its last losses would hide everything else.
    top = max(levels[0], *(losses[k].max() for k in np.flatnonzero(reading.trained))) or 1.0
    left = 0 if scale == "linear" else min(1.0, 0.01 * right)
    ax.set(xscale=scale, xlim=(left, right), ylim=(-0.04 * top, 1.08 * top), **labels(reading))
    loss_legend(ax)


def loss_legend(ax: Axes) -> None:
    """Add a legend above the axes of the loss: inside, some curve always passes behind it."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.12, 1.04), "ncols": 2}
    ax.legend(**place, borderaxespad=0.0, borderpad=0.2, columnspacing=1.0, handlelength=1.6)


def _span(reading: Reading) -> tuple[float, str]:
    """Return the right end of the step axis and its scale.

    The axis ends a little after the last drop, because later only the last digits of the loss
    change. An unconverged seed whose loss exceeds the lowest level in the second half of training
    is shown to its end. The scale is logarithmic if the end of the axis is far from the last drop.
    """
    levels, drops = reading.theory["level"].values, reading.drops["step"].values
    drops, ends = drops[np.isfinite(drops)], np.array([step[-1] for step in reading.curves[0]])
    beyond = 1.02 * ends  # leaves a gap after the end of a curve
    if not drops.size:
        return float(beyond.max()) or 1.0, "linear"
    right = 1.25 * drops.max()
    curves = zip(*reading.curves, strict=True)
    late = np.array([loss[step >= step[-1] / 2].max() for step, loss in curves])
    stays = _stays(reading)
    above = ~stays & (late > levels[-1] + 0.01 * (levels[0] - levels[-1]))
    right = beyond[above].max(initial=right)
    if not stays.any():
        right = min(right, beyond.max())
    return float(right), "log" if right > 20 * drops.max() else "linear"


def _stays(reading: Reading) -> np.ndarray:
    """Return which seeds would stay where they ended under further training."""
    return np.isin(reading.simulation["ending"].values, ("converged", "stationary", "saddle"))


def labels(reading: Reading) -> dict[str, str]:
    """Return the labels of the step and loss axes for the loss convention of the run."""
    eta = f"η = {reading.parameters.learning_rate:g}"
    losses = {
        "mean-square": "loss ⟨|y − f|²⟩",
        "mean-over-outputs": "loss, mean over outputs",
        "half": "loss ½⟨|y − f|²⟩",
    }
    steps = {"flow": f"gradient-flow time t/η ({eta})", "descent": f"gradient descent step ({eta})"}
    return {"xlabel": steps[reading.parameters.method], "ylabel": losses[reading.parameters.loss]}


def weight_axes(reading: Reading, stage: int, limit: float, symbol: str, ax: Axes) -> None:
    """Set up axes for the first-layer weights of every unit, with the predicted rays."""
    ax.axhline(0, **GUIDE_STYLE)
    ax.axvline(0, **GUIDE_STYLE)
    if "ray_angle" in reading.theory:
        angles = np.radians(reading.theory["ray_angle"].values)
        for angle in angles if stage == END else angles[:1]:
            ax.plot([0, 2 * limit * np.cos(angle)], [0, 2 * limit * np.sin(angle)], **THEORY_STYLE)
    # Equal limits and equal ticks along both axes.
    ticks = np.asarray(MaxNLocator(4, steps=(1, 2, 5, 10)).tick_values(-limit, limit))
    same = {"lim": (-limit, limit), "ticks": ticks[np.abs(ticks) <= limit]}
    ax.set(**{f"{axis}{name}": value for axis in "xy" for name, value in same.items()})
    ax.set(xlabel=f"{symbol}₁", ylabel=f"{symbol}₂", aspect="equal")
    ax.yaxis.labelpad = 1  # leaves room for tick labels such as −0.25
