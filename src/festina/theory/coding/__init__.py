"""Bayesian networks of infinite width: what code their neurons use, and what they predict."""

from ...networks._code_activations import erf_sigmoid as erf_sigmoid
from ...networks._code_activations import unit_slope_erf as unit_slope_erf
from ...tasks import class_target_matrix as class_target_matrix
from ._branches import CodeBranch as CodeBranch
from ._classes import ClassCode as ClassCode
from ._classes import class_code as class_code
from ._lazy import lazy_kernel as lazy_kernel
from ._lazy import lazy_predictor as lazy_predictor
from ._linear import LinearCode as LinearCode
from ._linear import linear_code as linear_code
from ._linear import linear_code_from as linear_code_from
from ._predictor import BiasVariance as BiasVariance
from ._predictor import Predictor as Predictor
from ._temperature_sweep import TemperatureSweep as TemperatureSweep
from ._temperature_sweep import crossover_temperature as crossover_temperature
from ._temperature_sweep import temperature_sweep as temperature_sweep
