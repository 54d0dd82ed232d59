r"""Which codes drift: chains that go on long after they have reached equilibrium.

The posterior does not tell neurons apart, so that a chain could exchange what two of them do. For
linear neurons the law of a neuron is one connected piece, and each drifts through all of it. The
branches of saturating neurons are apart: a neuron that speaks a word keeps it, within which it
moves, and populations stay where cooling has left them. For classes of unequal size these differ
from the populations of equilibrium. Overlaps are those of a neuron's mean responses to classes with
themselves some moves later, over neurons, centred.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ...dynamics.posterior import sample
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run, part_of
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments.claims import (
    ClaimCollector,
    all_above,
    all_below,
    claims_from_source,
    most_seeds,
)
from ...experiments.figures import label_axes, panels, shades, styled
from ...tasks import orthogonal_inputs
from ...theory.coding import classification_code
from ._schemes import Activation

_THIN = 10


class Parameters(BaseParameters):
    """Three classes of orthogonal inputs, and long chains."""

    seeds: int = Field(default=2, ge=2)
    """How many chains are run for each activation."""

    activations: tuple[Activation, ...] = ("linear", "erf-sigmoid", "relu")
    """Nonlinearities."""

    sizes: tuple[int, int, int] = (40, 20, 20)
    """Examples of each class."""

    width: int = Field(default=200, ge=50)
    """Hidden neurons N."""

    temperature: float = Field(default=0.01, gt=0, le=0.05)
    """T."""

    moves: int = Field(default=2000, ge=500)
    """Moves in equilibrium, after half as many of cooling and a quarter that do not count."""


_UNEVEN = 1.5
"""Ratio of class sizes from which on cooling leaves populations out of equilibrium."""

PRESETS: dict[str, dict[str, Any]] = {
    "even": {"sizes": (20, 20, 20)},
    "uneven": {"activations": ("erf-sigmoid",), "sizes": (50, 25, 25), "seeds": 4},
}
QUICK: dict[str, Any] = {"activations": ("linear", "erf-sigmoid"), "moves": 500}


@make_run("coding/drift")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Run chains, and follow neurons along them."""
    keys, tables = keys_from_parameters(parameters, key), {}
    task = orthogonal_inputs(parameters.sizes)
    which, count = np.asarray(task.labels["class"]), len(parameters.activations)
    for k, name in enumerate(parameters.activations):
        drawn = sample(
            task,
            width=parameters.width,
            temperature=parameters.temperature,
            activation=name,
            chains=parameters.seeds,
            anneal=parameters.moves // 2,
            burn=parameters.moves // 4,
            moves=parameters.moves,
            thin=_THIN,
            precision="single",
            progress=part_of(progress, k / count, 1 / count),
            key=jax.random.fold_in(keys[0], k),
        )
        activity = drawn.activity()
        means = np.stack([activity[:, :, which == c].mean(axis=2) for c in range(3)], axis=-1)
        populations = drawn.populations
        theory = classification_code([*parameters.sizes], name, temperature=parameters.temperature)
        predicted = {b.word: b.share for b in theory.populations}
        over = ("chain", "move")
        tables[name] = xr.Dataset(
            {
                "overlap": (over, _overlap(means - means.mean(axis=-1, keepdims=True))),
                "neuron": (("move", "group"), means[0, :, int(means[0, -1].sum(-1).argmax())]),
                "changing": ("chain", populations.changing),
                "share": (("chain", "word"), populations.shares),
                "share_theory": ("word", [predicted.get(w, 0.0) for w in populations.words]),
                "output": (("chain", "group"), _own(drawn.seen.outputs, which)),
                "output_theory": ("group", np.diag(theory.outputs)),
            },
            {
                "move": ("move", _THIN * np.arange(means.shape[1]), {"long_name": "moves"}),
                "word": list(populations.words),
            },
        )
    return tables


def _overlap(means: Float[np.ndarray, "chain draw unit group"]) -> Float[np.ndarray, "chain draw"]:
    """Of the first draw's responses with later ones, 1 for the same."""
    first = means[:, :1]
    size = np.sqrt((first**2).sum((-1, -2)) * (means**2).sum((-1, -2)))
    return (first * means).sum((-1, -2)) / size


def _own(
    outputs: Float[np.ndarray, "chain draw sample output"], which: np.ndarray
) -> Float[np.ndarray, "chain group"]:
    own = outputs.mean(axis=1)[:, np.arange(len(which)), which]
    return np.stack([own[:, which == c].mean(axis=1) for c in range(3)], axis=1)


@claims_from_source("van Meegen & Sompolinsky", "representational drift")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Which neurons drift, which keep a codeword, and what frozen populations change."""
    parameters = parameters_of_run(run, Parameters)
    sizes = parameters.sizes
    for name in parameters.activations:
        data = run[name].ds
        last = data["overlap"][:, -max(1, data.sizes["move"] // 4) :].mean("move")
        if name == "linear":
            claim(
                "linear-drift",
                "linear neurons drift: what they said is forgotten",
                all_below(last, 0.5),
            )
            continue
        if name == "relu":
            claim(
                "relu-most-stays",
                "relu: most of what neurons say stays",
                all_above(last, 0.5),
                note="what outliers of one class share is left open, and may pass between them",
            )
            continue
        claim(f"{name}-stays", f"{name}: neurons keep what they say", all_above(last, 0.9))
        claim(
            f"{name}-disconnected",
            f"{name}: branches are disconnected, no neuron ever changes its word",
            most_seeds(data["changing"].values < 1e-3, of="chains"),
            at="symmetry breaking",
            headline=name == "erf-sigmoid",
        )
        if max(sizes) < _UNEVEN * min(sizes):
            continue
        off = abs(data["share"] - data["share_theory"]).max("word")
        claim(
            f"{name}-out-of-equilibrium",
            f"{name}: populations stay where cooling left them, out of equilibrium",
            all_above(off, 0.05),
            at="symmetry breaking",
            note="largest difference of a population from theory, chain by chain",
        )
        claim(
            f"{name}-outputs",
            f"{name}: outputs do not depend on it",
            all_below(abs(data["output"] - data["output_theory"]), 3 / parameters.width),
            at="symmetry breaking",
            note="up to corrections of order 1/N",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Overlaps, a neuron of each kind, and populations."""
    names = parameters_of_run(run, Parameters).activations
    figure, axes = panels("Linear codes drift, codewords stay", 1 + len(names))
    overlap, *neurons = axes
    for name, color in zip(names, ("C0", "C1", "C2", "C3"), strict=False):
        data = run[name].ds
        for chain in range(data.sizes["chain"]):
            label = name if chain == 0 else None
            overlap.plot(data["move"], data["overlap"][chain], color=color, alpha=0.7, label=label)
    label_axes(overlap, "moves", "overlap with the first sample", "all neurons")
    for name, ax in zip(names, neurons, strict=True):
        data = run[name].ds
        for c, shade, label in shades(range(1, 4), "class"):
            ax.plot(data["move"], data["neuron"][:, c - 1], color=shade, label=label)
        label_axes(ax, "moves", "mean activity", f"one neuron, {name}")
    return figure
