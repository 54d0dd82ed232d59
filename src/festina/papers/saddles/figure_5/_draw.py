"""A panel of Figure 5, drawn as one of Figure 1."""

from typing import TYPE_CHECKING

import numpy as np

from ..panels._draw import draw_panel, step_label
from ..panels._reading import Reading
from ._claims import nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_deep(reading: Reading, *, aligned: bool) -> "Figure":
    """Loss of every seed on top; below, weights of the one that rests nearest to the prediction."""
    distance, _ = nearest(reading.plateaus, float(reading.theory["level"][1]))
    shown = min(reading.staircases, key=lambda seed: distance[seed], default=None)
    label = step_label(reading)
    if aligned:
        _align(reading)
        label += ", from near the first drop"
    figure = draw_panel(reading, shown, "" if shown is None else " (nearest)")
    figure.axes[0].set_xlabel(label)
    return figure


def _align(reading: Reading) -> None:
    """Count steps of each seed from before its first drop, by as much as the drops are apart.

    A first plateau that is a hundred times longer than the second hides it.
    """
    drops = reading.drops["step"]
    first = drops.values[:, :1]
    lead = float(np.nanmax(drops.values[:, 1:] - first))
    reading.drops = reading.drops.assign(step=drops - first + lead)
    steps = reading.simulation["step"]
    reading.simulation = reading.simulation.assign_coords(step=steps - first + lead)
    # What theory says of the first drop is how long it takes, and that is not on this axis.
    reading.theory = reading.theory.drop_vars("drop_step", errors="ignore")
