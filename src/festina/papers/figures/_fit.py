"""Fit a figure to another page, such as a slide."""

import math
import re
import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox

from ._sheet import BESIDE
from ._style import styled

_GAIN = 1.1
"""Rows of unequal length must make panels larger by this factor."""
_LARGE = 0.35
"""A legend that is higher than this part of its axes stands beside them."""
_WIDE = 3.4
"""Inches that axes and a legend beside them need."""
_ROUNDS = 6


@styled
def fit(figure: Figure, width: float | int, height: float | int) -> None:
    """Resize a figure to `width` × `height` inches and move panels and legends to fit the page.

    Panels that stand in one row are spread over several rows if that makes them larger. Titles and
    labels that are longer than their axes are broken into lines. A legend inside its axes moves to
    a place that covers no data. If there is none, the axes get room for it at the top, or the
    legend moves to their right if there are not too many columns.
    """
    rows = _rows(figure, width, height)
    figure.set_size_inches(width, height)
    if len(rows) > 1:
        columns = math.lcm(*map(len, rows))
        grid = figure.add_gridspec(len(rows), columns)
        for k, panels in enumerate(rows):
            span = columns // len(panels)
            for j, ax in enumerate(panels):
                ax.set_subplotspec(grid[k, span * j : span * (j + 1)])
    inside = [ax for ax in figure.axes if _is_inside(ax)]
    for ax in inside:
        _legend(ax).set_loc("best")
    raised = set[Axes]()
    for _ in range(_ROUNDS):
        figure.draw_without_rendering()
        _wrap(figure)
        figure.draw_without_rendering()
        covering = [ax for ax in inside if covers_data(ax)]
        if not covering:
            return
        # A legend that moves to the right leaves less room to all others.
        for ax in covering:
            if ax not in raised and _raise(ax):
                raised.add(ax)
                continue
            inside.remove(ax)
            spec = ax.get_subplotspec()
            if spec is not None and width * len(spec.colspan) / spec.get_gridspec().ncols > _WIDE:
                _put_beside(ax)
            else:
                _legend(ax).get_frame().set_alpha(0.5)


def covers_data(ax: Axes) -> bool:
    """Whether the legend of drawn axes is wider than these or lies on something drawn there."""
    box = _legend(ax).get_window_extent()
    if box.width > ax.bbox.width:
        return True
    for line in ax.lines:
        path = line.get_transform().transform_path(line.get_path())
        if np.size(path.vertices) and path.intersects_bbox(box, filled=False):
            return True
    images = [child for child in ax.get_children() if isinstance(child, AxesImage)]
    boxes = [each.get_window_extent() for each in (*ax.patches, *images)]
    points = [each.get_offset_transform().transform(each.get_offsets()) for each in ax.collections]
    return any(Bbox.intersection(box, each) for each in boxes) or any(
        box.count_contains(np.asarray(each)) for each in points if np.size(each)
    )


def _legend(ax: Axes) -> Legend:
    legend = ax.get_legend()
    assert legend is not None, "only axes with a legend are looked at"
    return legend


def _is_inside(ax: Axes) -> bool:
    legend = ax.get_legend()
    return legend is not None and legend.get_bbox_to_anchor() is ax.bbox


def _raise(ax: Axes) -> bool:
    """Raise the upper limit of axes by the height of their legend, unless that is too large."""
    box = _legend(ax).get_window_extent()
    part = box.height / ax.bbox.height + 0.03
    if part > _LARGE or box.width > ax.bbox.width:
        return False
    scale = ax.yaxis.get_transform()
    low, high = scale.transform(ax.get_ylim())
    ax.set_ylim(top=float(scale.inverted().transform(low + (high - low) / (1 - part))))
    return True


def _put_beside(ax: Axes) -> None:
    legend = _legend(ax)
    words, title = [text.get_text() for text in legend.get_texts()], legend.get_title().get_text()
    handles = [handle for handle in legend.legend_handles if handle is not None]
    ax.legend(handles, words, title=title or None, **BESIDE)


def _wrap(figure: Figure) -> None:
    """Break titles and labels that are longer than their axes into lines."""
    for ax in figure.axes:
        across, up = 1.1 * ax.bbox.width, 1.1 * ax.bbox.height
        for text, room in ((ax.title, across), (ax.xaxis.label, across), (ax.yaxis.label, up)):
            box, words = text.get_window_extent(), text.get_text()
            long = (box.height if text is ax.yaxis.label else box.width) / room
            if long > 1:
                longest = max(map(len, words.split("\n")))
                whole = re.sub(r"\$.*?\$", lambda math: math[0].replace(" ", "\0"), words)
                lines = textwrap.wrap(whole, max(14, int(longest / long)), break_long_words=False)
                text.set_text("\n".join(lines).replace("\0", " "))


def _rows(figure: Figure, width: float | int, height: float | int) -> list[list[Axes]]:
    """Panels by row, those of one row over several if that makes them larger."""
    placed = {ax: spec for ax in figure.axes if (spec := ax.get_subplotspec()) is not None}
    grids = {spec.get_gridspec() for spec in placed.values()}
    shared = any(
        len(axes.get_siblings(ax)) > 1
        for ax in placed
        for axes in (ax.get_shared_x_axes(), ax.get_shared_y_axes())
    )
    if len(grids) != 1 or shared or next(iter(grids)).nrows > 1:
        return []
    count, (w, h) = len(placed), figure.get_size_inches()

    def size(rows: int) -> float:
        """Of the smallest panel, in units of the one it was designed to be."""
        even = 1.0 if count % rows == 0 else 1 / _GAIN
        return even * min(width * count / (w * math.ceil(count / rows)), height / (h * rows))

    rows = max(range(1, count + 1), key=size)
    few, more = divmod(count, rows)
    panels = iter(placed)
    return [[next(panels) for _ in range(few + (k >= rows - more))] for k in range(rows)]
