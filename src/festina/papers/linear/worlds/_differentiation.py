r"""A hierarchy of items is learned from the top: broad distinctions before fine distinctions.

Items are the leaves of a tree and one-hot inputs. Features of the items spread along the branches
of the tree. The loss is ½‖Y − W‖², summed over items, with τ Ẇ = −∂L/∂W and τ = 1. A deep network
has W = W₂W₁; a shallow network learns W directly.
"""

from collections.abc import Sequence

import jax
import matplotlib as mpl
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    decreasing,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import SIMULATION_STYLE, THEORY_STYLE, label_axes, panels, styled
from ....networks import decoupled
from ....tasks import from_moments, structured_task
from ....tasks.worlds import World, tree
from ....theory.linear import item_similarity, mode_strengths, modes
from .._passage import half_times
from ._learning import Learning, from_growing_part, learn, level_means, random_network

_SHALLOW_TIMES = np.linspace(0.0, 5.0, 301)  # until the error has decreased to e⁻⁵
_TREES = 100
"""Number of other trees, with random shapes and flip probabilities, that are tested."""
_NAMES = ("canary", "robin", "salmon", "sunfish", "daisy", "rose", "oak", "pine")
"""The eight items of Rogers & McClelland (2004), used as labels for trees with eight leaves."""


class Parameters(Learning):
    """Parameters of progressive differentiation: a tree of items and a two-layer network."""

    seeds: int = Field(default=8, ge=1)
    """Number of networks with small random weights that are trained."""

    branching: tuple[int, ...] = (2, 2, 2)
    """Number of children of each node, level by level from the root; two or more each."""

    flip: float = Field(default=0.1, gt=0, lt=0.5)
    """Probability that a feature changes sign along an edge of the tree."""

    sampled_features: int = Field(default=20_000, ge=1000)
    """Number of features sampled from the tree, for comparison of singular vectors."""

    def _check(self) -> None:
        if not self.branching or min(self.branching) < 2:
            raise ValueError(
                "`branching` must list two or more children for each level, such as 2,2,2, "
                f"got {self.branching}."
            )
        self.check([tree(self.branching, self.flip)])


@make_run("linear/differentiation")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Compute the modes of a tree, train deep and shallow networks on it; test random trees."""
    world = tree(parameters.branching, parameters.flip)
    progress("sampling features of the tree", 0.0)
    draw = jax.random.fold_in(keys_from_parameters(parameters, key)[0], 1)
    hierarchy = _hierarchy(world, world.sample(parameters.sampled_features, key=draw))
    progress("training deep networks", 0.1)
    network = random_network(parameters, world.items, key)
    deep, units, grown = learn(parameters, world, world.kind, network)
    inner, v = np.einsum("lthi,lthj->ltij", units, units), world.modes
    data = modes(from_moments(world.exact_features(parameters.features)))
    over = "time", "item", "other"
    chains = mode_strengths(deep["time"].values, data, parameters.initial_strength)
    exact = np.asarray(item_similarity(chains, data, 1))
    deep = deep.assign(inner_products=(over, inner[0]), inner_products_theory=(over, exact))
    over = "seed", "time", "item", "axis"
    # In balanced layers both weights hold equal amounts of every mode: W₁ᵀW₁ = V A Vᵀ.
    predicted = _places(world, v @ grown @ v.T)
    deep = deep.assign(place=(over, _places(world, inner[1:])), place_theory=(over, predicted))
    progress("training a shallow network", 0.6)
    shallow = _shallow(world, parameters.features, parameters.initial_strength)
    trees = xr.Dataset({"ordered": ("tree", _other_trees(parameters.seed))})
    return {"hierarchy": hierarchy, "deep": deep, "shallow": shallow, "trees": trees}


def _hierarchy(world: World, samples: Float[np.ndarray, "feature item"]) -> xr.Dataset:
    """Compare the singular vectors and variances of sampled features with the tree's levels."""
    _, _, vt = np.linalg.svd(samples, full_matrices=False)
    # Largest sine of an angle between the sampled vectors of a level and the level's contrasts.
    outside = [
        np.linalg.norm(world.modes[:, world.kind != k].T @ vt[world.kind == k].T, 2)
        for k in range(len(world.kinds))
    ]
    variance = np.mean((samples @ world.modes) ** 2, axis=0)
    table = {
        "eigenvalue": [kind.eigenvalue for kind in world.kinds],
        "variance": level_means(world.kind) @ variance,
        "outside": outside,
    }
    groups = {"groups": (("depth", "item"), world.groups)}
    return xr.Dataset(groups | {name: ("level", values) for name, values in table.items()})


def _places(
    world: World, inner: Float[np.ndarray, "seed time item item"]
) -> Float[np.ndarray, "seed time item 2"]:
    """Project hidden representations onto a plane that is the same at all times.

    As in classical multidimensional scaling, items are the rows of the square root of their centred
    inner products. The leading axes are unsuitable for the plane: contrasts of one level have equal
    length, and two of them would fill the plane. Instead, odd levels of the tree are spread along
    the first axis and even levels along the second.
    """
    centring = np.eye(world.items) - 1 / world.items
    beta, axes = np.linalg.eigh(centring @ inner @ centring)
    root = (axes * np.sqrt(np.maximum(beta, 0.0))[..., None, :]) @ axes.swapaxes(-1, -2)
    flat, width = np.zeros((world.items, 2)), np.ones(2)
    for level in range(len(world.groups) - 1, 0, -1):
        parents, nodes = world.groups[level - 1], world.groups[level]
        child = nodes - np.array([nodes[parents == parent].min() for parent in parents])
        axis = (level + 1) % 2
        flat[:, axis] += width[axis] * (child - child.max() / 2)
        width[axis] *= child.max() + 1
    return root @ (flat / np.maximum(np.linalg.norm(flat, axis=0), 1e-300))


def _shallow(world: World, features: int, a0: float) -> xr.Dataset:
    """Train a single layer from the same initial strengths."""
    y, s, v = world.exact_features(features), world.singular_values(features), world.modes
    times, u = _SHALLOW_TIMES, y @ v / s
    network = decoupled(u, v, initial_strength=a0)
    trained = gradient_flow(network, structured_task(y), times, loss="half-sum", rtol=1e-10)
    learned = np.einsum("om,toi,im->tm", u, np.asarray(trained.network.end_to_end()), v)
    theory = np.asarray(mode_strengths(times, modes(from_moments(y)), a0, depth=1))
    strength, exact = (level_means(world.kind) @ (a / s).T for a in (learned, theory))
    over, half = ("level", "time"), ("level", half_times(times, strength))
    table = {"strength": (over, strength), "theory": (over, exact), "half_time": half}
    return xr.Dataset(table, {"time": ("time", times, {"long_name": "time in units of τ"})})


def _other_trees(seed: int) -> list[bool]:
    """Return whether each random tree is learned level by level, according to its covariance.

    Each level is represented by the variance of a feature along the contrast between two siblings.
    Strengths start at 10⁻⁴ of the smallest singular value.
    """
    rng, ordered = np.random.default_rng(seed), []
    for _ in range(_TREES):
        shape = rng.integers(2, 5, size=rng.integers(1, 5))
        world = tree(shape.tolist(), rng.uniform(0.01, 0.49, size=len(shape)))
        sides = [np.ones(world.items), *((g == 0) * 1.0 - (g == 1) for g in world.groups[1:])]
        s = np.sqrt([side @ world.covariance @ side / (side @ side) for side in sides])
        half = np.log(1e4 * s / s[-1] - 1) / (2 * s)
        ordered.append(bool((np.diff(half) > 0).all()))
    return ordered


@claims_from_source("Saxe, slides", "“Progressive differentiation”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the hierarchy in sampled features, and in the order of learning."""
    parameters = parameters_of_run(run, Parameters)
    hierarchy, deep, shallow = (run[name].ds for name in ("hierarchy", "deep", "shallow"))
    # Sampling noise mixes two levels by √(cc′)/|c − c′| times the noise. Levels whose eigenvalues
    # differ by less than the noise cannot be separated with so few samples.
    c, count = hierarchy["eigenvalue"].values, parameters.sampled_features
    gaps = np.abs(c[:, None] - c) + np.where(np.eye(len(c)), np.inf, 0.0)
    noise = (np.sqrt(hierarchy.sizes["item"]) + 4) / np.sqrt(count)
    turn = 2 * noise * np.max(np.sqrt(c[:, None] * c) / gaps, axis=1)
    told = turn < 0.5
    if told.any():
        claim(
            "sampled-singular-vectors",
            f"singular vectors of {count} sampled features are contrasts of the tree's levels "
            f"(sine of the angle, {'all levels' if told.all() else 'well separated levels'})",
            agree(hierarchy["outside"][told], 0.0, within=float(turn[told].max())),
        )
    if told.all():
        claim(
            "decaying-variance",
            "the singular values of features decrease with depth in the tree (variance of sampled "
            "features along the contrasts of each level)",
            decreasing(hierarchy["variance"]),
        )
    a0, weakest = parameters.initial_strength, deep["singular_value"].values.min()
    theory = deep["chains_theory_half_time"]
    claim(
        "decoupled-half-times",
        "each level of the tree is half learned at ln(s/a₀ − 1)/2s, for singular value s and "
        "initial strength a₀",
        agree(deep["chains_half_time"], theory, within=1e-6, relative=True),
        note="decoupled initial weights; times in order from broad to fine levels",
        headline=True,
    )
    claim(
        "inner-products",
        "theory predicts the inner products between hidden representations of all items over time",
        max_error_below(
            deep["inner_products"], deep["inner_products_theory"], within=float(1e-6 * weakest)
        ),
        note="decoupled initial weights",
    )
    from_growing_part(claim, [deep], a0, "levels of the tree are learned from the top")
    middle, logarithm = np.median(deep["random_half_time"].values, axis=0), np.log(weakest / a0)
    claim(
        "median-half-times",
        "small random weights: a level is half learned at the same median time as for equal "
        "initial strengths a₀",
        agree(middle, theory, within=float(2 / logarithm), relative=True),
        note="initial strengths of random weights vary, and modes share hidden units",
    )
    farthest = np.linalg.norm(deep["place_theory"], axis=-1).max()
    claim(
        "hidden-places",
        "small random weights: theory predicts the positions of items in the hidden layer at all "
        "times (error relative to the largest distance)",
        max_error_below(
            np.linalg.norm(deep["place"] - deep["place_theory"], axis=-1),
            within=float(4 * (2 * a0) ** 0.5 / farthest),
            over=farthest,
        ),
        note="random initial weights displace the items by up to √(2a₀)",
    )
    claim(
        "random-trees",
        "every random tree is learned level by level, from broad to fine distinctions",
        most_seeds(run["trees"]["ordered"], of="trees"),
        note="any branching, flip probabilities between 0 and ½, equal small initial strengths",
    )
    same = max_error_below(shallow["strength"], shallow["theory"], within=1e-6)
    words = "shallow network: all levels follow the same exponential"
    claim("shallow-exponential", words, same)
    last = shallow["half_time"][-1] / shallow["half_time"][0]
    claim(
        "shallow-half-times",
        "shallow network: the last and the first level are half learned together (ratio of times)",
        agree(last, 1.0, within=float(4 * a0 / weakest) + 1e-6),
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot items in the hidden layer over time, and their levels, deep and shallow."""
    deep, shallow = run["deep"].ds, run["shallow"].ds
    title = "A hierarchy is learned from the top: broad distinctions first"
    size = {"width": 3.5, "height": 3.9, "width_ratios": (1.25, 1, 0.8)}
    figure, (places, strengths, straight) = panels(title, 3, **size)
    colors = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, deep.sizes["level"]))
    binary = parameters_of_run(run, Parameters).branching == (2, 2, 2)
    names = _NAMES if binary else [str(item + 1) for item in range(deep.sizes["item"])]
    _draw_places(places, run["hierarchy"].ds, deep.isel(seed=0), names, colors)
    for level, color in enumerate(colors):
        one = deep.isel(level=level).transpose("time", "seed", ...)
        label = f"distinctions at level {level}" if level else "shared by all items"
        strengths.plot(deep["time"], one["random"], **SIMULATION_STYLE, color=color, alpha=0.3)
        strengths.plot(deep["time"], one["random_theory"], **{**THEORY_STYLE, "lw": 0.6})
        strengths.plot([], [], **SIMULATION_STYLE, color=color, label=label)
        # Widths differ so that overlapping curves remain visible.
        wide = {"color": color, "lw": 3 + 5 * (1 - level / len(colors)), "alpha": 0.5}
        straight.plot(shallow["time"], shallow["strength"].isel(level=level), **wide)
    straight.plot(shallow["time"], shallow["theory"].isel(level=0), **THEORY_STYLE)
    how = {"legend": None, "ylim": (0, 1.06), "yticks": (0, 0.5, 1)}
    theory, end = "theory, from initial weights", float(deep["time"][-1])
    words = "time $t/τ$", "learned, $a/s$"
    label_axes(strengths, *words, "deep: level by level", theory=theory, xlim=(0, end), **how)
    label_axes(straight, *words, "shallow: all levels at once", **how)
    straight.set_xlim(left=0)
    figure.legend(*strengths.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _draw_places(
    ax: Axes, hierarchy: xr.Dataset, one: xr.Dataset, names: Sequence[str], colors: np.ndarray
) -> None:
    """Plot the hidden representations of the first random network over time."""
    place, theory = one["place"].values, one["place_theory"].values
    branch = hierarchy["groups"].values[min(1, hierarchy.sizes["depth"] - 1)]
    for item, name in enumerate(names):
        color, up = f"C{branch[item] % 10}", place[-1, item, 1] >= 0
        ax.plot(*place[:, item].T, **{**SIMULATION_STYLE, "lw": 2.5}, alpha=0.45, color=color)
        ax.plot(*theory[:, item].T, **THEORY_STYLE)
        ax.plot(*place[-1, item], "o", ms=7, color=color)
        where = {"xytext": (0, 7 if up else -7), "textcoords": "offset points", "ha": "center"}
        ax.annotate(name, place[-1, item], **where, va="bottom" if up else "top")
    now = np.searchsorted(one["time"], one["random_theory_half_time"])
    for level in range(1, len(now)):
        if now[level] < len(place):
            ax.plot(*place[now[level]].T, "o", ms=4.5, color=colors[level], zorder=3)
    ax.plot(*place[0].mean(axis=0), "o", ms=5, color="0.25")
    ax.margins(0.12, 0.16)
    title = "items separate in the hidden layer\n(small dots: a level is half learned)"
    words = "distinctions of odd levels", "distinctions of even levels", title
    label_axes(ax, *words, xticks=[], yticks=[])
