"""Gated deep linear networks: what their paths see, how they race, and what it comes down to."""

from ._common import CommonModes as CommonModes
from ._conserved import conserved as conserved
from ._contexts import ContextSpectrum as ContextSpectrum
from ._contexts import context_spectrum as context_spectrum
from ._contexts import linear_floor as linear_floor
from ._contexts import linear_residual as linear_residual
from ._fusion import early_fusion as early_fusion
from ._fusion import late_comer as late_comer
from ._fusion import late_fusion as late_fusion
from ._fusion import lotka_volterra as lotka_volterra
from ._fusion import shared_capacity as shared_capacity
from ._gradients import Gradient as Gradient
from ._gradients import gradient as gradient
from ._paths import Path as Path
from ._paths import PathStatistics as PathStatistics
from ._paths import count_paths as count_paths
from ._paths import path_statistics as path_statistics
from ._paths import paths as paths
from ._pathways import Pathways as Pathways
from ._race import Race as Race
from ._race import race as race
from ._reduction import Reduction as Reduction
from ._reduction import ReductionWarning as ReductionWarning
from ._reduction import directions as directions
from ._reduction import reduction as reduction
