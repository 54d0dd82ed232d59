r"""Structured worlds and when their modes are learned: trees, clusters, chains, rings, grids, tori.

The modes are eigenvectors of the world's covariance over items, known in closed form. From equal
initial strengths, modes are learned in the order of their eigenvalues. Small random weights have
unequal initial strengths, so that modes with similar eigenvalues may swap.
"""

import itertools
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from pydantic import Field

from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments.claims import ClaimCollector, agree, claims_from_source, max_error_below
from ....experiments.figures import draw_pair, label_axes, panels, shades, styled
from ....tasks.worlds import World, chain, clusters, grid, ring, torus, tree
from ._learning import Learning, from_growing_part, learn, random_network, together

_EQUAL = 1e-9  # eigenvalues that differ by less, relative to the largest, form one level
_SHOWN = 6  # number of leading levels drawn for each world


class Parameters(Learning):
    """Parameters of six structured worlds and of a two-layer network that learns each of them."""

    seeds: int = Field(default=3, ge=1)
    """Number of networks with small random weights that are trained on each world."""

    branching: tuple[int, ...] = (2, 2, 2)
    """Tree: number of children of each node, level by level from the root."""

    flip: float = Field(default=0.1, gt=0, lt=0.5)
    """Tree: probability that a feature changes sign along an edge."""

    cluster_sizes: tuple[int, ...] = (3, 5, 2)
    """Clusters: number of items in each cluster."""

    items: int = Field(default=12, ge=3)
    """Chain and ring: number of items."""

    rows: int = Field(default=4, ge=3)
    """Grid and torus: number of rows."""

    columns: int = Field(default=5, ge=3)
    """Grid and torus: number of columns."""

    coupling: float = Field(default=0.8, gt=0)
    """Edge weight w of all worlds except the tree."""

    precision: float = Field(default=0.3, gt=0)
    """Precision g that pulls each feature of an item towards zero."""

    sampled_features: int = Field(default=40_000, ge=1000)
    """Number of features sampled from each world, for comparison of spectra."""

    def _check(self) -> None:
        if not self.cluster_sizes or min(self.cluster_sizes) < 1:
            raise ValueError(
                "`cluster_sizes` must be one or more positive numbers of items, got "
                f"{self.cluster_sizes}."
            )
        worlds = self.worlds().values()
        if min(world.items for world in worlds) < 2:
            raise ValueError(
                "The tree of `branching` and the clusters of `cluster_sizes` must each have at "
                f"least two items, got {self.branching} and {self.cluster_sizes}."
            )
        self.check(worlds)

    def worlds(self) -> dict[str, World]:
        field = {"coupling": self.coupling, "precision": self.precision}
        return {
            "tree": tree(self.branching, self.flip),
            "clusters": clusters(self.cluster_sizes, **field),
            "chain": chain(self.items, **field),
            "ring": ring(self.items, **field),
            "grid": grid(self.rows, self.columns, **field),
            "torus": torus(self.rows, self.columns, **field),
        }


@make_run("linear/structures")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Sample features of each world, and train networks on it."""
    worlds = parameters.worlds()
    samples_key = jax.random.fold_in(keys_from_parameters(parameters, key)[0], 1)
    network = random_network(parameters, max(world.items for world in worlds.values()), key)
    tables = {}
    for index, (name, world) in enumerate(worlds.items()):
        progress(f"training networks on the {name}", index / len(worlds))
        draw = jax.random.fold_in(samples_key, index)
        itself = describe(name, world, world.sample(parameters.sampled_features, key=draw))
        learned, *_ = learn(parameters, world, itself["level_of_mode"].values, network)
        tables[name] = itself.merge(learned)
    return tables


def describe(name: str, world: World, samples: Float[np.ndarray, "feature item"]) -> xr.Dataset:
    """Return the world's items and modes, and the correlation of modes in sampled features."""
    c, count, along = world.eigenvalues, len(samples), samples @ world.modes
    # Standard error of a mean of products z_i z_j with mean zero; for identical items it is zero.
    error = np.maximum(np.sqrt((along**2).T @ along**2) / count, 1e-12)
    others = ~np.eye(world.items, dtype=bool)
    table = {
        "position": (("item", "axis"), world.position),
        "edge": (("line", "end", "axis"), edges(name, world)),
        "eigenvalue": ("mode", c),
        "level_of_mode": ("mode", np.append(0, np.cumsum(-np.diff(c) > _EQUAL * c[0]))),
        "mode_of_items": (("item", "mode"), world.modes),
        "sampled": ("mode", np.linalg.svd(samples, compute_uv=False) / np.sqrt(count)),
        "correlation_in_errors": ((), np.abs(along.T @ along / count / error)[others].max()),
    }
    return xr.Dataset(table, attrs={"world": world.name})


def edges(name: str, world: World) -> Float[np.ndarray, "line end 2"]:
    """Return the lines to draw; lines that wrap around a torus are split into two halves."""
    if name == "tree":
        # Each node stands above the middle of its leaves, at the height of its level.
        return _branches(world, np.ptp(world.position[:, 0]) / (2 * max(len(world.groups) - 1, 1)))
    if name == "clusters":
        return _branches(world, 0.0)
    # Items are connected where the precision matrix is nonzero.
    precision = np.linalg.inv(world.covariance)
    tied = np.triu(np.abs(precision) > 1e-9 * np.abs(precision).max(), k=1)
    start, end = (world.position[index] for index in np.nonzero(tied))
    length = np.linalg.norm(end - start, axis=1, keepdims=True)
    long = (length > 1.5 * length.min())[:, 0]
    stub = 0.5 * ((end - start) / length)[long]
    halves = [(start[long], start[long] - stub), (end[long], end[long] + stub)]
    lines = ((start[~long], end[~long]), *halves)
    return np.concatenate([np.stack(line, axis=1) for line in lines])


def _branches(world: World, height: float) -> Float[np.ndarray, "line end 2"]:
    """Return lines from the middle of each group to the middle of its parent group."""
    leaves, lines = np.arange(world.items), []
    groups = world.groups if (world.groups[-1] == leaves).all() else [*world.groups, leaves]
    for level, (parents, nodes) in enumerate(itertools.pairwise(groups)):
        up = (len(groups) - 1 - level) * height
        for below in (nodes == node for node in np.unique(nodes)):
            above = parents == parents[below][0]
            ends = [world.position[group].mean(axis=0) for group in (above, below)]
            lines.append(np.add(ends, [[0.0, up], [0.0, up - height]]))
    return np.array(lines)


@claims_from_source("Saxe, slides", "“Learning diverse structures”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the spectrum and modes of every world in samples, and when modes are learned."""
    parameters = parameters_of_run(run, Parameters)
    link = "“Connecting neural nets and graphical models”"
    tables, count = [node.ds for node in run.children.values()], parameters.sampled_features
    for name, world in zip(run.children, tables, strict=True):
        # Whitened Gaussian samples have singular values within 1 ± (√(P/N) + t/√N), t = 4.
        noise = float((np.sqrt(world.sizes["item"]) + 4) / np.sqrt(count))
        claim(
            f"{name}-sampled-spectrum",
            f"{name}: the singular values of {count} sampled features are √(Nc), with N features "
            "and eigenvalues c of the covariance over items (ratio of the two)",
            max_error_below(world["sampled"] / np.sqrt(world["eigenvalue"]), 1.0, within=noise),
            at=link,
            note=f"{world.attrs['world']}; the slides give the limit of many features",
        )
    claim(
        "uncorrelated-modes",
        "sampled features are uncorrelated along different modes of all worlds (largest "
        "correlation, in standard errors)",
        max_error_below([world["correlation_in_errors"] for world in tables], within=6.0),
        at=link,
        note="modes: contrasts of trees and clusters, waves on chains, rings, grids and tori",
    )
    off = [np.ravel(world["chains"] - world["chains_theory"]) for world in tables]
    words = "decoupled weights: every mode of every world learns like a scalar chain (error over s)"
    claim("decoupled-chains", words, max_error_below(np.concatenate(off), within=1e-6))
    off = together(tables, "chains_half_time", "chains_theory_half_time")
    words = (
        "decoupled weights: a mode is half learned at ln(s/a₀ − 1)/2s, for singular value s and "
        "initial strength a₀ (relative difference)"
    )
    claim("decoupled-half-times", words, max_error_below(off, within=1e-6), headline=True)
    order, a0 = "modes are learned in the order of their eigenvalues", parameters.initial_strength
    from_growing_part(claim, tables, a0, order)
    weakest = min(float(world["singular_value"].min()) for world in tables)
    off = np.abs(together(tables, "simple_half_time", "random_half_time"))
    claim(
        "effective-strengths",
        "small random weights: scalar chains with effective initial strengths predict when a mode "
        "is half learned (median relative error)",
        agree(np.median(off), 0.0, within=float(1 / np.log(weakest / a0))),
        note="modes share hidden units, which delays them by a time of order 1/s",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot for each world its items, its leading modes, and when these modes are learned."""
    parameters = parameters_of_run(run, Parameters)
    title = "Six worlds: items, modes in order of eigenvalues, and when each mode is learned"
    how: dict[str, Any] = {"height_ratios": (1, 1.25, 1.15)}
    figure, axes = panels(title, len(run.children), 3, width=2.0, height=1.9, **how)
    for column, (name, node) in enumerate(run.children.items()):
        world, (items, modes, learning) = node.ds, axes[:, column]
        lines = LineCollection(list(world["edge"].values), colors="0.65", linewidths=1.0)
        items.add_collection(lines)
        items.plot(*world["position"].values.T, "o", ms=4.5, color="0.2", clip_on=False)
        items.set_aspect("equal", adjustable="datalim")
        items.margins(0.12)
        items.axis("off")
        items.set_title(name)
        flat = (1, -1) if name not in ("grid", "torus") else (parameters.rows, parameters.columns)
        _draw_modes(modes, world, flat)
        _draw_learning(learning, world)
        learning.sharey(axes[2, 0])
        learning.tick_params(labelleft=not column)
    first, theory = axes[2, 0], "theory, from the same weights"
    draw_pair(first, [], [], color="0.6", alpha=1.0, label="training, small random weights")
    label_axes(first, ylabel="learned, $a/s$", theory=theory, legend=None)
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _draw_modes(ax: Axes, world: xr.Dataset, shape: tuple[int, int]) -> None:
    """Plot the first mode of each level, in colours from negative to positive."""
    ax.axis("off")
    _, first = np.unique(world["level_of_mode"].values, return_index=True)
    if len(first) > _SHOWN:
        ax.set_title(f"the first {_SHOWN} of {len(first)} levels", fontsize=7, pad=2)
    for index, color, _ in shades(range(len(first[:_SHOWN]))):
        v = world["mode_of_items"].values[:, first[index]]
        box = (0.14, 1 - (index + 0.9) / _SHOWN, 0.86, 0.78 / _SHOWN)
        if shape[0] > 1:
            box = (0.12 + 0.5 * (index % 2), 1 - (index // 2 + 0.95) / 3, 0.38, 0.27)
        small, top = ax.inset_axes(box), np.abs(v).max()
        small.imshow(v.reshape(shape), cmap="PuOr", vmin=-top, vmax=top, aspect="auto")
        small.set(xticks=[], yticks=[])
        small.spines[:].set_visible(False)
        how = {"rotation": 0, "ha": "right", "va": "center", "weight": "bold"}
        small.set_ylabel(str(index + 1), color=color, labelpad=1, **how)


def _draw_learning(ax: Axes, world: xr.Dataset) -> None:
    """Plot learning curves of the first random network, with their prediction."""
    one = world.isel(seed=0, level=slice(_SHOWN))
    for level, color, _ in shades(range(one.sizes["level"])):
        curve = one.isel(level=level)
        draw_pair(ax, one["time"], curve["random"], curve["random_theory"], color=color)
    # The axis ends when all levels shown are learned.
    end = int(np.argmax((one["random_theory"].min("level") > 0.98).values)) or -1
    room = {"xlim": (0, float(one["time"][end])), "ylim": (0, 1.06), "yticks": (0, 0.5, 1)}
    label_axes(ax, "time $t/τ$", **room)
