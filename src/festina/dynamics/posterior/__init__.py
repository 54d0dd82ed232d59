"""Weights drawn from the posterior of a Bayesian network, and what their chains show."""

from ._agreement import Diagnostics as Diagnostics
from ._agreement import Populations as Populations
from ._limit import MeanFieldLimit as MeanFieldLimit
from ._limit import mean_field_limit as mean_field_limit
from ._posterior import Posterior as Posterior
from ._sample import continue_sampling as continue_sampling
from ._sample import sample as sample
