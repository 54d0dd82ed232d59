"""Create matplotlib axes and style lines for the `draw` methods."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TIME = "time $t/τ$"
STEP = "step"
"""Labels of the axis of time, for gradient flow and for gradient descent."""

_CLOCKS = {TIME: "time", STEP: "steps"}


def axes(ax: "Axes | None") -> "Axes":
    """Return the given axes, or the axes of a new figure if `ax` is None."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    return ax


def label_loss(ax: "Axes", clock: str, formula: str) -> None:
    """Label axes for a loss over time or steps.

    Raises `ValueError` if the axes already show a loss over another clock or with another formula,
    because one curve could then not be compared with the other.
    """
    wanted = {"xlabel": clock, "ylabel": f"loss {formula}"}
    shown = {"xlabel": ax.get_xlabel(), "ylabel": ax.get_ylabel()}
    festina_drew = shown["xlabel"] in (TIME, STEP) and shown["ylabel"].startswith("loss ")
    if ax.has_data() and festina_drew and shown != wanted:
        was, now = (f"the {x['ylabel']} over {_CLOCKS[x['xlabel']]}" for x in (shown, wanted))
        raise ValueError(
            f"`ax` shows {was}, expected {now}, which is drawn here. Use the same `loss` for both, "
            "and compare steps with steps or time with time; otherwise draw on other axes."
        )
    ax.set(**wanted)


def styled(given: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """Return matplotlib's keywords for a line or a patch; given keywords override the defaults.

    Short and long names of a keyword, such as `lw` and `linewidth`, count as the same keyword.
    """
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(defaults, Line2D) | normalize_kwargs(dict(given), Line2D)
