"""What the panels of Figures 1, 4 and 5 share. A panel is made of five things:

- `Parameters`, from `PanelParameters` or, where units separate, `FewUnitsParameters`;
- `task(parameters, key)`, `network(parameters, keys)`: what is trained on what, all seeds in one;
- `tables(parameters, task, network, keys, progress)`: all that is computed. `staircase(predict)`
  serves Figure 1. Others train by `train`, take what claims and figures read from `records` (the
  groups `simulation`, `plateaus`, `drops`) and `theory`, and add tables of their own;
- `asserts(reading, claim)`: its claims, one after another, from those here or its own;
- how it looks: `title`, `symbol`, `drawn`.

`Panel` makes `run`, `claims`, `draw` and `animate` of them. A `Reading` is a saved run under the
names that claims and figures use; it knows no panel. `draw_panel` takes one with a title, for
panels that draw more than others.
"""

from ._claims import count as count
from ._claims import falls as falls
from ._claims import level as level
from ._claims import widths as widths
from ._draw import draw_panel as draw_panel
from ._draw import labels as labels
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
