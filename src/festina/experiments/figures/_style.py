"""The look of all figures: simulations are wide and pale lines, theory is thin and dashed."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

THEORY_STYLE: dict[str, Any] = {"color": "black", "lw": 1.0, "ls": "--", "gid": "theory"}
"""Style of a theoretical prediction: a thin dashed black line.

**Example:**

>>> from matplotlib.figure import Figure
>>> from festina.experiments.figures import THEORY_STYLE
>>> [line] = Figure().subplots().plot([0, 1], [1, 0], **THEORY_STYLE)
>>> line.get_linestyle()
'--'
"""
SIMULATION_STYLE: dict[str, Any] = {"lw": 3.0, "solid_capstyle": "round", "gid": "training"}
"""Style of a simulation: a wide line.

**Example:**

>>> from matplotlib.figure import Figure
>>> from festina.experiments.figures import SIMULATION_STYLE
>>> [line] = Figure().subplots().plot([0, 1], [1, 0], **SIMULATION_STYLE)
>>> line.get_linewidth()
3.0
"""
POINT_STYLE: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 5, "mew": 0, "gid": "training"}
"""Style of measured points: dots without a line.

**Example:**

>>> from matplotlib.figure import Figure
>>> from festina.experiments.figures import POINT_STYLE
>>> [line] = Figure().subplots().plot([0, 1], [1, 0], **POINT_STYLE)
>>> line.get_marker()
'o'
"""
GUIDE_STYLE: dict[str, Any] = {"color": "0.85", "lw": 1.0, "zorder": 0}
"""Style of a line that guides the eye, for example at zero or at a target: thin and light grey.

**Example:**

>>> from matplotlib.figure import Figure
>>> from festina.experiments.figures import GUIDE_STYLE
>>> Figure().subplots().axhline(0.0, **GUIDE_STYLE).get_color()
'0.85'
"""

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


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw with festina's look inside a `with` block.

    Matplotlib's global settings are unchanged after the block.

    **Example:**

    >>> import matplotlib as mpl
    >>> from festina.experiments.figures import style
    >>> with style():
    ...     mpl.rcParams["font.size"]
    9.0
    """
    with mpl.rc_context(_LOOK):
        yield


def styled(draw: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate a drawing function so that it uses festina's look.

    Matplotlib's global settings are unchanged after the call.

    **Example:**

    >>> import matplotlib as mpl
    >>> from festina.experiments.figures import styled
    >>> styled(lambda: mpl.rcParams["font.size"])()
    9.0
    """

    @functools.wraps(draw)
    def drawn(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with style():
            return draw(*args, **kwargs)

    return drawn
