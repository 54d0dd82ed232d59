r"""The same simulated animals with one layer and with two: only deep networks have saddles.

The weights of a shallow animal are the products $W_{ai} = u_{ai} v_i$ of the weights of a deep
animal. Shallow and deep animals therefore start with the same choices.
"""

import itertools
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import THEORY_STYLE, draw_pair, label_axes, panels, styled
from ....theory import decisions
from ....theory.decisions import AnimalWeights, ContrastChoiceLearner
from ....theory.decisions._learner import Architecture
from . import _animals as mice

_POINTS: dict[Architecture, int] = {"shallow": 1, "deep": 8}  # numbers of stationary points
_CONSTANT, _LEFT_CONSTANT = 3, 5
_RATIO = 3.0  # ratio of gains above which a deep animal learns in stages
_LATER, _LATE_SAMPLES = 100.0, 100  # for weights that hardly affect choices and learn slowly
_SAMPLES, _STARTS, _AT_REST = 801, 300, 1e-9


class Parameters(mice.AnimalParameters):
    """Parameters of simulated animals that learn with a shallow and with a deep network."""

    shallow_duration: float = Field(default=20.0, ge=10.0, le=2000.0)
    """Duration of learning of shallow animals, in units of τ."""


@make_run("linear/decision-depth")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train the same animals with one layer and with two."""
    animals, _ = mice.herd(parameters, key)
    ends = {"shallow": parameters.shallow_duration, "deep": parameters.duration}
    tables = {}
    for place, name in enumerate(_POINTS):
        progress(f"training {len(animals)} {name} animals", place / len(_POINTS))
        beta = parameters.inverse_temperature
        model = ContrastChoiceLearner(inverse_temperature=beta, architecture=name)
        learned = _learn(model, animals, np.linspace(0.0, ends[name], _SAMPLES))
        tables[name] = learned.assign(_points(model))
    return tables


def _learn(model: ContrastChoiceLearner, animals: AnimalWeights, times: np.ndarray) -> xr.Dataset:
    late = times[-1] * np.geomspace(1.0, _LATER, _LATE_SAMPLES)[1:]
    learning = decisions.mean_field_learning(model, animals, np.concatenate([times, late]))
    soon, beta, unit = slice(len(times)), model.inverse_temperature, {"units": "τ"}
    return xr.Dataset(
        {
            "gain": (("animal", "side"), animals.gains[:, :2]),
            "use": (("animal", "side"), decisions.stimulus_use_times(learning)),
            "influence": (("animal", "time", "side"), _influence(learning.products, beta)[:, soon]),
            "lean": (("animal", "until_late", "side"), _lean(learning.products)),
        },
        {"time": ("time", times, unit), "until_late": ("until_late", learning.time, unit)},
    )


def _lean(products: np.ndarray) -> np.ndarray:
    """Return how far each stimulus favours its own side: W_LL − W_RL and W_RR − W_LR."""
    left, right = products[..., 0], products[..., 1]
    return np.stack([left[..., 0] - left[..., 1], right[..., 1] - right[..., 0]], axis=-1)


def _influence(products: np.ndarray, beta: float) -> np.ndarray:
    """Return how far a stimulus at full contrast shifts choices towards its own side."""
    prefers_right = products[..., 1, :] - products[..., 0, :]
    left, right, blank = np.moveaxis(prefers_right, -1, 0)
    chosen = lambda preference: 0.5 * (1.0 + np.tanh(0.5 * beta * preference))
    shifts = (chosen(blank) - chosen(blank + left), chosen(blank + right) - chosen(blank))
    return np.stack(shifts, axis=-1)


def _points(model: ContrastChoiceLearner) -> dict[str, Any]:
    """Return the predicted stationary points, and how many a search finds."""
    points, beta = decisions.stationary_points(model), model.inverse_temperature
    products = np.stack([point.products for point in points])
    return {
        "point_lean": (("point", "side"), _lean(products)),
        "point_index": ("point", [point.index for point in points]),
        "point_influence": (("point", "side"), _influence(products, beta)),
        "found": ((), _search(model)),
        "escape_rate": ("point", [point.escape_rates.get("left", np.nan) for point in points]),
    }


def _search(model: ContrastChoiceLearner) -> int:
    """Return the number of stationary points found from random weights, for random choices.

    With a softmax policy the search would end at weights for which one action is almost never
    chosen and the weights therefore hardly change.
    """
    from scipy.optimize import least_squares

    x, deep = model.stimuli, model.architecture == "deep"
    h, target = 0.5 * x.T @ x / len(x), 0.5 * model.rewards.T @ x / len(x)
    weights = lambda theta: (theta[:-6] if deep else np.ones(3), theta[-6:].reshape(2, 3))

    def velocity(theta: np.ndarray) -> np.ndarray:
        v, u = weights(theta)
        pull = target - (u * v) @ h
        return np.append((pull * u).sum(axis=0) if deep else [], pull * v)

    # A separate generator: the result must not depend on the seed of the animals.
    starts = np.random.default_rng(0).uniform(-1.0, 1.0, (_STARTS, 9 if deep else 6))
    found: list[np.ndarray] = []
    for start in starts:
        end = least_squares(velocity, start, method="lm", xtol=1e-13, ftol=1e-13, gtol=1e-13)
        products = np.multiply(*weights(end.x))
        new = all(np.abs(products - other).max() > 1e-3 for other in found)
        if new and np.abs(end.fun).max() <= _AT_REST:
            found.append(products)
    return len(found)


@claims_from_source("Saxe, slides", "“Saddle points arise through depth”", note=mice.RECONSTRUCTED)
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check for one stationary point in shallow animals, and eight and stages in deep animals."""
    shallow, deep = (run[name].ds for name in _POINTS)
    for name, count in _POINTS.items():
        found, index = int(run[name].ds["found"]), run[name].ds["point_index"]
        claim(
            f"{name}-points",
            f"{name} network: a search with random choices finds all stationary points, one of "
            "them stable (number found, number stable)",
            agree([found, int((index == 0).sum())], [count, 1]),
            note="random choices are a fixed policy; the points of the softmax policy continue "
            "these points",
        )
    at_once, staged = shallow["use"].values, deep["use"].values
    longest = float(np.abs(np.diff(at_once, axis=1)).max())
    claim(
        "shallow-sides-together",
        "shallow animals start to use both sides at the same time (largest time difference, in τ)",
        agree(longest, 0.0, within=0.5),
        note=f"first use at times {at_once.min():.2f} to {at_once.max():.2f} τ",
    )
    claim(
        "shallow-gain-independence",
        "shallow animals start to use a stimulus at a time that does not depend on its initial "
        "gain (slope against the logarithm of the gain)",
        agree(mice.slope_with_gain(shallow, at_once), 0.0, within=0.2),
    )
    distinct = mice.told_apart(deep, _RATIO)
    if np.isfinite(staged.min(axis=1)).all():
        later, rate = -mice.slope_with_gain(deep, staged), float(deep["escape_rate"][_CONSTANT])
        claim(
            "deep-slope-with-gain",
            "deep animals start to use a stimulus earlier by a fixed time for each factor e in the "
            "larger initial gain (in τ)",
            agree(later, 1.0 / rate, within=0.15, relative=True),
            note="predicted: one over the escape rate at the saddle {0}, where only the constant "
            "line is active",
        )
        if distinct[mice.DRAWN :].any():
            between = np.abs(np.diff(staged, axis=1))[mice.DRAWN :][distinct[mice.DRAWN :]]
            claim(
                "deep-sides-apart",
                "deep animals learn the two sides at times ten times further apart than shallow "
                f"animals, for random initial gains with a ratio above {_RATIO:g}",
                most_seeds(between > 10 * (longest + float(shallow["time"][1])), of="animals"),
            )
    # Largest lead of one side's weights over the other's, relative to the final weights.
    goal = float(shallow["point_lean"][-1, 0])
    lead = lambda table: np.abs(np.diff(table["lean"].values)).max(axis=(1, 2)) / goal
    together, ahead = lead(shallow), lead(deep)
    claim(
        "shallow-weights-together",
        "shallow animals: the weights of both sides grow together (largest lead of one side, "
        "relative to the final weights)",
        max_error_below(together, within=0.05),
    )
    claim(
        "deep-lead",
        "deep animals: the weights of one side get ten times further ahead than in shallow "
        f"animals, for initial gains with a ratio above {_RATIO:g}",
        most_seeds((ahead > 10 * together)[distinct], of="animals"),
        note=f"left-first animal: a lead of {ahead[mice.LEFT_FIRST]:.2f} of the final weights; at "
        "the saddle {L 0} it would be "
        f"{float(deep['point_lean'][_LEFT_CONSTANT, 0]) / goal:.2f}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot shallow and deep animals in two rows, from the same initial choices."""
    title = "Only depth has saddles: the same animals with one layer and with two"
    figure, rows = panels(title, 3, 2, width=3.33, height=2.8, width_ratios=(0.9, 1, 1.3))
    limit = 1.12 * float(run["deep"].ds["point_lean"].max())
    around = {"xlim": (-0.12, limit), "ylim": (-0.12, limit), "xticks": (0, 1, 2)}
    sides = ("left stimulus, $W_{LL} - W_{RL}$", "right stimulus, $W_{RR} - W_{LR}$")
    titles = {
        "shallow": ("one stationary point", "both sides at once"),
        "deep": ("8 stationary points, two at 0", "one side after the other"),
    }
    for row, (name, (rests, order)) in zip(rows, titles.items(), strict=True):
        (sketch, weights, choices), table = row, run[name].ds
        _draw_network(sketch, deep=name == "deep")
        sketch.set_title(name, weight="bold")
        mice.draw_ways(weights, *np.moveaxis(table["lean"].values, -1, 0))
        for lean, index in zip(table["point_lean"].values, table["point_index"], strict=True):
            face = "white" if index else "black"
            weights.plot(*lean, "o", ms=6, mfc=face, mec="black", zorder=5)
        label_axes(weights, *sides, rests, legend=None, yticks=(0, 1, 2), **around)
        _draw_influence(choices, table)
        choices.set_title(f"left-first animal: {order}")
    rows[0, 1].legend(loc="lower right")
    rows[0, 2].legend(loc="upper right", ncols=2)
    return figure


def _draw_network(ax: Axes, *, deep: bool) -> None:
    """Draw connections from inputs to actions, with a gain for each input if deep."""
    inputs = np.array([0.85, 0.5, 0.15])
    actions, stop, blue = np.array([0.7, 0.3]), 0.42 if deep else 0.0, "#0072b2"
    for a, b in itertools.product(inputs, actions):
        ax.plot([stop, 1.0], [a, b], color="0.7", lw=1.2, zorder=1)
    columns = [(0.0, inputs, "black"), (1.0, actions, "black")]
    if deep:
        ax.plot([0.0, stop], [inputs, inputs], color=blue, lw=2.2, zorder=1)
        columns.append((stop, inputs, blue))
        ax.text(stop / 2, 0.93, "$v$", color=blue, ha="center")
    ax.text(0.74, 0.88, "$u$" if deep else "$W$", color="0.4", ha="center")
    for x, ys, color in columns:
        ax.plot([x] * len(ys), ys, "o", ms=9, mfc="white", mec=color, zorder=2)
    for y, words in zip(inputs, ("left", "right", "1"), strict=True):
        ax.text(-0.1, y, words, ha="right", va="center")
    for y, words in zip(actions, ("go left", "go right"), strict=True):
        ax.text(1.12, y, words, ha="left", va="center")
    ax.set(xlim=(-0.55, 2.0), ylim=(0, 1))
    ax.axis("off")


def _draw_influence(ax: Axes, table: xr.Dataset) -> None:
    one = table.isel(animal=mice.LEFT_FIRST)
    for side, words in enumerate(("left stimulus", "right stimulus")):
        color, use = mice.COLORS[side], float(one["use"][side])
        draw_pair(ax, one["time"], one["influence"][:, side], color=color, alpha=0.8, label=words)
        if np.isfinite(use):
            ax.plot([use, use], [0, 0.25], color=color, lw=1, ls=":")
    ax.axhline(float(table["point_influence"][-1, 0]), **THEORY_STYLE, label="theory: expert")
    ax.plot([], [], color="0.4", lw=1, ls=":", label="first use")
    words = ("time $t/τ$", "shift of choices by a stimulus")
    around = {"xlim": (0, float(one["time"][-1])), "ylim": (0, 1.35), "yticks": (0, 0.5, 1)}
    label_axes(ax, *words, legend=None, **around)
