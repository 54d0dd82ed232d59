"""The staircase of a user's run: its plateaus, and the network on each of them."""

import abc
import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from ..._axes import axes, styled
from ..._drops import PROMINENCE
from ..._narrowing._pytorch import in_words
from ..._result import Result
from ...diagnose import Plateaus, effective_width, plateaus
from ._record import Curve

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_DIVERGED = 1e3  # times the first loss, or the median one, from where no way leads back
_SLOWLY = 0.7  # of the loss in the third quarter of a stay, which is left in the fourth
_FALLING = "the loss goes on falling, by a third or more in the last quarter of that time"
_NEAR = 0.05  # of an epoch, from its boundary to where a drop begins and ends that happens there
_SEEN = 8  # samples, to which that is known at best
_FEWEST = 10 * _SEEN  # samples in an epoch: in shorter ones every moment is near a boundary
_SURE = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Stair:
    """One plateau of a run, and the network there.

    - `level`: its loss; `start`, `end`: the steps between which the run is on it; `strength`: the
      decades by which it is slower there than at the drops beside it.
    - `epoch`: whether all drops beside it happen at boundaries of epochs. The loss of examples
      falls when they are seen again: that is memory, and no saddle is passed.
    - `falls`: whether the loss is less by a third in the last quarter of the stay than in the one
      before, as at ends where it goes to zero: too slowly for a drop, and no rest.
    - `step`: of the weights that stand for it, None where there are none.
    - `layers`: of every hidden layer its name, how many units it has and how few would do.
    - `kind`: how those few sit in the network, nothing where none can be spared; `confirmed`:
      whether that is a fixed point, None where it was not asked; `slope`: how steep the loss is.
    - `notes`: what else is to be said of the network.
    """

    level: float
    start: float
    end: float
    strength: float
    epoch: bool = False
    falls: bool = False
    step: float | int | None = None
    layers: tuple[tuple[str, int, int], ...] = ()
    kind: str = ""
    confirmed: bool | None = None
    slope: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> int | None:
        """Effective width, of several hidden layers their sum; None without weights."""
        return sum(width for *_, width in self.layers) if self.layers else None


@dataclass(frozen=True, eq=False, repr=False)
class Stairs(Result):
    """The plateaus of a run in the order of time, and remarks on all of them.

    Where the record begins or ends within a drop there is none, and a remark says so.
    """

    stairs: tuple[Stair, ...]
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.stairs)

    def __getitem__(self, index: int) -> Stair:
        return self.stairs[index]

    def to_dataset(self) -> "xr.Dataset":
        """Return the plateaus along the dimension `stair`, without notes.

        `width` is the sum over hidden layers; what is not known is NaN, or an empty word.
        """
        import xarray as xr

        names = "level", "start", "end", "strength", "epoch", "falls"
        rows = {name: ("stair", [getattr(row, name) for row in self.stairs]) for name in names}
        for name in "width", "step", "slope":
            values = [getattr(row, name) for row in self.stairs]
            rows[name] = "stair", [np.nan if each is None else float(each) for each in values]
        rows["kind"] = "stair", [each.kind for each in self.stairs]
        rows["confirmed"] = "stair", [_SURE[each.confirmed] for each in self.stairs]
        return xr.Dataset(rows, attrs={"remarks": list(self.remarks)})

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw each plateau as a line from its start to its end. `style` goes to the lines."""
        ax = axes(ax)
        for k, each in enumerate(self.stairs):
            name = f"plateau {k}" if each.width is None else f"plateau {k}, width {each.width}"
            span, levels = (each.start, each.end), (each.level, each.level)
            ax.plot(span, levels, **styled(style, label=name, lw=2.0))
        ax.set(xlabel="step", ylabel="loss")
        ax.legend(frameon=False, fontsize="small")
        return ax

    def __str__(self) -> str:
        layers = next((each.layers for each in self.stairs if each.layers), ())
        names = [f"{in_words(name)} ({units})" for name, units, _ in layers]
        rows = [["level", "from", "to", "strength", *names, "type", "confirmed", "slope"]]
        for each in self.stairs:
            widths = [str(width) for *_, width in each.layers] or ["—"] * len(names)
            sure = _SURE[each.confirmed] or "—"
            slope = "—" if each.slope is None or np.isnan(each.slope) else f"{each.slope:.2g}"
            strength = "—" if np.isnan(each.strength) else f"{each.strength:.2f}"
            span = f"{each.start:.0f}", f"{each.end:.0f}", strength
            rows.append([f"{each.level:.5g}", *span, *widths, _kind(each), sure, slope])
        columns = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(cell.rjust(width) for cell, width in zip(row, columns, strict=True))
            for row in rows
        )
        return "\n".join([*lines, *self.remarks])


def _kind(stair: Stair) -> str:
    if stair.epoch or stair.falls:
        return "epoch" if stair.epoch else "falling"
    return stair.kind or ("—" if stair.step is not None else "no weights")


class AbstractRun(abc.ABC):
    """A user's run: its losses, and its weights at some steps."""

    epoch: int | None

    @property
    @abc.abstractmethod
    def curve(self) -> Curve:
        """Steps, and the loss at each."""

    @property
    @abc.abstractmethod
    def steps_with_weights(self) -> Sequence[float | int]: ...

    @abc.abstractmethod
    def network(self, step: float | int) -> Any:
        """Return the network with the weights of one of these steps."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save losses and weights to a folder, in the format of `festina.save`.

        `festina.own.read_watch(path, model)` reads it and executes nothing. Weights are saved by
        their names and need the model again; `read_watch(path)` has the losses alone.

        **Arguments:**

        - `path`: the folder to make, `run.zarr` say.
        - `overwrite`: replace a run that is already there.
        """
        from ._saved import save_run

        return save_run(self, path, overwrite=overwrite)

    def plateaus(self, **options: Any) -> Plateaus:
        """Return plateaus by the loss alone: `festina.diagnose.plateaus`, with its options.

        Losses that are not finite are passed over, which a warning says.
        """
        return plateaus(*self._finite(), **options)

    def stairs(
        self,
        data: Any = None,
        *,
        loss: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Stairs:
        """Return every plateau with the width and kind of the network there.

        **Arguments:**

        - `data`: inputs on which units are compared, `(inputs, targets)`, or a Dataset or a
          DataLoader of PyTorch. Without them there are plateaus only.
        - `loss`: of outputs and targets, what was minimised: it is asked whether the network is at
          a fixed point of so few units.
        - `options`: others of `festina.diagnose.effective_width`: its `tolerance`, or how a tree of
          weights is applied.

        The weights of the snapshot nearest to the slowest moment of a plateau stand for it; where
        there is none on the plateau, nothing is said of its widths.
        """
        found, (steps, _) = self.plateaus(), self.curve
        spacing = float(np.median(np.diff(steps))) if steps.size > 1 else 1.0
        beside = at_epochs(found, self.epoch, spacing)
        moments, rows = np.array(self.steps_with_weights), list[Stair]()
        only_rises = len(found) == 1 and found.rises.size > 0
        for k in [] if only_rises else np.flatnonzero(~found.at_speed).tolist():
            drops = beside[max(k - 1, 0) : k + 1]
            names = "level", "start", "end", "strength"
            row: dict[str, Any] = {name: float(getattr(found, name)[k]) for name in names}
            row["epoch"] = bool(drops.size and drops.all())
            row["falls"] = self._falls(row["start"], row["end"])
            here = moments[(moments >= row["start"]) & (moments <= row["end"])]
            if here.size:
                row["step"] = step = here[np.argmin(np.abs(here - found.time[k]))].item()
                row |= self._widths(step, data, loss=loss, **options)
            rows.append(Stair(**row))
        notes = dict.fromkeys(note for row in rows for note in row.notes)
        falling = [f"falling: {_FALLING}"] * any(row.falls for row in rows)
        at_ends = (
            f"{beside.sum()} of {beside.size} drops happen where epochs end: examples are seen "
            "again and known. No saddle is left there."
        )
        below_its_table = str(found).splitlines()[2 + len(found) :]
        remarks = *([at_ends] * bool(beside.any())), *falling, *notes, *below_its_table
        return Stairs(tuple(rows), remarks)

    @property
    def rests_since(self) -> float | None:
        """The step since which the loss rests; None if the record ends within a drop."""
        *_, last = self.stairs().stairs or (None,)
        if last is None or last.falls or last.strength < PROMINENCE:
            return None
        return last.start if last.end >= self.curve[0][-1] else None

    def _falls(self, start: float, end: float) -> bool:
        steps, losses = self.curve
        late = losses[(steps >= 0.5 * (start + end)) & (steps <= end)]
        half = len(late) // 2  # means of halves: of mini-batches each is another loss
        return bool(half and 0.0 <= late[half:].mean() < _SLOWLY * late[:half].mean())

    def draw(self, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draw the loss with its plateaus and drops.

        `options` are those of `plateaus`; others, such as `color`, go to `Axes.plot`.
        """
        steps, losses = self._finite()
        known = inspect.signature(plateaus).parameters
        style = {name: options.pop(name) for name in list(options) if name not in known}
        ax = plateaus(steps, losses, **options).draw(ax, times=steps, loss=losses, **style)
        ax.set(xlabel="step")
        return ax

    def _widths(self, step: float | int, data: Any, **options: Any) -> dict[str, Any]:
        if data is None:
            return {}
        paired = isinstance(data, tuple | list)
        if paired and len(data) != 2:
            raise ValueError(
                f"`data` must be inputs and targets, got {len(data)} of them. Several inputs are a "
                "tuple of their own: ((x, mask), y)."
            )
        x, y = data if paired else (data, None)
        found = effective_width(self.network(step), x, y=y, **options)
        names = "layers", "confirmed", "slope", "notes"
        kind = found.kind or ("tuned" if found.width < found.units else "")
        return {"kind": kind} | {name: getattr(found, name) for name in names}

    def _finite(self) -> Curve:
        steps, losses = self.curve
        if not steps.size:
            raise ValueError("There is no loss yet: call `.log(loss)` before each step.")
        fine = np.isfinite(losses)
        if fine.any():  # what leads to infinity is no part of it either
            usual = max(losses[0], np.median(np.abs(losses[fine])))
            if not losses[-1] < _DIVERGED * usual:
                fine[np.flatnonzero(fine & ~(losses > usual))[-1] + 1 :] = False
        if not fine.any():
            raise ValueError("None of the losses is finite: the run diverged from its first step.")
        if not fine.all():
            first = steps[np.argmin(fine)]
            rest = "and all that follow" if not fine[np.argmin(fine) :].any() else "the first"
            warnings.warn(
                f"{np.sum(~fine)} of {fine.size} losses are not finite, or lead there, "
                f"{rest} at step {first:.0f}: they are passed over."
            )
        return steps[fine], losses[fine]


def at_epochs(
    found: Plateaus, epoch: int | None, spacing: float = 1.0
) -> Bool[np.ndarray, " fall"]:
    """Return which drops begin and end where an epoch does.

    Mostly it is the same boundary; two where an epoch between was too weak a plateau to count.
    """
    if epoch is None or epoch < _FEWEST * spacing:
        return np.zeros(len(found) - 1, dtype=bool)
    edges = np.stack([found.end[:-1], found.start[1:]])
    away = np.abs(edges - epoch * np.round(edges / epoch))
    return np.all(away <= max(_NEAR * epoch, _SEEN * spacing), axis=0)
