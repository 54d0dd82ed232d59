r"""Delayed rich learning: the loss drops at once, and features are learned long afterwards.

Inputs are white. The loss is ½⟨‖y − W₂W₁x‖²⟩, with τ Ẇ = −∂L/∂W, τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. The
network is a funnel with more inputs than hidden units and outputs. The first layer has the larger
weights (λ < 0). The hidden units see only a subspace of the inputs, with projector P(0). In a time
of order 1/|λ| the second layer learns the part of Σ in this subspace, and the loss reaches a
plateau at ½‖Σ(1 − P)‖². The subspace turns on the longer time scale |λ|/s²: P(t) is the projector
on e^{ΣᵀΣ t/|λ|} P(0).
"""

from typing import Annotated

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ....diagnose import distance_between_kernels, neural_tangent_kernel, passage_time
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    follows_power_law,
    max_error_below,
)
from ....experiments.figures import (
    POINT_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ....networks import DeepLinear
from ....tasks import from_moments
from ....theory.linear import balanced_flow
from ._shapes import WIDEST, Modes, generators, random_networks, stacked, train

_SAMPLES = 161
_SLOW = np.geomspace(1e-4, 1e2, 601)
"""Times of the slow dynamics, in units of |λ|/s² with the smallest singular value s."""


class Parameters(BaseParameters):
    """Parameters of funnels with larger weights in the first layer than in the second."""

    seeds: int = Field(default=6, ge=1)
    """Number of random networks that are trained for each balance."""

    balances: Annotated[tuple[float, ...], check_increasing(-WIDEST, WIDEST)] = (5.0, 20.0, 80.0)
    """Sizes −λ of the negative balance, increasing; larger for larger first-layer weights."""

    singular_values: Modes = (1.4, 1.2, 1.0)
    """Singular values of the task, as many as hidden units and outputs."""

    inputs: int = Field(default=6, ge=2, le=32)
    """Number of inputs, above the number of singular values."""

    scale: float = Field(default=0.05, gt=0, le=0.3)
    """Standard deviation of two Gaussian layers whose product is the initial map."""

    def _check(self) -> None:
        s, lam = self.singular_values, self.balances
        if self.inputs <= len(s):
            raise ValueError(
                f"`inputs` must be above the number of singular values, {len(s)}, got "
                f"{self.inputs}. Delayed rich learning with a larger first layer needs more inputs "
                "than hidden units."
            )
        least = max(s), 10 * max(s), 2 * lam[-2]
        if any(a < b for a, b in zip((lam[0], *lam[-2:]), least, strict=True)):
            raise ValueError(
                f"`balances` must start at the largest singular value {max(s):g} or above. The two "
                f"largest must be at least ten times this value and a factor of two apart. Got "
                f"{lam}."
            )
        if lam[-1] > 150 * min(s):
            raise ValueError(
                f"`balances` must not exceed 150 times the smallest singular value {min(s):g}, but "
                f"the largest is {lam[-1]:g}: training would take too long."
            )


@make_run("linear/delayed-rich")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train at each balance from the same maps, and evaluate the exact solution."""
    s, balances = np.asarray(parameters.singular_values), parameters.balances
    sizes = (parameters.inputs, len(s), len(s))
    correlation = np.eye(len(s), parameters.inputs) * s[:, None]
    networks = [
        random_networks(sizes, [-lam for lam in balances], parameters.scale, rng)
        for rng in generators(parameters.seeds, parameters.seed, key)
    ]
    first, second = stacked(networks).weights
    tables: list[xr.Dataset] = []
    for index, balance in enumerate(balances):
        progress(f"training networks with λ = −{balance:g}", index / len(balances))
        network = DeepLinear((first[index], second[index]))
        tables.append(_one_balance(network, correlation, balance))
    directions = np.linalg.qr(first[-1].swapaxes(-1, -2))[0]
    start = np.linalg.norm(second[-1] @ first[-1], 2, axis=(-2, -1)).max()
    return {
        "curves": xr.concat(tables, xr.Variable("balance", list(balances))),
        "slow": _slow_law(directions, correlation).assign_attrs(unlearned=float(s.max() + start)),
    }


def _one_balance(network: DeepLinear, correlation: np.ndarray, balance: float) -> xr.Dataset:
    """Return loss and kernel distance over a logarithmic grid of times."""
    weakest = np.linalg.svd(correlation, compute_uv=False).min()
    end = 10 * balance / weakest**2
    times = np.concatenate([[0.0], np.geomspace(1e-2 / balance, end, _SAMPLES)])
    trained = train(network, correlation, times, rtol=1e-10)
    kernels = neural_tangent_kernel(trained, np.eye(correlation.shape[1]))
    exact = balanced_flow(network, from_moments(correlation), balance=-balance)(times)
    error = correlation - np.asarray(trained.end_to_end())
    dims = ("seed", "sample")
    return xr.Dataset(
        {
            "time": ("sample", times, {"long_name": "time in units of τ"}),
            "loss": (dims, (error**2).sum((-2, -1)) / 2),
            "kernel_distance": (
                dims,
                np.asarray(distance_between_kernels(kernels[:, :1], kernels)),
            ),
            "loss_theory": (dims, exact.loss()),
            "kernel_theory": (dims, exact.kernel_distance()),
        }
    )


def _slow_law(directions: np.ndarray, correlation: np.ndarray) -> xr.Dataset:
    """Return the plateau and the slow kernel dynamics for large |λ|, in units of |λ|."""
    s = np.linalg.svd(correlation, compute_uv=False)
    times = _SLOW / s.min() ** 2
    rates, axes = np.linalg.eigh(correlation.T @ correlation)
    # Growth relative to the fastest direction avoids overflow.
    grown = np.exp((rates - rates.max()) * times[:, None])[:, :, None]
    turned = np.linalg.qr(axes @ (grown * (axes.T @ directions[:, None])))[0]
    overlap = ((directions[:, None].swapaxes(-1, -2) @ turned) ** 2).sum((-2, -1))
    distance = 1 - overlap / directions.shape[-1]
    start = directions @ directions.swapaxes(-1, -2)
    beyond = correlation @ (np.eye(len(rates)) - start)
    return xr.Dataset(
        {
            "kernel_distance": (("seed", "time"), distance),
            "plateau": ("seed", (beyond**2).sum((-2, -1)) / 2),
        },
        {"time": ("time", times, {"long_name": "time in units of |λ|τ"})},
    )


def _half_times(curves: xr.Dataset, slow: xr.Dataset) -> tuple[xr.DataArray, ...]:
    """Return when the loss is halfway to its plateau and when the kernel has half changed.

    The half-change time of the kernel is measured in training, and predicted by the slow dynamics
    in units of |λ|. All times are given for every network.
    """

    def when(time: xr.DataArray, values: xr.DataArray, level: xr.DataArray) -> xr.DataArray:
        core = [time.dims[-1:], time.dims[-1:], []]
        given = time, values, level
        return xr.apply_ufunc(passage_time, *given, input_core_dims=core, vectorize=True)

    loss, moved, slowly = curves["loss"], -curves["kernel_distance"], -slow["kernel_distance"]
    return (
        when(curves["time"], loss, (loss.isel(sample=0) + slow["plateau"]) / 2),
        when(curves["time"], moved, moved.isel(sample=-1) / 2),
        when(slow["time"], slowly, slowly.isel(time=-1, drop=True) / 2),
    )


@claims_from_source("Saxe, slides", "“Delayed rich regime”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the exact solution, the two time scales, and the plateau between them."""
    curves, slow = run["curves"].ds, run["slow"].ds
    for name, words, trained in (
        ("loss", "the loss", "loss"),
        ("kernel", "the distance of the tangent kernel from its start", "kernel_distance"),
    ):
        off = max_error_below(curves[trained], curves[f"{name}_theory"], within=1e-6)
        claim(
            f"{name}-exact-solution",
            f"{words} follows the exact solution for every balance λ and seed",
            off,
        )
    drop, turn, slowly = _half_times(curves, slow)
    lam, last = curves["balance"].values, curves.isel(balance=-1)
    # The limit of large |λ| neglects terms of order (s/λ)². Here s is the size of the task plus
    # that of the part of the initial map that the task does not contain.
    before, there = 8 * (slow.attrs["unlearned"] / lam[-2:]) ** 2
    for name, words, times, power in (
        ("loss", "the loss drops after a time proportional to 1/|λ|", drop, -1.0),
        ("kernel", "the tangent kernel changes after a time proportional to |λ|", turn, 1.0),
    ):
        middle = times.median("seed")[-2:]
        law = follows_power_law(lam[-2:], middle, power, within=0.02 + before)
        claim(f"{name}-power-law", f"{words} (exponent of |λ|, median over seeds)", law)
    near, at_largest = {"within": 0.02 + there, "relative": True}, "at the largest |λ|"
    claim(
        "loss-half-time",
        "the loss is halfway to its plateau at the time ln 2/(2|λ|) (median time × |λ|)",
        agree(lam[-1] * drop[-1].median(), np.log(2) / 2, **near),
        note=f"{at_largest}: the second layer relaxes at the rate |λ|",
    )
    # Ten relaxation times after the start, before the subspace has turned.
    loss = last["loss"].transpose("seed", "sample").values
    height = np.array([np.interp(5 / lam[-1], last["time"], each) for each in loss])
    claim(
        "plateau-height",
        "the plateau loss is ½‖Σ(1 − P)‖², the part of the task Σ outside the subspace P that "
        "hidden units see (each seed)",
        agree(height / loss[:, 0], slow["plateau"] / loss[:, 0], within=0.01 + there),
        note=f"as a fraction of the initial loss, {at_largest}",
    )
    claim(
        "kernel-half-time",
        "the slow dynamics predicts the time at which the tangent kernel has half changed (time "
        "over |λ|, each seed)",
        agree(turn[-1] / lam[-1], slowly, **near),
        note=f"{at_largest}; modes outgrow other directions at the rate S_λ − |λ|/2 ≈ s²/|λ|",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot one seed over time for each λ, and the half times of all seeds against |λ|."""
    curves, lam = run["curves"].ds, run["curves"].ds["balance"].values
    title = "The loss drops at once, the features are learned much later"
    figure, (loss, kernel, times) = panels(title, 3, width=3.33, height=3.2)
    for balance, shade, label in shades(lam):
        one = curves.sel(balance=balance).isel(seed=0)
        start, one = float(one["loss"][0]), one.isel(sample=slice(1, None))
        fall = one["loss"] / start, one["loss_theory"] / start
        draw_pair(loss, one["time"], *fall, color=shade, label=f"$-${label}")
        draw_pair(kernel, one["time"], one["kernel_distance"], one["kernel_theory"], color=shade)
    clock = {"xscale": "log", "ylim": (0, None)}
    words = "time $t/τ$", "loss over initial loss", "loss, one network"
    label_axes(loss, *words, legend="upper right", legend_title="$λ$", **clock)
    draw_pair(kernel, [], [], color="0.6", alpha=0.5, label="training")
    words = "time $t/τ$", "kernel distance from start", "tangent kernel, the same network"
    label_axes(kernel, *words, theory="exact solution", legend="upper left", **clock)
    drop, turn, slowly = _half_times(curves, run["slow"].ds)
    span = np.array([lam[0] / 1.5, lam[-1] * 1.5])
    for values, law, color, y, words in (
        (turn, float(slowly.median()) * span, "C3", 0.93, "kernel half changed, $∝|λ|$"),
        (drop, np.log(2) / 2 / span, "C0", 0.03, "loss half dropped, $∝1/|λ|$"),
    ):
        values = values.transpose("balance", "seed")
        times.plot(lam, values, **POINT_STYLE, color=color, alpha=0.35)
        times.plot(span, law, **THEORY_STYLE)
        times.text(0.03, y, words, color=color, transform=times.transAxes)
    scales = {"xscale": "log", "yscale": "log"}
    words = "balance $|λ|$", "time $t/τ$", "two times, every network"
    label_axes(times, *words, theory="limit of large $|λ|$", legend="center right", **scales)
    times.set_xticks(lam, [f"{balance:g}" for balance in lam])
    times.minorticks_off()
    return figure
