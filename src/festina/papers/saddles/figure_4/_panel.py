"""What the panels of Figure 4 share: two-layer networks whose activation is not that of Figure 1.

The lowest term of φ around u = 0 decides how learning starts: directions separate at first order,
units at second and third. Unlike in Figure 1 the saddle of a width-1 network is not always visited,
so that each panel says where the loss rests and where that is no such level.

Times: flow of the loss ⟨|y − f|²⟩ in units of the paper's learning rate, t/η = n, unless `method`
asks for descent itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import numpy as np
import xarray as xr
from pydantic import Field

from ....dynamics import Trajectory, loss_factor
from ....networks import AbstractUnit, Layer, measure_algebra
from ....networks._seeds import Keys
from ....tasks import AbstractTask
from ..._frame import Run, part_of
from ..._registry import Progress
from ...claims import Claim
from ..panels._panel import Panel
from ..panels._parameters import PanelParameters
from ..panels._reading import Reading
from ..panels._record import curves, drop_table, plateau_table
from ..panels._train import time_of_a_step, train
from ._claims import common_claims

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["linear", "log"]


class OtherParameters(PanelParameters):
    """Figure 4. The paper trains by descent; flow is the same here and takes less time."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""

    loss: Literal["mean-square"] = "mean-square"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Loss convention: as Eq. 64 is printed."""

    method: Literal["descent", "flow"] = "flow"
    """Gradient descent at the learning rate, or gradient flow on the same axis of steps, t/η."""


class Levels(NamedTuple):
    """What a panel knows before training: the level to compare with, and more tables to keep."""

    rest: float
    tables: Mapping[str, Any]


@dataclass(frozen=True)
class OtherPanel:
    """One panel of Figure 4: a `Panel` for what is trained on what, and how its claims differ.

    - `order`: lowest order of φ that the paper states for the panel.
    - `known`: `(parameters, task, network) → Levels`.
    - `merge`: smallest drop of the loss that counts, as a fraction of the initial one.
    - `axes`: of time and loss, logarithmic where drops could not be seen otherwise.
    - `end`: largest final loss, as a fraction of the initial one, that counts as learned.
    - `also`: more of a run, as groups of its tree.
    """

    panel: Panel
    order: int
    known: Callable[[Any, AbstractTask, Layer], Levels]
    merge: float = 1e-3
    axes: tuple[Scale, Scale] = ("linear", "linear")
    end: float | None = 1e-2
    also: Callable[[Any, AbstractTask, Layer], dict[str, xr.Dataset]] = lambda *_: {}

    @property
    def run(self) -> Run[OtherParameters]:
        """The panel's experiment."""
        return self.panel.run_of(self._tables)

    def _tables(
        self,
        parameters: OtherParameters,
        task: AbstractTask,
        network: Layer,
        keys: Keys,
        say: Progress,
    ) -> dict[str, xr.Dataset]:
        """Train every seed, find its plateaus, and the levels that they are compared with."""
        del keys
        say("fixed points of one unit", 0.02)
        known = self.known(parameters, task, network)
        also = self.also(parameters, task, network)
        trajectory = train(parameters, network, task, part_of(say, 0.1, 0.85))
        theory = _theory(parameters, task, network, known, trajectory.floor)
        return {
            "simulation": curves(parameters, trajectory),
            "plateaus": self._plateaus(parameters, trajectory),
            "theory": theory,
            "drops": drop_table(parameters, trajectory, theory["level"].values),
            **also,
        }

    def _plateaus(self, parameters: OtherParameters, trajectory: Trajectory) -> xr.Dataset:
        table = plateau_table(parameters, trajectory, merge=self.merge)
        # Units that separate come to a fixed point, and stand for it where they are slowest.
        return table if self.order > 1 else _after_drops(parameters, trajectory, table)

    def claims(self, run: xr.DataTree) -> list[Claim]:
        """What the panel asserts, held against the run. Computes nothing that was not saved."""
        reading = Reading(self.panel, run)
        return [
            *common_claims(reading, self.order, self.end),
            *self.panel.structure(reading),
        ]

    def draw(self, run: xr.DataTree) -> "Figure":
        """The paper's panel: loss on top, first-layer weights after the first drop and at last."""
        from ._draw import draw_other

        return draw_other(Reading(self.panel, run), axes=self.axes)


def _theory(
    parameters: OtherParameters, task: AbstractTask, network: Layer, known: Levels, floor: float
) -> xr.Dataset:
    """No network at all, the level that `known` gives, the lowest loss; and the order of φ."""
    statistics = task.statistics(network.unit)
    half_power = 0.5 * float(statistics.weight @ (statistics.y**2).sum(axis=1)) + statistics.floor
    initial = loss_factor(parameters.loss, task) * half_power
    return xr.Dataset(
        {
            "level": ("plateau", [initial, known.rest, floor]),
            "order": ((), measured_order(network.unit, statistics.psi)),
            **known.tables,
        }
    )


def measured_order(unit: AbstractUnit, psi: np.ndarray) -> float:
    """Order of φ's lowest term around u = 0, from responses to some of the data."""
    some = psi[:: max(1, len(psi) // 64)]
    shape = (4, *unit.weight_shape(_input_shape(unit, psi)))
    draws = np.random.default_rng(0).normal(size=shape)
    response = jax.jit(lambda u: unit.response(some, u[..., None]))
    order = measure_algebra(lambda u: np.asarray(response(u)), draws).order
    return np.nan if order is None else float(order)


def _input_shape(unit: AbstractUnit, psi: np.ndarray) -> tuple[int, ...]:
    """Of features that are the inputs themselves, or powers of them."""
    return psi.shape[1:] if unit.degree is None else psi.shape[1:2]


def _after_drops(
    parameters: OtherParameters, trajectory: Trajectory, table: xr.Dataset
) -> xr.Dataset:
    """The table with the weights right after a drop, where the paper looks at them.

    Where the plateau is no fixed point, they have moved on by the time that they are slowest.
    """
    save = table["save"].values.copy()
    for seed, plateau in zip(*np.nonzero(save[:, 1:] >= 0), strict=True):
        times = trajectory.lane(int(seed)).time / time_of_a_step(parameters)
        start = table["start"].values[seed, plateau + 1]
        save[seed, plateau + 1] = min(int(np.searchsorted(times, start)), save[seed, plateau + 1])
    return table.assign(save=(("seed", "plateau"), save))
