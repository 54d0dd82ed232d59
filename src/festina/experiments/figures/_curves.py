"""Simulation and theory on the same axes."""

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from ._style import SIMULATION_STYLE, THEORY_STYLE


def shades(values: Any, symbol: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Yield each value of a sweep with its shade, from dark to light, and its label."""
    shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(values)))
    for value, shade in zip(values, shades, strict=True):
        yield value, shade, f"{symbol} {value:g}".strip()


def draw_pair(
    ax: Axes, x: Any, seen: Any, theory: Any = None, *, color: Any, label: str = "", **style: Any
) -> None:
    """Draw a simulation, and theory if given; `style` goes to the line of the simulation."""
    ax.plot(
        x, seen, **{**SIMULATION_STYLE, "alpha": 0.55, **style}, color=color, label=label or None
    )
    if theory is not None:
        ax.plot(x, theory, **THEORY_STYLE)


def power_law_guide(
    ax: Axes, x: Any, through: float | int, power: float | int, label: str = ""
) -> None:
    """Draw a power law through the last point, where theory predicts only the exponent."""
    x = np.asarray(x, float)
    ax.plot(x, through * (x / x[-1]) ** power, **THEORY_STYLE, label=label or None)


def diagonal(ax: Axes, values: Any, label: str = "equal") -> None:
    """Draw the diagonal on which x and y are equal, over the range of `values`."""
    values = np.asarray(values, float)
    ends = np.array([np.nanmin(values), np.nanmax(values)])
    ax.plot(ends, ends, **THEORY_STYLE, label=label)
