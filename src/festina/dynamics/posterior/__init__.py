"""Sample weights from the posterior of a Bayesian network, and check whether chains agree."""

from ._agreement import Diagnostics as Diagnostics
from ._agreement import Populations as Populations
from ._infinite_width import InfiniteWidthLimit as InfiniteWidthLimit
from ._infinite_width import infinite_width_limit as infinite_width_limit
from ._posterior import Posterior as Posterior
from ._sample import continue_sampling as continue_sampling
from ._sample import sample as sample
