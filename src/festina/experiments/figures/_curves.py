"""Plot simulation and theory on the same axes."""

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from ._style import SIMULATION_STYLE, THEORY_STYLE


def shades(values: Any, symbol: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Yield each value of a sweep with a colour, from dark to light, and a label.

    **Arguments:**

    - `values`: values of the sweep.
    - `symbol`: symbol of the swept parameter, for the labels.

    **Example:**

    >>> from festina.experiments.figures import shades
    >>> [label for value, colour, label in shades([0.1, 0.01], "$s$ =")]
    ['$s$ = 0.1', '$s$ = 0.01']
    """
    shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(values)))
    for value, shade in zip(values, shades, strict=True):
        yield value, shade, f"{symbol} {value:g}".strip()


def draw_pair(
    ax: Axes, x: Any, seen: Any, theory: Any = None, *, color: Any, label: str = "", **style: Any
) -> None:
    """Plot a simulated curve, wide and pale, and the theoretical curve, thin and dashed.

    **Arguments:**

    - `ax`: axes to draw on.
    - `x`: common coordinate.
    - `seen`: values of the simulation.
    - `theory`: values of theory, or `None`.
    - `color`, `label`: colour and legend entry of the simulation.
    - `style`: further arguments of `Axes.plot` for the simulation.

    **Example:**

    >>> from festina.experiments.figures import draw_pair, panels
    >>> figure, ax = panels("Learning curve")
    >>> draw_pair(ax, [0, 1, 2], [1.0, 0.41, 0.1], [1.0, 0.4, 0.1], color="C0", label="seed 0")
    >>> [line.get_linestyle() for line in ax.lines]
    ['-', '--']
    """
    ax.plot(
        x, seen, **{**SIMULATION_STYLE, "alpha": 0.55, **style}, color=color, label=label or None
    )
    if theory is not None:
        ax.plot(x, theory, **THEORY_STYLE)


def power_law_guide(
    ax: Axes, x: Any, through: float | int, power: float | int, label: str = ""
) -> None:
    """Draw a dashed power law through the last point, if theory predicts only the exponent.

    **Arguments:**

    - `ax`: axes to draw on.
    - `x`: increasing coordinates.
    - `through`: value of the power law at the last coordinate.
    - `power`: predicted exponent.
    - `label`: legend entry.

    **Example:**

    >>> from festina.experiments.figures import panels, power_law_guide
    >>> figure, ax = panels("Scaling")
    >>> power_law_guide(ax, [1, 2, 4], 16.0, 2)
    >>> ax.lines[0].get_ydata()
    array([ 1.,  4., 16.])
    """
    x = np.asarray(x, float)
    ax.plot(x, through * (x / x[-1]) ** power, **THEORY_STYLE, label=label or None)


def diagonal(ax: Axes, values: Any, label: str = "equal") -> None:
    """Draw the dashed diagonal y = x over the range of `values`.

    **Arguments:**

    - `ax`: axes to draw on.
    - `values`: numbers whose range the diagonal covers; NaN is ignored.
    - `label`: legend entry.

    **Example:**

    >>> from festina.experiments.figures import diagonal, panels
    >>> figure, ax = panels("Measured against predicted")
    >>> diagonal(ax, [3.0, 1.0, 2.0])
    >>> ax.lines[0].get_xdata()
    array([1., 3.])
    """
    values = np.asarray(values, float)
    ends = np.array([np.nanmin(values), np.nanmax(values)])
    ax.plot(ends, ends, **THEORY_STYLE, label=label)
