"""What the panels of Figure 5 share: deep networks that learn one unit of every layer at a time.

Each is trained as its counterpart in Figure 1. The level of the plateau is that of the same network
with one unit in every hidden layer (Corollary 2), found by an optimiser that has nothing in common
with the training.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from pydantic import Field

from ....dynamics import Trajectory
from ....networks import Stack, seeds
from ....networks._seeds import Keys
from ....tasks import AbstractTask
from ....theory.saddles import minima_from
from ..._frame import Run, part_of
from ..._registry import Progress
from ...claims import Claim
from .._plain_descent import plain_drops
from ..panels._drop_claims import drop_claims
from ..panels._panel import Panel
from ..panels._parameters import PanelParameters
from ..panels._reading import Reading
from ..panels._record import curves, drop_table, levels, plateau_table
from ..panels._train import train
from ._claims import common_claims
from ._reference import DeepReference, reference_claims

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MODES = 4  # singular values that are kept of each layer


class DeepParameters(PanelParameters):
    """Figure 5."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""


@dataclass(frozen=True)
class DeepPanel:
    """One panel of Figure 5: a `Panel` for what is trained on what, and what else it needs.

    - `narrow`: the network, with weights of order one, whose lowest minimum is the plateau, and
      `narrow_words` for it; one unit in every hidden layer by default.
    - `merge`: smallest drop of the loss that counts, as a fraction of the initial one. A ReLU
      network of depth makes many small ones, at every kink that it passes.
    - `converged`: how far above the floor training ends, as a fraction of the initial loss.
    - `starts`: from how many random weights the minima of a narrow network are sought.
    - `cleaner`: `parameters → ε` of a second run, where the paper's is too large for a clean
      plateau; None for no such run.
    - `cleaner_median`: how far from the minimum half of the seeds of that run may be, in units of
      the loss; None where there is no such run.
    - `cleaner_share`: the share of its seeds that rest there, at least.
    - `correction`: `parameters → words`, under which correction the loss rests where it should.
    - `references`: when an independent implementation drops, from other weights.
    - `plain`: whether a plain loop of descent is run beside the training, from the same weights.
    - `also`: `(parameters, task, keys, trajectory) → {name: table}`, more of a run.
    - `aligned`: whether curves are drawn from shortly before the first drop of each seed.
    """

    panel: Panel
    narrow: Callable[[Any, Keys], Stack] | None = None
    narrow_words: str = "one unit in every hidden layer"
    merge: float = 0.02
    converged: float = 1e-9
    starts: int = 64
    cleaner: Callable[[Any], float | None] = lambda parameters: None
    cleaner_median: float | None = None
    cleaner_share: float = 0.9
    correction: Callable[[Any], str] = lambda parameters: ""
    references: tuple[DeepReference, ...] = ()
    plain: bool = False
    also: Callable[[Any, AbstractTask, Keys, Trajectory], dict[str, xr.Dataset]] = lambda *_: {}
    aligned: bool = False

    @property
    def run(self) -> Run[DeepParameters]:
        """The panel's experiment."""
        return self.panel.run_of(self._tables)

    def _tables(
        self,
        parameters: DeepParameters,
        task: AbstractTask,
        network: Stack,
        keys: Keys,
        say: Progress,
    ) -> dict[str, xr.Dataset]:
        """Train every seed, find its plateaus, and the levels of narrow networks."""
        say("minima of narrow networks", 0.02)
        narrow = self._minima(parameters, task, self.narrow or self._one_unit(parameters))
        say("training", 0.1)
        trajectory = train(
            parameters, network, task, part_of(say, 0.1, 0.6), converged=self.converged
        )
        predicted = self.panel.predict(parameters, task, network)
        theory = levels(parameters, task, network, narrow, trajectory.floor, predicted)
        plateaus = plateau_table(parameters, trajectory, merge=self.merge)
        tables = {
            "simulation": _first_layer(curves(parameters, trajectory)),
            "plateaus": plateaus,
            "theory": theory,
            "drops": self._drops(parameters, task, network, trajectory, theory["level"].values),
            "layers": _layers(trajectory, plateaus),
            **self.also(parameters, task, keys, trajectory),
        }
        if (scale := self.cleaner(parameters)) is not None:
            small = parameters.model_copy(update={"scale": scale})
            again = self.panel.network(small, keys)
            cleaner = train(small, again, task, part_of(say, 0.7, 0.25), converged=self.converged)
            final = _first_layer(curves(small, cleaner)).isel(save=-1)
            end = {name: final[name].variable for name in ("u", "v", "ending", "message")}
            table = plateau_table(small, cleaner, merge=self.merge).assign(end)
            tables["cleaner"] = table.assign_attrs(scale=scale)
        return tables

    def _drops(
        self,
        parameters: DeepParameters,
        task: AbstractTask,
        network: Stack,
        trajectory: Trajectory,
        levels: np.ndarray,
    ) -> xr.Dataset:
        """When each seed drops, and when it does by plain descent from the same weights."""
        table = drop_table(parameters, trajectory, levels)
        if not (self.plain and parameters.method == "descent" and parameters.loss == "mean-square"):
            return table
        middles = (levels[:-1] + levels[1:]) / 2
        steps = plain_drops(network, task, parameters.learning_rate, middles, parameters.max_steps)
        return table.assign(plain_step=(("seed", "drop"), steps))

    def _one_unit(self, parameters: DeepParameters) -> Callable[[Any, Keys], Stack]:
        """The same network with one unit in every hidden layer, and weights of order one."""
        one = parameters.model_copy(update={"width": 1, "scale": 0.7})
        return lambda _, keys: self.panel.network(one, keys)

    def _minima(
        self,
        parameters: DeepParameters,
        task: AbstractTask,
        network: Callable[[Any, Keys], Stack],
    ) -> np.ndarray:
        """Levels of the minima that a narrow network has."""
        starts = network(parameters, seeds(self.starts, first=parameters.seed))
        return minima_from(starts, task, loss=parameters.loss).loss

    def claims(self, run: xr.DataTree) -> list[Claim]:
        """What the panel asserts, held against the run. Computes nothing that was not saved."""
        reading = Reading(self.panel, run)
        return [
            *common_claims(reading, self),
            *drop_claims(reading),
            *reference_claims(reading, self.references),
            *self.panel.structure(reading),
        ]

    def draw(self, run: xr.DataTree) -> "Figure":
        """The paper's panel: loss on top, first-layer weights on the plateau and at the end."""
        from ._draw import draw_deep

        return draw_deep(Reading(self.panel, run), aligned=self.aligned)


def _first_layer(simulation: xr.Dataset) -> xr.Dataset:
    """The record with u of every unit and, for v, the size of all weights that read it.

    A layer between hidden ones has thousands of weights, which nobody looks at one by one.
    """
    others = [name for name in simulation if str(name)[0] == "w" and str(name)[1:].isdigit()]
    reads = [dim for dim in simulation["w2"].dims if dim not in ("seed", "save", "unit")]
    # Not by squares that are summed: there are gigabytes of them.
    square = xr.dot(simulation["w2"], simulation["w2"], dim=reads)
    size = np.sqrt(square).transpose("seed", "save", "unit").expand_dims("output", -1)
    return simulation.drop_vars(others).assign(v=size)


def _layers(trajectory: Trajectory, plateaus: xr.Dataset) -> xr.Dataset:
    """The largest singular values of every layer on each plateau, the last one included."""
    saves, counts = plateaus["save"].values, plateaus["count"].values
    parts = trajectory.network.parts
    table = np.full((*saves.shape, len(parts), _MODES), np.nan)
    for seed, count in enumerate(counts):
        for plateau in range(count):
            for layer, part in enumerate(parts):
                weight = part[seed, int(saves[seed, plateau])]
                s = np.linalg.svd(weight.reshape(len(weight), -1), compute_uv=False)[:_MODES]
                table[seed, plateau, layer, : len(s)] = s
    return xr.Dataset({"singular_value": (("seed", "plateau", "layer", "mode"), table)})
