"""Functions and styles shared by all figures: simulations are wide and pale, theory is dashed."""

from ._animation import save_animation as save_animation
from ._curves import diagonal as diagonal
from ._curves import draw_pair as draw_pair
from ._curves import power_law_guide as power_law_guide
from ._curves import shades as shades
from ._fit import fit_to_page as fit_to_page
from ._fit import fit_to_slide as fit_to_slide
from ._panels import label_axes as label_axes
from ._panels import panels as panels
from ._staircase import draw_staircase as draw_staircase
from ._style import GUIDE_STYLE as GUIDE_STYLE
from ._style import POINT_STYLE as POINT_STYLE
from ._style import SIMULATION_STYLE as SIMULATION_STYLE
from ._style import THEORY_STYLE as THEORY_STYLE
from ._style import style as style
from ._style import styled as styled
from ._sweeps import draw_collapse as draw_collapse
from ._sweeps import draw_distribution as draw_distribution
from ._sweeps import phase_diagram as phase_diagram
