"""Fit a figure to its page, so that texts do not overlap and legends do not hide data."""

import itertools
import math
import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter
from matplotlib.transforms import Bbox

from ._panels import APART, BESIDE
from ._style import styled

_GAIN = 1.1
"""Factor by which rows of unequal length must enlarge panels to be preferred."""
_LARGE = 0.35
"""Largest fraction of the height of axes that is cleared for a legend."""
_NARROW = 0.3
"""Width, as a fraction of the axes, below which a legend without title may be beside them."""
_PLACES = {
    1: (1.0, 1.0),
    2: (0.0, 1.0),
    9: (0.5, 1.0),
    4: (1.0, 0.0),
    3: (0.0, 0.0),
    8: (0.5, 0.0),
    7: (1.0, 0.5),
    6: (0.0, 0.5),
    10: (0.5, 0.5),
}
"""Matplotlib's codes of legend positions with their relative coordinates, best position first."""
_FORMULA = r"\$.*?\$"
_SMALLEST = 7.0
"""Font size in points of tick labels that would touch at their own size."""
_ROUNDS = 8
_WIDER = 1.4
"""Factor by which the aspect of a page must exceed that of a figure to turn rows into columns."""
_SLIDE_WIDTHS = (7.2, 8.5, 10.0, 12.0)
"""Widths in inches of the pages that are tried for a slide."""
_SMALLEST_PANEL = (0.9, 0.6)
"""Smallest width and height in inches of a panel with curves on a slide."""
_SLACK = 0.02
"""Inches by which lines may reach over the edge of a page."""


@styled
def fit_to_page(figure: Figure, width: float | int, height: float | int) -> None:
    """Resize a figure, and move panels and legends so that all texts and data stay visible.

    A single row of panels is split into several rows if this enlarges the panels. Titles and labels
    that are longer than their axes are broken into lines. Tick labels that touch are broken at
    spaces, made smaller or tilted if they are words; every second number is removed.

    A legend that covers data moves to a free corner of its axes. If no corner is free, the axes get
    more room at the top, or the legend moves to the right of the axes or below all panels.

    **Arguments:**

    - `figure`: figure to change.
    - `width`, `height`: new size in inches.

    **Example:**

    >>> from festina.experiments.figures import fit_to_page, panels
    >>> figure, axes = panels("Three panels", 3)
    >>> fit_to_page(figure, 4.0, 9.0)
    >>> [ax.get_subplotspec().rowspan.start for ax in axes]
    [0, 1, 2]
    """
    if not np.allclose(figure.get_size_inches(), (width, height)):
        _release(figure, width / height)
        rows = _rows(figure, width, height)
        figure.set_size_inches(width, height)
        if len(rows) > 1:
            columns = math.lcm(*map(len, rows))
            grid = figure.add_gridspec(len(rows), columns)
            for k, panels in enumerate(rows):
                span = columns // len(panels)
                for j, ax in enumerate(panels):
                    ax.set_subplotspec(grid[k, span * j : span * (j + 1)])
        _say_once(figure)
    tops = dict[Axes, float]()
    for _ in range(_ROUNDS):
        _lay_out(figure)
        changes = [_wrap(figure), _part_ticks(figure), _narrow_legends(figure)]
        changes += [_uncover(ax, figure, tops) for ax in figure.axes if covers_data(ax)]
        if not any(changes):
            break
    for ax, top in tops.items():
        low, high = sorted((ax.get_ylim()[0], top))
        for minor in (False, True):
            ticks = [y for y in ax.get_yticks(minor=minor) if low <= y <= high]
            ax.set_yticks(ticks, minor=minor)
    if tops:
        _lay_out(figure)


def fit_to_slide(draw: Callable[[], Figure]) -> Figure:
    """Draw a figure for a slide of format 16:9, with the largest text that leaves room for panels.

    Text is largest on the smallest page, because a slide is as wide as the screen whatever the
    width of its page in inches.

    **Arguments:**

    - `draw`: function that draws the figure, called once for each page that is tried.

    **Returns:**

    The figure, fitted to a page 7.2 to 12 inches wide.

    **Example:**

    >>> from festina.experiments.figures import fit_to_slide, panels
    >>> figure = fit_to_slide(lambda: panels("Two panels", 2)[0])
    >>> figure.get_size_inches()
    array([7.2 , 4.05])
    """
    pages = iter(_SLIDE_WIDTHS)
    figure = _on_slide(draw(), next(pages))
    for width in pages:
        if has_room(figure):
            break
        figure = _on_slide(draw(), width)
    return figure


def _on_slide(figure: Figure, width: float) -> Figure:
    fit_to_page(figure, width, 9 / 16 * width)
    return figure


def has_room(figure: Figure) -> bool:
    """Return whether nothing is cut off, no panel reaches into another, and none is tiny."""
    drawn, page = figure.get_tightbbox(), figure.bbox_inches
    low, high = np.subtract(drawn.min, page.min), np.subtract(page.max, drawn.max)
    whole = min(*low, *high) >= -_SLACK
    placed = [ax for ax in figure.axes if ax.get_subplotspec() is not None and ax.axison]
    boxes = [box.padded(-1) for ax in placed if (box := ax.get_tightbbox()) is not None]
    apart = not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    curves = [np.divide(ax.bbox.size, figure.dpi) for ax in placed if ax.get_aspect() == "auto"]
    return bool(whole) and apart and all((size >= _SMALLEST_PANEL).all() for size in curves)


def _lay_out(figure: Figure) -> None:
    if (engine := figure.get_layout_engine()) is None:
        figure.draw_without_rendering()
    else:
        engine.execute(figure)


def covers_data(ax: Axes) -> bool:
    """Return whether a legend inside drawn axes hides data or is too wide."""
    legend = ax.get_legend()
    if legend is None:
        return False
    box = legend.get_window_extent()
    inside = bool(ax.bbox.padded(-3).overlaps(box))
    return inside and (bool(box.width > ax.bbox.width) or _hides(ax, box))


def _hides(ax: Axes, box: Bbox) -> bool:
    """Return whether a box overlaps anything that was drawn into axes."""
    point = ax.figure.dpi / 72
    for line in filter(_is_seen, ax.lines):
        path = line.get_transform().transform_path(line.get_path())
        if line.get_linestyle() != "None":
            near = box.padded(point * line.get_linewidth() / 2)
            if np.size(path.vertices) and path.intersects_bbox(near, filled=False):
                return True
        if line.get_marker() != "None":
            near = box.padded(point * line.get_markersize() / 2)
            if near.count_contains(np.asarray(path.vertices)):
                return True
    if any(_is_under(each, box, point) for each in filter(_is_seen, ax.collections)):
        return True
    others = (*ax.texts, *ax.patches, *ax.images, *ax.child_axes)
    return any(
        Bbox.intersection(box, each.get_window_extent()) for each in filter(_is_seen, others)
    )


def _is_under(drawn: Collection, box: Bbox, point: float) -> bool:
    if isinstance(drawn, PathCollection):
        where = drawn.get_offset_transform().transform(np.ma.filled(drawn.get_offsets(), np.nan))
        size = np.sqrt(np.max(drawn.get_sizes(), initial=0.0))
        return bool(box.padded(point * size / 2).count_contains(where))
    change, filled = drawn.get_transform(), not isinstance(drawn, LineCollection)
    paths = map(change.transform_path, drawn.get_paths())
    return any(path.intersects_bbox(box, filled) for path in paths if np.size(path.vertices))


def _is_seen(artist: Any) -> bool:
    return artist.get_visible() and (
        not isinstance(artist, Text) or artist.get_text().strip() != ""
    )


def _uncover(ax: Axes, figure: Figure, tops: dict[Axes, float]) -> bool:
    """Uncover the data below a legend; `tops` are upper limits of axes before they were raised."""
    legend = ax.get_legend()
    assert legend is not None, "`covers_data` has found it"
    box = legend.get_window_extent()
    for remedy in (_move, _raise):
        for columns in range(1, 1 + len(legend.get_texts())):
            if remedy(ax, _again(legend, ax, ncols=columns), tops):
                return True
    if legend.get_title().get_text() or box.width < _NARROW * ax.bbox.width:
        _again(legend, ax, **BESIDE)
        return True
    _again(legend, ax).remove()
    ax.set_ylim(top=tops.pop(ax, None))
    below = [each for each in figure.legends if _is_low(each, figure)]
    entries = dict(_entries(legend, ax))
    for each in below:
        entries = dict(_entries(each, figure)) | entries
        each.remove()
    figure.legend([*entries.values()], [*entries], loc="outside lower left", ncols=len(entries))
    return True


def _move(ax: Axes, legend: Legend, _: dict[Axes, float]) -> bool:
    """Move a legend to a free position in its axes; return whether there was one."""
    box = legend.get_window_extent()
    pad = legend.borderaxespad * legend.prop.get_size_in_points() * ax.figure.dpi / 72
    room = ax.bbox.padded(-pad)
    free = room.width - box.width, room.height - box.height
    for code, (x, y) in _PLACES.items() if min(free) > 0 else ():
        corner = room.x0 + x * free[0], room.y0 + y * free[1]
        if not _hides(ax, Bbox.from_bounds(*corner, box.width, box.height)):
            legend.set_loc(code)
            return True
    return False


def _raise(ax: Axes, legend: Legend, tops: dict[Axes, float]) -> bool:
    """Raise the upper limit of axes to make room for their legend, unless it is too high."""
    box, together = legend.get_window_extent(), ax.get_shared_y_axes().get_siblings(ax)
    part = box.height / ax.bbox.height + 0.05
    if part > _LARGE or box.width > ax.bbox.width or not tops.keys().isdisjoint(together):
        return False
    if ax.child_axes:  # inset axes are placed at points of the data
        return False
    scale = ax.yaxis.get_transform()
    low, high = scale.transform(ax.get_ylim())
    tops.update(dict.fromkeys(together, ax.get_ylim()[1]))
    ax.set_ylim(top=float(scale.inverted().transform(low + (high - low) / (1 - part))))
    legend.set_loc("upper right")
    return True


def _again(legend: Legend, owner: Axes | Figure, **how: Any) -> Legend:
    """Add a legend with the entries of an old legend to `owner`, with new settings; return it."""
    look = {"handlelength": legend.handlelength, "columnspacing": legend.columnspacing}
    words, handles = zip(*_entries(legend, owner), strict=True)
    title = legend.get_title().get_text() or None
    return owner.legend(handles, words, title=title, prop=legend.prop, **look, **how)


def _entries(legend: Legend, owner: Axes | Figure) -> list[tuple[str, Any]]:
    """Return labels and handles of a legend; the drawn legend has lost handles of error bars."""
    known = dict[str, Any]()
    for ax in owner.axes if isinstance(owner, Figure) else [owner]:
        handles, words = ax.get_legend_handles_labels()
        known |= dict(zip(words, handles, strict=True))
    pairs = zip(legend.get_texts(), legend.legend_handles, strict=True)
    return [(text.get_text(), known.get(text.get_text(), handle)) for text, handle in pairs]


def _is_low(legend: Legend, figure: Figure) -> bool:
    return bool(legend.get_window_extent().y0 < figure.bbox.height / 2)


def _narrow_legends(figure: Figure) -> bool:
    """Split legends wider than the figure into more lines; return whether any was split."""
    wide = [each for each in figure.legends if each.get_window_extent().width > figure.bbox.width]
    for legend in wide:
        place = f"outside {'lower' if _is_low(legend, figure) else 'upper'} center"
        legend.remove()
        for columns in range(len(legend.get_texts()), 0, -1):
            trial = _again(legend, figure, loc=place, ncols=columns)
            if columns == 1 or trial.get_window_extent().width <= figure.bbox.width:
                break
            trial.remove()
    return bool(wide)


def _part_ticks(figure: Figure) -> bool:
    """Separate touching tick labels of x axes: break or tilt words, remove half of the numbers."""
    parted = False
    for ax in figure.axes:
        low, high = sorted(ax.get_xlim())
        shown = [(tick.get_loc(), tick.label1) for tick in ax.xaxis.get_major_ticks()]
        ticks = [(x, label) for x, label in shown if low <= x <= high and _is_seen(label)]
        boxes = sorted((label.get_window_extent() for _, label in ticks), key=lambda box: box.x0)
        tilted = any(label.get_rotation() for _, label in ticks)
        if tilted or not any(b.x0 - a.x1 < 2 for a, b in itertools.pairwise(boxes)):
            continue
        parted = True
        named = isinstance(ax.xaxis.get_major_formatter(), FixedFormatter)
        words = [label.get_text() for _, label in ticks]
        if any(re.search("[a-z]{2}", re.sub(_FORMULA, "", word)) for word in words):
            lines = [word if "$" in word else word.replace(" ", "\n") for word in words]
            small = min(float(label.get_fontsize()) for _, label in ticks)
            how: dict[str, Any] = {"fontsize": small if lines != words else _SMALLEST}
            if lines == words and small <= _SMALLEST:
                lines = [word.replace("\n", " ") for word in words]
                how = {"fontsize": small, "rotation": 30, "ha": "right", "rotation_mode": "anchor"}
            ax.set_xticks([x for x, _ in ticks], lines, **how)
        else:
            first = next((k % 2 for k, (x, _) in enumerate(ticks) if x == 0), 0)
            ax.set_xticks([x for x, _ in ticks[first::2]], words[first::2] if named else None)
    return parted


def _say_once(figure: Figure) -> None:
    """Remove axis labels that a neighbouring panel below or on the left repeats."""
    placed = [(ax, spec) for ax in figure.axes if (spec := ax.get_subplotspec()) is not None]
    same = []
    for (ax, spec), (other, at) in itertools.permutations(placed, 2):
        if spec.get_gridspec() is at.get_gridspec():
            if spec.colspan == at.colspan and spec.rowspan.stop == at.rowspan.start:
                same += [(ax.xaxis.label, other.xaxis.label)]
            if spec.rowspan == at.rowspan and spec.colspan.start == at.colspan.stop:
                same += [(ax.yaxis.label, other.yaxis.label)]
    for label in [one for one, other in same if one.get_text() == other.get_text()]:
        label.set_text("")


def _wrap(figure: Figure) -> bool:
    """Break titles and labels that are longer than their axes into lines of similar length."""
    wrapped = False
    for text in figure.texts:
        if text.get_text() == figure.get_suptitle():
            box, words = text.get_window_extent(), text.get_text()
            if box.x1 > figure.bbox.x1:
                text.set_text(_in_lines(words, box.width / (figure.bbox.x1 - box.x0)))
                wrapped |= text.get_text() != words
    for ax in figure.axes:
        middle, up = (ax.bbox.x0 + ax.bbox.x1) / 2, ax.bbox.height
        across = min(1.1 * ax.bbox.width, 2 * middle, 2 * (figure.bbox.x1 - middle))
        for text, room in ((ax.title, across), (ax.xaxis.label, across), (ax.yaxis.label, up)):
            box, words = text.get_window_extent(), text.get_text()
            long = (box.height if text is ax.yaxis.label else box.width) / room
            if long > 1:
                text.set_text(_in_lines(words, long))
                wrapped |= text.get_text() != words
    return wrapped


def _in_lines(words: str, long: float) -> str:
    """Return text in lines that are shorter by a factor of `long`, with formulas unbroken."""
    letters = lambda formula: len(re.sub(r"\\[a-z]+ ?|[${}_^]", "", formula)) or 1
    formulas = iter(re.findall(_FORMULA, words))
    plain = re.sub(_FORMULA, lambda each: "\0" * letters(each[0]), words).split("\n")
    most = max(14, int(max(map(len, plain)) / long))
    lines = [each for line in plain for each in _broken(line, most)]
    return re.sub("\0+", lambda _: next(formulas), "\n".join(lines))


def _broken(line: str, most: int) -> list[str]:
    """Split a line into the fewest lines of at most `most` letters, of similar length."""
    lines = [textwrap.wrap(line, k, break_long_words=False) for k in range(1, most + 1)]
    return next(each for each in lines if len(each) <= len(lines[-1]))


def _release(figure: Figure, aspect: float) -> None:
    """Put panels with fixed places into a grid; on a much wider page, their rows become columns."""
    if figure.get_layout_engine() is not None or any(ax.get_subplotspec() for ax in figure.axes):
        return
    above = lambda ax: round(-ax.get_position().y1, 2)
    ordered = sorted(figure.axes, key=lambda ax: (above(ax), ax.get_position().x0))
    rows = [list(row) for _, row in itertools.groupby(ordered, above)]
    count, (w, h) = math.lcm(*map(len, rows)), figure.get_size_inches()
    wide = aspect > _WIDER * w / h
    even = [1 / len(row) for row in rows]
    shape = (count, len(rows)) if wide else (len(rows), count)
    grid = figure.add_gridspec(*shape, width_ratios=even if wide else None)
    for k, row in enumerate(rows):
        span = count // len(row)
        for j, ax in enumerate(row):
            along = slice(span * j, span * (j + 1))
            ax.set_subplotspec(grid[along, k] if wide else grid[k, along])
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=APART))
    # The engine makes room only for a title whose height it chooses itself.
    figure.suptitle(figure.get_suptitle(), x=0.01, ha="left", weight="bold")


def _rows(figure: Figure, width: float | int, height: float | int) -> list[list[Axes]]:
    """Return the panels by row, with a single row split if this enlarges the panels."""
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
        """Return the size of the smallest panel, relative to its original size."""
        even = 1.0 if count % rows == 0 else 1 / _GAIN
        return even * min(width * count / (w * math.ceil(count / rows)), height / (h * rows))

    rows = max(range(1, count + 1), key=size)
    few, more = divmod(count, rows)
    panels = iter(placed)
    return [[next(panels) for _ in range(few + (k >= rows - more))] for k in range(rows)]
