"""Train networks by gradient flow and gradient descent, or sample their posterior."""

from .._objective import LossConvention as LossConvention
from .._objective import loss_factor as loss_factor
from .._objective import loss_formula as loss_formula
from . import posterior as posterior
from ._descent import gradient_descent as gradient_descent
from ._flow import gradient_flow as gradient_flow
from ._logbook import SaveResolution as SaveResolution
from ._trajectory import Ending as Ending
from ._trajectory import Trajectory as Trajectory
