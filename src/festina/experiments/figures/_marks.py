"""Mark the axes of a figure, so that an SVG file says which values belong to its positions."""

import json

from matplotlib.axes import Axes
from matplotlib.figure import Figure

SCALES = ("linear", "log")


def mark_axes(figure: Figure) -> None:
    """Store the box and the limits of all axes in their SVG identifiers.

    The box is in the coordinates of the SVG file: points from the upper left corner. Axes are left
    unmarked if a scale is neither linear nor logarithmic.
    """
    height, points = figure.get_figheight() * 72, 72 / figure.dpi
    for ax in figure.axes:
        scales = (ax.get_xscale(), ax.get_yscale())
        if ax.name != "rectilinear" or not {*scales} <= {*SCALES} or not ax.axison:
            continue
        left, low, right, top = (float(edge) * points for edge in ax.bbox.extents)
        box = [round(edge, 2) for edge in (left, height - top, right, height - low)]
        limits = [_plain(ax, axis) for axis in "xy"]
        ax.set_gid("axes " + json.dumps({"box": box, "scales": scales, "limits": limits}))


def _plain(ax: Axes, axis: str) -> list[float]:
    return [float(f"{limit:.8g}") for limit in getattr(ax, f"get_{axis}lim")()]
