"""Plots of scenes: theory in thin dashed lines, training in wide pale lines.

Every source of a plot has a name: `loss.theory` for the prediction, `loss.0`, `loss.1`, … for the
trained networks. The page fills in the numbers.
"""

from collections.abc import Sequence
from typing import Any

from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    HoverTool,
    Legend,
    LegendItem,
    LinearColorMapper,
    SingleIntervalTicker,
    Span,
    Title,
)
from bokeh.palettes import RdBu11
from bokeh.plotting import figure
from bokeh.transform import transform

COLOURS = ("#1f6fb2", "#d9822b", "#2a7d3f", "#8f4fbf", "#c02020", "#6b7280")
"""Colours of modes, tasks, units and the like, in their order."""

_INK, _QUIET, _GRID = "#1b1b1b", "#5d6470", "#e6e8ec"


def plot(title: str, x: str, y: str, *, time: bool = False, **settings: Any) -> figure:
    """Return an empty plot with labelled axes; `time` adds a line at the time of the player.

    `settings` are Bokeh's, such as `x_axis_type="log"` or `match_aspect=True`.
    """
    made = figure(
        title=Title(text=title, text_color=_INK, text_font_style="normal"),
        x_axis_label=x,
        y_axis_label=y,
        tools="pan,box_zoom,wheel_zoom,reset",
        toolbar_location=None,
        sizing_mode="stretch_both",
        min_border=6,
        **settings,
    )
    made.toolbar.logo = None
    made.toolbar.active_drag = None  # a finger that scrolls the page must not move the plot
    made.outline_line_color = None
    made.xgrid.grid_line_color = None
    made.ygrid.grid_line_color = _GRID
    for axis in made.axis:
        axis.axis_line_color = axis.major_tick_line_color = _QUIET
        axis.minor_tick_line_color = None
        axis.axis_label_text_color = axis.major_label_text_color = _INK
        axis.axis_label_text_font_style = "normal"
    if time:
        made.add_layout(Span(name="now", dimension="height", line_color=_QUIET, visible=False))
    made.add_tools(HoverTool(tooltips=[(x, "$x{0.000g}"), (y, "$y{0.000g}")]))
    return made


def curves(
    made: figure,
    name: str,
    *,
    seeds: int = 1,
    columns: Sequence[str] = ("y",),
    legend: Sequence[str] = (),
    theory: bool = True,
    training: bool = True,
    colours: Sequence[str] = COLOURS,
) -> None:
    """Draw curves of a theory and of trained networks; their sources have a column `x`.

    `columns` are the curves of one network, each in its own colour, with the names in `legend`.
    """
    for seed in range(seeds if training else 0):
        source = _source(f"{name}.{seed}", "x", *columns)
        for k, column in enumerate(columns):
            drawn = made.line("x", column, source=source, color=colours[k % len(colours)])
            drawn.glyph.update(line_alpha=0.35, line_width=5, line_cap="round")
            if legend and seed == 0:
                _name(made, legend[k], drawn)
    if theory:
        source = _source(f"{name}.theory", "x", *columns)
        for column in columns:
            made.line("x", column, source=source, color=_INK, line_width=1.6, line_dash=[6, 4])


def guide(made: figure, name: str) -> None:
    """Draw a thin grey line from the columns `x` and `y` of the theory, as a guide to the eye."""
    made.line("x", "y", source=_source(f"{name}.theory", "x", "y"), color=_QUIET, line_width=1)


def levels(made: figure, name: str) -> None:
    """Draw horizontal lines at the values of the theory's column `y`, over the whole plot."""
    source = _source(f"{name}.theory", "y")
    made.hspan(y="y", source=source, line_color=_INK, line_width=1.2, line_dash="dashed")


def band(made: figure, name: str) -> None:
    """Draw a thick grey line from the columns `x` and `y` of the theory: an uncertain time."""
    style: dict[str, Any] = {"color": _QUIET, "alpha": 0.4, "line_width": 9}
    made.line("x", "y", source=_source(f"{name}.theory", "x", "y"), **style)


def dots(
    made: figure,
    name: str,
    *,
    seed: int | str = 0,
    size: float | int | str = 8,
    colour: str = COLOURS[0],
    hollow: str = "",
    legend: str = "",
) -> None:
    """Draw points with the columns `x` and `y`; `seed` is `"theory"` for predicted points.

    `size` may be the name of a column. `hollow` is the colour of circles without filling.
    """
    style: dict[str, Any] = {"color": colour, "alpha": 0.6, "line_color": None}
    if hollow or seed == "theory":
        style = {"fill_color": None, "line_color": hollow or _INK, "line_width": 1.6}
    columns = ("x", "y", size) if isinstance(size, str) else ("x", "y")
    source = _source(f"{name}.{seed}", *columns)
    drawn = made.scatter("x", "y", source=source, size=size, **style)
    if legend:
        _name(made, legend, drawn)


def bars(made: figure, name: str, *, seed: int | str = 0, colour: str = COLOURS[0]) -> None:
    """Draw bars of height `y` at the whole numbers `x`."""
    source = _source(f"{name}.{seed}", "x", "y")
    made.vbar("x", 0.7, "y", source=source, color=colour, alpha=0.35, line_color=None)
    made.xaxis.ticker = SingleIntervalTicker(interval=1, num_minor_ticks=0)


def heat(
    made: figure,
    name: str,
    size: int,
    *,
    seed: int | str = 0,
    low: float = -1.0,
    high: float = 1.0,
    half: str = "",
) -> None:
    """Draw a square matrix with `size` rows from the column `value`, row by row from the top.

    With `half="upper"` the values are those above the diagonal, `np.triu_indices(size, 1)`, with
    `half="lower"` those on and below the diagonal, `np.tril_indices(size)`.
    """
    source = _source(f"{name}.{seed}", "value")
    cells = [
        (column, row)
        for row in range(size)
        for column in range(size)
        if half != ("upper" if column <= row else "lower")
    ]
    source.data = {
        "value": [0.0] * len(cells),
        "column": [column for column, _ in cells],
        "row": [size - 1 - row for _, row in cells],
    }
    mapper = LinearColorMapper(palette=list(RdBu11), low=low, high=high)
    fill = transform("value", mapper)
    made.rect("column", "row", 1.0, 1.0, source=source, fill_color=fill, line_color=None)
    made.grid.visible = False


def cells(made: figure, name: str, *, seed: int | str = 0, low: float = -1.0) -> None:
    """Draw a matrix of any size with the columns `x`, `y` (downwards) and `value` up to 1.

    A bar beside the matrix shows the colours. `low` is −1 or 0.
    """
    source = _source(f"{name}.{seed}", "x", "y", "value")
    palette = list(RdBu11[1:-1] if low < 0 else RdBu11[5:-1])
    mapper = LinearColorMapper(palette=palette, low=low, high=1.0)
    fill = transform("value", mapper)
    made.rect("x", "y", 0.96, 0.96, source=source, fill_color=fill, line_color=_GRID)
    made.y_range.flipped = True  # pyright: ignore[reportAttributeAccessIssue]
    made.grid.visible = False
    for axis in made.axis:
        axis.ticker = SingleIntervalTicker(interval=1, num_minor_ticks=0)
    made.add_layout(ColorBar(color_mapper=mapper, width=8, border_line_color=None), "right")


def paths(
    made: figure, name: str, count: int, *, seed: int | str = 0, colour: str = COLOURS[0]
) -> None:
    """Draw the paths of points in a plane, with the columns `x0`, `y0`, `x1`, `y1`, …"""
    source = _source(f"{name}.{seed}", *(f"{axis}{k}" for k in range(count) for axis in "xy"))
    style: dict[str, Any] = {"color": colour, "alpha": 0.35, "line_width": 5, "line_cap": "round"}
    if seed == "theory":
        style = {"color": _INK, "line_width": 1.2, "line_dash": [6, 4]}
    for k in range(count):
        made.line(f"x{k}", f"y{k}", source=source, **style)


def words(made: figure, name: str, texts: Sequence[str]) -> None:
    """Write texts above and below the points of a theory, with the columns `x` and `y`."""
    zeros = [0.0] * len(texts)
    above = [-9 if k % 2 == 0 else 21 for k in range(len(texts))]
    source = _source(f"{name}.theory")
    source.data = {"x": zeros, "y": zeros, "text": list(texts), "above": above}
    style: dict[str, Any] = {"text_align": "center", "text_color": _INK}
    style["text_font_size"] = "0.8em"
    made.text("x", "y", "text", source=source, y_offset="above", **style)


def _name(made: figure, words: str, drawn: Any) -> None:
    """Add an entry to the legend of a plot; the first entry makes the legend."""
    if not made.legend:
        style = {"border_line_color": None, "background_fill_alpha": 0.6, "padding": 4}
        made.add_layout(Legend(items=[], label_text_color=_INK, **style))
    made.legend[0].items.append(LegendItem(label=words, renderers=[drawn]))  # pyright: ignore[reportArgumentType]


def _source(name: str, *columns: str) -> ColumnDataSource:
    return ColumnDataSource({column: [] for column in columns}, name=name)
