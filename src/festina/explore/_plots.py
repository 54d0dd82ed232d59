"""Plots of scenes: theory in thin dashed lines, training in wide pale lines.

Every source of a plot has a name: `loss.theory` for the prediction, `loss.0`, `loss.1`, … for the
trained networks. The page fills in the numbers.
"""

from collections.abc import Sequence
from typing import Any

from bokeh.models import (
    ColumnDataSource,
    HoverTool,
    Legend,
    LegendItem,
    LinearColorMapper,
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
    """Return an empty plot with labelled axes; `time` marks the time that is played.

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
) -> None:
    """Draw curves of a theory and of trained networks; their sources have a column `x`.

    `columns` are the curves of one network, each in its own colour, with the names in `legend`.
    """
    named: list[LegendItem] = []
    for seed in range(seeds if training else 0):
        source = _source(f"{name}.{seed}", "x", *columns)
        for k, column in enumerate(columns):
            drawn = made.line("x", column, source=source, color=COLOURS[k % len(COLOURS)])
            drawn.glyph.update(line_alpha=0.35, line_width=5, line_cap="round")
            if legend and seed == 0:
                named.append(LegendItem(label=legend[k], renderers=[drawn]))  # pyright: ignore[reportArgumentType]
    if theory:
        source = _source(f"{name}.theory", "x", *columns)
        for column in columns:
            made.line("x", column, source=source, color=_INK, line_width=1.6, line_dash=[6, 4])
    if named:
        style = {"border_line_color": None, "background_fill_alpha": 0.6, "padding": 4}
        made.add_layout(Legend(items=named, label_text_color=_INK, **style))


def dots(
    made: figure, name: str, *, seed: int | str = 0, size: float = 8, colour: str = COLOURS[0]
) -> None:
    """Draw points with the columns `x` and `y`; `seed` is `"theory"` for predicted points."""
    style: dict[str, Any] = {"color": colour, "alpha": 0.6, "line_color": None}
    if seed == "theory":
        style = {"fill_color": None, "line_color": _INK, "line_width": 1.6}
    made.scatter("x", "y", source=_source(f"{name}.{seed}", "x", "y"), size=size, **style)


def heat(
    made: figure, name: str, size: int, *, seed: int | str = 0, low: float = -1.0, high: float = 1.0
) -> None:
    """Draw a square matrix with `size` rows from the column `value`, row by row from the top."""
    source = _source(f"{name}.{seed}", "value")
    cells = [(k % size, size - 1 - k // size) for k in range(size * size)]
    source.data = {
        "value": [0.0] * size**2,
        "column": [c for c, _ in cells],
        "row": [r for _, r in cells],
    }
    mapper = LinearColorMapper(palette=list(RdBu11), low=low, high=high)
    fill = transform("value", mapper)
    made.rect("column", "row", 1.0, 1.0, source=source, fill_color=fill, line_color=None)
    made.grid.visible = False


def _source(name: str, *columns: str) -> ColumnDataSource:
    return ColumnDataSource({column: [] for column in columns}, name=name)
