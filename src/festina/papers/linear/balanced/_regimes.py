r"""Rich, lazy and delayed rich learning: how far the tangent kernel moves, by balance and shape.

Inputs are white. The loss is ½⟨‖y − W₂W₁x‖²⟩, with τ Ẇ = −∂L/∂W, τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI.
Networks of three shapes are trained to the end. The tangent kernels are computed by
differentiation. The semantic task has eight one-hot items with features that split them as a tree
does.
"""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ....diagnose import distance_between_kernels, neural_tangent_kernel
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import (
    ClaimCollector,
    claims_from_source,
    equal_to,
    follows_power_law,
    max_error_below,
)
from ....experiments.figures import POINT_STYLE, THEORY_STYLE, label_axes, panels, styled
from ....networks import DeepLinear
from ....tasks import from_moments, signed_tree_features
from ....theory.linear import balanced_flow
from . import _shapes as shapes
from ._shapes import SHAPES, Balances, Modes, generators, widths

_EXPECTED = ("lazy and lazy", "delayed rich and lazy", "lazy and delayed rich")
"""Regimes for large negative and large positive λ, for each shape."""

_SIDES = ("inward", "outward")
_SEMANTIC = {
    "items_equal": (8, 0.0, "rich"),
    "items_first_large": (8, -30.0, "lazy"),
    "items_second_large": (8, 30.0, "lazy"),
    "items_funnel": (4, -30.0, "delayed rich"),
}
"""Number of features (broadest first), balance and regime of networks that learn the tree."""


class Parameters(BaseParameters):
    """Parameters of random networks of three shapes, at many balances."""

    seeds: int = Field(default=6, ge=1)
    """Number of random networks that are trained for each shape and balance."""

    balances: Balances = (-30, -10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 10, 30)
    """Balances λ, increasing; they must include 0 and, for each λ, −λ."""

    singular_values: Modes = (1.5, 1.2, 0.9)
    """Singular values of the task, as many as hidden units."""

    wide: int = Field(default=6, ge=2, le=32)
    """Number of neurons on the wider side of the funnels."""

    scale: float = Field(default=0.05, gt=0, le=0.3)
    """Standard deviation of two Gaussian layers whose product is the initial map."""

    def _check(self) -> None:
        s, lam = self.singular_values, self.balances
        if len(s) < 2:
            raise ValueError(
                f"`singular_values` must be two or more numbers, got {s}: the kernel of a "
                "single square unit is a number and cannot change direction."
            )
        shapes.check_sizes(len(s), self.wide)
        mirror, least, most = tuple(-x for x in lam[::-1]), 10 * max(s), 100 * min(s)
        if 0.0 not in lam or mirror != lam or not least <= lam[-1] <= most:
            raise ValueError(
                f"`balances` must contain 0 and, for each λ, −λ. The largest must lie between "
                f"{least:g}, ten times the largest singular value, and {most:g}, a hundred times "
                f"the smallest. Got {lam}."
            )


@make_run("linear/regimes")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train to the end at each balance, and compare kernels at the start and the end."""
    tables = {}
    for index, shape in enumerate(SHAPES):
        progress(f"training {shape} networks", index / 4)
        rngs = generators(parameters.seeds, parameters.seed, key)
        tables[shape], tables[f"theory_{shape}"] = _one_shape(parameters, shape, rngs)
    progress("training on the semantic task", 3 / 4)
    rng = generators(1, parameters.seed, key)[0]
    for name, (features, balance, _) in _SEMANTIC.items():
        tables[name] = _semantic(features, balance, parameters.scale, rng)
    return tables


def _one_shape(
    parameters: Parameters, shape: str, rngs: list[np.random.Generator]
) -> tuple[xr.Dataset, xr.Dataset]:
    """Train networks at every balance from the same maps, and evaluate the theory at many more.

    The singular vectors of the task are the axes. The weights have random directions.
    """
    s, balances = parameters.singular_values, parameters.balances
    sizes = widths(shape, len(s), parameters.wide)
    correlation = np.eye(sizes[2], sizes[0])
    np.fill_diagonal(correlation, s)
    # Values of λ below the strength of the initial map have no effect.
    inner = len(s) * parameters.scale**2
    positive = np.geomspace(inner / 10, balances[-1], 20)
    every = (*balances, *-positive[::-1], 0.0, *positive)
    drawn = [
        shapes.random_networks(sizes, every, parameters.scale, rng, correlation=correlation)
        for rng in rngs
    ]
    network = shapes.stacked(drawn)
    lam = np.repeat(np.array(every)[:, None], len(rngs), axis=1)
    task = from_moments(correlation)
    moved = balanced_flow(network, task, balance=lam).limit().kernel_distance()
    theory = xr.DataArray(moved[..., 0], {"balance": lam[:, 0]}, ("balance", "seed"))
    trained = [
        _one_balance(DeepLinear((one, other)), correlation, balance)
        for one, other, balance in zip(*network.weights, balances, strict=False)
    ]
    count = len(balances)
    table = xr.concat(trained, theory["balance"][:count].variable).assign(theory=theory[:count])
    limits = xr.Dataset({"kernel_distance": theory[count:]}, attrs={"inner": inner})
    return table.assign_coords(singular_value=("mode", list(s))), limits


def _one_balance(network: DeepLinear, correlation: np.ndarray, balance: float) -> xr.Dataset:
    """Return the kernel distance after training, and the learned representations."""
    final = _to_the_end(network, correlation, balance)
    examples = np.eye(correlation.shape[1])
    before, after = (neural_tangent_kernel(each, examples) for each in (network, final))
    first, second = (np.asarray(weight) for weight in final.weights)
    modes = slice(min(correlation.shape))
    over = ("seed", "mode", "mode_")
    return xr.Dataset(
        {
            "kernel_distance": ("seed", np.asarray(distance_between_kernels(before, after))),
            "inward": (over, _gram(first.swapaxes(-1, -2))[:, modes, modes]),
            "outward": (over, _gram(second)[:, modes, modes]),
        }
    )


def _to_the_end(network: DeepLinear, correlation: np.ndarray, balance: float) -> DeepLinear:
    """Train until the slowest mode has been learned.

    Modes grow from small weights at the rate S_λ + |λ|/2. Where directions compete, the rate is
    only the gap between S_λ and |λ|/2.
    """
    weakest = np.linalg.svd(correlation, compute_uv=False).min()
    fast = np.hypot(weakest, balance / 2) + abs(balance) / 2
    outputs, inputs = correlation.shape
    rate = weakest**2 / fast if (outputs - inputs) * balance > 0 else fast
    last = shapes.train(network, correlation, np.array([0.0, 20.0 / rate]), rtol=1e-8)
    return DeepLinear(tuple(np.asarray(weight)[:, -1] for weight in last.weights))


def _gram(weight: np.ndarray) -> np.ndarray:
    return weight @ weight.swapaxes(-1, -2)


def _semantic(features: int, balance: float, scale: float, rng: np.random.Generator) -> xr.Dataset:
    """Return the similarity of the items in the hidden layer, before and after learning.

    Features are ±1 on the two sides of every split of eight items, broadest split first.
    """
    correlation = signed_tree_features(3)[:features] / np.sqrt(8)
    sizes = (8, features, features)
    network = shapes.random_networks(sizes, (balance,), scale, rng, correlation=correlation)
    final = _to_the_end(network, correlation, balance)
    _, s, vt = np.linalg.svd(correlation, full_matrices=False)
    items = {
        "before": _gram(np.asarray(network.weights[0])[0].T),
        "after": _gram(np.asarray(final.weights[0])[0].T),
        "theory": (vt.T * (np.hypot(s, balance / 2) - balance / 2)) @ vt,
    }
    return xr.Dataset(
        {name: (("item", "item_"), gram) for name, gram in items.items()},
        attrs={"balance": balance, "features": features},
    )


@claims_from_source("Saxe, slides", "“Architecture and learning regime”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check kernel distances, regimes and representations."""
    tables, other = [run[shape].ds for shape in SHAPES], "“Rich and lazy learning”"
    moved = np.array([table["kernel_distance"] for table in tables])  # (shape, balance, seed)
    lam, s = tables[0]["balance"].values, tables[0]["singular_value"].values
    claim(
        "kernel-distance",
        "the tangent kernel moves as far as the closed limit predicts, for every shape, balance λ "
        "and seed (kernel distance)",
        max_error_below(moved, [table["theory"] for table in tables], within=1e-4),
        note="kernels of trained networks are computed by differentiation",
    )
    middle = np.median(moved, axis=-1)
    lazy = middle[:, [0, -1]] < middle[:, lam == 0] / 10
    for shape, expected, ends in zip(SHAPES, _EXPECTED, lazy, strict=True):
        claim(
            f"{shape}-regimes",
            f"{shape} networks have the predicted learning regimes for large negative and large "
            "positive λ",
            equal_to(" and ".join("lazy" if end else "delayed rich" for end in ends), expected),
            note="lazy: the median kernel distance is below a tenth of that at λ = 0",
        )
    claim(
        "square-symmetry",
        "square networks: the kernel moves as far for balance λ as for −λ",
        max_error_below(moved[0], moved[0, ::-1], within=1e-4),
        note="for the same initial map",
    )
    if lam[-2] >= 5 * max(s):
        falls = [middle[0, [-1, -2]], middle[1, [-1, -2]], middle[2, [0, 1]]]
        claim(
            "lazy-power-law",
            "on the lazy side the kernel distance is proportional to λ⁻⁴ (exponents of λ for "
            "square, funnel and inverted networks)",
            follows_power_law(lam[[-1, -2]], np.transpose(falls), -4.0, within=0.3),
            at=other,
            note="the kernel changes by a fraction of order s²/λ², and 1 − cosine is its square",
        )
    inward, outward = (np.array([table[side] for table in tables]) for side in _SIDES)
    claim(
        "rich-representations",
        "at λ = 0 the layers represent the task Σ = USVᵀ after learning: W₁ᵀW₁ = VSVᵀ and "
        "W₂W₂ᵀ = USUᵀ",
        max_error_below([inward[:, lam == 0], outward[:, lam == 0]], np.diag(s), within=1e-4),
        at=other,
    )
    alike = "is |λ| in every direction of the task, independent of its singular values"
    for name, sign, words, end, expected in (
        ("specific", "", "becomes ΣᵀΣ/λ and so represents the task", -1, s**2 / lam[-1]),
        ("agnostic", "−", alike, 0, lam[-1] + 0 * s),
    ):
        off, least = inward[:, end] - np.diag(expected), 2 * float(max(s) / lam[-1]) ** 2
        claim(
            f"{name}-representations",
            f"for λ = {sign}{lam[-1]:g} W₁ᵀW₁ {words}",
            max_error_below(off, over=max(expected), within=least),
            at=other,
            note="networks of all shapes",
        )
    items = [run[name].ds for name in _SEMANTIC]
    off = [abs(each["after"] - each["theory"]).max() / each["theory"].max() for each in items]
    claim(
        "semantic-similarity",
        "the similarity of eight items of a tree in the hidden layer is V(S_λ − λ/2)Vᵀ after "
        "learning, in each regime",
        max_error_below(off, within=1e-4),
        at=other,
        note="relative to the largest similarity",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot kernel distances against λ, and the similarity of items before and after learning."""
    title = "Rich, lazy or delayed rich: balance and architecture decide"
    ratios = (3.4, 1, 1, 1, 1)
    figure, axes = panels(title, 5, 2, width=2.25, height=2.05, width_ratios=ratios)
    for ax in axes[:, 0]:
        ax.remove()
    _draw_distances(figure.add_subplot(axes[0, 0].get_gridspec()[:, 0]), run)
    for column, (name, (features, balance, regime)) in enumerate(_SEMANTIC.items(), start=1):
        for ax, when in zip(axes[:, column], ("before", "after"), strict=True):
            # Each image has its own scale, because only the pattern matters.
            gram = run[name][when]
            ax.imshow(gram / abs(gram).max(), cmap="RdBu_r", vmin=-1, vmax=1)
            ax.set(xticks=[], yticks=[])
            if column == 1:
                ax.set_ylabel(f"{when} learning\nitem")
            else:
                ax.sharey(axes[0, 1])
        shape = "square" if features == 8 else "funnel"
        axes[0, column].set_title(f"{regime}\n{shape}, $λ = {balance:g}$")
        axes[1, column].set_xlabel("item")
    words = "similarity of items in $W_1^⊤W_1$, divided by the largest entry"
    figure.colorbar(axes[0, 1].images[0], ax=axes[:, 1:], label=words)
    return figure


def _draw_distances(ax: Axes, run: xr.DataTree) -> None:
    """Plot kernel distances over λ, on an axis that is linear near zero, else logarithmic."""
    for index, shape in enumerate(SHAPES):
        moved, theory = run[shape]["kernel_distance"], run[f"theory_{shape}"]["kernel_distance"]
        color: dict[str, Any] = {"color": f"C{index}"}
        ax.plot(moved["balance"], moved, **POINT_STYLE, **color, alpha=0.4)
        ax.plot(theory["balance"], theory, **THEORY_STYLE | color)
        ax.plot([], [], **POINT_STYLE, **color, label=shape)
    inner, largest = run["theory_square"].attrs["inner"], float(run["square"].ds["balance"].max())
    ax.set_xscale("symlog", linthresh=inner, linscale=0.6)
    sizes = np.array([size for size in (0.01, 0.1, 1.0, 10.0, 100.0) if inner < size <= largest])
    ticks = [*-sizes[::-1], 0.0, *sizes]
    ax.set_xticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    words = "balance $λ$", "kernel distance, start to end"
    label_axes(ax, *words, theory="theory, each seed", legend=None, ylim=(-0.02, None))
    ax.legend(loc="upper center", ncols=2, bbox_to_anchor=(0.5, 1.2))
