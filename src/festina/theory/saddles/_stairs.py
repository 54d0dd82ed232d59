"""The class `Staircase`, and functions that all predictors of staircases share."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, Int

from ..._axes import TIME, axes, label_loss, styled
from ..._checks import check_lane
from ..._drops import MERGE
from ..._objective import loss_formula
from ..._result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL = "theory: staircase"

_FAR = 0.1  # largest difference of initial loss and first level, in units of the learnable loss
_VAGUE = 0.05  # largest relative uncertainty of a time without a warning
_SMALL = 1.5 * MERGE  # fraction of the initial loss; smaller drops may not count in training

_ARRAYS = ("levels", "times", "uncertainty", "joined", "initial", "fewest", "most")

Members = Literal["modes", "coordinates", "units"]


@dataclass(frozen=True, eq=False, repr=False)
class Staircase(Result):
    r"""Result of `staircase`: the levels of the plateaus, and the times of the drops between them.

    - `levels`: the loss of each plateau, first plateau first. The level is the loss at the saddle,
      which training passes at a distance.
    - `times`: when the loss passes the middle between one plateau and the next (`drop_time` in
      `festina.diagnose.plateaus`); one fewer than levels.
    - `uncertainty`: estimated error of each time, in the units of `times`. The error increases with
      the distance at which the flow passes the saddles, and therefore with the initial scale.
    - `active`: the members that are learned on each plateau, as sorted indices.
    - `joined`: for each member, the time of the jump at which it became active. If a member becomes
      dormant and active again, the last time counts. The time is zero for members that are active
      from the start, and infinite for members that never become active.
    - `members`: what becomes active: `"modes"` of a linear network (eigenvectors of
      $\Sigma_{yx}\Sigma_{xx}^{-1}\Sigma_{xy}$ for inputs x and targets y, largest eigenvalue
      first), `"coordinates"` of a diagonal network, or `"units"`. For white inputs these
      eigenvectors are the left singular vectors of $\Sigma_{yx}$.
    - `initial`: the loss of the initial weights.
    - `fewest`, `most`: how many plateaus training may have. `fewest` and `most` differ from the
      number of `levels` if, at some plateau, the squared gradient dips by 0.4 to 0.6 decades, close
      to the half decade at which a plateau counts.
    - `convention`: the convention of the loss, which also sets the unit of time.

    Members that become active at the same jump are learned together: their rates coincide, or are
    too close for a plateau in between at these initial weights.

    The staircases of a batch of networks are one `Staircase`. The arrays of this `Staircase` have
    the axes of the batch in front and are padded with NaN where a network has fewer plateaus than
    another; `active` is a nested tuple. `lane(0)` is the staircase of one network.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import fully_connected, seeds
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import staircase
    >>> network = fully_connected(2, 5, 2, scale=1e-4, key=seeds(1)[0])
    >>> stairs = staircase(network, linear_teacher(np.diag([2.0, 1.0])))
    >>> stairs.times.round(2), stairs.active
    (array([4.44, 8.2 ]), ((), (0,), (0, 1)))
    >>> stairs.loss(np.array([0.0, 6.0, 20.0])).round(3)
    array([2.5, 0.5, 0. ])
    """

    levels: Float[np.ndarray, "*batch stage"]
    times: Float[np.ndarray, "*batch jump"]
    active: tuple[Any, ...]
    joined: Float[np.ndarray, "*batch member"]
    members: Members
    uncertainty: Float[np.ndarray, "*batch jump"]
    initial: Float[np.ndarray, "*batch"]
    fewest: Int[np.ndarray, "*batch"]
    most: Int[np.ndarray, "*batch"]
    convention: str = "half"

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.levels.shape[:-1]

    @property
    def count(self) -> Int[np.ndarray, "*batch"]:
        """Number of plateaus of each network."""
        return np.asarray(np.sum(~np.isnan(self.levels), axis=-1))

    def lane(self, *index: int) -> "Staircase":
        """Return the staircase of one network of a batch, without padding."""
        check_lane(index, self.batch_shape, alone="staircase")
        own: dict[str, Any] = {name: np.asarray(getattr(self, name)[index]) for name in _ARRAYS}
        own["active"] = functools.reduce(lambda nested, i: nested[i], index, self.active)
        count = int(self.count[index])
        for name in ("levels", "times", "uncertainty"):
            own[name] = own[name][: count - (name != "levels")]
        return replace(self, **own)

    def lanes(self) -> "list[Staircase]":
        """Return the staircases of all networks of a batch in one list."""
        if not self.batch_shape:
            return [self]
        return [self.lane(*index) for index in np.ndindex(*self.batch_shape)]

    def doubts(self) -> tuple[str, ...]:
        """Return sentences on how training may differ from the prediction.

        The sentences concern the start, the number of plateaus, the times and small drops. For a
        batch, each sentence begins with the index of the network.
        """
        if self.batch_shape:
            return tuple(
                f"Network {', '.join(map(str, index))}: {doubt}"
                for index in np.ndindex(*self.batch_shape)
                for doubt in self.lane(*index).doubts()
            )
        found, first = list[str](), float(self.levels[0])
        if abs(self.initial - first) > _FAR * (first - self.levels[-1]) + 1e-6 * first:
            found.append(
                f"The staircase assumes a start near a saddle of loss {first:.6g}, but the initial "
                f"weights have the loss {self.initial:.6g}. Training may show no first "
                "plateau, and its times may differ. Start from smaller weights, or on a plateau."
            )
        if self.fewest != self.most:
            found.append(
                f"Training may show {self.fewest} to {self.most} plateaus; {self.count} are "
                "predicted. One plateau slows training down by close to half a decade, the limit "
                "at which a plateau counts."
            )
        vague = self.uncertainty > _VAGUE * self.times
        if vague.any():
            worst = int(np.argmax(self.uncertainty - _VAGUE * self.times))
            found.append(
                f"{vague.sum()} of {vague.size} times are uncertain by more than {_VAGUE:.0%}, the "
                f"jump at {self.times[worst]:.4g} by {self.uncertainty[worst]:.2g}, because "
                "training passes the saddle at a distance. Start from smaller weights."
            )
        drops = -np.diff(self.levels) / self.initial
        if (drops < _SMALL).any():
            least = int(np.argmin(drops))
            found.append(
                f"The drop at {self.times[least]:.4g} lowers the loss by {drops[least]:.1g} of the "
                f"initial loss. `festina.diagnose.plateaus` leaves out drops below {MERGE:g} "
                "unless `merge` is smaller."
            )
        return tuple(found)

    def __str__(self) -> str:
        if self.batch_shape:
            fewest, most = self.count.min(), self.count.max()
            many = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            size = " × ".join(map(str, self.batch_shape))
            return f"{size} staircases of {many} levels of the loss '{self.convention}'"
        left = [f"{time:.6g}" for time in self.times] + [""]
        error = [f"{error:.1g}" for error in self.uncertainty] + [""]
        rows = [f"{'level':>12} {'left at':>12} {'±':>8}   active {self.members}"]
        for level, time, by, active in zip(self.levels, left, error, self.active, strict=True):
            names = ", ".join(map(str, active)) or "none"
            rows.append(f"{level:12.6g} {time:>12} {by:>8}   {names}")
        heading = f"{len(self.levels)} levels of the loss '{self.convention}'"
        return "\n".join([heading, *rows, *self.doubts()])

    def loss(self, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, "*batch time"]:
        """Return the level of the plateau at each of `times`: a step function of time."""
        losses = [each.levels[np.searchsorted(each.times, times)] for each in self.lanes()]
        return np.reshape(losses, (*self.batch_shape, *np.shape(times)))

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the loss as a staircase over time, labelled with the active members on each step.

        Axes that already contain a training run or other staircases can be passed as `ax`: the
        staircase then extends as far as the existing lines, and the legend has one entry for all
        staircases. For a batch, one staircase is drawn for each network. `style` is passed to
        `Axes.stairs`, for example `color`.

        Raises `ValueError` if `ax` shows a loss in another convention, or over steps instead of
        time.
        """
        ax = axes(ax)
        label_loss(ax, TIME, loss_formula(self.convention))
        for each in self.lanes():
            each._draw(ax, dict(style))
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False)
        return ax

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        last = 1.25 * float(self.times[-1]) if len(self.times) else 1.0
        shown = ax.dataLim.x1 if ax.has_data() else 0.0
        edges = [0.0, *self.times, max(last, shown)]
        labels = ax.get_legend_handles_labels()[1]
        label = None if (name := style.pop("label", _LABEL)) in labels else name
        how = styled(style, color="black", lw=1.0, ls="--")
        ax.stairs(self.levels, edges, baseline=None, label=label, **how)
        if label:  # only the first of several staircases is annotated
            for level, left, active in zip(self.levels, edges, self.active, strict=False):
                words = ", ".join(map(str, active)) or f"no {self.members}"
                ax.annotate(words, (left, level), (2, 2), textcoords="offset points", fontsize=8)


def stacked(found: list[Staircase], batch: tuple[int, ...]) -> Staircase:
    """Return the staircases of all networks of a batch as one `Staircase`."""
    if not batch:
        return found[0]

    def padded(name: str) -> np.ndarray:
        rows = [getattr(each, name) for each in found]
        if not rows[0].ndim:
            return np.reshape(rows, batch)
        length = max(row.size for row in rows)
        ends = [np.append(row, np.full(length - row.size, np.nan)) for row in rows]
        return np.reshape(ends, (*batch, length))

    active: list[Any] = [each.active for each in found]
    for size in reversed(batch[1:]):
        active = [tuple(active[i : i + size]) for i in range(0, len(active), size)]
    return replace(found[0], active=tuple(active), **{name: padded(name) for name in _ARRAYS})


def warned(found: Staircase) -> Staircase:
    """Return the same staircase, and warn if training may differ from it."""
    if doubts := found.doubts():
        text = " ".join(doubts)
        if found.batch_shape:
            many = sum(bool(each.doubts()) for each in found.lanes())
            text = f"{many} of {found.count.size} staircases may differ from training "
            text += f"(`doubts()` lists how). {doubts[0]}"
        warnings.warn(text, stacklevel=4)
    return found


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the point between `low` and `high` at which the function changes its sign."""
    from scipy.optimize import root_scalar

    return float(root_scalar(function, bracket=(low, high), method="brentq").root)


def warn_unless_ended(solution: Any) -> None:
    """Warn if SciPy's integration of a jump stopped before one of its events."""
    if solution.status != 1:
        why = f"the weights had not come to rest {solution.t[-1]:.3g} after the start of the jump"
        warnings.warn(
            f"The integration of a jump of the staircase stopped early: "
            f"{why if solution.status == 0 else solution.message}. Later levels and times are "
            "unreliable; train (`festina.gradient_flow`) to check them.",
            stacklevel=4,
        )


def joining_times(
    active: list[tuple[int, ...]], times: list[float], members: int
) -> Float[np.ndarray, " member"]:
    """Return when each member became active, as in `Staircase.joined`."""
    joined = np.full(members, np.inf)
    joined[list(active[0])] = 0.0
    for before, after, time in zip(active[:-1], active[1:], times, strict=True):
        joined[list(set(after) - set(before))] = time
    return joined
