"""Figure 5B: a linear convolution with a linear layer behind it learns one kernel, then two."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from ....networks import Stack, convolutional_stack
from ....networks._seeds import Keys
from ....tasks import AbstractTask, linear_teacher
from .._comparison import Reported
from ..panels._panel import Panel
from ._claims import width_claims
from ._panel import DeepPanel, DeepParameters
from ._reference import DeepReference
from ._split import Split, split_teacher


class Parameters(DeepParameters):
    """A convolution and a fully-connected layer, both linear, on the inputs of Figure 1C."""

    split: Split = "tap"
    """Which inputs each of the two outputs is made of: those of a kernel tap, or of a patch."""


PRESETS: dict[str, dict[str, Any]] = {"patch": {"split": "patch"}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    covariance = np.diag([1.0, 1.0, 2.0, 1.0])
    teacher = split_teacher(parameters.split)
    return linear_teacher(teacher, covariance, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Stack:
    width = parameters.width
    return convolutional_stack(4, (width, width, 2), stride=2, scale=parameters.scale, key=keys)


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5b",
        title="linear convolution, then linear",
        parameters=Parameters,
        task=_task,
        network=_network,
        structure=width_claims,
        # The second drive is not much weaker: the saddle is passed at a distance.
        level_tolerance=0.01,
        level_fraction=0.9,
    ),
    references=(
        DeepReference(
            Parameters(split="patch"),
            drops=(Reported((780.0,), 1, 0.066), Reported((1165.0,), 1, 0.062)),
            level=Reported((0.397,), 1, 5e-3),
        ),
    ),
    plain=True,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
