"""A loss that falls in steps."""

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
    """Draw one loss curve to the right edge, with a dashed line at each finite predicted drop.

    The last loss is extended to `right`, because a converged network stays there. `falls[k]` is the
    time of the drop from `levels[k]` to the next level, drawn in the colour of the curve.
    """
    times, loss = np.append(times, max(right, times[-1])), np.append(loss, loss[-1])
    ax.plot(times, loss, **{**SIMULATION_STYLE, "alpha": 0.6, **style})
    dashed = {**THEORY_STYLE, "color": style.get("color", "black"), "lw": 1.4}
    for k in np.flatnonzero(np.isfinite(falls)):
        ax.plot([falls[k]] * 2, levels[k : k + 2], **dashed)
