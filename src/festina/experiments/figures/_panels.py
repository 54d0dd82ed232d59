"""A figure with its panels, and labels of axes."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ._style import THEORY_STYLE

_APART = 0.1
"""Inches on both sides of axes and their labels, so that labels of neighbours do not touch."""
BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.3}


def panels(
    title: str,
    columns: int = 1,
    rows: int = 1,
    *,
    width: float | int = 4.3,
    height: float | int = 3.5,
    **options: Any,
) -> tuple[Figure, Any]:
    """Return a figure with its title at the top left, and its axes as from `Figure.subplots`.

    `width` and `height` of each panel are in inches.
    """
    apart = ConstrainedLayoutEngine(w_pad=_APART)
    figure = Figure(figsize=(width * columns, height * rows), layout=apart)
    figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure, figure.subplots(rows, columns, **options)


def label_axes(
    ax: Axes,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    *,
    theory: str = "",
    legend: str | None = "best",
    legend_title: str | None = None,
    **settings: Any,
) -> None:
    """Set labels, title and settings of axes, and draw a legend of labelled lines.

    **Arguments:**

    - `theory`: the entry of the legend for dashed lines.
    - `legend`: a location of matplotlib, "beside" for the right of the axes, or `None` for none.
    - `settings`: further settings of the axes, such as `xscale="log"` or `xlim`.
    """
    if theory:
        ax.plot([], [], **THEORY_STYLE, label=theory)
    words = {"xlabel": xlabel, "ylabel": ylabel, "title": title}
    ax.set(**{name: text for name, text in words.items() if text}, **settings)
    if legend is not None and ax.get_legend_handles_labels()[0]:
        place: dict[str, Any] = BESIDE if legend == "beside" else {"loc": legend}
        ax.legend(**place, title=legend_title)
