"""Predict learning in gated deep linear networks, as a race between their paths."""

from ._common import CommonModes as CommonModes
from ._conserved import conserved_quantities as conserved_quantities
from ._contexts import ContextSpectrum as ContextSpectrum
from ._contexts import best_linear_loss as best_linear_loss
from ._contexts import context_spectrum as context_spectrum
from ._contexts import linear_residual_task as linear_residual_task
from ._fusion import capacity_limited_strengths as capacity_limited_strengths
from ._fusion import early_fusion_shares as early_fusion_shares
from ._fusion import late_fusion_strengths as late_fusion_strengths
from ._fusion import latecomer_delay as latecomer_delay
from ._fusion import view_contributions as view_contributions
from ._gradients import GatedGradient as GatedGradient
from ._gradients import gated_gradient as gated_gradient
from ._path_strengths import PathStrengths as PathStrengths
from ._paths import Path as Path
from ._paths import PathStatistics as PathStatistics
from ._paths import count_paths as count_paths
from ._paths import path_statistics as path_statistics
from ._paths import paths as paths
from ._race import Race as Race
from ._race import race_of_gatings as race_of_gatings
from ._reduction import RaceReduction as RaceReduction
from ._reduction import ReductionWarning as ReductionWarning
from ._reduction import path_directions as path_directions
from ._reduction import race_reduction as race_reduction
