"""Compute codes and predictions of Bayesian networks with infinitely many hidden neurons."""

from ...networks._code_activations import erf_sigmoid as erf_sigmoid
from ...networks._code_activations import unit_slope_erf as unit_slope_erf
from ...tasks import targets_per_class as targets_per_class
from ._classification import ClassificationCode as ClassificationCode
from ._classification import classification_code as classification_code
from ._lazy import lazy_kernel as lazy_kernel
from ._lazy import lazy_predictor as lazy_predictor
from ._linear import LinearCode as LinearCode
from ._linear import linear_code as linear_code
from ._linear import linear_code_from_kernel as linear_code_from_kernel
from ._populations import NeuronPopulation as NeuronPopulation
from ._predictor import BiasVariance as BiasVariance
from ._predictor import Predictor as Predictor
from ._temperature_sweep import TemperatureSweep as TemperatureSweep
from ._temperature_sweep import crossover_temperature as crossover_temperature
from ._temperature_sweep import temperature_sweep as temperature_sweep
