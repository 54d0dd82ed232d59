"""What a simulation returns, and how it becomes a Run."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Literal

import jax
import numpy as np
from jaxtyping import Float, Int

from ..networks._given import check_lane
from ..networks._network import Network

if TYPE_CHECKING:
    import xarray as xr

Reason = Literal[
    "converged", "stationary", "saddle", "finished", "out of steps", "diverged", "step underflow"
]

TakenSolver = Literal["explicit", "implicit", "descent"]


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

    condensed: Network  # (lane, save, unit, …)
    widen: Callable[[Network], Network]
    batch_shape: tuple[int, ...]

    def __call__(self, which: slice) -> Network:
        wide = self.widen(jax.tree.map(lambda leaf: leaf[:, which], self.condensed))
        return jax.tree.map(lambda leaf: leaf.reshape(*self.batch_shape, *leaf.shape[1:]), wide)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Generic[Network]):
    r"""Training of one network or of a batch of them.

    Axes of a batch come first, then the saved samples, which lie densely where the loss moves.
    Lanes of a batch that were saved at times of their own are padded with copies of their last
    sample; `saves` counts the true ones. A lane that failed before the first of the times asked for
    has none, and its loss and weights are NaN; its ending says how far it got.

    - `time`: of each sample: flow time for `gradient_flow`, steps for `gradient_descent`.
    - `loss`, `squared_gradient`: $L$ and $|\partial L/\partial\theta|^2$ there.
    - `network`: the weights there, as one network with leading axes. Of many linear units they are
      computed when first looked at.
    - `endings`: how each lane ended, in the order of the flattened batch.
    - `floor`: the loss of least squares on fixed features, which no training can go below.
    - `evaluations`: gradients computed for each lane, derivatives of them included.
    - `solver`: the steps that a flow took, `"explicit"` or `"implicit"` ones, or `"descent"`.
    - `settings`: what else it was trained with, by the names of the arguments: when it counts as
      converged, how large its mini-batches are.
    """

    time: Float[np.ndarray, "*batch save"]
    loss: Float[np.ndarray, "*batch save"]
    squared_gradient: Float[np.ndarray, "*batch save"]
    weights: Callable[[slice], Network]
    saves: Int[np.ndarray, "*batch"]
    endings: tuple[Ending, ...]
    floor: float
    evaluations: Int[np.ndarray, "*batch"]
    convention: str
    method: str
    learning_rate: Float[np.ndarray, "*batch"] | None
    shared_times: bool
    solver: TakenSolver = "descent"
    settings: Mapping[str, float | int] = field(default_factory=dict)

    @functools.cached_property
    def network(self) -> Network:
        return self.weights(slice(None))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.saves.shape

    @property
    def failed(self) -> bool:
        """Whether any lane failed; `endings` says why."""
        return any(ending.failed for ending in self.endings)

    @property
    def time_per_step(self) -> float | Float[np.ndarray, "*batch"]:
        """Flow time of the same loss that one unit of `time` stands for, for each lane."""
        return 1.0 if self.learning_rate is None else self.learning_rate

    @property
    def final(self) -> Network:
        """The trained network, or the batch of them, NaN where a lane has no sample at all."""
        if not self.saves.any():
            raise ValueError(
                "`final` is the network of the last sample, and there is none: "
                f"{self.endings[0].message}"
            )
        last = (*(slice(None),) * len(self.batch_shape), -1)
        return jax.tree.map(lambda leaf: leaf[last], self.weights(slice(-1, None)))

    def __repr__(self) -> str:
        batch = f"{self.batch_shape} networks, " if self.batch_shape else ""
        steps = " by implicit steps" if self.solver == "implicit" else ""
        known = self.loss[self.saves > 0]
        samples = "no samples"
        if known.size:
            start, end = (_range(known[:, save]) for save in (0, -1))
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
        rate = self.learning_rate
        return replace(
            self,
            time=self.time[upto],
            loss=self.loss[upto],
            squared_gradient=self.squared_gradient[upto],
            weights=functools.partial(_within, self, upto),
            saves=np.asarray(self.saves[index]),
            endings=(self.endings[flat],),
            evaluations=np.asarray(self.evaluations[index]),
            learning_rate=None if rate is None else np.asarray(rate[index]),
        )

    def to_dataset(self, dims: tuple[str, ...] | None = None) -> "xr.Dataset":
        """The trajectory with named axes: `dims` for the batch, then `time`.

        By default the last axis of the batch is `seed`, and the first of two `scale`, which is the
        order in which `scale[:, None]` and several keys make them; of more than two, those in front
        are `batch_0`, `batch_1`, …. Coordinates along them count 0, 1, 2, …: a trajectory knows
        neither the scales nor the keys its networks were made with, `assign_coords` adds them.
        Lanes with times of their own have an axis `save` and a coordinate `time(…, save)`.
        """
        import xarray as xr

        from .._objective import loss_formula

        batch = default_dims(len(self.batch_shape)) if dims is None else dims
        if len(batch) != len(self.batch_shape):
            raise ValueError(f"`dims` must name the axes {self.batch_shape}, got {batch}.")
        axis = "time" if self.shared_times else "save"
        over = (*batch, axis)
        first = (0,) * len(self.batch_shape)
        time = (axis, self.time[first]) if self.shared_times else (over, self.time)
        return xr.Dataset(
            {
                "loss": (over, self.loss, {"long_name": f"loss {loss_formula(self.convention)}"}),
                "squared_gradient": (over, self.squared_gradient),
                **{
                    name: ((*over, *axes), part)
                    for (name, axes), part in zip(
                        self.network.part_axes.items(), self.network.parts, strict=True
                    )
                },
                "saves": (batch, self.saves),
                "evaluations": (batch, self.evaluations),
                "ending": (batch, _words(self, [e.reason for e in self.endings])),
                "message": (batch, _words(self, [e.message for e in self.endings])),
            },
            coords={
                "time": time,
                **{name: np.arange(n) for name, n in zip(batch, self.batch_shape, strict=True)},
            },
            attrs={
                **self.settings,
                "loss_convention": self.convention,
                "loss_floor": self.floor,
                "method": self.method,
                "solver": self.solver,
                "clock": "steps" if self.learning_rate is not None else "flow time",
                "learning_rate": _rates(self.learning_rate),
                **self.network.attributes,
            },
        )


def default_dims(axes: int) -> tuple[str, ...]:
    """Keys broadcast against scales from the right, so that seeds are the last axis."""
    if axes <= 2:
        return ("scale", "seed")[2 - axes :]
    return (*(f"batch_{axis}" for axis in range(axes - 1)), "seed")


def _within(batch: Trajectory[Network], upto: tuple[int | slice, ...], which: slice) -> Network:
    return jax.tree.map(lambda leaf: leaf[upto][which], batch.network)


def _range(values: Float[np.ndarray, "*batch"]) -> str:
    """One number, or the smallest and the largest."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low}…{high}"


def _rates(rates: np.ndarray | None) -> float | list | str:
    """As an attribute: one number if all lanes have the same."""
    if rates is None:
        return "none"
    return float(rates.flat[0]) if (rates == rates.flat[0]).all() else rates.tolist()


def _words(trajectory: Trajectory, words: list[str]) -> np.ndarray:
    return np.array(words, dtype=str).reshape(trajectory.batch_shape)
