r"""Handwritten digits: what features gain over the lazy network, split into bias and variance.

Images of a few digits, centred by the mean of the examples and of length √D; one-hot targets.
Test error of a network drawn from the posterior is the bias of the mean predictor plus the
variance around it. The lazy network is a Gaussian process, whose variance is as large as its σ_a:
it stands beside at σ_a² = 1 and at the non-lazy network's 1/P. The source's mean predictor that is
identical to the lazy one is that of linear networks as T → 0, where theory makes them equal: linear
networks are sampled at falling T, and their distance from the lazy one is held against theory.
"""

from typing import Annotated, Any

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
from ...experiments._parameters import check_decreasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    join_numbers,
    most_seeds,
)
from ...experiments.figures import POINT_STYLE, THEORY_STYLE, label_axes, panels, styled
from ...tasks import Task, classification, mnist_digits
from ...theory.coding import Predictor, lazy_predictor, linear_code
from ._schemes import SCHEMES, Activation

_PARTS = ("bias", "variance", "accuracy")
_Halves = tuple[np.ndarray, np.ndarray]  # means of independent samples


class Parameters(BaseParameters):
    """A few digits, a few examples of each, and chains of networks."""

    seeds: int = Field(default=2, ge=1)
    """How many chains are run for each activation."""

    digits: Annotated[tuple[int, ...], Field(min_length=2, max_length=10)] = (0, 1, 2)
    """Which digits."""

    examples: int = Field(default=99, ge=20, le=400)
    """Examples P, as many of each digit."""

    tests: int = Field(default=600, ge=100)
    """New images."""

    activations: tuple[Activation, ...] = ("linear", "erf", "erf-sigmoid", "relu")
    """Nonlinearities."""

    width: int = Field(default=300, ge=50)
    """Hidden neurons N."""

    temperature: float = Field(default=0.01, gt=0, le=0.1)
    """T."""

    warmer: Annotated[tuple[float, ...], check_decreasing(1.0, 1e-3)] = (0.1, 0.03)
    """Temperatures at which linear networks are sampled, too, and held against the lazy one."""

    moves: int = Field(default=600, ge=100)
    """Moves that are drawn from; as many while chains are cooled, and half as many between."""

    def _check(self) -> None:
        if self.examples % len(self.digits):
            raise ValueError(
                f"`examples` must be as many of each of {len(self.digits)} digits, got "
                f"{self.examples}."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "ten": {"digits": tuple(range(10)), "examples": 100, "activations": ("linear", "erf-sigmoid")}
}
QUICK: dict[str, Any] = {"activations": ("linear", "relu"), "moves": 300}


@make_run("coding/digits")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Draw networks of each kind, and predict new images with them and with lazy ones."""
    keys = keys_from_parameters(parameters, key)
    task, x, wanted = _images(parameters)
    rows, names = list[xr.Dataset](), parameters.activations
    warmer = [each for each in parameters.warmer if each > parameters.temperature]
    warmer = warmer if "linear" in names else []
    count = len(names) + len(warmer)

    def drawn_from(name: str, temperature: float, k: int) -> tuple[Posterior, Predictor, _Halves]:
        """Return networks, their predictions of new images, and the means of both halves."""
        drawn = sample(
            task,
            width=parameters.width,
            temperature=temperature,
            activation=name,
            chains=parameters.seeds,
            anneal=parameters.moves,
            burn=parameters.moves // 2,
            moves=parameters.moves,
            leapfrog=30,
            precision="single",
            progress=part_of(progress, k / count, 1 / count),
            key=jax.random.fold_in(keys[0], k),
        )
        seen = drawn.predict(x, key=jax.random.fold_in(keys[0], 1000 + k))
        one, half = np.array_split(seen.reshape(-1, *seen.shape[2:]), 2)
        predictor = Predictor(seen.mean((0, 1)), seen.var((0, 1)), name)
        return drawn, predictor, (one.mean(0), half.mean(0))

    linear = dict[float, _Halves]()
    for k, name in enumerate(names):
        drawn, own, halves = drawn_from(name, parameters.temperature, k)
        if name == "linear":
            linear[parameters.temperature] = halves
        how = {"activation": name, "temperature": parameters.temperature}
        # Beside σ_a² = 1 and 1/P, whatever ridge the lazy network has: another may be nearer.
        variances = (1.0, 1 / parameters.examples, *np.geomspace(1e-2, 1e4, 7).tolist())
        every = [lazy_predictor(task, x, readout_variance=each, **how) for each in variances]
        lazy, any_ridge = every[:2], [each.mean for each in every[2:]]
        split = [[getattr(each.split(wanted), part) for part in _PARTS] for each in (own, *lazy)]
        which = np.asarray(task.labels["class"])
        verdicts = [coding_scheme(h, which, x=task.x).verdict for h in drawn.activity()[:, -1]]
        rows.append(
            xr.Dataset(
                {
                    "split": (("network", "part"), split),
                    "apart": ((), min(_apart(*halves, mean) for mean in any_ridge)),
                    "verdict": ("chain", verdicts),
                },
                {"network": ["features", "lazy, σ_a² = 1", "lazy, σ_a² = 1/P"], "part": [*_PARTS]},
            )
        )
    for k, temperature in enumerate(warmer):
        linear[temperature] = drawn_from("linear", temperature, len(names) + k)[2]
    tables = {"drawn": xr.concat(rows, xr.Variable("activation", list(names)))}
    return tables | ({"linear": _linear(parameters, task, x, wanted, linear)} if linear else {})


def _images(parameters: Parameters) -> tuple[Task, np.ndarray, np.ndarray]:
    """Examples, and new images with their targets."""
    rng = np.random.default_rng(parameters.seed)
    digits = parameters.digits
    train, test = (mnist_digits(digits, split=split) for split in ("train", "test"))
    of = np.asarray(train.labels["digit"])
    each = parameters.examples // len(digits)
    chosen = np.concatenate([rng.permutation(np.flatnonzero(of == d))[:each] for d in digits])
    new = rng.permutation(len(test.x))[: parameters.tests]
    mean = np.asarray(train.x)[chosen].mean(axis=0)
    shown, unseen = (
        (x - mean) * np.sqrt(x.shape[1]) / np.linalg.norm(x - mean, axis=1, keepdims=True)
        for x in (np.asarray(train.x)[chosen], np.asarray(test.x)[new])
    )
    task = classification(shown, np.repeat(np.arange(len(digits)), each))
    return task, unseen, np.asarray(test.y)[new]


def _linear(
    parameters: Parameters,
    task: Task,
    x: np.ndarray,
    wanted: np.ndarray,
    sampled: dict[float, _Halves],
) -> xr.Dataset:
    """Compare mean predictors, sampled and by theory, with the lazy one at each temperature."""
    rows, distance, seen = [], [], []
    for temperature in sorted(sampled):
        theory = linear_code(task, temperature=temperature)
        lazy = lazy_predictor(task, x, readout_variance=1.0, temperature=temperature)
        distance.append(_apart(theory.mean(x), theory.mean(x), lazy.mean))
        seen.append(_apart(*sampled[temperature], lazy.mean))
        found = theory.predictor(x, width=parameters.width).split(wanted)
        rows.append([getattr(found, part) for part in _PARTS])
    return xr.Dataset(
        {
            "split": (("temperature", "part"), rows),
            "apart_theory": ("temperature", distance),
            "apart": ("temperature", seen),
        },
        {"temperature": sorted(sampled), "part": [*_PARTS]},
    )


def _apart(one: np.ndarray, half: np.ndarray, other: np.ndarray) -> float:
    """Return the relative distance of two means, free of noise: from both halves of the first."""
    squared = np.vdot(one - other, half - other)
    return float(np.sqrt(max(squared, 0.0)) / np.linalg.norm(other))


@claims_from_source("van Meegen & Sompolinsky", "generalisation")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Bias, variance, and of which networks the mean predictor is the lazy one."""
    parameters = parameters_of_run(run, Parameters)
    data = run["drawn"].ds
    split = data["split"]
    names = parameters.activations
    if "linear" in names:
        theory = run["linear"].ds
        of = split.sel(activation="linear", network="features")
        predicted = theory["split"].sel(temperature=parameters.temperature)
        claim(
            "linear-bias",
            "linear: bias on new images is that of theory",
            agree(of.sel(part="bias"), predicted.sel(part="bias"), within=0.03, relative=True),
            headline=True,
        )
        claim(
            "linear-variance",
            "linear: so is the variance",
            agree(
                of.sel(part="variance"),
                predicted.sel(part="variance"),
                within=np.sqrt(10 / parameters.moves / parameters.seeds),  # one over √draws
                relative=True,
            ),
        )
        claim(
            "mean-predictor-limit",
            "linear: the mean predictor of sampled networks approaches that of the lazy network as "
            "T → 0",
            agree(theory["apart"], theory["apart_theory"], within=0.15, relative=True),
            note=f"relative distance {join_numbers(theory['apart'], 2)}",
        )
    others = [name for name in names if name != "linear"]
    if others:
        gap = data["apart"].sel(activation=others)
        claim(
            "lazy-mean-predictor",
            "the mean predictor is identical to the lazy one, whatever the nonlinearity",
            all_below(gap, 0.02),
            wrong="it is only similar: another kernel has been learned",
            instead=all_above(gap, 0.05),
            note=f"relative distance from the nearest, of any σ_a: {join_numbers(gap, 2)}",
        )
    variance = split.sel(part="variance")
    ratio = variance.sel(network=["lazy, σ_a² = 1", "lazy, σ_a² = 1/P"]) / variance.sel(
        network="features"
    )
    claim(
        "lower-variance",
        "variance is reduced, for every nonlinearity",
        all_above(ratio.min("network"), 1.0),
        note="by "
        + join_numbers(ratio.sel(network="lazy, σ_a² = 1/P"), 2)
        + " at the same σ_a; the source does not say which σ_a the lazy network has",
    )
    expected = np.array([[SCHEMES[name]] for name in names])
    claim(
        "codes",
        "codes are those of the toy: " + ", ".join(f"{n} {SCHEMES[n]}" for n in names),
        most_seeds(data["verdict"].values == expected, of="chains"),
        at="coding schemes",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Bias and variance of each network, and how far linear ones are from the lazy one."""
    data = run["drawn"].ds
    figure, axes = panels("Digits: features and lazy networks", 2 + ("linear" in run.children))
    names = data["activation"].values
    at = np.arange(len(names))
    for ax, part in zip(axes, ("bias", "variance"), strict=False):
        for k, network in enumerate(data["network"].values):
            values = data["split"].sel(network=network, part=part)
            label = str(network).replace("σ_a²", "$σ_a^2$")
            ax.plot(at + 0.15 * (k - 1), values, **POINT_STYLE, label=label)
        ax.set_xticks(at, names)
        ax.set_xlim(-0.5, len(names) - 0.5)
    label_axes(axes[0], "neurons", "bias", "bias on new images", legend=None)
    axes[0].set_ylim(0, None)
    words = "neurons", "variance", "variance on new images"
    label_axes(axes[1], *words, yscale="log", legend=None)
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    if "linear" in run.children:
        theory = run["linear"].ds
        axes[2].plot(
            theory["temperature"], theory["apart"], **POINT_STYLE, label="sampled networks"
        )
        axes[2].plot(theory["temperature"], theory["apart_theory"], **THEORY_STYLE, label="N → ∞")
        words = "temperature $T$", "relative distance", "linear: distance to the lazy network"
        label_axes(axes[2], *words, xscale="log", yscale="log")
    return figure
