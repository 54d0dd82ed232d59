"""What the experiments on the slides share."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure

from ...networks import seeds
from ...networks._seeds import Keys
from .._claim import Claim, compare
from .._parameters import Parameters

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


def keys_of(parameters: Parameters, key: PRNGKeyArray | None) -> Keys:
    """Randomness of each seed, from a given key or from the numbers of the seeds."""
    if key is None:
        return seeds(parameters.seeds, first=parameters.seed)
    return jax.random.split(key, parameters.seeds)


def sheet(title: str, size: tuple[float, float] = WIDE, **kwargs: Any) -> Figure:
    """An empty figure with its title at the top left."""
    figure = Figure(figsize=size, layout="constrained", **kwargs)
    figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure
