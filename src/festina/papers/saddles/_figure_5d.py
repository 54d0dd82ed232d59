"""Figure 5D: a ReLU convolution with a ReLU layer behind it learns one kernel ray, then two.

The scalar target of Figure 1E is split into two. Split by patch there is no clean plateau; split by
kernel tap there is, in some seeds at the paper's initial scale and in most at a smaller one. One
kernel with both signs of its tap needs two ReLU units behind it: the plateau is the minimum of the
network with one kernel and two such units, and that with one, at 0.6, is passed on the way.
"""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ...networks import Stack, convolutional_stack
from ...networks._seeds import Keys
from ...tasks import AbstractTask, kernel_points, task
from ._figure_5 import DeepPanel, DeepParameters
from ._figure_5_claims import ray_claims
from ._figure_5_split import Split, split_teacher
from ._panel import Panel
from ._parameters import refuse_samples


class Parameters(DeepParameters):
    """A convolution and a fully-connected layer, both ReLU, on the four points of Figure 1E."""

    split: Split = "tap"
    """Which inputs each of the two outputs is made of: those of a kernel tap, or of a patch."""

    cleaner: float | None = Field(default=1e-3, gt=0)
    """Initial scale of a second run, for a cleaner plateau; 'none' for no such run."""


PRESETS: dict[str, dict[str, Any]] = {"patch": {"split": "patch", "cleaner": None}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    del key
    refuse_samples(parameters, 4, "four")
    x = kernel_points().x
    return task(x, x @ split_teacher(parameters.split).T)


def _network(parameters: Parameters, keys: Keys) -> Stack:
    width = parameters.width
    return convolutional_stack(
        4, (width, width, 2), stride=2, activations="relu", scale=parameters.scale, key=keys
    )


def _narrow(parameters: Parameters, keys: Keys) -> Stack:
    return convolutional_stack(4, (1, 2, 2), stride=2, activations="relu", scale=0.7, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Stack) -> dict[str, Any]:
    """Every input excites one tap of the kernel: rays lie along the axes."""
    return {"ray_angle": ("ray", np.array([0.0, 90.0]))}


def _by_patch(parameters: Parameters) -> str:
    if parameters.split == "tap":
        return ""
    return "split by patch the two outputs are learned together, and there is no clean plateau"


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5d",
        title="ReLU convolution, then ReLU",
        parameters=Parameters,
        task=_task,
        network=_network,
        predict=_predict,
        structure=ray_claims,
        caveat=_by_patch,
        count_fraction=0.5,
        seed_tolerance=0.05,
        level_fraction=0.45,
    ),
    narrow=_narrow,
    narrow_words="one kernel and two units behind it",
    cleaner=lambda parameters: parameters.cleaner,
    cleaner_rest=0.01,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
