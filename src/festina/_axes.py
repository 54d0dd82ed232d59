"""Axes to draw on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes(ax: "Axes | None") -> "Axes":
    """Those that are given, or new ones."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    return ax
