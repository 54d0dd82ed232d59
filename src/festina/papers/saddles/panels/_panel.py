"""One panel of Figures 1, 4 or 5, as an experiment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr
from matplotlib.animation import FuncAnimation
from matplotlib.figure import Figure

from ...._types import Keys
from ....experiments._frame import Progress, Run, Tables, make_run, parameters_of_run
from ....experiments._keys import Key
from ....experiments.claims import Claim, ClaimCollector, claims_from_source
from ....tasks import AbstractTask
from ._animate import animate_panel
from ._draw import draw_panel
from ._parameters import PanelParameters
from ._reading import PAPER, Reading
from ._tables import Compute, draw_keys


@dataclass(frozen=True)
class Panel:
    """What is trained on what, what is computed, and what is claimed.

    - `number`: the panel's place in the paper, "1B".
    - `task`: the data; the key is `None` for population averages, which need none.
    - `network`: one network for each key.
    - `tables`: `(parameters, task, network, keys, progress) → {name: table}`.
    - `asserts`: `(reading, claim)` makes the panel's claims.
    - `drawn`: which of a unit's weights are dots, by the names of their axes; all by default.
    - `symbol`: what these are called.
    """

    number: str
    title: str
    parameters: type[PanelParameters]
    task: Callable[[Any, Key], AbstractTask]
    network: Callable[[Any, Keys], Any]
    tables: Compute
    asserts: Callable[[Reading, ClaimCollector], None]
    drawn: Mapping[str, int] = field(default_factory=dict)
    symbol: str = "u"

    @property
    def run(self) -> Run[Any]:
        """The panel's experiment."""

        @make_run(f"saddles/figure-{self.number.lower()}")
        def run(parameters: Any, key: Key, progress: Progress) -> Tables:
            """Train every seed, find its plateaus, and what theory knows of them beforehand."""
            progress("setting up", 0.0)
            data_key, keys = draw_keys(parameters, key)
            task = self.task(parameters, data_key)
            return self.tables(parameters, task, self.network(parameters, keys), keys, progress)

        return run

    def reading(self, run: xr.DataTree) -> Reading:
        """A run of this panel by the names that claims and figures use."""
        return Reading(run, parameters_of_run(run, self.parameters))

    def claims(self, run: xr.DataTree) -> list[Claim]:
        """What the panel asserts, held against the run. Computes nothing that was not saved."""
        body = lambda run, claim: self.asserts(self.reading(run), claim)
        return claims_from_source(PAPER, f"Figure {self.number}")(body)(run)

    def heading(self, run: xr.DataTree) -> str:
        """The panel's number, what is trained, and under which reading of the paper."""
        preset = run.attrs.get("preset", "")
        return f"{self.number}   {self.title}" + f" ({preset})" * bool(preset)

    def draw(self, run: xr.DataTree) -> Figure:
        """The paper's panel: loss on top, first-layer weights on the plateau and at the end."""
        return draw_panel(self.reading(run), self.heading(run), self.drawn, self.symbol)

    def animate(self, run: xr.DataTree) -> FuncAnimation:
        """The loss and the first-layer weights of one seed in motion."""
        return animate_panel(self.reading(run), self.heading(run), self.drawn, self.symbol)
