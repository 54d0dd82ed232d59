r"""The same animals with one layer and with two: only depth has saddles, and so stages.

A shallow animal has the products $W_{ai} = u_{ai} v_i$ of a deep one as its only weights, so that
both start with the same behaviour.
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

_POINTS: dict[Architecture, int] = {"shallow": 1, "deep": 8}  # of rest
_CONSTANT, _LEFT_CONSTANT = 3, 5
_RATIO = 3.0  # of gains, from which on an animal learns in stages
_LATER, _LATE_SAMPLES = 100.0, 100  # weights that matter little for choices are learned slowly
_SAMPLES, _STARTS, _AT_REST = 801, 300, 1e-9


class Parameters(mice.AnimalParameters):
    """The same animals, shallow and deep."""

    shallow_duration: float = Field(default=20.0, ge=10.0, le=2000.0)
    """How long the shallow ones learn."""


@make_run("linear/decision-depth")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Let the same animals learn with one layer and with two."""
    animals, _ = mice.herd(parameters, key)
    ends = {"shallow": parameters.shallow_duration, "deep": parameters.duration}
    tables = {}
    for place, name in enumerate(_POINTS):
        progress(f"{len(animals)} {name} animals", place / len(_POINTS))
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
    """What a stimulus says for its own side: W_LL − W_RL and W_RR − W_LR."""
    left, right = products[..., 0], products[..., 1]
    return np.stack([left[..., 0] - left[..., 1], right[..., 1] - right[..., 0]], axis=-1)


def _influence(products: np.ndarray, beta: float) -> np.ndarray:
    """How far a stimulus at full contrast moves choices towards its own side."""
    prefers_right = products[..., 1, :] - products[..., 0, :]
    left, right, blank = np.moveaxis(prefers_right, -1, 0)
    chosen = lambda preference: 0.5 * (1.0 + np.tanh(0.5 * beta * preference))
    shifts = (chosen(blank) - chosen(blank + left), chosen(blank + right) - chosen(blank))
    return np.stack(shifts, axis=-1)


def _points(model: ContrastChoiceLearner) -> dict[str, Any]:
    """Where the network rests, and where it is found to rest."""
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
    """How many points at rest are found from random weights, if choices are random too.

    With a softmax such a search ends at weights for which an action is as good as never chosen,
    where all but nothing moves.
    """
    from scipy.optimize import least_squares

    x, deep = model.stimuli, model.architecture == "deep"
    h, target = 0.5 * x.T @ x / len(x), 0.5 * model.rewards.T @ x / len(x)
    weights = lambda theta: (theta[:-6] if deep else np.ones(3), theta[-6:].reshape(2, 3))

    def velocity(theta: np.ndarray) -> np.ndarray:
        v, u = weights(theta)
        pull = target - (u * v) @ h
        return np.append((pull * u).sum(axis=0) if deep else [], pull * v)

    # A generator of its own: whether all are found must not depend on the seed of the animals.
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
    """One point against eight, at once against in stages."""
    shallow, deep = (run[name].ds for name in _POINTS)
    for name, count in _POINTS.items():
        found, index = int(run[name].ds["found"]), run[name].ds["point_index"]
        claim(
            f"{name}-points",
            f"{name}: points of rest that a search finds (random choices), and stable ones",
            agree([found, int((index == 0).sum())], [count, 1]),
            note="for a fixed policy there are no others; the softmax is followed from there",
        )
    at_once, staged = shallow["use"].values, deep["use"].values
    longest = float(np.abs(np.diff(at_once, axis=1)).max())
    claim(
        "shallow-sides-together",
        "shallow: time between the use of one side and of the other (largest of all animals)",
        agree(longest, 0.0, within=0.5),
        note=f"first use at {at_once.min():.2f} to {at_once.max():.2f}",
    )
    claim(
        "shallow-gain-independence",
        "shallow: the time of first use does not depend on the gain (slope with its logarithm)",
        agree(mice.slope_with_gain(shallow, at_once), 0.0, within=0.2),
    )
    distinct = mice.told_apart(deep, _RATIO)
    if np.isfinite(staged.min(axis=1)).all():
        later, rate = -mice.slope_with_gain(deep, staged), float(deep["escape_rate"][_CONSTANT])
        claim(
            "deep-slope-with-gain",
            "deep: it comes later by this for each factor e in the larger gain (τ)",
            agree(later, 1.0 / rate, within=0.15, relative=True),
            note="predicted: one over the escape rate where the constant line alone is in use",
        )
        if distinct[mice.DRAWN :].any():
            between = np.abs(np.diff(staged, axis=1))[mice.DRAWN :][distinct[mice.DRAWN :]]
            claim(
                "deep-sides-apart",
                f"deep: sides of drawn animals are ten times further apart in time, at a ratio of "
                f"gains above {_RATIO:g}",
                most_seeds(between > 10 * (longest + float(shallow["time"][1])), of="animals"),
            )
    # How far the weights of one side are ahead of the other's, over what is to be learned.
    goal = float(shallow["point_lean"][-1, 0])
    lead = lambda table: np.abs(np.diff(table["lean"].values)).max(axis=(1, 2)) / goal
    together, ahead = lead(shallow), lead(deep)
    claim(
        "shallow-weights-together",
        "shallow: weights of both sides grow together (largest lead of one over the goal)",
        max_error_below(together, within=0.05),
    )
    claim(
        "deep-lead",
        f"deep: one side gets ten times as far ahead, at a ratio of gains above {_RATIO:g}",
        most_seeds((ahead > 10 * together)[distinct], of="animals"),
        note=f"left-first: by {ahead[mice.LEFT_FIRST]:.2f} of the goal; at the saddle {{L 0}} by "
        f"{float(deep['point_lean'][_LEFT_CONSTANT, 0]) / goal:.2f}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """A row for each architecture, from the same initial choices."""
    title = "Only depth has saddles: the same animals with one layer and with two"
    figure, rows = panels(title, 3, 2, width=3.33, height=2.8, width_ratios=(0.9, 1, 1.3))
    limit = 1.12 * float(run["deep"].ds["point_lean"].max())
    around = {"xlim": (-0.12, limit), "ylim": (-0.12, limit), "xticks": (0, 1, 2)}
    sides = ("left stimulus, $W_{LL} - W_{RL}$", "right stimulus, $W_{RR} - W_{LR}$")
    titles = {
        "shallow": ("one point of rest", "both sides at once"),
        "deep": ("8 points of rest, two of them at 0", "one side after the other"),
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
    """Lines from inputs to actions, by way of a gain for each input if there are two layers."""
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
    ax.plot([], [], color="0.4", lw=1, ls=":", label="used from here")
    words = ("time $t/τ$", "shift of choices by a stimulus")
    around = {"xlim": (0, float(one["time"][-1])), "ylim": (0, 1.35), "yticks": (0, 0.5, 1)}
    label_axes(ax, *words, legend=None, **around)
