"""What the panels of Figures 1, 4 and 5 share: train, find the plateaus, predict them, compare."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import xarray as xr
from jaxtyping import PRNGKeyArray

from ....dynamics import loss_factor
from ....networks._seeds import Keys
from ....tasks import AbstractTask
from ....theory.saddles import narrow_minima
from ..._frame import Run, part_of
from ..._old import experiment, run_tree
from ..._registry import Progress
from ...claims import Claim
from ._drop_claims import drop_claims
from ._parameters import PanelParameters
from ._plateau_claims import count_claim, level_claims
from ._reading import Reading
from ._record import curves, drop_table, levels, plateau_table
from ._reference import Reference, reference_claims
from ._train import draw_keys, train
from ._width_claims import width_claims
from ._width_table import width_table

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.figure import Figure

Tables: TypeAlias = Callable[[Any, AbstractTask, Any, Keys, Progress], dict[str, xr.Dataset]]
"""`(parameters, task, network, keys, say) → {name: table}`: what a panel's run computes."""


@dataclass(frozen=True)
class Panel:
    """One panel: what is trained on what, and what is known beforehand.

    What is trained, and what is known of it:

    - `task`: the data; the key is `None` for population averages, which need none.
    - `network`: one network for each key.
    - `predict`: `(parameters, task, network) → {name: array}`, from data and initial weights alone.
      `drop_step (seed, drop)` is drawn and held against the simulation, NaN where theory is silent.
      Nothing by default.
    - `structure`: claims about the weights on the plateau and at the end.
    - `references`: numbers of an independent implementation.
    - `caveat`: why, at some parameters, fragile claims are known to fail; empty where they hold.

    How near the loss rests to the minimum of the narrow network:

    - `count_fraction`: share of the seeds that have three plateaus.
    - `level_tolerance`: distance of the median level over seeds, in units of the loss. In Figure 5
      that of single seeds.
    - `clean`: decades by which the squared gradient dips on a clean plateau. Where it is given,
      every clean plateau is held to `level_tolerance` instead of the median of all.
    - `seed_tolerance`: distance of the level of one seed, as a fraction of the minimum.
    - `level_fraction`: share of the seeds with three plateaus that are so near. In Figure 5 share
      of all seeds that are within `level_tolerance`.

    What is drawn:

    - `drawn`: which of a unit's weights, by the names of their axes; all of them by default.
    - `symbol`: what these are called.
    """

    name: str
    title: str
    parameters: type[PanelParameters]
    task: Callable[[Any, PRNGKeyArray | None], AbstractTask]
    network: Callable[[Any, Keys], Any]
    structure: Callable[[Reading], list[Claim]]
    predict: Callable[[Any, AbstractTask, Any], dict[str, Any]] = lambda *_: {}
    references: tuple[Reference, ...] = ()
    level_tolerance: float = 1e-5
    clean: float | None = None
    seed_tolerance: float = 0.02
    level_fraction: float = 1.0
    count_fraction: float = 1.0
    caveat: Callable[[Any], str] = lambda parameters: ""
    drawn: Mapping[str, int] = field(default_factory=dict)
    symbol: str = "u"

    @property
    def number(self) -> str:
        """The panel's place in the paper: 1B."""
        return self.name.rpartition("-")[2].upper()

    @property
    def run(self) -> Run[PanelParameters]:
        """The panel's experiment."""
        return self.run_of(self._tables)

    def run_of(self, tables: Tables) -> Run[Any]:
        """An experiment that makes these tables of the panel's task and networks."""

        @experiment
        def run(parameters: Any, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
            """Train every seed, find its plateaus, and what theory knows of them beforehand."""
            say("setting up", 0.0)
            data_key, keys = draw_keys(parameters, key)
            task = self.task(parameters, data_key)
            groups = tables(parameters, task, self.network(parameters, keys), keys, say)
            attrs = {"loss_factor": loss_factor(parameters.loss, task)}
            return run_tree(self.name, parameters, attrs, **groups)

        return run

    def _tables(
        self,
        parameters: PanelParameters,
        task: AbstractTask,
        network: Any,
        keys: Keys,
        say: Progress,
    ) -> dict[str, xr.Dataset]:
        """Train every seed, find its plateaus, and predict both from data and initial weights."""
        del keys
        say("predicting", 0.02)
        predicted = self.predict(parameters, task, network)
        narrow = narrow_minima(network.unit, task, loss=parameters.loss, seed=parameters.seed)
        trajectory = train(parameters, network, task, part_of(say, 0.1, 0.85))
        theory = levels(parameters, task, network, narrow.loss, trajectory.floor, predicted)
        return {
            "simulation": curves(parameters, trajectory),
            "plateaus": plateau_table(parameters, trajectory),
            "theory": theory,
            "drops": drop_table(parameters, trajectory, theory["level"].values),
            "widths": width_table(parameters, trajectory, task),
        }

    def claims(self, run: xr.DataTree) -> list[Claim]:
        """What the panel asserts, held against the run. Computes nothing that was not saved."""
        reading = Reading(self, run)
        return [
            count_claim(reading),
            *level_claims(reading),
            *drop_claims(reading),
            *reference_claims(reading),
            *self.structure(reading),
            *width_claims(reading),
        ]

    def draw(self, run: xr.DataTree) -> "Figure":
        """The paper's panel: loss on top, first-layer weights on the plateau and at the end."""
        from ._draw import draw_panel

        return draw_panel(Reading(self, run))

    def animate(self, run: xr.DataTree) -> "FuncAnimation":
        """The loss and the first-layer weights of one seed in motion."""
        from ._animate import animate_panel

        return animate_panel(Reading(self, run))
