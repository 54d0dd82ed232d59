"""Figure 2A: more units hardly speed up a linear network but shorten the plateaus of attention."""

from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    all_below,
    claims_from_source,
    decreasing,
    join_numbers,
    mean_agrees,
)
from ....experiments.figures import styled
from ._models import ATTENTION, DIRECTIONS, LINEAR, MODELS, STAIRS, draw_pair, spectrum, stay, sweep


class Parameters(BaseParameters):
    """Parameters of Figure 2A (paper: Section 6, without initial scales and learning rates)."""

    kappa: float = Field(default=1.0, ge=0.75, le=3)
    """Exponent κ of the power law s_n ∝ n^(−κ) of singular values."""

    linear_widths: Annotated[tuple[int, ...], check_increasing(DIRECTIONS)] = (3, 10, 100, 1000)
    """Numbers of hidden units H of the linear network, increasing."""

    attention_widths: Annotated[tuple[int, ...], check_increasing(DIRECTIONS)] = (5, 25, 100, 400)
    """Numbers of heads H of linear attention, increasing."""

    linear_scale: float = Field(default=1e-6, gt=0, le=1e-5)
    """Standard deviation ε of the initial weights of the linear network."""

    attention_scale: float = Field(default=5e-3, gt=0, le=0.01)
    """Standard deviation ε of the initial weights of linear attention."""


QUICK: dict[str, Any] = {"seeds": 6, "linear_widths": (10, 100, 1000), "attention_widths": (5, 50)}


@make_run("saddles/figure-2a")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train the linear network and linear attention at every width."""
    keys, s, p = keys_from_parameters(parameters, key), spectrum(parameters.kappa), parameters
    linear = {h: (s, LINEAR.network(h, p.linear_scale, keys)) for h in p.linear_widths}
    heads = {h: (s, ATTENTION.network(h, p.attention_scale, keys)) for h in p.attention_widths}
    return sweep("width", linear, heads, p.seed, progress)


@claims_from_source("Zhang, Saxe & Latham", "Figure 2A")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check how drop times and plateaus depend on width."""
    p = parameters_of_run(run, Parameters)
    for model, share in ((LINEAR, 1.0), (ATTENTION, 0.75)):
        data = run[model.name].ds
        model.rest_levels(claim, data, "width")
        model.fall_times(claim, data, "width")
        if model is ATTENTION or (p.kappa >= 1 and p.linear_scale <= 1e-6):  # else drops overlap
            words, counts = f"at every width the loss has {STAIRS} plateaus", data["count"]
            model.counted(claim, "plateaus", words, counts, counts >= STAIRS, share)
    linear = run["linear"].ds
    drops = linear["drop_time"].transpose("seed", "width", "fall")
    s, widths = linear["singular_value"].values[0], linear["width"].values
    if p.kappa >= 1:  # drops of a flatter spectrum overlap
        expected, variance = _distribution(widths, s, p.linear_scale)
        between = np.diff(expected), np.sqrt(variance[:, 1:] + variance[:, :-1])
        for id, words, seen, known in (
            ("drop-times", "drop times", drops, (expected, np.sqrt(variance))),
            ("intervals", "times between drops", drops.diff("fall"), between),
        ):
            claim(
                f"linear-mean-{id}",
                f"linear network: mean {words} follow from the distribution of the initial weights",
                mean_agrees(seen, *known),
                at="Theorem 4; χ² distribution of a mode's initial amplitude",
            )
    if widths[-2] >= 5 * DIRECTIONS:
        # ln a₀ varies by √(2/H) between seeds, which limits the precision of means over seeds.
        octaves = np.log(widths[-1] / widths[-2])
        scatter = np.sqrt(np.sum(2 / widths[-2:]) / linear.sizes["seed"]) / octaves
        last = drops.mean("seed").isel(width=[-2, -1]).diff("width")[0]
        within = round(0.03 + 4 * float(scatter), 3)
        claim(
            "linear-logarithm-of-width",
            "linear network: drop times t_k depend on width H only through its logarithm, "
            f"dt_k/d ln H = −1/(2 s_k), from width {widths[-2]} to {widths[-1]}",
            agree(last / octaves, -1 / (2 * s), within=within, relative=True),
            note="wider networks learn slightly faster, so the effect is small but not zero",
            headline=True,
        )
    few, *_, many = p.attention_widths
    if few > 25 or many < 4 * few:  # beyond a hundred heads the gain is too small to measure
        return
    stays = [stay(run[model.name].ds) for model in MODELS]
    claim(
        "attention-more-heads",
        "linear attention: the intermediate plateaus are shorter with more heads",
        decreasing(stays[1].isel(width=[0, -1])),
        note=f"median time from the first to the last drop: {join_numbers(stays[1])}",
    )
    if_linear, power = (_power(times) for times in stays)
    claim(
        "attention-gains-more",
        "width H shortens the intermediate plateaus of linear attention more than the plateaus of "
        "the linear network",
        all_below(power, if_linear),
        note=f"time ∝ H^{power:.2f} for attention, H^{if_linear:.2f} for the linear network",
    )


def _distribution(widths: np.ndarray, s: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of drop times `(width, fall)` over initial weights, in closed form.

    Mode k starts at a₀ = Σcᵢ²/2s_k relative to its final strength, with cᵢ drawn from N(0, ε²) and
    without the part that earlier modes span. Hence 2s_k a₀/ε² is χ² distributed with ν = H − k + 1
    degrees of freedom, and its logarithm has mean ψ(ν/2) + ln 2 and variance ψ′(ν/2). Half of the
    mode's part of the loss is gone when the mode's logit is ln(√2 − 1).
    """
    from scipy.special import digamma, polygamma

    half = (widths[:, None] - np.arange(DIRECTIONS)) / 2
    growth = np.log(np.sqrt(2) - 1) - np.log(scale**2 / s) - digamma(half)
    return growth / (2 * s), polygamma(1, half) / (2 * s) ** 2


def _power(times: xr.DataArray) -> float:
    """Return the exponent of the power law through the narrowest and the widest network."""
    (short, *_, long), (narrow, *_, wide) = times.values, times["width"].values
    return float(np.log(long / short) / np.log(wide / narrow))


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot both networks side by side, with one curve for each width."""
    title = "2A   More units: little effect in a linear network, a large one in attention"
    headings = "hidden units H", "heads H"
    return draw_pair(title, run, "width", "H =", "theory:\nlevels, first drop", headings)
