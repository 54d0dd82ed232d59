"""Saddle-to-saddle dynamics: which saddle comes next, and when it is left."""

from ._directions import escape_time as escape_time
from ._directions import linear_phase as linear_phase
from ._directions import mode_amplitudes as mode_amplitudes
from ._directions import mode_drop_times as mode_drop_times
from ._directions import residual_exponent as residual_exponent
from ._narrow import NarrowMinima as NarrowMinima
from ._narrow import narrow_minima as narrow_minima
from ._units import escape_times as escape_times
from ._units import winner as winner
