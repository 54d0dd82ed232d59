"""Figure 6: four-layer networks with skip connections (Eq. 18) learn as shallower ones do.

The paper gives neither the initial scale nor the learning rate: 0.02 and 0.01 here, on the data of
Figure 1B with W* = I for the linear networks and of Figure 1D for those of ReLU units. A skip
carries the activity of the first layer past one or two others. Each network with a skip is held
against the one that is left without the layers skipped, trained from the same weights.
"""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ...diagnose import passage_time, plateaus
from ...dynamics import Trajectory, gradient_descent
from ...networks import Stack, seeds, stack, stack_from
from ...networks._seeds import Keys
from ...tasks import AbstractTask, linear_teacher, orthogonal_points
from ...theory.saddles import minima_from
from .._frame import keys_of
from .._old import experiment, run_tree
from .._parameters import Parameters as Base
from .._registry import Progress
from ..claims import Claim
from ._figure_6_claims import all_claims
from ._plain_descent import plain_drops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "saddles/figure-6"
LOSS: Literal["mean-square"] = "mean-square"


class Parameters(Base):
    """Four layers, Eq. (18)."""

    seeds: int = Field(default=12, ge=1)
    """How many independent initialisations are trained."""

    width: int = Field(default=50, ge=2)
    """Number of units H of each hidden layer."""

    scale: float = Field(default=0.02, gt=0)
    """Standard deviation ε of the initial weights, which the paper does not give."""

    smaller_scale: float = Field(default=1e-3, gt=0)
    """Initial scale of a second run with two layers skipped, whose plateau is weak or lost at ε."""

    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate η of gradient descent on the loss, which the paper does not give."""

    max_steps: int = Field(default=30_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 3}


class Family(NamedTuple):
    """Networks with one activation, and what they learn."""

    activation: str
    task: AbstractTask


def families() -> dict[str, Family]:
    """The two columns of the figure."""
    sigma = np.array([[1.0, 1.0], [1.0, 4.0]])
    return {
        "linear": Family("linear", linear_teacher(np.eye(2), sigma)),
        "relu": Family("relu", orthogonal_points()),
    }


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train the three networks of both families, and the shallower ones that two come down to."""
    keys = keys_of(parameters, key)
    groups = {}
    for column, (name, family) in enumerate(families().items()):
        levels = _levels(parameters, family)
        groups[f"{name}_theory"] = xr.Dataset({"level": ("plateau", levels)})
        for skipped in range(3):
            say(f"{name}, {skipped} layers skipped", (3 * column + skipped) / 7)
            network = _network(parameters, family, skipped, parameters.scale, keys)
            plain = plain_drops(
                network,
                family.task,
                parameters.learning_rate,
                (levels[:-1] + levels[1:]) / 2,
                parameters.max_steps,
            )
            groups[f"{name}_{skipped}"] = _record(parameters, network, family.task, levels).assign(
                plain_step=(("seed", "drop"), plain)
            )
            if skipped:
                shallow = _shallow(network, skipped)
                groups[f"{name}_{skipped}_shallow"] = _record(
                    parameters, shallow, family.task, levels
                )
        small = _network(parameters, family, 2, parameters.smaller_scale, keys)
        groups[f"{name}_2_smaller"] = _record(parameters, small, family.task, levels)
    return run_tree(NAME, parameters, **groups)


def claims(run: xr.DataTree) -> list[Claim]:
    """What the figure asserts. Computes nothing that was not saved."""
    return all_claims(run)


def draw(run: xr.DataTree) -> "Figure":
    """Loss curves of both families, on linear and on logarithmic time."""
    from ._figure_6_draw import draw_skips

    return draw_skips(run)


def _network(
    parameters: Parameters, family: Family, skipped: int, scale: float, keys: Keys
) -> Stack:
    """Eq. (18a) to (18c): the activity of layer 1 is added `skipped` layers further on."""
    width = parameters.width
    return stack(
        (2, width, width, width, family.task.outputs),
        activations=family.activation,
        skips=((1, 1 + skipped),) if skipped else (),
        scale=scale,
        key=keys,
    )


def _shallow(network: Stack, skipped: int) -> Stack:
    """The network without the layers that are skipped, with the weights of the others."""
    kept = (network.weights[0], *network.weights[1 + skipped :])
    return stack_from(network.unit, kept, activations=network.activations[0])


def _levels(parameters: Parameters, family: Family) -> np.ndarray:
    """Of the loss: with no network at all, with one unit in every layer, and with all."""
    widths = (2, 1, 1, family.task.outputs)
    starts = stack(
        widths, activations=family.activation, scale=0.7, key=seeds(24, first=parameters.seed)
    )
    statistics = family.task.statistics(starts.view)
    power = float(statistics.weight @ (statistics.y**2).sum(axis=1)) + 2 * statistics.floor
    return np.array([power, minima_from(starts, family.task, loss=LOSS).loss[0], 0.0])


def _record(
    parameters: Parameters, network: Stack, task: AbstractTask, levels: np.ndarray
) -> xr.Dataset:
    """Loss curve, plateaus, drops, and how much every layer has grown."""
    trajectory = gradient_descent(
        network, task, parameters.learning_rate, loss=LOSS, max_steps=parameters.max_steps
    )
    count, drops = _stairs(trajectory, levels)
    norms = [
        np.linalg.norm(part[:, [0, -1]], ord=2, axis=(-2, -1)) for part in trajectory.network.parts
    ]
    grown = [
        np.linalg.norm(part[:, -1] - part[:, 0], ord=2, axis=(-2, -1))
        for part in trajectory.network.parts
    ]
    return xr.Dataset(
        {
            "step": (("seed", "save"), trajectory.time),
            "loss": (("seed", "save"), trajectory.loss),
            "count": ("seed", count),
            "drop_step": (("seed", "drop"), drops),
            "initial_norm": (("seed", "layer"), np.stack([n[:, 0] for n in norms], axis=1)),
            "final_norm": (("seed", "layer"), np.stack([n[:, -1] for n in norms], axis=1)),
            "growth": (("seed", "layer"), np.stack(grown, axis=1)),
            "failed": ("seed", np.array([int(end.failed) for end in trajectory.endings])),
        }
    )


def _stairs(trajectory: Trajectory, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of plateaus, and when the loss passes the middle of each drop."""
    middles = (levels[:-1] + levels[1:]) / 2
    counts, drops = [], []
    for seed in range(len(trajectory.saves)):
        lane = trajectory.lane(seed)
        found = plateaus(lane.time, lane.loss, lane.squared_gradient, slope=lane.slope, merge=0.02)
        counts.append(len(found))
        drops.append([passage_time(lane.time, lane.loss, m, slope=lane.slope) for m in middles])
    return np.array(counts), np.array(drops)
