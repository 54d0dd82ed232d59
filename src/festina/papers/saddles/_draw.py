"""A panel of Figure 1: the loss with predicted levels and drops, and the first-layer weights."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._style import PALE, THEORY, styled

if TYPE_CHECKING:
    from ._panel import Reading


@styled
def draw_panel(reading: "Reading") -> Figure:
    """Loss of every seed on top; below, the weights of one seed on the plateau and at the end."""
    shown = _shown_seed(reading)
    figure = Figure(figsize=(4.6, 5.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.15, 1))
    letter = reading.panel.name[-1].upper()
    figure.suptitle(f"{letter}   {reading.panel.title}", x=0.02, ha="left", weight="bold")
    _draw_loss(reading, shown, figure.add_subplot(grid[0, :]))
    has_plateau = int(reading.counts[shown]) > 2
    left = figure.add_subplot(grid[1, 0])
    right = figure.add_subplot(grid[1, 1])
    stages = (1, -1) if has_plateau else (-1,)
    limit = 1.2 * max(np.abs(_plane(reading.weights(shown, k)[0])).max() for k in stages)
    if has_plateau:
        _draw_weights(reading, shown, 1, left)
        left.set_title("on the plateau")
    else:
        left.set_axis_off()
        left.text(0.5, 0.5, "no intermediate\nplateau", ha="center", va="center")
    _draw_weights(reading, shown, -1, right)
    right.set_title("at the end")
    for ax in (left, right):
        ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    return figure


def _shown_seed(reading: "Reading") -> int:
    """The first seed with three plateaus, the first seed if there is none."""
    return int(reading.staircases[0]) if len(reading.staircases) else 0


def _draw_loss(reading: "Reading", shown: int, ax: Axes) -> None:
    simulation, theory = reading.simulation, reading.theory
    drops = reading.drops["step"].values
    drops = drops[np.isfinite(drops)]
    right = 1.25 * drops.max() if drops.size else float(simulation["step"].max())
    order = [seed for seed in range(reading.seeds) if seed != shown] + [shown]
    for seed in order:
        chosen = seed == shown
        label = "simulation"
        if reading.seeds > 1:
            label = f"seed {int(simulation['seed'][seed])}" if chosen else None
        upto = int(simulation["saves"][seed])
        ax.plot(
            # A seed that has converged stays where it is.
            np.append(
                simulation["step"][seed, :upto], max(right, simulation["step"][seed, upto - 1])
            ),
            np.append(simulation["loss"][seed, :upto], simulation["loss"][seed, upto - 1]),
            **PALE,
            color="C0" if chosen else "0.6",
            alpha=0.7 if chosen else 0.25,
            label=label,
        )
    for k, level in enumerate(theory["level"].values):
        ax.axhline(level, **THEORY, label="theory: levels" + _and_drops(theory) if k == 0 else None)
    if "drop_step" in theory:
        for step in theory["drop_step"].values[shown]:
            if np.isfinite(step):
                ax.axvline(step, **THEORY)
    if reading.seeds > 1:
        ax.plot([], [], **PALE, color="0.6", alpha=0.4, label=f"{reading.seeds - 1} other seeds")
    top = max(float(theory["level"][0]), float(simulation["loss"].max()))
    ax.set(xlim=(0, right), ylim=(-0.04 * top, 1.08 * top))
    ax.set(xlabel=_step_label(reading), ylabel=_loss_label(reading))
    # Below the line of the initial level.
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.93))


def _and_drops(theory) -> str:
    return ", drops" if "drop_step" in theory else ""


def _step_label(reading: "Reading") -> str:
    eta = reading.parameters.learning_rate
    if reading.parameters.method == "flow":
        return f"flow time in steps of η = {eta:g}"
    return f"gradient descent step (η = {eta:g})"


def _loss_label(reading: "Reading") -> str:
    return {
        "mean-square": "loss ⟨|y − f|²⟩",
        "mean-over-outputs": "loss, mean over outputs",
        "half": "loss ½⟨|y − f|²⟩",
    }[reading.parameters.loss]


def _draw_weights(reading: "Reading", seed: int, plateau: int, ax: Axes) -> None:
    u, _ = reading.weights(seed, plateau)
    points = _plane(u)
    ax.axhline(0, color="0.85", lw=0.8, zorder=0)
    ax.axvline(0, color="0.85", lw=0.8, zorder=0)
    if "ray_angle" in reading.theory:
        angles = np.radians(reading.theory["ray_angle"].values)
        for angle in angles if plateau < 0 else angles[:1]:
            ax.plot([0, 9 * np.cos(angle)], [0, 9 * np.sin(angle)], **THEORY)
    ax.plot(points[:, 0], points[:, 1], "o", color="black", ms=4, alpha=0.7, mew=0)
    name = "q" if u.ndim == 4 else "u"
    ax.set(xlabel=f"{name}₁", ylabel=f"{name}₂")


def _plane(u: np.ndarray) -> np.ndarray:
    """Two coordinates of every unit's first-layer weights: of a head, those of its query."""
    if u.ndim == 4:
        u = u[:, 1, 0, :]
    return u[:, :2] if u.shape[1] > 1 else np.pad(u, ((0, 0), (0, 1)))
