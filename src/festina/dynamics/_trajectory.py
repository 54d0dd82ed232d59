"""The result of training: losses, weights and endings of one network or of a batch."""

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
"""Names of variables and axes that every trajectory's data set contains."""


@dataclass(frozen=True)
class Ending:
    """How the training of one network ended: a reason, and a sentence that explains it.

    - `reason`: `"converged"`, `"stationary"`, `"saddle"`, `"finished"`, `"interrupted"`,
      `"out of steps"`, `"diverged"` or `"step underflow"`.
    - `message`: sentence with the time, the loss and the cause of this ending.

    **Example:**

    >>> import numpy as np
    >>> import festina
    >>> network = festina.networks.deep_linear_from([0.1 * np.eye(2), 0.1 * np.eye(2)])
    >>> task = festina.tasks.from_arrays(np.eye(2), np.diag([2.0, 1.0]))
    >>> run = festina.gradient_descent(network, task, 0.1, steps=100)
    >>> run.endings[0]
    Ending(reason='finished', message='Training ran to step 100 as requested.')
    """

    reason: Reason
    message: str

    @property
    def failed(self) -> bool:
        """Whether training diverged, ran out of steps, or found no step that was small enough."""
        return self.reason in ("diverged", "step underflow", "out of steps")


@dataclass(frozen=True)
class Samples(Generic[Network]):
    """Weights at the samples of a run, expanded to the user's network width on request."""

    like: Network
    structure: AbstractStructure  # the trained network may have fewer units
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
                "This run stored the values of `observe` at every sample, and weights only of the "
                "`final` network. Add what you need to `observe`, or train without `observe`."
            )
        few = self.like.with_parts(*self.structure.arrays(np.moveaxis(weights, -1, 0)))
        wide, batch = self.widen(few, slice(None)), self.like.batch_shape
        return jax.tree.map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), wide)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Result, Generic[Network]):
    r"""Training of one network or of a batch of networks, as returned by `gradient_flow`.

    The axes of the batch come first, then the axis of the saved samples. If the networks of a batch
    were saved at different times, shorter trajectories are padded with copies of their last sample,
    and `saves` gives the true number of samples. If the user gave the times, the loss is NaN after
    the time at which a network failed, and `endings` says when that was.

    - `time`: time of each sample, `(*batch, save)`: flow time, or steps of gradient descent.
    - `loss`, `squared_gradient`: $L$ and $|\partial L/\partial\theta|^2$ at each sample.
    - `network`: network with the weights of all samples; its leading axes are `(*batch, save)`.
    - `final`: trained network, with the weights of the last sample.
    - `observed`: values of the `observe` functions by name, `(*batch, save, …)`. A run with
      `observe` has no `network`.
    - `losses_alone`: whether `observe` was an empty dictionary, so that only losses were stored.
    - `endings`: how the training of each network ended, in the order of the flattened batch.
    - `saves`: number of samples of each network.
    - `floor`: least-squares loss on fixed features, which no training can go below.
    - `evaluations`: number of gradient evaluations for each network, including derivatives of the
      gradient.
    - `solver`: kind of steps: `"explicit"`, `"implicit"` or `"descent"`.
    - `convention`, `method`, `learning_rate`, `momentum`: loss convention and method of training.
    - `settings`: other arguments of the training by name, such as `rtol` or `batch_size`.
    - `labels`: values with which the networks were drawn (`scale`, `seed`, …), which name the axes.
    - `resume`: function that `extend` calls to continue training; None for a lane or a copy.

    **Example:**

    >>> import numpy as np
    >>> import festina
    >>> network = festina.networks.deep_linear_from([0.1 * np.eye(2), 0.1 * np.eye(2)])
    >>> task = festina.tasks.from_arrays(np.eye(2), np.diag([2.0, 1.0]))
    >>> run = festina.gradient_descent(network, task, 0.1, steps=100)
    >>> run
    Trajectory(gradient descent, 101 samples, time 0 to 100, loss from 1.235 to ..., finished)
    >>> run.final.end_to_end().round(2)
    array([[2., 0.],
           [0., 1.]])
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
        """Return the network with the weights of all samples, computed at the first access."""
        labels = {name: np.asarray(each)[..., None] for name, each in self.labels.items()}
        return self.weights(slice(None)).with_labels(labels)

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle: the network is computed again, and `extend` is disabled."""
        left_out = ("network", "resume")
        return {name: part for name, part in vars(self).items() if name not in left_out}

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Return the sizes of the batch axes."""
        return self.saves.shape

    @property
    def failed(self) -> bool:
        """Whether the training of any network of the batch failed; `endings` gives the causes."""
        return any(ending.failed for ending in self.endings)

    @property
    def slope(self) -> Float[np.ndarray, "*batch save"]:
        r"""Rate of change of the loss: $-|\partial L/\partial\theta|^2$, times η for descent.

        With momentum μ the factor is η/(1 − μ), the effective learning rate of a heavy ball where
        the gradient changes slowly.
        """
        rate = 1.0 if self.learning_rate is None else self.learning_rate[..., None]
        lasting = 1.0 if self.momentum is None else 1.0 - self.momentum[..., None]
        return -self.squared_gradient * rate / lasting

    @property
    def final(self) -> Network:
        """Return the trained network or networks; weights are NaN for a network without samples."""
        if not self.saves.any():
            raise ValueError(
                "`final` is the network at the last sample, but no network of this run has a "
                f"sample: {self.endings[0].message}"
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
        """Continue training to a later end, and return the trajectory of the whole run.

        Clock, step size and momentum continue from the end of this run, so the result equals a
        single run of the full length, up to the tolerance. The last sample of this run stays a
        sample of the result. Networks that have converged or failed stay as they are. The other
        networks may take `max_steps` further steps. By contrast, `gradient_flow(run.final, task)`
        starts a new run at time zero.

        **Arguments**, exactly one of:

        - `times`: further sample times, for a flow that was given `times`.
        - `t_end`: new latest time, for any other flow.
        - `steps`: new total number of steps, for gradient descent.
        """
        end = "steps" if self.solver == "descent" else "times" if self.shared_times else "t_end"
        given = {"times": times, "t_end": t_end, "steps": steps}
        if [name for name, value in given.items() if value is not None] != [end]:
            example = {"steps": "steps=100_000", "times": "times=[200, 300]", "t_end": "t_end=200"}
            raise ValueError(
                f"`extend` takes only `{end}` for this run, for example run.extend({example[end]})."
            )
        check = {"times": finite_array, "t_end": number, "steps": whole_number}[end]
        value, reached = check(end, given[end]), np.nanmax(self.time)
        stops = np.ravel(value).astype(float)
        if (np.diff(stops, prepend=reached) <= 0).any():
            more = " and increase" * (end == "times")
            raise ValueError(f"`{end}` must lie after the end of this run, {reached:g},{more}.")
        if all(ending.reason in ("diverged", "step underflow") for ending in self.endings):
            raise ValueError(
                f"Every network has failed, so no run can be extended. {self.endings[0].message}"
            )
        if self.resume is None:
            raise ValueError(
                "`extend` works only on the trajectory that training returned, not on a lane or a "
                "copy. To train a lane or a copy in a new run, use its `final` network."
            )
        return self.resume(stops, {} if end == "times" else {end: value})

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the names of the batch axes, derived from how the networks were drawn.

        If a single label (`scale`, `seed`, `balance`, …) varies along an axis, the axis has the
        name of this label. If seeds and another label vary along an axis, the axis is called
        `seed`. Any other axis is called `batch_0`, `batch_1`, … by its position. A label with the
        name of an `observed` value is ignored.
        """
        return axis_names(self._own_labels, self.batch_shape)

    def coordinates(
        self, dims: tuple[str, ...] | None = None
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the labels of the networks as xarray coordinates along axes called `dims`."""
        return coordinates(self._own_labels, self.batch_shape, self.dims if dims is None else dims)

    @property
    def _own_labels(self) -> Labels:
        """Return the labels whose names are not names of observed values."""
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
        """Return the counts of the endings' reasons as text, most frequent reason first."""
        counts = Counter(ending.reason for ending in self.endings).most_common()
        (reason, count), *others = counts
        if not others:
            return f"all {reason}" if self.batch_shape else reason
        rest = (f"{count} {reason}" for reason, count in others)
        return ", ".join((f"{count} of {len(self.endings)} {reason}", *rest))

    def lane(self, *index: int) -> "Trajectory[Network]":
        """Return the trajectory of one network of a batch, without padding."""
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
        """Plot the loss against time, one thin line for each network, on `ax` or on new axes.

        `style` is passed to `Axes.plot`, for example `color` or `label`.

        The legend names each line by the labels and learning rates in which the networks differ. If
        there would be more than eight names, networks that differ only in their seed share a name.
        The time axis is logarithmic if some loss halves within 1 % of the time. The loss axis is
        logarithmic if the plateaus differ by a factor above 100; call `draw().set_yscale(…)` to
        choose another scale.

        Raises `ValueError` if `ax` shows a loss in another convention, or over another clock (time
        or steps).
        """
        from ._draw import draw_loss

        return draw_loss(self, ax, style)

    def to_dataset(self, dims: tuple[str, ...] | None = None) -> "xr.Dataset":
        """Return an `xarray.Dataset` with named axes: the axes of the batch, then `time`.

        By default the property `dims` names the axes of the batch, and the labels with which the
        networks were drawn become coordinates. For example, `scale[:, None]` and
        `seeds(3, first=10)` give an axis `scale`, and an axis `seed` with the values 10, 11, 12.
        Several labels that vary along one axis become coordinates of this axis. A label with a
        single value becomes a coordinate without axes. Seeds are known for keys from
        `festina.seeds` and `jax.random.key`, but not from `jax.random.split`. An unlabelled axis
        is called `batch_0`, … and numbered; add labels with `network.labelled(…)`. The argument
        `dims` overrides the names of the batch axes.

        Networks that were saved at different times have an axis `save` and a coordinate
        `time(…, save)`. A run with `observe` stores the weights of the `final` network as
        `final_u`, `final_v`, ….
        """
        import xarray as xr

        from .._objective import loss_formula

        batch = self.dims if dims is None else dims
        if len(batch) != len(self.batch_shape):
            raise ValueError(
                f"`dims` must have one name for each of the batch axes {self.batch_shape}, got "
                f"{batch}."
            )
        parts = (*self._kept(), *self._ended())
        taken = {*NAMES, *(name for name, *_ in parts)}
        taken |= {axis for _, axes, _ in parts for axis in axes}
        if clash := taken & {*batch}:
            raise ValueError(
                f"`dims` uses the name {clash.pop()!r} for an axis, but the data set already has "
                "a variable or an axis of this name. Choose another name."
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
        """Return name, axes and values of all data at samples: weights, or observed values."""
        if not self.observed and not self.losses_alone:
            parts = self.network.part_axes.items(), self.network.parts
            return [(name, axes, part) for (name, axes), part in zip(*parts, strict=True)]
        axes = len(self.batch_shape) + 1
        return [
            (name, tuple(f"{name}_{axis}" for axis in range(array.ndim - axes)), array)
            for name, array in self.observed.items()
        ]

    def _ended(self) -> list[tuple[str, tuple[str, ...], Array]]:
        """Return name, axes and values of the final weights, if samples hold no weights."""
        if not self.observed and not self.losses_alone:
            return []
        last, axis = self.weights(LAST), len(self.batch_shape)
        parts = zip(last.part_axes.items(), last.parts, strict=True)
        return [(f"{FINAL}{name}", axes, np.take(part, 0, axis)) for (name, axes), part in parts]


def _within(batch: Trajectory[Network], index: tuple[int, ...], which: slice) -> Network:
    if which == LAST:  # padding after a lane's last sample repeats this sample
        return jax.tree.map(lambda leaf: leaf[index], batch.weights(which))
    saves = int(batch.saves[index])
    return jax.tree.map(lambda leaf: leaf[index][:saves][which], batch.network)


def _range(values: Float[np.ndarray, "*batch"]) -> str:
    """Return the smallest and the largest value as text, or one number if they are equal."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low}…{high}"


def _rates(rates: np.ndarray | None) -> float | list | str:
    """Return the rates as an attribute of a data set: one number if all rates are equal."""
    if rates is None:
        return "none"
    return rates.tolist() if _differs(rates) else float(rates.flat[0])


def _differs(rates: np.ndarray | None) -> bool:
    return rates is not None and bool((rates != rates.flat[0]).any())


def _words(trajectory: Trajectory, words: list[str]) -> np.ndarray:
    return np.array(words, dtype=str).reshape(trajectory.batch_shape)
