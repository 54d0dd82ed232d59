r"""Three codes: the code of a Bayesian network depends on the activation of its hidden neurons.

Inputs of all classes are orthogonal (K₀ = 1). The network is f = N⁻¹ Σᵢ aᵢ φ(zᵢ) with Gaussian
priors, σ_a² = 1/P for P examples, and its posterior has temperature T/N. In the source, linear
neurons have an analog code, sigmoidal neurons a redundant code, and ReLU neurons a sparse code. The
theory is the mean-field distribution of a neuron for N → ∞, see `festina.theory.coding`. Weights
are sampled by Hamiltonian Monte Carlo, in chains that are annealed from the prior. The codewords
also depend on y₋, the target of an output for examples of other classes.
"""

from typing import Annotated, Any, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import coding_scheme
from ...dynamics.posterior import Posterior, sample
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run, part_of
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    equal_to,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import THEORY_STYLE, label_axes, panels, styled
from ...tasks import orthogonal_inputs
from ...theory.coding import ClassificationCode, classification_code, targets_per_class

SCHEMES = {"linear": "analog", "erf": "redundant", "erf-sigmoid": "redundant", "relu": "sparse"}
_MIXED = ("loss", "potential", "trace_U")
_SPOKEN = 0.02
"""Smallest share of neurons for a codeword to count; rarer codewords stem from annealing."""

Activation = Literal["linear", "erf", "erf-sigmoid", "relu"]


class Parameters(BaseParameters):
    """Three classes of orthogonal inputs, and Markov chains of networks."""

    seeds: int = Field(default=2, ge=2)
    """Number of chains for each activation and each y₋."""

    activations: tuple[Activation, ...] = ("linear", "erf", "erf-sigmoid", "relu")
    """Activations φ of hidden neurons."""

    sizes: Annotated[tuple[int, ...], Field(min_length=3, max_length=3)] = (20, 20, 20)
    """Number of examples of each of the three classes."""

    others: tuple[float, ...] = (0.0, -0.5)
    """Values of y₋, the target of an output for other classes; for its own class it is y₊ = 1."""

    width: int = Field(default=200, ge=50)
    """Number N of hidden neurons."""

    temperature: float = Field(default=0.01, gt=0, le=0.1)
    """Temperature T of the posterior."""

    anneal: int = Field(default=800, ge=100)
    """Number of moves in which a chain is annealed from the prior."""

    moves: int = Field(default=800, ge=100)
    """Number of moves after burn-in. Every tenth is kept; burn-in has half as many moves."""


_THREE: dict[str, Any] = {"activations": ("linear", "erf-sigmoid", "relu"), "others": (0.0,)}
# Outliers of wide ReLU networks exchange their shares slowly, so chains must be longer.
PRESETS: dict[str, dict[str, Any]] = {"wide": {**_THREE, "width": 500, "moves": 1600}}
QUICK: dict[str, Any] = _THREE


@make_run("coding/schemes")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Sample networks of each kind, and solve the mean-field theory."""
    keys, tables = keys_from_parameters(parameters, key), {}
    cases = [(name, other) for other in parameters.others for name in parameters.activations]
    for k, (name, other) in enumerate(cases):
        task = orthogonal_inputs(parameters.sizes, other=other)
        drawn = sample(
            task,
            width=parameters.width,
            temperature=parameters.temperature,
            activation=name,
            chains=parameters.seeds,
            anneal=parameters.anneal,
            burn=parameters.moves // 2,
            moves=parameters.moves,
            precision="single",
            progress=part_of(progress, k / len(cases), 1 / len(cases)),
            key=jax.random.fold_in(keys[0], k),
        )
        theory = classification_code(
            [*parameters.sizes],
            name,
            temperature=parameters.temperature,
            targets=targets_per_class(3, other=other),
        )
        tables[_name(name, other)] = _table(drawn, theory, np.asarray(task.labels["class"]))
    return tables


def _name(activation: str, other: float) -> str:
    return f"{activation}_{'onehot' if other == 0 else f'{other:g}'.replace('.', '_')}"


def _table(drawn: Posterior, theory: ClassificationCode, which: np.ndarray) -> xr.Dataset:
    """Return averages over samples, by chain, beside the predictions of the theory."""
    seen, activity = drawn.seen, drawn.activity()
    spoken = drawn.populations
    predicted = {b.word: b.share for b in theory.populations if len(theory.populations) > 1}
    words = sorted({*spoken.words, *predicted})
    shares = dict(zip(spoken.words, spoken.shares.mean(axis=0), strict=True))
    checked = drawn.diagnostics()
    outlying = theory.readout_variance * theory.sizes[:, None] * theory.condensed[:, None]
    last = activity[:, -1]
    values = np.linspace(*_range(drawn.readout[:, -1, 0]), 400)
    return xr.Dataset(
        {
            "kernel": (("chain", "group", "other"), _blocks(seen.kernels[0], which)),
            "kernel_theory": (("group", "other"), theory.kernel),
            "readout_moment": (("output", "other_output"), seen.readout_covariance.mean((0, 1))),
            "readout_moment_theory": (("output", "other_output"), theory.readout_moment),
            "outputs": (("group", "output"), _mean(seen.outputs.mean((0, 1)), which)),
            "outputs_theory": (("group", "output"), theory.outputs),
            "rhat": ("observable", [checked.rhat[name] for name in _MIXED]),
            "frozen": ((), spoken.frozen),
            "share": ("word", [shares.get(word, 0.0) for word in words]),
            "share_theory": ("word", [predicted.get(word, 0.0) for word in words]),
            "verdict": ("chain", [coding_scheme(one, which).verdict for one in last]),
            "condensed": (("group", "output"), _condensed(drawn, last, which)),
            "condensed_theory": (("group", "output"), outlying * theory.dual),
            "activity": (("sample", "unit"), last[0]),
            "readout": (("output", "unit"), drawn.readout[0, -1]),
            "density": ("value", theory.marginal(values)),
            "outlier_theory": ("group", theory.outliers(drawn.model.width)[:, 0]),
        },
        {
            "word": words,
            "observable": list(_MIXED),
            "chain": np.arange(len(last)),
            "value": ("value", values, {"long_name": "readout to the first output"}),
        },
    )


def _range(values: np.ndarray) -> tuple[float, float]:
    middle = np.percentile(values, [2, 98])  # without outliers, which are not part of the density
    return float(middle[0] - np.ptp(middle) / 2), float(middle[1] + np.ptp(middle) / 2)


def _mean(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    return np.stack([values[which == c].mean(axis=0) for c in range(which.max() + 1)])


def _blocks(
    kernels: Float[np.ndarray, "chain draw sample sample"], which: np.ndarray
) -> Float[np.ndarray, "chain group other"]:
    """Return the mean kernel of different examples, for each pair of classes."""
    one = which == np.arange(which.max() + 1)[:, None]
    pairs = one[:, None, :, None] & one[None, :, None, :] & ~np.eye(len(which), dtype=bool)
    return np.einsum("cpq,ghpq->cgh", kernels.mean(axis=1), pairs) / pairs.sum((-1, -2))


def contrast(
    kernels: Float[np.ndarray, "chain draw sample sample"], which: np.ndarray
) -> tuple[Float[np.ndarray, " chain"], Float[np.ndarray, " chain"]]:
    """Return the mean kernel within classes, and its contrast: within minus between classes."""
    kernel, alike = kernels.mean(axis=1), which[:, None] == which
    within = kernel[:, alike & ~np.eye(len(which), dtype=bool)].mean(axis=1)
    return within, within - kernel[:, ~alike].mean(axis=1)


def _condensed(
    drawn: Posterior, activity: Float[np.ndarray, "chain sample unit"], which: np.ndarray
) -> Float[np.ndarray, "group output"]:
    """Return the contribution of outliers to the outputs of each class, in the last draws."""
    means = np.stack([_mean(one, which) for one in activity])
    size = np.abs(means).max(axis=1)
    median = np.median(size, axis=-1, keepdims=True)
    out = size > median + 8 * np.median(np.abs(size - median), axis=-1, keepdims=True)
    said = np.einsum("cgu,cou,cu->go", means, drawn.readout[:, -1], out)
    return said / (len(activity) * activity.shape[-1])


@claims_from_source("van Meegen & Sompolinsky", "coding schemes")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the code of each activation, and compare samples with the theory."""
    parameters = parameters_of_run(run, Parameters)
    tables = {
        (name, other): run[_name(name, other)].ds
        for other in parameters.others
        for name in parameters.activations
    }
    for name in parameters.activations:
        own = [tables[name, other] for other in parameters.others]
        claim(
            f"{name}-code",
            f"the code of {name} neurons is {SCHEMES[name]}",
            most_seeds(
                [v == SCHEMES[name] for data in own for v in data["verdict"].values], of="chains"
            ),
            headline=name == parameters.activations[-1],
            note="classified by `festina.diagnose.coding_scheme`, in the last draw of each chain",
        )
    near = 200 / parameters.width  # corrections are of order 1/N
    for (name, other), data in tables.items():
        off = abs(data["kernel"].mean("chain") - data["kernel_theory"]).max()
        frozen = bool(data["frozen"]) and name in ("erf", "erf-sigmoid") and len(data["word"]) > 3
        claim(
            f"{name}-kernels",
            f"the mean-field theory, N → ∞, predicts the kernels of networks of {name} neurons",
            all_below(off, (0.03 if frozen else 0.018) * near),
            at="mean-field theory",
            note="annealing freezes the populations of neurons by codeword" if frozen else "",
            case=f"y₋ = {other:g}",
        )
        claim(
            f"{name}-outputs",
            f"the mean-field theory, N → ∞, predicts the outputs of networks of {name} neurons",
            max_error_below(data["outputs"], data["outputs_theory"], within=0.004 * near),
            at="mean-field theory",
            case=f"y₋ = {other:g}",
        )
        predicted = data["word"].values[data["share_theory"].values > 1e-3]
        if len(predicted) > 1:
            found = data["word"].values[data["share"].values > _SPOKEN]
            claim(
                f"{name}-words",
                f"{name} neurons have the codewords that the mean-field theory predicts",
                equal_to(sorted(found.tolist()), sorted(predicted.tolist())),
                at="coding schemes",
                case=f"y₋ = {other:g}",
            )
        if name == "relu":
            seen, theory = (np.diag(data[v]) for v in ("condensed", "condensed_theory"))
            claim(
                "relu-outliers",
                "outlier neurons of ReLU networks contribute κ_c q_c t_c to the output for their "
                "own class c",
                agree(seen, theory, within=0.05 * max(near, 1), relative=True),
                at="sparse coding",
                note="κ_c is the readout variance times the class size, q_c the kernel of "
                "outliers, t_c the dual variable; the theory does not fix the number of outliers",
                case=f"y₋ = {other:g}",
            )
    if parameters.moves >= 800:  # shorter chains are too noisy for R-hat
        rhat = [
            data["rhat"].drop_sel(observable=["potential"] * bool(data["frozen"])).values
            for data in tables.values()
        ]
        claim(
            "agreeing-chains",
            "chains have converged: loss, trace of the readout covariance and, unless codewords "
            "are frozen, the potential agree between chains (R-hat)",
            all_below(np.concatenate(rhat), 1.05),
            at="equilibrium",
        )
    if {"erf", "erf-sigmoid"} & {*parameters.activations} and len(parameters.others) > 1:
        name = "erf-sigmoid" if "erf-sigmoid" in parameters.activations else "erf"
        counts = [
            int((tables[name, other]["share"] > _SPOKEN).sum()) for other in parameters.others
        ]
        claim(
            f"{name}-words-whatever-targets",
            f"{name} neurons have the same number of codewords for any targets y₋ of other classes",
            equal_to(len({*counts}), 1),
            wrong=f"the number of codewords depends on y₋: {' and '.join(map(str, counts))}",
            instead=all_above(len({*counts}), 1),
        )


def _colors(values: np.ndarray) -> dict[str, Any]:
    """Return a colour map and scale for an image of `values`.

    The map is diverging if `values` have both signs. The scale is logarithmic at the top if a few
    values are much larger than the rest.
    """
    most_of, top = np.percentile(np.abs(values), 99), np.abs(values).max()
    low = -top if values.min() < -0.02 * top else 0.0
    if most_of > 0.3 * top:
        scale = Normalize(low, top)
    else:
        scale = SymLogNorm(linthresh=most_of, linscale=2.0, vmin=low, vmax=top)
    return {"cmap": "RdBu_r" if low else "viridis", "norm": scale, "interpolation": "nearest"}


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot sorted activity, readouts and kernels, in a column per activation."""
    parameters = parameters_of_run(run, Parameters)
    names, other = parameters.activations, parameters.others[0]
    title = "The activation decides the code"
    size = {"width": 3.2, "height": 2.2}
    figure, rows = panels(title, len(names), 3, squeeze=False, **size)
    ends = np.cumsum(parameters.sizes)
    for k, (name, (shown, readout, kernel)) in enumerate(zip(names, rows.T, strict=True)):
        data, first = run[_name(name, other)].ds, k == 0
        h = data["activity"].values
        means = _mean(h, np.repeat(np.arange(3), parameters.sizes))
        order = np.lexsort([means[-1], *means.round()])  # by codeword, then by size
        seen = f"all {len(order)}"
        if name == "relu":  # outliers first, wide enough to be seen
            order = np.argsort(-np.ptp(means, axis=0))[: max(20, len(order) // 5)]
            seen = f"{len(order)} of {len(means.T)}"
        picture = shown.imshow(h[:, order], aspect="auto", **_colors(h))
        figure.colorbar(picture, ax=shown, label="activity")
        words = f"neuron, sorted ({seen})", "example, by class" * first, f"{name}: {SCHEMES[name]}"
        label_axes(shown, *words)
        for end in ends[:-1]:
            shown.axhline(end - 0.5, color="white", lw=0.7)
        values = data["readout"][0].values
        out = data["outlier_theory"].values[data["outlier_theory"].values != 0]
        spots = np.concatenate([values, out])
        bins = np.linspace(spots.min() - 0.3, spots.max() + 0.3, 50)
        readout.hist(values, bins, density=True, alpha=0.5, label="sampled neurons", gid="training")
        readout.plot(data["value"], data["density"], **THEORY_STYLE, label="theory, N → ∞")
        least = 0.5 / (len(values) * (bins[1] - bins[0]))  # density of half a neuron in a bin
        readout.plot(out, np.full(len(out), 2 * least), "kv", ms=4, label="predicted outliers")
        above_all = 3 * float(data["density"].max())
        label_axes(readout, "readout $a_1$", "density" * first, yscale="log", legend=None)
        readout.set_ylim(least, above_all)
        blocks = [data["kernel"].mean("chain").values, data["kernel_theory"].values]
        colors = _colors(np.concatenate(blocks))
        both = kernel.imshow(
            np.concatenate([blocks[0], np.full((3, 1), np.nan), blocks[1]], axis=1), **colors
        )
        figure.colorbar(both, ax=kernel, label="kernel")
        kernel.set_xticks([1, 5], ["samples", "theory"])
        kernel.set_yticks(range(3), ["1", "2", "3"])
        label_axes(kernel, "kernel between classes", "class" * first)
    handles = {
        label: handle
        for ax in rows[1]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend([*handles.values()], [*handles], loc="outside upper right", ncols=3)
    return figure
