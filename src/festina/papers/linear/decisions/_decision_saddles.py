r"""The stationary points behind the strategies of mice, and how near to them animals come.

A deep network with `total` teaching rests wherever each of its three lines (left, right, constant)
is either silent or has nothing left to learn: $2^3$ nested points. What `stationary_points` says of
them is held against the flow itself, which is started on, near and far from them.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ....theory.decisions import (
    Animals,
    DecisionModel,
    StationaryPoint,
    mean_field,
    naive_animals,
    stationary_points,
    visited_points,
)
from ....theory.decisions._model import LINES
from ..._old import experiment, run_tree
from ..._registry import Progress
from ._animals import AnimalParameters, herd
from ._decision_saddles_claims import NAME as NAME
from ._decision_saddles_claims import claims as claims
from ._decision_saddles_draw import draw as draw

_SAMPLES = 601
_LATE = 1e5
"""Until then an animal whose silent lines are held at zero has settled."""

_SEED_OF_GROWTH = 1e-8
_WINDOW = (1e-6, 1e-4)
"""Growth is measured while a gain is between these: late enough to be a pure exponential."""

_GAINS = np.geomspace(1e-2, 1e-6, 5)


class Parameters(AnimalParameters):
    """Animals on their way through the hierarchy, and animals put on and beside each point."""

    duration: float = Field(default=200.0, ge=50.0, le=2000.0)
    """How long they learn, in units of τ."""


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """The points for random choices and for the softmax, and the paths of animals among them."""
    animals, _ = herd(parameters, key)
    model = DecisionModel(inverse_temperature=parameters.inverse_temperature)
    say("stationary points for random choices", 0.0)
    uniform = _points(DecisionModel(inverse_temperature=0.0))
    say("stationary points for a softmax", 0.3)
    softmax = _points(model)
    say(f"paths of {len(animals)} animals", 0.6)
    points = stationary_points(model)
    return run_tree(
        NAME,
        parameters,
        uniform=uniform,
        softmax=softmax,
        paths=_paths(model, points, animals, np.linspace(0.0, parameters.duration, _SAMPLES)),
        approach=_approach(model, points, parameters.largest_gain),
    )


def _points(model: DecisionModel) -> xr.Dataset:
    """What theory says of every point, and what the flow does there."""
    points = stationary_points(model)
    settled = _settle(model, points)
    active = np.array([[line in point.active for line in LINES] for point in points])
    rate = [[point.escape_rates.get(line, np.nan) for line in LINES] for point in points]
    return xr.Dataset(
        {
            "active": (("point", "line"), active.astype(np.int64)),
            "loss": ("point", [point.loss for point in points]),
            "index": ("point", [point.index for point in points]),
            "eigenvalues": (("point", "unknown"), [np.real(p.eigenvalues) for p in points]),
            "escape_rate": (("point", "line"), rate),
            "growth_rate": (("point", "line"), _growth(model, points)),
            "right_probability": (("point", "contrast"), [p.right_probability for p in points]),
            "strength": (("point", "line"), [np.linalg.norm(p.products, axis=0) for p in points]),
            "distance": (
                ("point", "other"),
                [[np.linalg.norm(a.products - b.products) for a in points] for b in points],
            ),
            "settled_loss": ("point", settled.loss[:, -1]),
            "settled_right_probability": (("point", "contrast"), settled.right_probability[:, -1]),
        },
        {"contrast": np.asarray(model.contrasts)},
    )


def _settle(model: DecisionModel, points: tuple[StationaryPoint, ...]):
    """Animals whose silent lines are exactly zero, and so stay: they end on the saddle."""
    gain = np.array([[0.3 if line in point.active else 0.0 for line in LINES] for point in points])
    return mean_field(model, naive_animals(*gain.T), [_LATE])


def _growth(model: DecisionModel, points: tuple[StationaryPoint, ...]) -> np.ndarray:
    """Rate at which the gain of each silent line grows, in animals put beside each point."""
    places = [
        (place, line)
        for place, point in enumerate(points)
        for line, name in enumerate(LINES)
        if name not in point.active
    ]
    gains = np.concatenate([points[place].animals.gains for place, _ in places])
    striatum = np.concatenate([points[place].animals.striatum for place, _ in places])
    gains[range(len(places)), [line for _, line in places]] = _SEED_OF_GROWTH
    # The slowest of all has a rate near 0.046, so that e^{rate · 300} is a million.
    times = np.arange(0.0, 300.0, 0.5)
    learning = mean_field(model, Animals(gains, striatum), times, atol=1e-18)
    rates = np.full((len(points), len(LINES)), np.nan)
    for animal, (place, line) in enumerate(places):
        gain = learning.gains[animal, :, line]
        beside = (gain > _WINDOW[0]) & (gain < _WINDOW[1])
        rates[place, line] = np.polyfit(times[beside], np.log(gain[beside]), 1)[0]
    return rates


def _paths(
    model: DecisionModel, points: tuple[StationaryPoint, ...], animals: Animals, times: np.ndarray
) -> xr.Dataset:
    learning = mean_field(model, animals, times)
    visits = visited_points(learning, points)
    choices = np.stack([point.right_probability for point in points])
    behind = np.abs(learning.right_probability[:, :, None] - choices).max(axis=-1)
    return xr.Dataset(
        {
            "gain": (("animal", "side"), animals.gains[:, :2]),
            "loss": (("animal", "time"), learning.loss),
            "strength": (("animal", "time", "line"), np.linalg.norm(learning.products, axis=2)),
            "nearest": (("animal", "time"), visits.nearest.astype(np.int64)),
            "distance": (("animal", "time", "point"), visits.distance),
            "choice_distance": (("animal", "time", "point"), behind),
        },
        {"time": ("time", times, {"units": "τ"}), "animal": np.arange(len(animals))},
    )


def _approach(
    model: DecisionModel, points: tuple[StationaryPoint, ...], largest: float
) -> xr.Dataset:
    """How near animals come if their gains are made smaller."""
    lines = [point.active for point in points]
    count = len(_GAINS)
    animals = naive_animals(
        np.concatenate([_GAINS, np.full(count, largest)]), np.concatenate([_GAINS, _GAINS])
    )
    learning = mean_field(model, animals, np.arange(0.0, 600.0, 0.25), atol=1e-18)
    closest = visited_points(learning, points).distance.min(axis=1)
    return xr.Dataset(
        {
            "constant": ("gain", closest[:count, lines.index(("constant",))]),
            "one_sided": ("gain", closest[count:, lines.index(("left", "constant"))]),
        },
        {"gain": _GAINS},
    )
