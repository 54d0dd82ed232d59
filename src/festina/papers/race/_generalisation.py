r"""Systematic generalisation: translation between domains that were never trained together.

The task has M input and M output domains, a network has one trunk for all pairs, and each input
domain is trained with K output domains. The loss is ½⟨‖y − f‖²⟩ over trained pairs, and
τ Ẇ = −∂L/∂W with τ = 1. The *zero-shot loss* is the loss on untrained pairs, relative to that of a
network with output zero. Decoupled weights generalise at every K, because their initialisation
already contains the common basis of all domains. Networks with random weights must learn this
basis. At K = 1 the data do not determine the basis, at K = 2 success depends on the seed, and from
large initial weights networks do not learn the basis.
"""

from typing import Annotated, Any

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_decreasing, check_increasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    join_numbers,
)
from ...experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    SIMULATION_STYLE,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import with_decoupled_weights
from ...tasks import domain_routing
from ._translation import basis, pairs_of, translator, with_random_weights

_LEARNED = 1e-5
"""Loss at which training stops, relative to the initial loss."""
_GENERALISES = 0.05
"""Zero-shot loss below which a network counts as generalising."""


class Parameters(BaseParameters):
    """Domains with the features of a tree of four items, and initial weights of several scales."""

    seeds: int = Field(default=8, ge=2)
    """Number of networks with random weights that are trained at each scale."""

    domains: int = Field(default=5, ge=3, le=12)
    """Number M of input domains, and of output domains."""

    trained: Annotated[tuple[int, ...], check_increasing(1)] = (1, 2, 3, 4)
    """Numbers K of output domains trained with each input domain, increasing, each below M."""

    width: int = Field(default=24, ge=4)
    """Number of hidden units before the trunk, and behind it."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.6, 0.005)] = (0.4, 0.2, 0.1, 0.05)
    """Standard deviations of random weights, decreasing."""

    strength: float = Field(default=0.05, gt=0, le=0.2)
    """Initial strength b of every mode in every layer of the decoupled network."""

    def _check(self) -> None:
        if self.trained[-1] >= self.domains:
            raise ValueError(
                f"`trained` must be below `domains` = {self.domains}, got {self.trained}. "
                "Otherwise no untrained pairs are left."
            )


QUICK: dict[str, Any] = {"seeds": 5, "trained": (1, 3), "scales": (0.4, 0.05)}


@make_run("race/generalisation")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train decoupled and random weights at every K, and measure the loss on untrained pairs."""
    keys, ks = keys_from_parameters(parameters, key), parameters.trained
    tables: list[xr.Dataset] = []
    for number, k in enumerate(ks):
        progress(f"K = {k} trained outputs per input", number / len(ks))
        tables.append(_trained(parameters, k, keys))
    table = xr.concat(tables, xr.Variable("trained", list(ks)))
    coordinates = {"scale": list(parameters.scales), "seed": parameters.seed + np.arange(len(keys))}
    return {"zero_shot": table.assign_coords(coordinates)}


def _trained(parameters: Parameters, k: int, keys: Keys) -> xr.Dataset:
    """Train one decoupled network and all scales and seeds of random ones in one batch."""
    domains = jax.random.fold_in(keys[0], 1)
    data = domain_routing(parameters.domains, k, key=domains)
    everything = domain_routing(parameters.domains, key=domains)
    frames, _ = basis(everything)
    decoupled = with_decoupled_weights(
        translator(data, everything, width=parameters.width),
        frames,
        initial_strength=parameters.strength,
    )
    random = with_random_weights(decoupled, parameters.scales, keys)
    lanes = decoupled.with_parts(
        *(
            np.concatenate((one[None], many.reshape(-1, *one.shape)))
            for one, many in zip(decoupled.parts, random.parts, strict=True)
        )
    )
    flow = gradient_flow(lanes, data, rtol=1e-6, converged=_LEARNED)
    labels = everything.labels["input_domain"], everything.labels["output_domain"]
    known = set(pairs_of(data))
    unknown = np.array([(int(i), int(j)) not in known for i, j in zip(*labels, strict=True)])
    off = everything.y[unknown] - flow.final.predict(everything.x[unknown])
    error = np.sum(off**2, axis=(-2, -1)) / np.sum(everything.y[unknown] ** 2)
    left = flow.loss[:, -1] / (np.sum(data.y**2) / (2 * len(data.y)))
    shape = len(parameters.scales), len(keys)
    return xr.Dataset(
        {
            "decoupled": ((), error[0]),
            "random": (("scale", "seed"), error[1:].reshape(shape)),
            "decoupled_trained": ((), left[0]),
            "random_trained": (("scale", "seed"), left[1:].reshape(shape)),
        }
    )


@claims_from_source("Saxe, slides", "“Systematic generalization”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check zero-shot losses of decoupled and of random initial weights."""
    data = run["zero_shot"].ds
    rich, lazy = data["random"].isel(scale=-1), data["random"].isel(scale=0)
    small, large = (float(data["scale"][k]) for k in (-1, 0))
    claim(
        "trained-loss",
        "every network learns its trained pairs (loss relative to the loss of output zero)",
        all_below(
            xr.concat((data["random_trained"].max(), data["decoupled_trained"].max()), "kind"), 1e-3
        ),
    )
    claim(
        "zero-shot-loss",
        "a network with a shared trunk translates pairs that were never trained, for any number K "
        f"of trained outputs per input (zero-shot loss, σ = {small:g})",
        all_below(rich, _GENERALISES),
        wrong="true only for decoupled weights, which contain the common basis of all domains from "
        "the start",
        instead=agree(data["decoupled"] / data["decoupled_trained"], 1.0, within=1e-4),
        note="measured instead: loss of decoupled weights on untrained pairs over their loss on "
        "trained pairs, at every K; medians of random weights: "
        + join_numbers(rich.median("seed"), 2),
        headline=True,
    )
    at = "“Initialization dependence: rich vs lazy learning”"
    if 1 in data["trained"]:
        alone = data["random"].sel(trained=1)
        claim(
            "one-domain-each",
            "with K = 1 trained output per input no random initial weights generalise: the data "
            "do not determine the sign and rotation of each pair",
            all_above(alone, _GENERALISES),
        )
        claim(
            "one-domain-wrong-answers",
            "with K = 1 trained output per input, untrained pairs get wrong outputs, with a larger "
            "loss than output zero (mean over seeds, at each scale)",
            all_above(alone.mean("seed"), 1.0),
        )
    if 2 in data["trained"]:
        circle = rich.sel(trained=2)
        claim(
            "two-domains-seeds",
            "with K = 2 trained outputs per input the zero-shot loss depends on the seed (largest "
            f"over smallest, σ = {small:g})",
            all_above(circle.max() / circle.min(), 10.0),
            note=f"{int((circle < _GENERALISES).sum())} of {circle.size} seeds generalise",
        )
    many = data["trained"].values >= 3
    if many.any():
        claim(
            "many-domains",
            "with K ≥ 3 trained outputs per input and small initial weights every seed generalises "
            f"(σ = {small:g})",
            all_below(rich.isel(trained=many), _GENERALISES),
            note=f"medians {join_numbers(rich.isel(trained=many).median('seed'), 2)}",
        )
        claim(
            "lazy-training",
            f"from large initial weights, σ = {large:g}, training is lazy and does not generalise "
            "at any number K of trained outputs per input (median zero-shot loss)",
            all_above(lazy.median("seed"), _GENERALISES),
            at=at,
        )
        claim(
            "smaller-weights",
            "the zero-shot loss falls as initial weights get smaller, with "
            f"K = {int(data['trained'][-1])} trained outputs per input (median over seeds)",
            decreasing(data["random"].isel(trained=-1).median("seed")),
            at=at,
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the zero-shot loss against K, and against the scale of random weights."""
    data, m = run["zero_shot"].ds, parameters_of_run(run, Parameters).domains
    title = f"Pairs of {m} × {m} domains that were never trained"
    figure, (by_k, by_scale) = panels(title, 2, width=4.2, height=3.4, sharey=True)
    ks, scales = data["trained"].values, data["scale"].values
    rng = np.linspace(-0.12, 0.12, data.sizes["seed"])
    for scale, color, label in shades(scales[[0, -1]], "random, σ ="):
        one = data["random"].sel(scale=scale).transpose("trained", "seed")
        by_k.plot(ks[:, None] + rng, one, **POINT_STYLE, color=color, alpha=0.5)
        by_k.plot([], [], **POINT_STYLE, color=color, alpha=0.7, label=label)
    by_k.plot(
        ks, data["decoupled"], **{**POINT_STYLE, "marker": "s", "color": "C3"}, label="decoupled"
    )
    by_k.axhline(1, **GUIDE_STYLE)
    words = "outputs $K$ trained with each input", "zero-shot loss"
    room = {"yscale": "log", "xticks": ks, "xlim": (ks[0] - 0.4, ks[-1] + 0.4)}
    label_axes(by_k, *words, "number of trained pairs", legend="center left", **room)
    for k, color, label in shades(ks, "$K$ ="):
        one = data["random"].sel(trained=k).transpose("scale", "seed")
        by_scale.plot(scales, one, **{**POINT_STYLE, "ms": 3}, color=color, alpha=0.5)
        by_scale.plot(
            scales, one.median("seed"), **SIMULATION_STYLE, color=color, alpha=0.5, label=label
        )
    by_scale.axhline(1, **GUIDE_STYLE)
    words = "scale σ of random weights", "", "from rich to lazy"
    label_axes(by_scale, *words, xscale="log", legend="lower right")
    by_scale.set_xticks(scales, [f"{each:g}" for each in scales])
    by_scale.minorticks_off()
    return figure
