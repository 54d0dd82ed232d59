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

from ....networks import Stack, convolutional_stack
from ....networks._seeds import Keys
from ....tasks import AbstractTask, kernel_points, task
from ...claims import Claim
from .._comparison import Reported
from ..panels._panel import Panel
from ..panels._parameters import refuse_samples
from ..panels._reading import Reading
from ._claims import ray_claims
from ._panel import DeepPanel, DeepParameters
from ._reference import DeepReference
from ._split import Split, split_teacher


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
    """Every input excites one tap of the kernel: rays lie along the axes.

    One kernel with one unit behind it has one sign, and fits the strongest of the four points.
    """
    statistics = task.statistics(network.view)
    power = statistics.weight * (statistics.y**2).sum(axis=1)
    return {
        "ray_angle": ("ray", np.array([0.0, 90.0])),
        "strongest_share": ((), power.max() / power.sum()),
    }


def _structure(reading: Reading) -> list[Claim]:
    return [*ray_claims(reading), *_stop_claims(reading)]


def _stop_claims(reading: Reading) -> list[Claim]:
    """On the way to its plateau the cleaner run slows down at the narrowest network's minimum."""
    if "cleaner" not in reading.run:
        return []
    table, theory = reading.run["cleaner"].to_dataset(), reading.theory
    expected = float(theory["level"][0] * (1 - theory["strongest_share"]))
    distance = np.abs(table["level"].values - expected)
    stops = np.nanmin(distance, axis=1)
    return [
        reading.at_least(
            f"from initial weights of {float(table.attrs['scale']):g} the loss stops on its way to "
            "the plateau, within 0.02 of the minimum of the same network with one unit in every "
            "hidden layer",
            0.9,
            stops <= 0.02,
            source=f"{reading.source}; Corollary 2",
            note=f"minimum {expected:.4g}; {', '.join(f'{stop:.2g}' for stop in stops)} away",
        )
    ]


def _by_patch(parameters: Parameters) -> str:
    if parameters.split == "tap":
        return ""
    return "split by patch the two outputs are learned together, and there is no clean plateau"


def _by_tap(parameters: Parameters) -> str:
    if parameters.split == "patch":
        return ""
    return (
        "the paper does not say how the scalar target is split: by kernel tap here, while by patch "
        "no seed rests there (preset `patch`)"
    )


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5d",
        title="ReLU convolution, then ReLU",
        parameters=Parameters,
        task=_task,
        network=_network,
        predict=_predict,
        structure=_structure,
        caveat=_by_patch,
        level_tolerance=0.02,
        level_fraction=0.25,
    ),
    narrow=_narrow,
    narrow_words="one kernel and two units behind it",
    starts=256,  # of which one in twenty finds the lowest minimum
    cleaner=lambda parameters: parameters.cleaner,
    cleaner_median=5e-4,
    correction=_by_tap,
    references=(
        DeepReference(
            Parameters(),
            drops=(Reported((1473.0, 1548.0), 2, 0.12), Reported((1867.0, 2349.0), 2, 0.12)),
        ),
    ),
    plain=True,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
