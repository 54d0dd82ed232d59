r"""The same animals with one layer and with two: only depth has saddles, and so stages.

A shallow animal has the products $W_{ai} = u_{ai} v_i$ of a deep one as its only weights, so that
both start with the same behaviour.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ....theory.decisions import (
    Animals,
    DecisionModel,
    Learning,
    StationaryPoint,
    mean_field,
    stationary_points,
    stimulus_use_times,
    weight_velocity,
)
from ....theory.decisions._model import Architecture
from ..._old import experiment, run_tree
from ..._registry import Progress
from ._animals import EVEN, AnimalParameters, herd
from ._decision_depth_claims import NAME as NAME
from ._decision_depth_claims import claims as claims
from ._decision_depth_draw import draw as draw

_SAMPLES = 801
_LATER, _LATE_SAMPLES = 100.0, 100
"""Weights are followed for longer than choices: what matters little is learned slowly."""

_STARTS = 300
_AT_REST = 1e-9
_LATE = 1e5
"""Until then the even animal has settled."""


class Parameters(AnimalParameters):
    """The same animals, shallow and deep."""

    duration: float = Field(default=200.0, ge=50.0, le=2000.0)
    """How long the deep ones learn, in units of τ."""

    shallow_duration: float = Field(default=20.0, ge=10.0, le=2000.0)
    """How long the shallow ones learn."""


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Let the same animals learn with one layer and with two."""
    animals, _ = herd(parameters, key)
    ends: dict[Architecture, float] = {
        "shallow": parameters.shallow_duration,
        "deep": parameters.duration,
    }
    tables = {}
    for place, (architecture, end) in enumerate(ends.items()):
        say(f"{len(animals)} {architecture} animals", place / len(ends))
        model = DecisionModel(
            inverse_temperature=parameters.inverse_temperature, architecture=architecture
        )
        tables[architecture] = _learn(model, animals, np.linspace(0.0, end, _SAMPLES)).assign(
            _points(model, animals)
        )
    return run_tree(NAME, parameters, **tables)


def _learn(model: DecisionModel, animals: Animals, times: np.ndarray) -> xr.Dataset:
    late = times[-1] * np.geomspace(1.0, _LATER, _LATE_SAMPLES)[1:]
    learning = mean_field(model, animals, np.concatenate([times, late]))
    soon = slice(len(times))
    return xr.Dataset(
        {
            "gain": (("animal", "side"), animals.gains[:, :2]),
            "use": (("animal", "side"), stimulus_use_times(learning)),
            "influence": (("animal", "time", "side"), _influence(learning)[:, soon]),
            "lean": (("animal", "until_late", "side"), _lean(learning.products)),
            "start": (("animal", "contrast"), learning.right_probability[:, 0]),
        },
        {
            "time": ("time", times, {"units": "τ"}),
            "until_late": ("until_late", learning.time, {"units": "τ"}),
            "animal": np.arange(len(animals)),
            "contrast": np.asarray(model.contrasts),
        },
    )


def _lean(products: np.ndarray) -> np.ndarray:
    """What a stimulus says for its own side: W_LL − W_RL and W_RR − W_LR."""
    left, right = products[..., 0], products[..., 1]
    return np.stack([left[..., 0] - left[..., 1], right[..., 1] - right[..., 0]], axis=-1)


def _influence(learning: Learning) -> np.ndarray:
    """How far a stimulus at full contrast moves choices towards its own side."""
    w, beta = learning.products, learning.model.inverse_temperature
    prefers_right = w[:, :, 1] - w[:, :, 0]
    blank = prefers_right[..., 2]
    right = lambda preference: 0.5 * (1.0 + np.tanh(0.5 * beta * preference))
    return np.stack(
        [
            right(blank) - right(blank + prefers_right[..., 0]),
            right(blank + prefers_right[..., 1]) - right(blank),
        ],
        axis=-1,
    )


def _points(model: DecisionModel, animals: Animals) -> dict[str, Any]:
    """Where the network rests, where it was found to rest, and where an animal ends."""
    points = stationary_points(model)
    even = Animals(animals.gains[[EVEN]], animals.striatum[[EVEN]])
    moves = [weight_velocity(model, _resting(point, model)) for point in points]
    products = np.stack([point.products for point in points])[:, None]
    points_at_rest = Learning(model, np.zeros(1), np.ones((len(points), 1, 3)), products, "theory")
    speed = [max(np.abs(m.gains).max(), np.abs(m.striatum).max()) for m in moves]
    return {
        "point_lean": (("point", "side"), np.array([_lean(point.products) for point in points])),
        "point_index": ("point", [point.index for point in points]),
        "point_active": ("point", [len(point.active) for point in points]),
        "point_speed": ("point", speed),
        "found": ((), _search(model)),
        "point_influence": (("point", "side"), _influence(points_at_rest)[:, 0]),
        "end": ("contrast", mean_field(model, even, [_LATE]).right_probability[0, 0]),
        "expert": ("contrast", points[-1].right_probability),
        "expert_products": (("action", "line"), points[-1].products),
        "escape_rate": ("point", [point.escape_rates.get("left", np.nan) for point in points]),
    }


def _resting(point: StationaryPoint, model: DecisionModel) -> Animals:
    return point.animals.merged() if model.architecture == "shallow" else point.animals


def _search(model: DecisionModel) -> int:
    """How many points at rest are found from random weights, if choices are random too.

    With a softmax such a search ends at weights for which an action is as good as never chosen,
    where all but nothing moves.
    """
    from scipy.optimize import least_squares

    x, reward = model.stimuli, model.rewards
    h, target = 0.5 * x.T @ x / len(x), 0.5 * reward.T @ x / len(x)

    def shallow(w: np.ndarray) -> np.ndarray:
        return (target - w.reshape(2, 3) @ h).ravel()

    def deep(theta: np.ndarray) -> np.ndarray:
        v, u = theta[:3], theta[3:].reshape(2, 3)
        pull = target - (u * v) @ h
        return np.concatenate([(pull * u).sum(axis=0), (pull * v).ravel()])

    # A generator of its own: whether all are found must not depend on the seed of the animals.
    rng, found = np.random.default_rng(0), []
    flow, size = (shallow, 6) if model.architecture == "shallow" else (deep, 9)
    for _ in range(_STARTS):
        start = rng.uniform(-1.0, 1.0, size)
        end = least_squares(flow, start, method="lm", xtol=1e-13, ftol=1e-13, gtol=1e-13)
        if np.abs(end.fun).max() > _AT_REST:
            continue
        products = end.x.reshape(2, 3) if size == 6 else end.x[3:].reshape(2, 3) * end.x[:3]
        if all(np.abs(products - other).max() > 1e-3 for other in found):
            found.append(products)
    return len(found)
