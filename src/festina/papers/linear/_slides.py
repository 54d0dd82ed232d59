"""What the experiments on the slides share."""

from typing import Any

from matplotlib.figure import Figure

SLIDES = "Saxe, slides"

WIDE = (9.0, 3.2)
"""Inches of a figure with three panels side by side."""


def slide(title: str) -> str:
    """Where on the slides a statement stands."""
    return f"{SLIDES}, “{title}”"


def sheet(title: str, size: tuple[float, float] = WIDE, **kwargs: Any) -> Figure:
    """An empty figure with its title at the top left."""
    figure = Figure(figsize=size, layout="constrained", **kwargs)
    figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure
