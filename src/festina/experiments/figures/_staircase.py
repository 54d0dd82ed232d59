"""Plot a loss that falls in steps, with predicted drops."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ._style import SIMULATION_STYLE, THEORY_STYLE


def draw_staircase(
    ax: Axes,
    times: Any,
    loss: Any,
    levels: Any = (),
    falls: Any = (),
    *,
    right: float | int,
    **style: Any,
) -> None:
    """Plot a loss curve, and a dashed vertical line at each finite predicted drop.

    **Arguments:**

    - `ax`: axes to draw on.
    - `times`, `loss`: loss curve.
    - `levels`: losses of the plateaus, one more than there are drops.
    - `falls`: predicted times of the drops; drop k leads from `levels[k]` to `levels[k + 1]`.
    - `right`: time up to which the last loss is extended, because a converged network keeps this
      loss.
    - `style`: arguments of `Axes.plot` for the loss curve.

    **Example:**

    >>> from festina.experiments.figures import draw_staircase, panels
    >>> figure, ax = panels("One drop")
    >>> draw_staircase(ax, [0, 4, 5, 9], [1.0, 1.0, 0.2, 0.2], [1.0, 0.2], [4.5], right=12)
    >>> [line.get_linestyle() for line in ax.lines], ax.lines[1].get_xdata()
    (['-', '--'], array([4.5, 4.5]))
    """
    times, loss = np.append(times, max(right, times[-1])), np.append(loss, loss[-1])
    ax.plot(times, loss, **{**SIMULATION_STYLE, "alpha": 0.6, **style})
    dashed = {**THEORY_STYLE, "color": style.get("color", "black"), "lw": 1.4}
    for k in np.flatnonzero(np.isfinite(falls)):
        ax.plot([falls[k]] * 2, levels[k : k + 2], **dashed)
