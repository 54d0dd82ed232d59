"""Shared code of the panels of Figures 1, 4 and 5. A panel consists of five parts:

- `Parameters`: a subclass of `PanelParameters`, or of `FewUnitsParameters` if units separate;
- `task(parameters, key)` and `network(parameters, keys)`: the data and the initial networks, one
  for each seed, as one batch;
- `tables(parameters, task, network, keys, progress)`: all computations. Figure 1 uses
  `staircase(predict)`. Other panels call `train`, take the tables that claims and figures need
  from `records` (groups `simulation`, `plateaus`, `drops`) and `theory`, and add their own;
- `asserts(reading, claim)`: the claims of the panel, from the functions here or its own;
- the appearance: `title`, `symbol`, `drawn`.

`Panel` builds `run`, `claims`, `draw` and `animate` from the five parts. A `Reading` is a saved run
of any panel, with named quantities for claims and figures. `draw_panel` draws a `Reading` under a
title, for panels that draw more than the standard figure.
"""

from ._claims import SQUARED_AMPLITUDE as SQUARED_AMPLITUDE
from ._claims import count as count
from ._claims import falls as falls
from ._claims import level as level
from ._claims import widths as widths
from ._draw import draw_panel as draw_panel
from ._draw import labels as labels
from ._draw import loss_legend as loss_legend
from ._panel import Panel as Panel
from ._parameters import FewUnitsParameters as FewUnitsParameters
from ._parameters import PanelParameters as PanelParameters
from ._parameters import refuse_samples as refuse_samples
from ._reading import END as END
from ._reading import PLATEAU as PLATEAU
from ._reading import Reading as Reading
from ._structure import active as active
from ._structure import active_units as active_units
from ._structure import contributions as contributions
from ._structure import one_ray_then_two as one_ray_then_two
from ._structure import ranks as ranks
from ._structure import rays as rays
from ._tables import BROKEN_OFF as BROKEN_OFF
from ._tables import records as records
from ._tables import staircase as staircase
from ._tables import theory as theory
from ._tables import train as train
