"""Create a figure with panels, and label axes."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ._style import THEORY_STYLE

APART = 0.1
"""Padding in inches on both sides of axes, so that labels of neighbouring panels do not touch."""
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
    """Return a figure with a title at the top left, and its axes.

    **Arguments:**

    - `title`: title of the figure.
    - `columns`, `rows`: numbers of panels.
    - `width`, `height`: size of each panel in inches.
    - `options`: further arguments of `Figure.subplots`.

    **Returns:**

    The figure, and its axes as from `Figure.subplots`: a single axes, or an array.

    **Example:**

    >>> from festina.experiments.figures import panels
    >>> figure, axes = panels("Two panels", 2, width=3.0, height=2.5)
    >>> axes.shape, figure.get_size_inches()
    ((2,), array([6. , 2.5]))
    """
    apart = ConstrainedLayoutEngine(w_pad=APART)
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
    """Set labels, title and other settings of axes, and add a legend if any line has a label.

    **Arguments:**

    - `ax`: axes to label.
    - `xlabel`, `ylabel`, `title`: texts; an empty text changes nothing.
    - `theory`: legend entry for dashed lines.
    - `legend`: matplotlib's location of the legend, "beside" for the right of the axes, or `None`.
    - `legend_title`: title of the legend.
    - `settings`: further settings of the axes, such as `xscale="log"` or `xlim`.

    **Example:**

    >>> from festina.experiments.figures import label_axes, panels
    >>> figure, ax = panels("One panel")
    >>> label_axes(ax, "time", "loss", theory="Eq. (1)", xscale="log")
    >>> ax.get_xscale(), [text.get_text() for text in ax.get_legend().get_texts()]
    ('log', ['Eq. (1)'])
    """
    if theory:
        ax.plot([], [], **THEORY_STYLE, label=theory)
    words = {"xlabel": xlabel, "ylabel": ylabel, "title": title}
    ax.set(**{name: text for name, text in words.items() if text}, **settings)
    if legend is not None and ax.get_legend_handles_labels()[0]:
        place: dict[str, Any] = BESIDE if legend == "beside" else {"loc": legend}
        ax.legend(**place, title=legend_title)
