r"""Codes against temperature: how a code fades, and at which temperature it disappears.

Classes have orthogonal inputs, as in `coding/schemes`, and the temperature T varies. The contrast
is the mean kernel within classes minus the mean kernel between classes. As T falls, codes of
saturating neurons appear near T_c = (y₊ − y₋) σ_a √(n_c Var φ), where the distribution of readouts
becomes unstable. At finite P and N → ∞ this transition is a smooth crossover. ReLU neurons condense
into outliers at a temperature that the theory gives exactly. Readouts of sampled networks show the
crossover: above T_c they are Gaussian (kurtosis 3), below T_c they cluster at the readouts of three
codewords (kurtosis 1.5).
"""

from typing import Annotated, Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import coding_scheme
from ...dynamics.posterior import sample
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run, part_of
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_increasing
from ...experiments.claims import (
    ClaimCollector,
    claims_from_source,
    decreasing,
    equal_to,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    THEORY_STYLE,
    label_axes,
    panels,
    styled,
)
from ...tasks import orthogonal_inputs
from ...theory.coding import temperature_sweep
from ._schemes import Activation, contrast

_FINE = 25
"""Number of temperatures on the curve of the theory."""

_CLEAR = 1.2
"""Factor by which a temperature must differ from T_c to count as below or above T_c."""

_BETWEEN = (1.5 + 3.0) / 2
"""Kurtosis halfway between the values of three codewords and of a Gaussian distribution."""


class Parameters(BaseParameters):
    """Three classes of orthogonal inputs, and networks at several temperatures."""

    seeds: int = Field(default=2, ge=1)
    """Number of chains for each activation and temperature."""

    activations: tuple[Activation, ...] = ("linear", "erf-sigmoid", "relu")
    """Activations φ of hidden neurons."""

    temperatures: Annotated[tuple[float, ...], check_increasing(1e-3, 2.0)] = (
        0.01,
        0.06,
        0.15,
        0.3,
        0.6,
    )
    """Temperatures T of the posterior, increasing."""

    size: int = Field(default=20, ge=18)
    """Number of examples of each of the three classes."""

    width: int = Field(default=200, ge=50)
    """Number N of hidden neurons."""

    moves: int = Field(default=400, ge=100)
    """Number of moves after burn-in; annealing and burn-in each have as many moves."""


QUICK: dict[str, Any] = {"activations": ("erf-sigmoid",), "temperatures": (0.03, 0.15, 0.3)}


@make_run("coding/temperature")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Sample networks at each temperature, and solve the mean-field theory on a finer grid."""
    keys, tables = keys_from_parameters(parameters, key), {}
    sizes, warm = [parameters.size] * 3, np.array(parameters.temperatures)
    task, which = orthogonal_inputs(sizes), np.repeat(np.arange(3), parameters.size)
    total = len(parameters.activations) * len(warm)
    fine = np.linspace(warm[0], warm[-1], _FINE)
    for j, name in enumerate(parameters.activations):
        seen, verdicts = [], []
        for k, temperature in enumerate(warm):
            drawn = sample(
                task,
                width=parameters.width,
                temperature=float(temperature),
                activation=name,
                chains=parameters.seeds,
                anneal=parameters.moves,
                burn=parameters.moves,
                moves=parameters.moves,
                precision="single",
                progress=part_of(progress, (j * len(warm) + k) / total, 1 / total),
                key=jax.random.fold_in(keys[0], 100 * j + k),
            )
            output = drawn.seen.outputs.mean(axis=1)[:, np.arange(len(which)), which].mean(axis=1)
            kernel = contrast(drawn.seen.kernels[0], which)
            seen.append([*kernel, output, _kurtosis(drawn.readout)])
            verdicts.append([coding_scheme(one, which).verdict for one in drawn.activity()[:, -1]])
        theory, drawn_line = (
            temperature_sweep(sizes, name, temperatures=each) for each in (warm, fine)
        )
        over = ("temperature", "chain")
        tables[name] = xr.Dataset(
            {
                **{
                    what: (over, np.array(seen)[:, i])
                    for i, what in enumerate(("within", "contrast", "output", "kurtosis"))
                },
                "within_theory": ("temperature", [c.kernel[0, 0] for c in theory.codes]),
                "contrast_theory": ("temperature", theory.contrast),
                "output_theory": ("temperature", [c.outputs[0, 0] for c in theory.codes]),
                "verdict": (over, verdicts),
                "line": ("fine", drawn_line.contrast),
                "crossover": ((), theory.crossover),
            },
            {"temperature": ("temperature", warm, {"long_name": "temperature T"}), "fine": fine},
        )
    return tables


def _kurtosis(readout: Float[np.ndarray, "chain draw output unit"]) -> Float[np.ndarray, " chain"]:
    """Return the kurtosis of readouts minus their mean over outputs, averaged over outputs."""
    off = readout - readout.mean(axis=2, keepdims=True)
    return ((off**4).mean(axis=(1, 3)) / (off**2).mean(axis=(1, 3)) ** 2).mean(axis=1)


@claims_from_source("van Meegen & Sompolinsky", "temperature")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Compare samples with the theory at every temperature, and check where codes disappear."""
    parameters = parameters_of_run(run, Parameters)
    near = 200 / parameters.width  # corrections are of order 1/N
    for name in parameters.activations:
        data = run[name].ds
        seen = data[["contrast", "output"]].mean("chain")
        claim(
            f"{name}-contrast",
            f"for {name} neurons the mean-field theory predicts the contrast of the kernel, within "
            "minus between classes, at every temperature",
            max_error_below(seen["contrast"], data["contrast_theory"], within=0.02 * near),
            note=f"theory: {join_numbers(data['contrast_theory'], 3)}",
            headline=name == "erf-sigmoid",
        )
        claim(
            f"{name}-outputs",
            f"for {name} neurons the mean-field theory predicts the output for the class of the "
            "example at every temperature",
            max_error_below(seen["output"], data["output_theory"], within=0.006 * near),
        )
        claim(
            f"{name}-fades",
            f"the code of {name} neurons fades with temperature: the contrast of the kernel falls",
            decreasing(seen["contrast"]),
        )
        gone = 1.5 * float(data["crossover"])
        warm = data["temperature"].values > gone
        if warm.any() and name != "linear":
            claim(
                f"{name}-above-crossover",
                f"{name} neurons have no code above the crossover temperature T_c",
                equal_to(sorted({*data["verdict"].values[warm].ravel().tolist()}), ["none"]),
                note=f"classified by `festina.diagnose.coding_scheme`, above 1.5 T_c = {gone:.3g}",
            )
        if name == "erf-sigmoid":
            ratio = data["temperature"].values * 1.5 / gone
            clear = np.maximum(ratio, 1 / ratio) > _CLEAR
            kurtosis = data["kurtosis"].values[clear]
            claim(
                "erf-sigmoid-symmetry-breaking",
                "the symmetry between erf-sigmoid neurons breaks near the crossover temperature "
                "T_c: readouts cluster at codewords below T_c and are Gaussian above",
                most_seeds((kurtosis < _BETWEEN) == (ratio < 1)[clear, None], of="chains"),
                at="symmetry breaking",
                note="kurtosis of readouts in sampled networks: "
                f"{join_numbers(data['kurtosis'].mean('chain'), 3)}",
            )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the contrast of the kernel against temperature."""
    names = parameters_of_run(run, Parameters).activations
    figure, columns = panels("Codes fade with temperature", len(names), squeeze=False)
    for name, ax in zip(names, columns[0], strict=True):
        data = run[name].ds
        flat = data["contrast"].stack(draw=("temperature", "chain"))
        ax.plot(flat["temperature"], flat, **POINT_STYLE, label="sampled networks")
        ax.plot(data["fine"], data["line"], **THEORY_STYLE)
        ax.axvline(
            float(data["crossover"]), **{**GUIDE_STYLE, "color": "0.6"}, label="crossover $T_c$"
        )
        first = name == names[0]
        words = "temperature $T$", "mean kernel within − between classes" * first, name
        label_axes(ax, *words, theory="theory, N → ∞", legend="upper right" if first else None)
    return figure
