"""Learning of perceptual decisions: contrasts, two actions, three lines. Our reconstruction."""

from ._animals import Animals as Animals
from ._animals import draw_naive_animals as draw_naive_animals
from ._animals import naive_animals as naive_animals
from ._learning import Learning as Learning
from ._limit import HeterogeneousLimit as HeterogeneousLimit
from ._limit import heterogeneous_limit as heterogeneous_limit
from ._mean_field import mean_field as mean_field
from ._mean_field import weight_velocity as weight_velocity
from ._model import DecisionModel as DecisionModel
from ._saddles import StationaryPoint as StationaryPoint
from ._saddles import stationary_points as stationary_points
from ._stages import Visits as Visits
from ._stages import stimulus_use_times as stimulus_use_times
from ._stages import visited_points as visited_points
from ._trials import simulate_trials as simulate_trials
