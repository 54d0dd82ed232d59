"""One look for every figure: theory thin and dashed, simulation wide and pale."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

THEORY_STYLE: dict[str, Any] = {"color": "black", "lw": 1.0, "ls": "--"}
SIMULATION_STYLE: dict[str, Any] = {"lw": 3.0, "solid_capstyle": "round"}
POINT_STYLE: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 5, "mew": 0}
GUIDE_STYLE: dict[str, Any] = {"color": "0.85", "lw": 1.0, "zorder": 0}
"""A line that only helps the eye: zero, a target, a level."""

_LOOK: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "figure.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "none",
    "legend.fontsize": 8,
}


def styled(draw: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Draw with the project's look and leave matplotlib's global state alone."""

    @functools.wraps(draw)
    def drawn(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with mpl.rc_context(_LOOK):
            return draw(*args, **kwargs)

    return drawn
