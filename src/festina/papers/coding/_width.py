r"""Codes against the width, the prior variance of readouts, and the number of hidden layers.

The mean-field theory holds for N → ∞ at a fixed number P of examples, with corrections of order
1/N. The experiment measures the width N from which the theory holds to 5 %. The prior variance of
readouts is σ_a² = P^{-1/L} for L hidden layers. With a larger prior variance networks learn weaker
features. For two hidden layers only the code of each layer is measured.
"""

from typing import Annotated, Any, Literal

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import coding_scheme
from ...dynamics.posterior import Posterior, sample
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run, part_of
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_increasing
from ...experiments.claims import (
    ClaimCollector,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    follows_power_law,
    join_numbers,
    most_seeds,
)
from ...experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    label_axes,
    panels,
    power_law_guide,
    styled,
)
from ...tasks import Task, orthogonal_inputs
from ...theory.coding import classification_code
from ._schemes import SCHEMES, contrast


class Parameters(BaseParameters):
    """Three classes of orthogonal inputs, and networks of several widths, priors and depths."""

    seeds: int = Field(default=4, ge=2)
    """Number of chains for each network."""

    activations: tuple[Literal["linear", "erf-sigmoid", "relu"], ...] = (
        "linear",
        "erf-sigmoid",
        "relu",
    )
    """Activations φ of hidden neurons."""

    size: int = Field(default=20, ge=18)
    """Number of examples of each class."""

    widths: Annotated[tuple[int, ...], check_increasing(20)] = (40, 80, 160)
    """Numbers N of hidden neurons, increasing."""

    variances: Annotated[tuple[float, ...], check_increasing(0.1, 100.0)] = (1.0, 4.0, 16.0)
    """Prior variances σ_a² of readouts in units of 1/P, increasing, for erf-sigmoid networks of the
    second-largest width."""

    deep_width: int = Field(default=150, ge=50)
    """Number of neurons in each of two hidden layers."""

    temperature: float = Field(default=0.01, gt=0, le=0.05)
    """Temperature T of the posterior."""

    moves: int = Field(default=400, ge=100)
    """Number of moves after burn-in; burn-in has as many moves, annealing twice as many."""


QUICK: dict[str, Any] = {"activations": ("linear",), "seeds": 2, "variances": (1.0, 16.0)}


@make_run("coding/width")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Sample networks of every width, prior variance and depth."""
    keys, tables = keys_from_parameters(parameters, key), {}
    task, names = orthogonal_inputs((parameters.size,) * 3), parameters.activations
    parts = len(names) * (len(parameters.widths) + 1) + len(parameters.variances)
    done = iter(range(parts))

    def drawn(name: str, **how: Any) -> Posterior:
        k = next(done)
        return sample(
            task,
            activation=name,
            temperature=parameters.temperature,
            chains=parameters.seeds,
            anneal=2 * parameters.moves,
            burn=parameters.moves,
            moves=parameters.moves,
            precision="single",
            progress=part_of(progress, k / parts, 1 / parts),
            key=jax.random.fold_in(keys[0], k),
            **how,
        )

    for name in names:
        found = np.array([_contrast(drawn(name, width=n), task) for n in parameters.widths])
        theory = classification_code(
            [parameters.size] * 3, name, temperature=parameters.temperature
        )
        tables[name] = xr.Dataset(
            {
                "contrast": (("width", "chain"), found),
                "theory": ((), theory.kernel[0, 0] - theory.kernel[0, 1]),
                **_deep(drawn, name, parameters, task),
            },
            {"width": list(parameters.widths), "layer": [1, 2]},
        )
    unit = 1 / len(task.x)
    priors = [
        _contrast(
            drawn("erf-sigmoid", width=parameters.widths[-2], readout_variance=factor * unit), task
        )
        for factor in parameters.variances
    ]
    predicted = [
        classification_code(
            [parameters.size] * 3,
            "erf-sigmoid",
            temperature=parameters.temperature,
            readout_variance=factor * unit,
        ).kernel[0]
        for factor in parameters.variances
    ]
    tables["prior"] = xr.Dataset(
        {
            "contrast": (("variance", "chain"), np.array(priors)),
            "theory": ("variance", [kernel[0] - kernel[1] for kernel in predicted]),
        },
        {"variance": list(parameters.variances)},
    )
    return tables


def _contrast(drawn: Posterior, task: Task) -> np.ndarray:
    """Return the kernel within classes minus the kernel between classes, for each chain."""
    return contrast(drawn.seen.kernels[-1], np.asarray(task.labels["class"]))[1]


def _deep(drawn: Any, name: str, parameters: Parameters, task: Task) -> dict[str, Any]:
    """Return the code and the share of variance between classes of each layer, in last draws."""
    found = drawn(name, width=parameters.deep_width, depth=2)
    which = np.asarray(task.labels["class"])
    codes = [
        [coding_scheme(one, which) for one in found.activity(layer)[:, -1]] for layer in (0, 1)
    ]
    over = ("layer", "chain")
    return {
        "deep": (over, [[each.verdict for each in layer] for layer in codes]),
        "sharp": (over, [[each.evidence.class_share for each in layer] for layer in codes]),
    }


@claims_from_source("van Meegen & Sompolinsky", "limit of wide networks")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check corrections at finite width, the effect of priors, and codes of two layers."""
    parameters = parameters_of_run(run, Parameters)
    for name in parameters.activations:
        data = run[name].ds
        off = abs(data["contrast"].mean("chain") / data["theory"] - 1)
        claim(
            f"{name}-corrections",
            f"for {name} neurons the error of the mean-field theory falls as 1/N with the number N "
            "of hidden neurons (exponent of N)",
            follows_power_law(data["width"], off, -1.0, within=0.3),
            headline=name == parameters.activations[0],
            note=f"relative error of the kernel: {join_numbers(off, 2)}",
        )
        claim(
            f"{name}-narrowest",
            f"for {name} neurons the mean-field theory holds within 5 % from "
            f"N = {parameters.widths[0]} hidden neurons on",
            all_below(off, 0.05),
        )
        # In the second layer many ReLU neurons are selective for one class, without outliers. This
        # code is at the border between sparse and redundant, so the claim tests the first layer.
        layer = 1 if name == "relu" else 2
        other = data["deep"].sel(layer=3 - layer).values
        claim(
            f"{name}-deep-code",
            f"with two hidden layers of {name} neurons, the code of layer {layer} is "
            f"{SCHEMES[name]}, as with a single layer",
            most_seeds(data["deep"].sel(layer=layer).values == SCHEMES[name], of="chains"),
            at="several layers",
            note=f"code of layer {3 - layer}: {', '.join(sorted({*other.tolist()}))}",
        )
        claim(
            f"{name}-sharper-second-layer",
            f"with two hidden layers of {name} neurons, a larger share of the variance over "
            "examples lies between classes in the second layer",
            all_above(data["sharp"].sel(layer=2) / data["sharp"].sel(layer=1), 1.0),
            at="several layers",
            note=f"shares {join_numbers(data['sharp'].mean('chain'), 2)}",
        )
    prior = run["prior"].ds
    seen = prior["contrast"].mean("chain")
    claim(
        "readout-variance",
        "networks with a larger prior variance σ_a² of readouts learn weaker features: the "
        "contrast of the kernel falls",
        decreasing(seen),
        at="scaling of priors",
        note=f"theory: {join_numbers(prior['theory'], 3)}",
    )
    claim(
        "readout-variance-law",
        "the mean-field theory predicts the contrast of the kernel for every prior variance σ_a² "
        "of readouts",
        all_below(abs(seen / prior["theory"] - 1), 0.05),
        at="scaling of priors",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot errors of the theory against width, and contrasts against the prior variance."""
    parameters = parameters_of_run(run, Parameters)
    figure, (width, prior) = panels("Codes against width and prior", 2)
    level = list[np.ndarray]()
    for k, name in enumerate(parameters.activations):
        data = run[name].ds
        off = abs(data["contrast"].mean("chain") / data["theory"] - 1)
        width.plot(data["width"], off, **POINT_STYLE, color=f"C{k}", label=name)
        level.append(np.log(off.values * data["width"].values))
    widths = run[parameters.activations[0]].ds["width"]
    power_law_guide(width, widths, float(np.exp(np.mean(level)) / widths[-1]), -1)
    width.axhline(0.05, **GUIDE_STYLE, label="5 %")
    words = "hidden neurons $N$", "relative error", "error of the kernel"
    label_axes(width, *words, theory="$∝ 1/N$, fitted", xscale="log", yscale="log")
    data = run["prior"].ds
    prior.plot(
        data["variance"], data["contrast"].mean("chain"), **POINT_STYLE, label="sampled networks"
    )
    prior.plot(data["variance"], data["theory"], "k--", lw=1.0, label="theory, N → ∞")
    words = (
        "readout variance, $σ_a^2 P$",
        "mean kernel within − between classes",
        "erf-sigmoid neurons",
    )
    label_axes(prior, *words, xscale="log")
    return figure
