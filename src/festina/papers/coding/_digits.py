r"""Handwritten digits: bias and variance of feature-learning networks, compared with lazy networks.

Images of a few digits are centred by the mean of the examples and scaled to length √D. Targets are
one-hot. The test error of a network from the posterior is the bias of the mean predictor plus the
variance around it. The lazy network is a Gaussian process with a variance proportional to σ_a², so
it is shown at σ_a² = 1 and at 1/P, the value of the feature-learning network. In the source,
feature-learning and lazy networks have the same mean predictor. The theory confirms this statement
only for linear networks as T → 0. Linear networks are therefore sampled at decreasing T, and the
distance of their mean predictor from that of the lazy network is compared with the theory.
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
_Halves = tuple[np.ndarray, np.ndarray]  # means of two independent sets of samples


class Parameters(BaseParameters):
    """A few digits, a few examples of each, and Markov chains of networks."""

    seeds: int = Field(default=2, ge=1)
    """Number of chains for each activation."""

    digits: Annotated[tuple[int, ...], Field(min_length=2, max_length=10)] = (0, 1, 2)
    """Digits that are the classes."""

    examples: int = Field(default=99, ge=20, le=400)
    """Number P of examples, the same number of each digit."""

    tests: int = Field(default=600, ge=100)
    """Number of test images."""

    activations: tuple[Activation, ...] = ("linear", "erf", "erf-sigmoid", "relu")
    """Activations φ of hidden neurons."""

    width: int = Field(default=300, ge=50)
    """Number N of hidden neurons."""

    temperature: float = Field(default=0.01, gt=0, le=0.1)
    """Temperature T of the posterior."""

    warmer: Annotated[tuple[float, ...], check_decreasing(1.0, 1e-3)] = (0.1, 0.03)
    """Higher temperatures, decreasing, at which linear and lazy networks are compared."""

    moves: int = Field(default=600, ge=100)
    """Number of moves after burn-in; annealing has as many moves, burn-in half as many."""

    def _check(self) -> None:
        if self.examples % len(self.digits):
            raise ValueError(
                f"`examples` must be a multiple of the number of digits, {len(self.digits)}, got "
                f"{self.examples}."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "ten": {"digits": tuple(range(10)), "examples": 100, "activations": ("linear", "erf-sigmoid")}
}
QUICK: dict[str, Any] = {"activations": ("linear", "relu"), "moves": 300}


@make_run("coding/digits")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Sample networks of each kind, and predict test images with them and with lazy networks."""
    keys = keys_from_parameters(parameters, key)
    task, x, wanted = _images(parameters)
    rows, names = list[xr.Dataset](), parameters.activations
    warmer = [each for each in parameters.warmer if each > parameters.temperature]
    warmer = warmer if "linear" in names else []
    count = len(names) + len(warmer)

    def drawn_from(name: str, temperature: float, k: int) -> tuple[Posterior, Predictor, _Halves]:
        """Return sampled networks, their predictor, and the means of two halves of predictions."""
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
        # A lazy network with another σ_a² than 1 and 1/P may have a nearer mean predictor.
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
    """Return the task of the examples, and test images with their targets."""
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
    """Return distances of linear mean predictors, sampled and predicted, from the lazy one."""
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
    """Return |mean − other|/|other|; the mean is given as two halves, so that its noise cancels."""
    squared = np.vdot(one - other, half - other)
    return float(np.sqrt(max(squared, 0.0)) / np.linalg.norm(other))


@claims_from_source("van Meegen & Sompolinsky", "generalisation")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check bias and variance, and which networks have the mean predictor of a lazy network."""
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
            "for linear networks the mean-field theory predicts the bias on test images",
            agree(of.sel(part="bias"), predicted.sel(part="bias"), within=0.03, relative=True),
            headline=True,
        )
        claim(
            "linear-variance",
            "for linear networks the mean-field theory predicts the variance on test images",
            agree(
                of.sel(part="variance"),
                predicted.sel(part="variance"),
                within=np.sqrt(10 / parameters.moves / parameters.seeds),  # 1/√(number of draws)
                relative=True,
            ),
        )
        claim(
            "mean-predictor-limit",
            "the mean predictor of linear networks approaches the predictor of the lazy network as "
            "the temperature falls, at the distance that the theory predicts",
            agree(theory["apart"], theory["apart_theory"], within=0.15, relative=True),
            note=f"relative distances {join_numbers(theory['apart'], 2)}",
        )
    others = [name for name in names if name != "linear"]
    if others:
        gap = data["apart"].sel(activation=others)
        claim(
            "lazy-mean-predictor",
            "feature-learning and lazy networks have the same mean predictor, for any activation",
            all_below(gap, 0.02),
            wrong="nonlinear feature-learning networks learn another kernel than the lazy one, so "
            "mean predictors are only similar",
            instead=all_above(gap, 0.05),
            note="relative distance from the nearest lazy network, of any σ_a: "
            f"{join_numbers(gap, 2)}",
        )
    variance = split.sel(part="variance")
    ratio = variance.sel(network=["lazy, σ_a² = 1", "lazy, σ_a² = 1/P"]) / variance.sel(
        network="features"
    )
    claim(
        "lower-variance",
        "feature-learning networks have less variance than lazy networks, for every activation",
        all_above(ratio.min("network"), 1.0),
        note="variance of the lazy over the feature-learning network, at equal σ_a: "
        + join_numbers(ratio.sel(network="lazy, σ_a² = 1/P"), 2)
        + "; the source does not give σ_a of the lazy network",
    )
    expected = np.array([[SCHEMES[name]] for name in names])
    claim(
        "codes",
        "digits have the same codes as classes of orthogonal inputs: "
        + ", ".join(f"{n} {SCHEMES[n]}" for n in names),
        most_seeds(data["verdict"].values == expected, of="chains"),
        at="coding schemes",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot bias and variance of each network, and the distance of linear from lazy networks."""
    data = run["drawn"].ds
    figure, axes = panels(
        "Digits: feature-learning and lazy networks", 2 + ("linear" in run.children)
    )
    names = data["activation"].values
    at = np.arange(len(names))
    for ax, part in zip(axes, ("bias", "variance"), strict=False):
        for k, network in enumerate(data["network"].values):
            values = data["split"].sel(network=network, part=part)
            label = str(network).replace("σ_a²", "$σ_a^2$").replace("features", "feature-learning")
            ax.plot(at + 0.15 * (k - 1), values, **POINT_STYLE, label=label)
        ax.set_xticks(at, names)
        ax.set_xlim(-0.5, len(names) - 0.5)
    label_axes(axes[0], "activation", "bias", "bias on test images", legend=None)
    axes[0].set_ylim(0, None)
    words = "activation", "variance", "variance on test images"
    label_axes(axes[1], *words, yscale="log", legend=None)
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    if "linear" in run.children:
        theory = run["linear"].ds
        axes[2].plot(
            theory["temperature"], theory["apart"], **POINT_STYLE, label="sampled networks"
        )
        axes[2].plot(
            theory["temperature"], theory["apart_theory"], **THEORY_STYLE, label="theory, N → ∞"
        )
        words = "temperature $T$", "relative distance", "linear: distance to the lazy network"
        label_axes(axes[2], *words, xscale="log", yscale="log")
    return figure
