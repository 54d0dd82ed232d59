"""Make an experiment from one panel of Figures 1, 4 or 5."""

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
    """One panel of a figure: data, networks, computations and claims.

    - `number`: the panel's number in the paper, such as "1B".
    - `task`: function that makes the data; its key is `None` for exact population averages.
    - `network`: function that makes one network for each key.
    - `tables`: `(parameters, task, network, keys, progress) → {name: table}`.
    - `asserts`: `(reading, claim)` makes the panel's claims.
    - `drawn`: indices, by axis name, of the weights that are drawn as dots; by default all.
    - `symbol`: name and symbol of the drawn weights in axis labels.
    """

    number: str
    title: str
    parameters: type[PanelParameters]
    task: Callable[[Any, Key], AbstractTask]
    network: Callable[[Any, Keys], Any]
    tables: Compute
    asserts: Callable[[Reading, ClaimCollector], None]
    drawn: Mapping[str, int] = field(default_factory=dict)
    symbol: str = "first-layer weight u"

    @property
    def run(self) -> Run[Any]:
        """Return the function that runs the panel's experiment."""

        @make_run(f"saddles/figure-{self.number.lower()}")
        def run(parameters: Any, key: Key, progress: Progress) -> Tables:
            """Train every seed, find its plateaus, and predict levels and drops."""
            progress("setting up", 0.0)
            data_key, keys = draw_keys(parameters, key)
            task = self.task(parameters, data_key)
            return self.tables(parameters, task, self.network(parameters, keys), keys, progress)

        return run

    def reading(self, run: xr.DataTree) -> Reading:
        """Return a run of this panel as a `Reading`."""
        return Reading(run, parameters_of_run(run, self.parameters))

    def claims(self, run: xr.DataTree) -> list[Claim]:
        """Return the panel's claims about a run, computed from saved numbers only."""
        body = lambda run, claim: self.asserts(self.reading(run), claim)
        return claims_from_source(PAPER, f"Figure {self.number}")(body)(run)

    def heading(self, run: xr.DataTree) -> str:
        """Return the figure title: panel number, architecture and preset."""
        preset = run.attrs.get("preset", "")
        return f"{self.number}   {self.title}" + f" ({preset})" * bool(preset)

    def draw(self, run: xr.DataTree) -> Figure:
        """Plot the loss, and the first-layer weights on the plateau and at the end."""
        return draw_panel(self.reading(run), self.heading(run), self.drawn, self.symbol)

    def animate(self, run: xr.DataTree) -> FuncAnimation:
        """Animate the loss and the first-layer weights of one seed."""
        return animate_panel(self.reading(run), self.heading(run), self.drawn, self.symbol)
