"""Figure 5D: a ReLU convolution and a ReLU layer learn one kernel ray, then two.

The scalar target of Figure 1E is split into two outputs. For a target split by patch, the paper's
initial scale gives no clean plateau. For a target split by kernel tap, some seeds have a clean
plateau, and most have one from smaller weights. A kernel that passes both signs of a tap needs two
ReLU units in the next layer. The plateau is therefore at the minimum of a network with one kernel
and two units in the next layer. The loss slows down earlier at 0.6, the minimum of a network with
one kernel and one unit in the next layer.
"""

from typing import Any

import numpy as np
from pydantic import Field

from ...._types import Keys
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, join_numbers, most_seeds
from ....networks import DeepNetwork, deep_convolutional
from ....tasks import AbstractTask, figure_1e_points, from_arrays
from .. import panels
from ..panels import Panel, Reading, refuse_samples
from . import _deep
from ._deep import DeepParameters, Split

_BY_TAP = (
    "one kernel needs two units in the next layer, one for each sign of a tap; the paper does not "
    "say how the scalar target is split: here by kernel tap; split by patch, no seed has a plateau "
    "(preset `patch`)"
)
_BY_PATCH = "split by patch, the paper's initial weights learn everything together, without plateau"


class Parameters(DeepParameters):
    """Parameters of Figure 5D: a ReLU convolution and a ReLU layer, four points of Figure 1E."""

    split: Split = "tap"
    """Inputs on which each output depends: the inputs of one kernel tap or of one patch."""

    cleaner: float | None = Field(default=1e-3, gt=0)
    """Initial scale of a second run, which has a cleaner plateau; 'none' for no second run."""


PRESETS: dict[str, dict[str, Any]] = {"patch": {"split": "patch", "cleaner": None}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    del key
    refuse_samples(parameters, 4, "four")
    x = figure_1e_points().x
    return from_arrays(x, x @ _deep.split_teacher(parameters.split).T)


def _network(parameters: Parameters, keys: Keys, kernels: int | None = None) -> DeepNetwork:
    sizes = (kernels or parameters.width, parameters.width, 2)
    relu: Any = {"activations": "relu", "scale": parameters.scale}
    return deep_convolutional(4, sizes, stride=2, key=keys, **relu)


def _narrow(parameters: Parameters, keys: Keys) -> DeepNetwork:
    return _network(parameters.model_copy(update={"width": 2}), keys, kernels=1)


def _predict(parameters: Parameters, task: AbstractTask, network: DeepNetwork) -> dict[str, Any]:
    """Predict two kernel rays along the axes, since every input excites one tap of the kernel.

    Also return the share of the loss that the strongest of the four points contributes. A single
    kernel with a single unit in the next layer passes one sign and fits the strongest point only.
    """
    statistics = task.statistics(network.view)
    power = statistics.weight * (statistics.y**2).sum(axis=1)
    return {
        "ray_angle": ("ray", np.array([0.0, 90.0])),
        "strongest_share": ((), power.max() / power.sum()),
    }


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    top, rest, _ = reading.theory["level"].values
    stop = top * (1 - float(reading.theory["strongest_share"]))
    reading.theory["fixed_point"] = "point", [rest, stop]
    if reading.parameters.split == "tap":
        panels.level(reading, claim, order=2, corrected=_BY_TAP)
        if "cleaner" in reading.run:
            more = f"; {_BY_TAP}"
            _deep.from_smaller_weights(reading, claim, 0.02, 0.9, more, order=2)
            _stops(reading, claim, stop)
    elif reading.parameters.scale >= Parameters().scale:  # smaller weights have a plateau
        strength = reading.plateaus["strength"].values[:, 1:]
        between = np.arange(1, 1 + strength.shape[1]) < reading.counts[:, None] - 1
        here = (between & (strength >= 1.0)).any(axis=1)
        words = "the loss rests at the minimum of one kernel with two units in the next layer"
        claim(
            "rests-at-one-kernel",
            words,
            most_seeds(here, 0.25),
            at="Corollary 2",
            wrong=_BY_PATCH,
            instead=most_seeds(~here),
        )
    _deep.one_ray_then_two(reading, claim)


def _stops(reading: Reading, claim: ClaimCollector, stop: float) -> None:
    """Check that the cleaner run slows down near the minimum of the narrowest network."""
    table = reading.run["cleaner"].ds
    away = np.nanmin(np.abs(table["level"].values - stop), axis=1)
    words = (
        f"from initial weights of size {table.attrs['scale']:g}, the loss slows down within 0.02 "
        "of the minimum of the network with one unit in every hidden layer"
    )
    note = f"minimum {stop:.4g}; distances {join_numbers(away, 2)}"
    claim("stops-at-narrowest", words, most_seeds(away <= 0.02, 0.9), at="Corollary 2", note=note)


# One start in twenty finds the lowest minimum, so 256 starts suffice.
_TABLES = _deep.deep(_network, _predict, narrow=_narrow, starts=256, also=_deep.cleaner(_network))
PANEL = Panel("5D", "ReLU convolution, then ReLU", Parameters, _task, _network, _TABLES, _asserts)
run, claims, draw = PANEL.run, PANEL.claims, _deep.drawing(PANEL)
