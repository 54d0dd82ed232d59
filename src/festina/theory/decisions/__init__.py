"""Simulate how animals learn perceptual decisions: two actions, three input lines.

The model is our reconstruction from slides by Saxe.
"""

from ._animals import AnimalWeights as AnimalWeights
from ._animals import draw_naive_animals as draw_naive_animals
from ._animals import naive_animals as naive_animals
from ._asymptotic_weights import AsymptoticWeights as AsymptoticWeights
from ._asymptotic_weights import asymptotic_weights as asymptotic_weights
from ._learner import ContrastChoiceLearner as ContrastChoiceLearner
from ._learning import DecisionLearning as DecisionLearning
from ._mean_field_learning import mean_field_learning as mean_field_learning
from ._mean_field_learning import weight_velocity as weight_velocity
from ._saddles import StationaryPoint as StationaryPoint
from ._saddles import stationary_points as stationary_points
from ._stages import SaddleVisits as SaddleVisits
from ._stages import stimulus_use_times as stimulus_use_times
from ._stages import visited_saddles as visited_saddles
from ._trials import simulate_learning as simulate_learning
