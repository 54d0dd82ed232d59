r"""Representational drift: which codes change in chains that continue after equilibration.

The posterior is symmetric under permutations of neurons, so a chain may exchange the roles of two
neurons. For linear neurons the distribution of a neuron is connected, and each neuron drifts
through all of it. For saturating neurons the distribution consists of separate branches, one per
codeword. Each neuron keeps its codeword, so the fractions of neurons with each codeword stay as
annealing left them. For classes of unequal size these fractions are out of equilibrium. The overlap
compares the mean responses of all neurons to classes, centred over classes, at two times of a
chain.
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
    """Three classes of orthogonal inputs, and long Markov chains of networks."""

    seeds: int = Field(default=2, ge=2)
    """Number of chains for each activation."""

    activations: tuple[Activation, ...] = ("linear", "erf-sigmoid", "relu")
    """Activations φ of hidden neurons."""

    sizes: tuple[int, int, int] = (40, 20, 20)
    """Number of examples of each class."""

    width: int = Field(default=200, ge=50)
    """Number N of hidden neurons."""

    temperature: float = Field(default=0.01, gt=0, le=0.05)
    """Temperature T of the posterior."""

    moves: int = Field(default=2000, ge=500)
    """Number of moves after burn-in; annealing has half as many moves, burn-in a quarter."""


_UNEVEN = 1.5
"""Ratio of class sizes above which annealing leaves populations out of equilibrium."""

PRESETS: dict[str, dict[str, Any]] = {
    "even": {"sizes": (20, 20, 20)},
    "uneven": {"activations": ("erf-sigmoid",), "sizes": (50, 25, 25), "seeds": 4},
}
QUICK: dict[str, Any] = {"activations": ("linear", "erf-sigmoid"), "moves": 500}


@make_run("coding/drift")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Sample long chains, and follow the responses of neurons along them."""
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
    """Return the overlap (cosine) of responses in the first draw and in each draw."""
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
    """Check which neurons drift, which keep a codeword, and the effect of frozen populations."""
    parameters = parameters_of_run(run, Parameters)
    sizes = parameters.sizes
    for name in parameters.activations:
        data = run[name].ds
        last = data["overlap"][:, -max(1, data.sizes["move"] // 4) :].mean("move")
        if name == "linear":
            claim(
                "linear-drift",
                "linear neurons drift: their responses to classes lose most of the overlap with "
                "the responses in the first sample",
                all_below(last, 0.5),
            )
            continue
        if name == "relu":
            claim(
                "relu-most-stays",
                "ReLU neurons keep most of the overlap of their responses to classes with the "
                "responses in the first sample",
                all_above(last, 0.5),
                note="outliers of the same class may exchange their shares of the output",
            )
            continue
        claim(
            f"{name}-stays",
            f"{name} neurons do not drift: their responses to classes keep the overlap with the "
            "responses in the first sample",
            all_above(last, 0.9),
        )
        claim(
            f"{name}-disconnected",
            f"{name} neurons never change their codeword: branches of their distribution are "
            "disconnected",
            most_seeds(data["changing"].values < 1e-3, of="chains"),
            at="symmetry breaking",
            headline=name == "erf-sigmoid",
        )
        if max(sizes) < _UNEVEN * min(sizes):
            continue
        off = abs(data["share"] - data["share_theory"]).max("word")
        claim(
            f"{name}-out-of-equilibrium",
            f"after annealing, the fractions of {name} neurons with each codeword stay away from "
            "their values in equilibrium",
            all_above(off, 0.05),
            at="symmetry breaking",
            note="largest difference between a fraction and its prediction, for each chain",
        )
        claim(
            f"{name}-outputs",
            f"networks of {name} neurons have the outputs predicted for equilibrium, although the "
            "fractions of neurons with each codeword are out of equilibrium",
            all_below(abs(data["output"] - data["output_theory"]), 3 / parameters.width),
            at="symmetry breaking",
            note="up to corrections of order 1/N for N hidden neurons",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot overlaps with the first sample, and the responses of one neuron of each kind."""
    names = parameters_of_run(run, Parameters).activations
    figure, axes = panels("Linear neurons drift, codewords stay", 1 + len(names))
    overlap, *neurons = axes
    for name, color in zip(names, ("C0", "C1", "C2", "C3"), strict=False):
        data = run[name].ds
        for chain in range(data.sizes["chain"]):
            label = name if chain == 0 else None
            overlap.plot(data["move"], data["overlap"][chain], color=color, alpha=0.7, label=label)
    chains = run[names[0]].sizes["chain"]
    title = f"all neurons; one line per chain ({chains} chains)"
    label_axes(overlap, "Monte Carlo moves", "overlap with the first sample", title)
    for name, ax in zip(names, neurons, strict=True):
        data = run[name].ds
        for c, shade, label in shades(range(1, 4), "class"):
            ax.plot(data["move"], data["neuron"][:, c - 1], color=shade, label=label)
        label_axes(ax, "Monte Carlo moves", "mean activity", f"one neuron, {name}")
    return figure
