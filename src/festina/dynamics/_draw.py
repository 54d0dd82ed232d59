"""Plot the loss of a trajectory."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._axes import STEP, TIME, axes, label_loss, styled
from .._drops import resting
from .._objective import loss_formula

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._trajectory import Trajectory

_TRAINING = "training"
_MOST = 8  # largest number of names in a legend
_LINES = 400  # largest number of lines drawn, because more lines merge into a patch
_WIDE = 100.0  # ratio of times or losses above which an axis is logarithmic


def draw_loss(trajectory: "Trajectory", ax: "Axes | None", style: dict[str, Any]) -> "Axes":
    """Plot the loss of every network of a trajectory on `ax` or on new axes."""
    ax = axes(ax)
    clock = TIME if trajectory.learning_rate is None else STEP
    label_loss(ax, clock, loss_formula(trajectory.convention))
    names = [f"{_TRAINING}, {name}" if name else _TRAINING for name in _names(trajectory)]
    if "label" in style:
        names = [str(style["label"])] * len(names)
    colours = {name: f"C{k}" for k, name in enumerate(dict.fromkeys(names))}
    how: dict[str, Any] = (
        {"lw": 1.2, "alpha": 0.9} if len(names) <= _MOST else {"lw": 0.8, "alpha": 0.5}
    )
    unnamed = set(colours)
    fallen, levels, last = [], [], 0.0
    every = list(zip(np.ndindex(trajectory.batch_shape), names, strict=True))
    drawn = every[:: -(-len(every) // _LINES)]
    for index, name in drawn:
        one = trajectory.lane(*index)
        if not one.saves:  # the network failed before the first requested time
            continue
        label = name if name in unnamed else None
        unnamed.discard(name)
        ax.plot(one.time, one.loss, **{**styled(style, color=colours[name], **how), "label": label})
        half = one.time[np.argmax(one.loss <= (one.loss[0] + one.loss[-1]) / 2)]
        fallen += [half] if half > 0 else []
        levels += list(one.loss[resting(one.loss, one.squared_gradient)[:-1]])
        last = max(last, one.time[-1])
    if fallen and last > _WIDE * min(fallen):
        ax.set_xscale("log")
        ax.set_xlim(left=min(fallen) / 10)
    if levels and 0 < _WIDE * min(levels) < max(levels):
        # A loss that converges to zero would fill most of a logarithmic axis.
        ax.set_yscale("log")
        ax.set_ylim(bottom=max(min(levels) / _WIDE, ax.get_ylim()[0]))
    if set(ax.get_legend_handles_labels()[1]) - {_TRAINING}:
        some = f"{len(drawn)} of {len(every)} networks drawn" if len(drawn) < len(every) else None
        ax.legend(frameon=False, title=some)
    return ax


def _names(trajectory: "Trajectory") -> list[str]:
    """Return a name for each network: the labels in which the networks differ.

    If there are more than eight names, the seed is left out. If there are still more than eight,
    all networks share one name, because a legend of so many colours cannot be read.
    """
    batch = trajectory.batch_shape
    rates = {"learning rate": trajectory.learning_rate, "momentum": trajectory.momentum}
    given = {**trajectory.labels, **rates}.items()
    differ = {name: np.broadcast_to(each, batch) for name, each in given if each is not None}
    differ = {name: each for name, each in differ.items() if np.unique(each).size > 1}
    counted = {
        dim: np.broadcast_to(np.arange(n).reshape(-1, *(1,) * (len(batch) - axis - 1)), batch)
        for axis, (dim, n) in enumerate(zip(trajectory.dims, batch, strict=True))
        if not any((each != each.take([0], axis)).any() for each in differ.values())
    }
    names = _written(differ | counted, batch)
    if len(set(names)) > _MOST:
        names = _written({name: differ[name] for name in differ if name != "seed"}, batch)
    few = all(names) and len(set(names)) <= _MOST
    return names if few or not batch else [f"{len(names)} networks"] * len(names)


def _written(values: dict[str, np.ndarray], batch: Iterable[int]) -> list[str]:
    return [
        ", ".join(f"{name} {_text(each[index])}" for name, each in values.items())
        for index in np.ndindex(*batch)
    ]


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
