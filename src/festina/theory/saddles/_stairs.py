"""A staircase: its levels, when it falls, what is active; and what all that predict one share."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from ..._axes import axes
from ..._objective import loss_formula
from .._checks import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL = "predicted"

DOUBT = 0.1  # decades: a plateau that is this close to half a decade may count or not in training

Members = Literal["modes", "coordinates", "units"]


@dataclass(frozen=True, eq=False)
class Staircase:
    r"""The plateaus that training passes, from the first to the last, and when it leaves them.

    - `levels`: the loss of each plateau, that of the initial one first.
    - `times`: when the loss passes the middle between a level and the next; one fewer than levels.
    - `active`: what is learned on each plateau, as sorted indices of `members`.
    - `joined`: for each member the time of the jump at which it became active, for the last time if
      it left in between; zero if it was from the start, infinity if it never does.
    - `members`: `"modes"` (of a linear network: eigenvectors of
      $\Sigma_{yz}\Sigma_{zz}^{-1}\Sigma_{zy}$, the largest eigenvalue first), `"coordinates"` (of a
      diagonal one), or `"units"`.
    - `convention`: of the loss, which sets the clock too.

    Members that become active at the same jump were learned together: their rates coincide, or are
    too close for a plateau in between at these initial weights.
    """

    levels: Float[np.ndarray, " stage"]
    times: Float[np.ndarray, " jump"]
    active: tuple[tuple[int, ...], ...]
    joined: Float[np.ndarray, " member"]
    members: Members
    uncertainty: Float[np.ndarray, " jump"]
    fewest: int
    most: int
    convention: str = "half"

    def __str__(self) -> str:
        left = [f"{time:.6g}" for time in self.times] + [""]
        rows = [f"{'level':>12} {'left at':>12}   active {self.members}"]
        for level, time, active in zip(self.levels, left, self.active, strict=True):
            rows.append(f"{level:12.6g} {time:>12}   {', '.join(map(str, active)) or 'none'}")
        return "\n".join([f"{len(self.levels)} levels of the loss '{self.convention}'", *rows])

    def loss(self, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
        """The staircase as a function of time: the level of the plateau at each of `times`."""
        return self.levels[np.searchsorted(self.times, times)]

    def draw(self, ax: "Axes | None" = None) -> "Axes":
        """The loss as a staircase over time, with what is learned on each step.

        Upon axes that are given, with training in them or other staircases, of other seeds say: it
        reaches as far as they do, and the legend has one entry for all of them.
        """
        ax = axes(ax)
        last = 1.25 * float(self.times[-1]) if len(self.times) else 1.0
        shown = ax.dataLim.x1 if ax.has_data() else 0.0
        edges = [0.0, *self.times, max(last, shown)]
        labels = ax.get_legend_handles_labels()[1]
        label = None if _LABEL in labels else _LABEL
        ax.stairs(self.levels, edges, baseline=None, color="black", lw=1.0, ls="--", label=label)
        if label:  # of several staircases the first is in words
            for level, left, active in zip(self.levels, edges, self.active, strict=False):
                words = ", ".join(map(str, active)) or f"no {self.members}"
                ax.annotate(words, (left, level), (2, 2), textcoords="offset points", fontsize=8)
        formula = loss_formula(self.convention)
        ax.set(xlabel=f"time $t$ of gradient flow on {formula}", ylabel=f"loss {formula}")
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False)
        return ax


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where the function changes its sign between two points."""
    from scipy.optimize import root_scalar

    return float(root_scalar(function, bracket=(low, high), method="brentq").root)


def warn_unless_ended(solution: Any) -> None:
    """Warn where SciPy's integration of a jump ended by anything but its events."""
    if solution.status != 1:
        why = f"it had not come to rest by the time {solution.t[-1]:.3g} after its start"
        warnings.warn(
            f"A jump of the staircase is not known to its end: "
            f"{why if solution.status == 0 else solution.message}. What comes after it is a guess; "
            "train (`festina.gradient_flow`) to see.",
            stacklevel=4,
        )


def floor_of(floor: float) -> float:
    """The loss of least squares, which is no less than nothing."""
    if number("floor", floor) < 0:
        raise ValueError(
            f"`floor` is a loss, that of least squares, and not negative; got {floor}."
        )
    return float(floor)


def joining_times(
    active: list[tuple[int, ...]], times: list[float], members: int
) -> Float[np.ndarray, " member"]:
    """When each member became active, as `Staircase.joined` has it."""
    joined = np.full(members, np.inf)
    joined[list(active[0])] = 0.0
    for before, after, time in zip(active[:-1], active[1:], times, strict=True):
        joined[list(set(after) - set(before))] = time
    return joined
