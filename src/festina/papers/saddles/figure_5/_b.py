"""Figure 5B: a linear convolution and a linear layer learn one kernel, then two."""

from typing import Any

import numpy as np

from ...._types import Keys
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector
from ....networks import DeepNetwork, deep_convolutional
from ....tasks import AbstractTask, linear_teacher
from .. import panels
from ..panels import Panel, Reading
from ._deep import DeepParameters, Split, deep, directions, drawing, layers, split_teacher


class Parameters(DeepParameters):
    """Parameters of Figure 5B: a linear convolution and a linear layer, inputs of Figure 1C."""

    split: Split = "tap"
    """Inputs on which each output depends: the inputs of one kernel tap or of one patch."""


PRESETS: dict[str, dict[str, Any]] = {"patch": {"split": "patch"}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    covariance = np.diag([1.0, 1.0, 2.0, 1.0])
    teacher = split_teacher(parameters.split)
    return linear_teacher(teacher, covariance, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> DeepNetwork:
    width = parameters.width
    return deep_convolutional(4, (width, width, 2), stride=2, scale=parameters.scale, key=keys)


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    panels.count(reading, claim)
    panels.level(reading, claim, order=2)
    directions(reading, claim)


_TITLE, _TABLES = "linear convolution, then linear", deep(_network, also=layers)
PANEL = Panel("5B", _TITLE, Parameters, _task, _network, _TABLES, _asserts)
run, claims, draw = PANEL.run, PANEL.claims, drawing(PANEL)
