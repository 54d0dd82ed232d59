"""What a simulation returns, and how it becomes a Run."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal

import jax
import numpy as np
from jaxtyping import Float, Int

from .._checks import check_lane, finite_array, number, whole_number
from .._precision import float64
from .._result import Result
from .._types import Array
from ..networks._final_networks import FINAL
from ..networks._labels import Labels, axis_names, coordinates, lane_labels
from ..networks._network import Network
from ..networks._structure import AbstractStructure
from ._logbook import Pieces
from ._width import Widen

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

Reason = Literal[
    "converged",
    "stationary",
    "saddle",
    "finished",
    "interrupted",
    "out of steps",
    "diverged",
    "step underflow",
]

TakenSolver = Literal["explicit", "implicit", "descent"]

LAST = slice(-1, None)
NAMES = ("loss", "squared_gradient", "time", "save", "saves", "evaluations", "ending", "message")
"""Names of variables and axes in every data set of a trajectory."""


@dataclass(frozen=True)
class Ending:
    """How one trajectory ended, in a word and in a sentence."""

    reason: Reason
    message: str

    @property
    def failed(self) -> bool:
        return self.reason in ("diverged", "step underflow", "out of steps")


@dataclass(frozen=True)
class Samples(Generic[Network]):
    """The weights at samples of a run, made as wide as the network when they are asked for."""

    like: Network
    structure: AbstractStructure  # of as many units as were trained
    widen: Widen
    every: Pieces | None
    last: Float[np.ndarray, "lane 1 weight"]

    def __call__(self, which: slice) -> Network:
        if which == LAST:
            weights = self.last
        elif self.every is not None:
            weights = self.every.weights[:, which]
        else:
            raise ValueError(
                "Where `observe` says what is kept, of the weights only `final` is: `observe` "
                "whatever else you need of the network at all samples, or train without it."
            )
        few = self.like.with_parts(*self.structure.arrays(np.moveaxis(weights, -1, 0)))
        wide, batch = self.widen(few, slice(None)), self.like.batch_shape
        return jax.tree.map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), wide)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Result, Generic[Network]):
    r"""Training of one network or of a batch of them.

    Axes of a batch come first, then the saved samples, which lie densely where the loss moves.
    Lanes of a batch that were saved at times of their own are padded with copies of their last
    sample; `saves` counts the true ones. At times that were asked for, the loss of a lane that did
    not get there is NaN; one that failed before the first has no weights either, and its ending
    says how far it got.

    - `time`: of each sample: flow time for `gradient_flow`, steps for `gradient_descent`.
    - `loss`, `squared_gradient`: $L$ and $|\partial L/\partial\theta|^2$ there.
    - `network`: the weights there, as one network with leading axes. They are put side by
      side when first looked at.
    - `observed`: what was to be kept instead of all weights, by name, `(*batch, save, …)`. Where
      there is any, only the `final` network is known; and where `losses_alone` were asked for.
    - `endings`: how each lane ended, in the order of the flattened batch.
    - `floor`: the loss of least squares on fixed features, which no training can go below.
    - `evaluations`: gradients computed for each lane, derivatives of them included.
    - `solver`: the steps that a flow took, `"explicit"` or `"implicit"` ones, or `"descent"`.
    - `settings`: what else it was trained with, by the names of the arguments: when it counts as
      converged, how large its mini-batches are.
    - `labels`: what the networks were drawn with (`scale`, `seed`, …), which names their axes.
    - `resume`: trains on to later stops, see `extend`; of a lane or a copy there is none.
    """

    time: Float[np.ndarray, "*batch save"]
    loss: Float[np.ndarray, "*batch save"]
    squared_gradient: Float[np.ndarray, "*batch save"]
    weights: Callable[[slice], Network]
    saves: Int[np.ndarray, "*batch"]
    endings: Sequence[Ending]
    floor: float
    evaluations: Int[np.ndarray, "*batch"]
    convention: str
    method: str
    learning_rate: Float[np.ndarray, "*batch"] | None
    shared_times: bool
    solver: TakenSolver = "descent"
    settings: Mapping[str, float | int] = field(default_factory=dict)
    observed: Mapping[str, Float[np.ndarray, "*_axes"]] = field(default_factory=dict)
    losses_alone: bool = False
    momentum: Float[np.ndarray, "*batch"] | None = None
    labels: Labels = field(default_factory=dict)
    resume: "Callable[[np.ndarray, Mapping[str, float]], Trajectory[Network]] | None" = None

    @functools.cached_property
    def network(self) -> Network:
        labels = {name: np.asarray(each)[..., None] for name, each in self.labels.items()}
        return self.weights(slice(None)).with_labels(labels)

    def __getstate__(self) -> dict[str, object]:
        """Without the network, which can be made again of what is kept, and unable to go on."""
        left_out = ("network", "resume")
        return {name: part for name, part in vars(self).items() if name not in left_out}

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.saves.shape

    @property
    def failed(self) -> bool:
        """Whether any lane failed; `endings` says why."""
        return any(ending.failed for ending in self.endings)

    @property
    def slope(self) -> Float[np.ndarray, "*batch save"]:
        r"""$dL/dt = -|\partial L/\partial\theta|^2$; of descent, which counts steps, times η.

        With momentum μ, times η/(1 − μ): so fast a heavy ball is where its slope changes slowly.
        """
        rate = 1.0 if self.learning_rate is None else self.learning_rate[..., None]
        lasting = 1.0 if self.momentum is None else 1.0 - self.momentum[..., None]
        return -self.squared_gradient * rate / lasting

    @property
    def final(self) -> Network:
        """The trained network, or the batch of them, NaN where a lane has no sample at all."""
        if not self.saves.any():
            raise ValueError(
                "`final` is the network of the last sample, and there is none: "
                f"{self.endings[0].message}"
            )
        last = (*(slice(None),) * len(self.batch_shape), -1)
        trained = jax.tree.map(lambda leaf: leaf[last], self.weights(LAST))
        return trained.with_labels(self.labels)

    @float64
    def extend(
        self,
        times: Float[np.ndarray, " time"] | None = None,
        *,
        t_end: float | None = None,
        steps: int | None = None,
    ) -> "Trajectory[Network]":
        """Train on to a later end: the run that had gone there in one go, to its tolerance.

        Its clock, its next step and a heavy ball's velocity are those of the end of this run, which
        stays a sample. Networks that have converged or failed stay as they are; the others have as
        many steps again. `gradient_flow(run.final, task)` instead starts a new run.

        **Arguments**, one of them, on the clock of this run:

        - `times`: samples to be added to those of a flow that was given `times`.
        - `t_end`: where any other flow stops.
        - `steps`: where descent stops; those that it has taken count.
        """
        end = "steps" if self.solver == "descent" else "times" if self.shared_times else "t_end"
        given = {"times": times, "t_end": t_end, "steps": steps}
        if [name for name, value in given.items() if value is not None] != [end]:
            example = {"steps": "steps=100_000", "times": "times=[200, 300]", "t_end": "t_end=200"}
            raise ValueError(
                f"`extend` takes `{end}` for this run and nothing else: run.extend({example[end]})."
            )
        check = {"times": finite_array, "t_end": number, "steps": whole_number}[end]
        value, reached = check(end, given[end]), np.nanmax(self.time)
        stops = np.ravel(value).astype(float)
        if (np.diff(stops, prepend=reached) <= 0).any():
            more = ", and increase" * (end == "times")
            raise ValueError(f"`{end}` must lie after the end of this run, {reached:g}{more}.")
        if all(ending.reason in ("diverged", "step underflow") for ending in self.endings):
            raise ValueError(f"There is nothing to extend. {self.endings[0].message}")
        if self.resume is None:
            raise ValueError(
                "Only the run that training returned can be extended, no lane or copy of it. Train "
                "its `final` network, which starts a new run."
            )
        return self.resume(stops, {} if end == "times" else {end: value})

    @property
    def dims(self) -> tuple[str, ...]:
        """What the axes of the batch are called, by what the networks were drawn with.

        An axis along which just one thing differs has its name (`scale`, `seed`, `balance`, …), one
        that seeds and something else differ along is called `seed`, and any other `batch_0`,
        `batch_1`, … by its place. An observable of the same name replaces such a label.
        """
        return axis_names(self._own_labels, self.batch_shape)

    def coordinates(
        self, dims: tuple[str, ...] | None = None
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """What the networks were drawn with, along axes with the names of `dims`."""
        return coordinates(self._own_labels, self.batch_shape, self.dims if dims is None else dims)

    @property
    def _own_labels(self) -> Labels:
        """Labels whose names no observable has."""
        return {name: each for name, each in self.labels.items() if name not in self.observed}

    def __repr__(self) -> str:
        batch = f"{self.batch_shape} networks, " if self.batch_shape else ""
        steps = " by implicit steps" if self.solver == "implicit" else ""
        begun = (self.saves > 0) & np.isfinite(self.loss).any(axis=-1)
        known = self.loss[begun]
        samples = "no samples"
        if known.size:
            ends = self.saves[begun][:, None] - 1
            start, end = _range(known[:, 0]), _range(np.take_along_axis(known, ends, axis=1))
            samples = (
                f"{self.time.shape[-1]} samples, "
                f"time {self.time.min():.6g} to {self.time.max():.6g}, loss from {start} to {end}"
            )
        return f"Trajectory({batch}{self.method}{steps}, {samples}, {self._ends()})"

    def _ends(self) -> str:
        """How many lanes ended how, the most frequent first."""
        counts = Counter(ending.reason for ending in self.endings).most_common()
        (reason, count), *others = counts
        if not others:
            return f"all {reason}" if self.batch_shape else reason
        rest = (f"{count} {reason}" for reason, count in others)
        return ", ".join((f"{count} of {len(self.endings)} {reason}", *rest))

    def lane(self, *index: int) -> "Trajectory[Network]":
        """One trajectory of a batch, without padding."""
        check_lane(index, self.batch_shape, alone="trajectory")
        index = tuple(i % length for i, length in zip(index, self.batch_shape, strict=True))
        flat = int(np.ravel_multi_index(index, self.batch_shape)) if index else 0
        upto = (*index, slice(0, int(self.saves[index])))
        rate, mu = self.learning_rate, self.momentum
        return replace(
            self,
            labels=lane_labels(self.labels, self.batch_shape, index),
            resume=None,
            time=self.time[upto],
            loss=self.loss[upto],
            squared_gradient=self.squared_gradient[upto],
            weights=functools.partial(_within, self, index),
            observed={name: array[upto] for name, array in self.observed.items()},
            saves=np.asarray(self.saves[index]),
            endings=(self.endings[flat],),
            evaluations=np.asarray(self.evaluations[index]),
            learning_rate=None if rate is None else np.asarray(rate[index]),
            momentum=None if mu is None else np.asarray(mu[index]),
        )

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw the loss against time, a thin line for each network; on new axes if none are given.

        `style` goes to `Axes.plot`, for example `color` or `label`.

        Lines are named by what the networks differ in (`labels`, learning rates), as long as there
        are no more than eight such names; of more networks than that seeds share theirs. Time is
        logarithmic where some loss has halved within a hundredth of it, the loss where it rests at
        levels a hundredfold apart: `draw().set_yscale("log")` says otherwise.
        """
        from ._draw import draw_loss

        return draw_loss(self, ax, style)

    def to_dataset(self, dims: tuple[str, ...] | None = None) -> "xr.Dataset":
        """The trajectory with named axes: `dims` for the batch, then `time`.

        By default axes have the names that the trajectory's own `dims` say, with what the networks
        were drawn with as coordinates: `scale[:, None]` and `seeds(3, first=10)` make an axis
        `scale` of these scales and an axis `seed` of 10, 11, 12. What differs along several axes,
        or beside another thing along one, is a coordinate over these; what is the same for all is
        one without axes. Seeds are known of `festina.seeds` and `jax.random.key`; axes of which
        nothing is known, as of keys made by `jax.random.split`, are `batch_0`, … and are counted:
        `network.labelled(…)` says more. Names in `dims` replace those of the axes.

        Lanes with times of their own have an axis `save` and a coordinate `time(…, save)`. Where
        `observe` said what is kept, the weights of the `final` network are `final_u`, `final_v`, ….
        """
        import xarray as xr

        from .._objective import loss_formula

        batch = self.dims if dims is None else dims
        if len(batch) != len(self.batch_shape):
            raise ValueError(f"`dims` must name the axes {self.batch_shape}, got {batch}.")
        parts = (*self._kept(), *self._ended())
        taken = {*NAMES, *(name for name, *_ in parts)}
        taken |= {axis for _, axes, _ in parts for axis in axes}
        if clash := taken & {*batch}:
            raise ValueError(
                f"`dims` calls an axis {clash.pop()!r}, which is the name of something else in "
                "the data set. Choose another name."
            )
        axis = "time" if self.shared_times else "save"
        over = (*batch, axis)
        first = (0,) * len(self.batch_shape)
        time = (axis, self.time[first]) if self.shared_times else (over, self.time)
        given = {"learning_rate": self.learning_rate, "momentum": self.momentum}
        swept = {name: (batch, each) for name, each in given.items() if _differs(each)}
        data = xr.Dataset(
            {
                "loss": (over, self.loss, {"long_name": f"loss {loss_formula(self.convention)}"}),
                "squared_gradient": (over, self.squared_gradient),
                **{name: ((*over, *axes), array) for name, axes, array in self._kept()},
                **{name: ((*batch, *axes), array) for name, axes, array in self._ended()},
                "saves": (batch, self.saves),
                "evaluations": (batch, self.evaluations),
                "ending": (batch, _words(self, [e.reason for e in self.endings])),
                "message": (batch, _words(self, [e.message for e in self.endings])),
            },
            coords={"time": time, **swept},
            attrs={
                **self.settings,
                "loss_convention": self.convention,
                "loss_floor": self.floor,
                "method": self.method,
                "solver": self.solver,
                "clock": "steps" if self.learning_rate is not None else "flow time",
                "learning_rate": _rates(self.learning_rate),
                **({} if self.momentum is None else {"momentum": _rates(self.momentum)}),
                **self.weights(LAST).attributes,
            },
        )
        return data.assign_coords(self.coordinates(batch))

    def _kept(self) -> list[tuple[str, tuple[str, ...], Array]]:
        """Name, axes and values of what is known at every sample: weights, or what was observed."""
        if not self.observed and not self.losses_alone:
            parts = self.network.part_axes.items(), self.network.parts
            return [(name, axes, part) for (name, axes), part in zip(*parts, strict=True)]
        axes = len(self.batch_shape) + 1
        return [
            (name, tuple(f"{name}_{axis}" for axis in range(array.ndim - axes)), array)
            for name, array in self.observed.items()
        ]

    def _ended(self) -> list[tuple[str, tuple[str, ...], Array]]:
        """The weights at the end, where they are not among those at every sample."""
        if not self.observed and not self.losses_alone:
            return []
        last, axis = self.weights(LAST), len(self.batch_shape)
        parts = zip(last.part_axes.items(), last.parts, strict=True)
        return [(f"{FINAL}{name}", axes, np.take(part, 0, axis)) for (name, axes), part in parts]


def _within(batch: Trajectory[Network], index: tuple[int, ...], which: slice) -> Network:
    if which == LAST:  # beyond the last sample of a lane there are copies of it
        return jax.tree.map(lambda leaf: leaf[index], batch.weights(which))
    saves = int(batch.saves[index])
    return jax.tree.map(lambda leaf: leaf[index][:saves][which], batch.network)


def _range(values: Float[np.ndarray, "*batch"]) -> str:
    """One number, or the smallest and the largest."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low}…{high}"


def _rates(rates: np.ndarray | None) -> float | list | str:
    """As an attribute: one number if all lanes have the same."""
    if rates is None:
        return "none"
    return rates.tolist() if _differs(rates) else float(rates.flat[0])


def _differs(rates: np.ndarray | None) -> bool:
    return rates is not None and bool((rates != rates.flat[0]).any())


def _words(trajectory: Trajectory, words: list[str]) -> np.ndarray:
    return np.array(words, dtype=str).reshape(trajectory.batch_shape)
