"""The vocabulary of figures: one hand for all, theory thin and dashed, simulation wide and pale."""

from ._animation import save_animation as save_animation
from ._curves import both as both
from ._curves import equal as equal
from ._curves import family as family
from ._curves import law as law
from ._fit import fit as fit
from ._sheet import finish as finish
from ._sheet import sheet as sheet
from ._stairs import stairs as stairs
from ._style import DOTS as DOTS
from ._style import GUIDE as GUIDE
from ._style import PALE as PALE
from ._style import THEORY as THEORY
from ._style import styled as styled
from ._sweeps import collapse as collapse
from ._sweeps import distribution as distribution
from ._sweeps import phase_diagram as phase_diagram
