"""Find the staircase of a run: its plateaus, and the effective width of the network on each."""

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

_DIVERGED = 1e3  # a loss above this multiple of the first or median loss has diverged
_SLOWLY = 0.7  # a plateau falls if its loss decreases by this factor from third to fourth quarter
_FALLING = "the loss goes on falling, by a third or more in the last quarter of that time"
_NEAR = 0.05  # largest distance of a drop's ends from an epoch boundary, in epochs
_SEEN = 8  # smallest such distance that can be resolved, in samples
_FEWEST = 10 * _SEEN  # fewest samples in an epoch: in shorter epochs all samples are near an end
_SURE = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Stair:
    """One plateau of a run, with the effective width and type of the network on the plateau.

    - `level`: loss on the plateau.
    - `start`, `end`: first and last step of the plateau.
    - `strength`: decades by which learning is slower on the plateau than at the drops beside it.
    - `epoch`: whether all drops beside the plateau happen at epoch boundaries. Drops at epoch
      boundaries come from memory, because examples are seen again, and not from leaving a saddle.
    - `falls`: whether the loss falls by about a third from the third to the last quarter of the
      plateau. A plateau that `falls` is not at rest, but too slow for a drop, for example on the
      way to zero.
    - `step`: step of the weights that represent the plateau; None without weights.
    - `layers`: for each hidden layer its name, its number of units and its effective width.
    - `kind`: how the network embeds a narrower network of the effective width; empty if all units
      are needed.
    - `confirmed`: whether the narrower network is at a fixed point; None if this was not tested.
    - `slope`: |gradient| · |weights| divided by the loss.
    - `notes`: remarks on the network.

    **Example:**

    >>> import numpy as np
    >>> from festina.own import from_checkpoints
    >>> losses = 1 - 0.8 / (1 + np.exp((50 - np.arange(100)) / 3))
    >>> stair = from_checkpoints([], losses, at=[]).stairs()[1]
    >>> round(stair.level, 3), round(stair.start), stair.width
    (0.2, 59, None)
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
        """Effective width, summed over hidden layers; None without weights."""
        return sum(width for *_, width in self.layers) if self.layers else None


@dataclass(frozen=True, eq=False, repr=False)
class Stairs(Result):
    """Result of `Watch.stairs`: the plateaus of a run in the order of time, with remarks.

    A record that begins or ends within a drop has no plateau before or after this drop; a remark
    says so. `stairs` holds the plateaus, each a `Stair`.

    **Example:**

    >>> import numpy as np
    >>> from festina.own import from_checkpoints
    >>> losses = 1 - 0.8 / (1 + np.exp((50 - np.arange(100)) / 3))
    >>> stairs = from_checkpoints([], losses, at=[]).stairs()
    >>> stairs.to_dataset()["level"].values.round(3)
    array([1. , 0.2])
    """

    stairs: tuple[Stair, ...]
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.stairs)

    def __getitem__(self, index: int) -> Stair:
        return self.stairs[index]

    def to_dataset(self) -> "xr.Dataset":
        """Return the plateaus along the dimension `stair`, without notes.

        `width` is the sum over hidden layers. Unknown numbers are NaN, and unknown text is empty.
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
        """Plot each plateau as a line from its start to its end. `style` applies to the lines."""
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
    """A run of the user: its losses, and its weights at some steps."""

    epoch: int | None

    @property
    @abc.abstractmethod
    def curve(self) -> Curve:
        """Steps, and the loss at each step."""

    @property
    @abc.abstractmethod
    def steps_with_weights(self) -> Sequence[float | int]: ...

    @abc.abstractmethod
    def network(self, step: float | int) -> Any:
        """Return the network with the weights of one of these steps."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save losses and weights to a folder, in the format of `festina.save`.

        `festina.own.read_watch(path, model)` reads the folder without executing code. Weights are
        saved by name and need the model again; `read_watch(path)` returns only the losses.

        **Arguments:**

        - `path`: the folder to make, for example `run.zarr`.
        - `overwrite`: replace an existing run.
        """
        from ._saved import save_run

        return save_run(self, path, overwrite=overwrite)

    def plateaus(self, **options: Any) -> Plateaus:
        """Return the plateaus of the loss by `festina.diagnose.plateaus`, with its options.

        Losses that are not finite are left out, with a warning.
        """
        return plateaus(*self._finite(), **options)

    def stairs(
        self,
        data: Any = None,
        *,
        loss: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Stairs:
        """Return every plateau, with the effective width and type of the network on it.

        **Arguments:**

        - `data`: inputs on which units are compared, a pair `(inputs, targets)`, or a PyTorch
          Dataset or DataLoader. Without `data`, only plateaus are returned.
        - `loss`: the training loss as a function of outputs and targets. With `loss`, the result
          tells whether the network is at a fixed point of its effective width.
        - `options`: further options of `festina.diagnose.effective_width`: its `tolerance`, or
          `apply` for a tree of weights.

        A plateau is represented by the snapshot nearest to its slowest moment. A plateau without
        snapshots has no effective width.
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
            f"{beside.sum()} of {beside.size} drops happen where epochs end, because examples are "
            "seen again and remembered. Such drops do not leave a saddle."
        )
        below_its_table = str(found).splitlines()[2 + len(found) :]
        remarks = *([at_ends] * bool(beside.any())), *falling, *notes, *below_its_table
        return Stairs(tuple(rows), remarks)

    @property
    def rests_since(self) -> float | None:
        """Step since which the loss has rested; None if the loss does not rest at the end."""
        *_, last = self.stairs().stairs or (None,)
        if last is None or last.falls or last.strength < PROMINENCE:
            return None
        return last.start if last.end >= self.curve[0][-1] else None

    def rests_since_at(self, loss: float) -> float | None:
        """Return `rests_since` for a network with this loss, or None for an earlier network.

        The network is earlier if its loss is closer to the level before the last plateau.
        """
        since = self.rests_since
        if since is None:
            return None
        *earlier, last = self.stairs().stairs
        before = earlier[-1].level if earlier else float(self.curve[1][0])
        return None if abs(loss - before) < abs(loss - last.level) else since

    def _falls(self, start: float, end: float) -> bool:
        steps, losses = self.curve
        late = losses[(steps >= 0.5 * (start + end)) & (steps <= end)]
        half = len(late) // 2  # means of halves, because losses of mini-batches are noisy
        return bool(half and 0.0 <= late[half:].mean() < _SLOWLY * late[:half].mean())

    def draw(self, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Plot the loss with its plateaus and drops.

        `options` are those of `plateaus`; other options, such as `color`, go to `Axes.plot`.
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
                f"`data` must be inputs and targets, got {len(data)} entries. Give several inputs "
                "as a tuple of their own: ((x, mask), y)."
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
        if fine.any():  # also leave out the losses on the way to infinity
            usual = max(losses[0], np.median(np.abs(losses[fine])))
            if not losses[-1] < _DIVERGED * usual:
                fine[np.flatnonzero(fine & ~(losses > usual))[-1] + 1 :] = False
        if not fine.any():
            raise ValueError("None of the losses is finite: the run diverged from its first step.")
        if not fine.all():
            first = steps[np.argmin(fine)]
            where = "from" if not fine[np.argmin(fine) :].any() else "the first at"
            warnings.warn(
                f"{np.sum(~fine)} of {fine.size} losses are infinite, NaN or diverging, {where} "
                f"step {first:.0f}: they are left out."
            )
        return steps[fine], losses[fine]


def at_epochs(
    found: Plateaus, epoch: int | None, spacing: float = 1.0
) -> Bool[np.ndarray, " fall"]:
    """Return which drops both begin and end near an epoch boundary.

    Most drops begin and end near the same boundary. A drop may span two boundaries if the plateau
    between them is too weak to count.
    """
    if epoch is None or epoch < _FEWEST * spacing:
        return np.zeros(len(found) - 1, dtype=bool)
    edges = np.stack([found.end[:-1], found.start[1:]])
    away = np.abs(edges - epoch * np.round(edges / epoch))
    return np.all(away <= max(_NEAR * epoch, _SEEN * spacing), axis=0)
