"""A panel of Figure 4: as one of Figure 1, with the weights after the first drop."""

from typing import TYPE_CHECKING

import numpy as np

from ...figures import PALE, THEORY, styled
from ..panels._draw import draw_panel
from ..panels._reading import Reading
from ._activations import formula

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def draw_other(reading: Reading, *, axes: tuple[str, str]) -> "Figure":
    """Loss of every seed on top; below, the weights of one seed after the first drop and last."""
    figure = draw_panel(reading)
    loss, after, _ = figure.axes
    if after.get_title():
        after.set_title("after the first drop")
    if chosen := getattr(reading.parameters, "activation", ""):
        words = f"{reading.panel.number}   {reading.panel.title}; here {formula(chosen)}"
        figure.suptitle(words, x=0.02, y=0.985, ha="left", weight="bold")
    if "width_one_level" in reading.theory:
        # The lowest of them is among the panel's three levels.
        for level in reading.theory["width_one_level"][reading.theory["width_one_minimum"]][1:]:
            loss.axhline(float(level), **THEORY)
    if axes[0] == "log":
        end = float(reading.simulation["step"].max()) or 1.0
        loss.set(xscale="log", xlim=(0.1, end))
    if axes[1] == "log":
        top, lowest = float(reading.theory["level"][0]), float(reading.simulation["loss"].min())
        loss.set(yscale="log", ylim=(0.5 * max(lowest, 1e-6 * top), 2 * top))
    if axes == ("log", "linear"):
        _magnify(reading, loss)
    return figure


def _magnify(reading: Reading, ax: "Axes") -> None:
    """The first drop, too small to be seen beside the others, on a scale of its own."""
    inset = ax.inset_axes((0.16, 0.3, 0.5, 0.42))
    for step, loss in zip(*(reading.simulation[n].values for n in ("step", "loss")), strict=True):
        inset.plot(np.maximum(step, 0.1), loss, **PALE, color="C0", alpha=0.7)
    above, below = (float(level) for level in reading.theory["level"][:2])
    for level in (above, below):
        inset.axhline(level, **THEORY)
    margin = 0.4 * (above - below)
    inset.set(xscale="log", xlim=ax.get_xlim(), ylim=(below - margin, above + margin))
    inset.set_title("the first drop", fontsize="small")
    inset.tick_params(labelsize="small")
