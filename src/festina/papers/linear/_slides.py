"""What the experiments on the slides share."""

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from .._old import compare
from ..claims import Claim

SLIDES = "Saxe, slides"

WIDE = (9.0, 3.2)
"""Inches of a figure with three panels side by side."""


def slide(title: str) -> str:
    """Where on the slides a statement stands."""
    return f"{SLIDES}, “{title}”"


def claims_of(experiment: str, source: str, usual: float = 0.0) -> Callable[..., Claim]:
    """`compare` for one experiment: words, prediction, measurement, tolerance, and what else."""

    def claim(
        words: str, predicted: Any, measured: Any, tolerance: float = usual, **more: Any
    ) -> Claim:
        return compare(
            **{"experiment": experiment, "source": source, "claim": words, **more},
            predicted=predicted,
            measured=measured,
            tolerance=tolerance,
        )

    return claim


def sheet(title: str, size: tuple[float, float] = WIDE, **kwargs: Any) -> Figure:
    """An empty figure with its title at the top left."""
    figure = Figure(figsize=size, layout="constrained", **kwargs)
    figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure
