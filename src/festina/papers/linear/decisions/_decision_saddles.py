r"""The stationary points behind the strategies of mice, and how near animals come to these points.

A deep network with `total` teaching has three input lines: left, right and constant. The network is
stationary if each line is either silent or has nothing left to learn, which gives $2^3$ nested
points. Properties computed by `festina.theory.decisions.stationary_points` are compared with the
learning dynamics, started near the points and far away. For a while animals choose as at a saddle
at which only one side is learned. The animals' weights stay away from the saddle, because the flow
approaches the saddle more slowly than it leaves the saddle.
"""

import itertools

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    equal_to,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import SIMULATION_STYLE, label_axes, panels, power_law_guide, styled
from ....theory import decisions
from ....theory.decisions import AnimalWeights, ContrastChoiceLearner, StationaryPoint
from ....theory.decisions._learner import LINES
from . import _animals as mice
from ._animals import RECONSTRUCTED

NOTHING, LEFT, RIGHT, CONSTANT, STIMULI, LEFT_CONSTANT, RIGHT_CONSTANT, ALL = range(8)
"""Indices of the stationary points, in the order of their number of active lines."""

NAMES = ("nothing", "L", "R", "0", "L R", "L 0", "R 0", "L R 0")
Points = tuple[StationaryPoint, ...]
_SEED_OF_GROWTH, _WINDOW = 1e-8, (1e-6, 1e-4)  # initial gain; range of exponential growth
_SAMPLES, _GAINS = 601, np.geomspace(1e-2, 1e-6, 5)


class Parameters(mice.AnimalParameters):
    """Parameters of animals that pass the saddles, and of animals placed next to each point."""


@make_run("linear/decision-saddles")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Compute the stationary points, and the paths of animals among them."""
    animals, _ = mice.herd(parameters, key)
    model = ContrastChoiceLearner(inverse_temperature=parameters.inverse_temperature)
    progress("computing stationary points", 0.0)
    softmax, points = _points(model), decisions.stationary_points(model)
    progress(f"training {len(animals)} animals", 0.6)
    paths = _paths(model, points, animals, np.linspace(0.0, parameters.duration, _SAMPLES))
    approach = _approach(model, points, parameters.largest_gain)
    return {"softmax": softmax, "paths": paths, "approach": approach}


def _points(model: ContrastChoiceLearner) -> xr.Dataset:
    """Return predicted properties of every stationary point, and measured growth rates."""
    points = decisions.stationary_points(model)
    active = np.array([[line in point.active for line in LINES] for point in points])
    rate = [[point.escape_rates.get(line, np.nan) for line in LINES] for point in points]
    products = np.stack([point.products for point in points])
    apart_by = np.linalg.norm(products[:, None] - products, axis=(2, 3))
    return xr.Dataset(
        {
            "active": (("point", "line"), active.astype(np.int64)),
            "loss": ("point", [point.loss for point in points]),
            "index": ("point", [point.index for point in points]),
            "eigenvalues": (("point", "unknown"), [np.real(p.eigenvalues) for p in points]),
            "escape_rate": (("point", "line"), rate),
            "growth_rate": (("point", "line"), _growth(model, points, ~active)),
            "right_probability": (("point", "contrast"), [p.right_probability for p in points]),
            "strength": (("point", "line"), np.linalg.norm(products, axis=1)),
            "distance": (("point", "other"), apart_by),
        },
        {"contrast": np.asarray(model.contrasts)},
    )


def _growth(model: ContrastChoiceLearner, points: Points, silent: np.ndarray) -> np.ndarray:
    """Measure the growth rate of each silent line's gain in animals placed next to each point."""
    place, line = np.nonzero(silent)
    gains = np.concatenate([points[each].animals.gains for each in place])
    striatum = np.concatenate([points[each].animals.striatum for each in place])
    gains[np.arange(len(place)), line] = _SEED_OF_GROWTH
    # The slowest rate is about 0.046, so that e^{rate · 300} is a million.
    times = np.arange(0.0, 300.0, 0.5)
    learning = decisions.mean_field_learning(
        model, AnimalWeights(gains, striatum), times, atol=1e-18
    )
    rates = np.full(silent.shape, np.nan)
    for animal, at in enumerate(zip(place, line, strict=True)):
        gain = learning.gains[animal, :, at[1]]
        beside = (gain > _WINDOW[0]) & (gain < _WINDOW[1])
        rates[at] = np.polyfit(times[beside], np.log(gain[beside]), 1)[0]
    return rates


def _paths(
    model: ContrastChoiceLearner, points: Points, animals: AnimalWeights, times: np.ndarray
) -> xr.Dataset:
    learning = decisions.mean_field_learning(model, animals, times)
    visits = decisions.visited_saddles(learning, points)
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


def _approach(model: ContrastChoiceLearner, points: Points, largest: float) -> xr.Dataset:
    """Return how close even and left-first animals come to a saddle, for several gains."""
    left = np.append(_GAINS, np.full(len(_GAINS), largest))
    animals = decisions.naive_animals(left, np.tile(_GAINS, 2))
    learning = decisions.mean_field_learning(
        model, animals, np.arange(0.0, 600.0, 0.25), atol=1e-18
    )
    even, one_sided = np.split(decisions.visited_saddles(learning, points).distance.min(axis=1), 2)
    table = {"constant": even[:, CONSTANT], "one_sided": one_sided[:, LEFT_CONSTANT]}
    return xr.Dataset({name: ("gain", each) for name, each in table.items()}, {"gain": _GAINS})


def _exponents(points: xr.Dataset) -> dict[str, float]:
    """Return the exponents of the gain in the closest approach to {0} (even animals) and {L 0}.

    A saddle is approached at the rate μ and left at the rate r in each layer, from a gain v. At the
    closest point e^{−μt} = v² e^{2rt}, so that the distance is proportional to v^{2μ/(μ + 2r)}. The
    slowest approach determines μ, except that the slow direction at {0} is a bias, which even
    animals lack. A large inverse temperature makes μ at {L 0} so small that the exponent measured
    at the smallest gains is still a little larger.
    """
    even, slow = points["eigenvalues"][CONSTANT], points["eigenvalues"][LEFT_CONSTANT]
    rates = {
        "constant": (-even.min(), points["escape_rate"][CONSTANT, 0]),
        "one_sided": (-slow.where(slow < -1e-6).max(), points["escape_rate"][LEFT_CONSTANT, 1]),
    }
    return {name: float(2 * mu / (mu + 2 * r)) for name, (mu, r) in rates.items()}


@claims_from_source(
    "Saxe, slides", "“Dynamics pass near a hierarchy of saddle points”", note=RECONSTRUCTED
)
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check stationary points, their indices and rates, and the paths of animals."""
    parameters, points = parameters_of_run(run, Parameters), run["softmax"].ds
    leaving = np.isfinite(points["escape_rate"].values)
    seen, rate = (points[name].values[leaving] for name in ("growth_rate", "escape_rate"))
    claim(
        "unstable-directions",
        "each of the eight stationary points has as many unstable directions as silent lines",
        agree(points["index"], (1 - points["active"]).sum("line")),
    )
    claim(
        "escape-rates",
        "next to a saddle, the gain of a silent input line i grows at the rate |g_i|/τ, with g_i "
        "the drive of the line",
        max_error_below(seen, rate, within=2e-3, relative=True),
    )
    paths, approach = run["paths"].ds, run["approach"].ds
    nearest, beta = paths["nearest"].values, parameters.inverse_temperature
    # The gains must be different enough for a one-sided stage, and learning must outlast it.
    ratio = parameters.largest_gain / parameters.smallest_gain
    lingers = ratio >= 30 and nearest[mice.LEFT_FIRST, -1] == ALL
    if lingers and beta <= 5:  # with sharper choices animals explore too little
        for animal, between in ((mice.LEFT_FIRST, "L 0"), (mice.RIGHT_FIRST, "R 0")):
            passed = [NAMES[place] for place, _ in itertools.groupby(nearest[animal])]
            who = mice.MADE_ON_PURPOSE[animal]
            claim(
                f"{who.replace(' ', '-')}-path",
                f"the stationary point nearest to the {who.replace(' ', '-')} animal changes in "
                "the predicted order",
                equal_to(" → ".join(passed), f"nothing → 0 → {between} → L R 0"),
            )
    drawn, gain = nearest[mice.DRAWN :], paths["gain"].values[mice.DRAWN :]
    own = np.where(gain[:, 0] > gain[:, 1], LEFT_CONSTANT, RIGHT_CONSTANT)[:, None]
    claim(
        "smaller-gain-never-nearest",
        "no animal is ever nearest to the saddle of the side with its smaller initial gain",
        most_seeds((drawn != LEFT_CONSTANT + RIGHT_CONSTANT - own).all(axis=1), of="animals"),
        note=f"{(drawn == own).any(axis=1).sum()} animals are for a while nearest to the saddle of "
        "the side with their larger initial gain",
    )
    claim(
        "unvisited-saddles",
        "no animal is ever nearest to the stationary points {L}, {R} or {L R}, whose constant line "
        "is silent",
        most_seeds(~np.isin(nearest, (LEFT, RIGHT, STIMULI)).any(axis=1), of="animals"),
        note="at zero weights the constant line grows fastest, so these three points are never "
        "visited",
    )
    expected, last = _exponents(points), approach.isel(gain=[-2, -1])
    power = lambda name: np.polyfit(np.log(last["gain"]), np.log(last[name]), 1)[0]
    claim(
        "even-approach",
        "animals with equal gains come nearer to the saddle {0} if gains are smaller (exponent of "
        "the gain in the closest distance)",
        agree(power("constant"), expected["constant"], within=0.02, relative=True),
        note="predicted: 2μ/(μ + 2r), for approach at rate μ and escape at rate r",
    )
    if not lingers:
        return
    one = paths.isel(animal=mice.LEFT_FIRST, point=LEFT_CONSTANT)
    claim(
        "one-sided-behaviour",
        "the left-first animal behaves as at the saddle {L 0} for a while (smallest difference in "
        "the probability of going right)",
        agree(one["choice_distance"].min(), 0.0, within=0.15),
    )
    if beta >= 5:
        gap = points["distance"][CONSTANT, LEFT_CONSTANT]
        claim(
            "one-sided-weights",
            "the weights of the left-first animal pass near the saddle {L 0} (closest distance, "
            "over the distance between {0} and {L 0})",
            agree(one["distance"].min() / gap, 0.0, within=0.1),
            wrong="the animal hardly ever goes right, so it learns slowly that going right is "
            "wrong for a left stimulus: the distance is proportional to a small power of the gain",
            instead=agree(power("one_sided"), expected["one_sided"], within=0.05),
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the stationary points with the paths of animals, and distances from saddles."""
    title = "Eight stationary points, and the paths of animals among them"
    figure, axes = panels(title, 2, 2, width=5.0, height=2.7, width_ratios=(1.75, 1))
    axes[1, 0].remove()
    cube, points, paths = axes[0, 0], run["softmax"].ds, run["paths"].ds
    cube.set_subplotspec(cube.get_gridspec()[:, 0])
    _draw_cube(cube, points)
    mice.draw_ways(cube, paths["strength"].values @ _OBLIQUE, paths["loss"].values)
    cube.legend(loc="lower left")
    _draw_distance(axes[0, 1], paths.isel(animal=mice.LEFT_FIRST))
    _draw_approach(axes[1, 1], run["approach"].ds, points)
    return figure


_OBLIQUE = np.array([-1.0, 1.0, 0.45])
"""Horizontal displacement by each line, in an oblique view of the cube of points."""

# Positions of the points' psychometric curves, relative to the points and clear of paths.
_BESIDE = (
    *((-0.05, 0.03), (-0.125, -0.03), (0.025, -0.03), (0.09, 0.13)),
    *((-0.2, -0.05), (-0.115, -0.15), (0.015, -0.15), (-0.05, -0.15)),
)

_SMALL_PRINT = {"fontsize": 6.5, "color": "0.45", "zorder": 3.5, "ha": "center", "va": "center"}
_ON_WHITE = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}


def _draw_cube(ax: Axes, points: xr.Dataset) -> None:
    active, loss, rate = (points[name].values for name in ("active", "loss", "escape_rate"))
    x = points["strength"].values @ _OBLIQUE
    for one, other in itertools.permutations(range(len(loss)), 2):
        added = active[other] - active[one]
        if added.min() < 0 or added.sum() != 1:
            continue
        ax.plot(x[[one, other]], loss[[one, other]], color="0.82", lw=1.2, zorder=1)
        middle = 0.6 * x[one] + 0.4 * x[other], loss[one] ** 0.6 * loss[other] ** 0.4
        ax.text(*middle, f"{rate[one, added.argmax()]:.2g}", bbox=_ON_WHITE, **_SMALL_PRINT)
    words = ("$|W_R| - |W_L| + 0.45\\,|W_0|$, an oblique view of the cube", "loss")
    title = "grey: escape rate of a silent line (1/τ); curves: $P(R)$ against contrast"
    limits = (x.min() - 0.75, x.max() + 0.75), (0.4 * loss.min(), 2.2 * loss.max())
    label_axes(ax, *words, title, yscale="log", xlim=limits[0], ylim=limits[1])
    for point, (name, (aside, above)) in enumerate(zip(NAMES, _BESIDE, strict=True)):
        face = "white" if points["index"][point] else "black"
        ax.plot(x[point], loss[point], "o", ms=6, mfc=face, mec="black", zorder=5)
        at = ax.transData.transform((x[point], loss[point]))
        across, up = ax.transAxes.inverted().transform(at)
        small = ax.inset_axes((across + aside, up + above, 0.1, 0.095), zorder=4)
        if above > 0.1:  # The curve is far from its point: connect the two.
            middle, how = (across + aside + 0.05, up + above), {"arrowstyle": "-", "lw": 0.5}
            ax.annotate("", (x[point], loss[point]), middle, "data", ax.transAxes, arrowprops=how)
        small.plot(points["contrast"], points["right_probability"][point], color="black", lw=1.3)
        small.axhline(0.5, color="0.85", lw=0.6, zorder=0)
        small.set(ylim=(-0.08, 1.08), xticks=[], yticks=[])
        small.set_title(f"{{{name}}}" if point else "{ }", fontsize=7.5, pad=1.5)
        small.patch.set_alpha(0.9)


def _draw_distance(ax: Axes, one: xr.Dataset) -> None:
    looks = {NOTHING: "0.75", CONSTANT: "#e69f00", LEFT_CONSTANT: "#cc79a7", ALL: "#56b4e9"}
    for point, color in looks.items():
        label, away = f"{{{NAMES[point]}}}" if point else "{ }", one["distance"].isel(point=point)
        ax.plot(one["time"], away, **SIMULATION_STYLE, color=color, label=label)
    title, end = "the left-first animal and its saddles", float(one["time"][-1])
    top = 1.35 * ax.get_ylim()[1]
    label_axes(ax, "time $t/τ$", "distance $\\|W - W^*\\|$", title, xlim=(0, end), ylim=(0, top))
    ax.legend(ncols=4, loc="upper center", handlelength=1.0, columnspacing=1.0)


def _draw_approach(ax: Axes, approach: xr.Dataset, points: xr.Dataset) -> None:
    gain, even = approach["gain"].values, approach["constant"].values
    how = {**SIMULATION_STYLE, "marker": "o", "alpha": 0.7}
    ax.plot(gain, approach["one_sided"], **how, color="#cc79a7", label="{L 0}, left-first animals")
    ax.plot(gain, even, **how, color="#e69f00", label="{0}, even animals")
    power_law_guide(ax, gain, even[-1], _exponents(points)["constant"], "theory")
    words = "initial gain of the right stimulus", "closest approach"
    label_axes(ax, *words, "smaller gains, nearer saddles", xscale="log", yscale="log")
