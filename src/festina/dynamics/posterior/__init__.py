"""Weights drawn from the posterior of a Bayesian network, and what their chains show."""

from ._agreement import Diagnostics as Diagnostics
from ._agreement import Populations as Populations
from ._limit import WideLimit as WideLimit
from ._limit import wide_limit as wide_limit
from ._posterior import Posterior as Posterior
from ._sample import resume as resume
from ._sample import sample as sample
