"""Create matplotlib axes and style lines for the `draw` methods."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes(ax: "Axes | None") -> "Axes":
    """Return the given axes, or the axes of a new figure if `ax` is None."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    return ax


def styled(given: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """Return matplotlib's keywords for a line or a patch; given keywords override the defaults.

    Short and long names of a keyword, such as `lw` and `linewidth`, count as the same keyword.
    """
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(defaults, Line2D) | normalize_kwargs(dict(given), Line2D)
