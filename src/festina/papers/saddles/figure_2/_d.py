"""Figure 2D: larger initial weights ε shorten plateaus: lengths are ∝ ln(1/ε) or ∝ 1/ε.

A linear network leaves zero exponentially, so that drop times are proportional to ln(1/ε)/s_k. The
time that attention heads take to leave zero is proportional to 1/ε.
"""

from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat

from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    follows_power_law,
    join_numbers,
    most_seeds,
)
from ....experiments.figures import panels, styled
from ._models import ATTENTION, DIRECTIONS, LINEAR, STAIRS, draw_sweep, spectrum, sweep

_SMALL, _CLEAN = {"linear": 1e-4, "attention": 0.01}, {"linear": 1e-6, "attention": 0.01}
"""Largest initial scales ε for which drop times and plateau levels are predicted, by network."""


class Parameters(BaseParameters):
    """Parameters of Figure 2D (paper: Section 6, without initial scales)."""

    kappa: float = Field(default=1.0, ge=0.75, le=3)
    """Exponent κ of the power law s_n ∝ n^(−κ) of singular values."""

    linear_scales: Annotated[tuple[PositiveFloat, ...], check_increasing(0)] = (
        *(1e-8, 1e-6, 1e-4, 1e-3, 1e-2),
        *(0.03, 0.1),
    )
    """Standard deviations ε of the initial weights of the linear network, increasing."""

    attention_scales: Annotated[tuple[PositiveFloat, ...], check_increasing(0)] = (
        1e-3,
        5e-3,
        0.02,
        0.1,
    )
    """Standard deviations ε of the initial weights of linear attention, increasing."""

    linear_width: int = Field(default=100, ge=DIRECTIONS, le=1000)
    """Number of hidden units H of the linear network."""

    attention_width: int = Field(default=25, ge=DIRECTIONS)
    """Number of heads of linear attention."""


QUICK: dict[str, Any] = {"seeds": 6, "attention_scales": (5e-3, 0.02, 0.1)}


@make_run("saddles/figure-2d")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train both networks at every scale ε, from the same random draws."""
    keys, s, p = keys_from_parameters(parameters, key), spectrum(parameters.kappa), parameters
    linear = {e: (s, LINEAR.network(p.linear_width, e, keys)) for e in p.linear_scales}
    heads = {e: (s, ATTENTION.network(p.attention_width, e, keys)) for e in p.attention_scales}
    return sweep("scale", linear, heads, p.seed, progress)


@claims_from_source("Zhang, Saxe & Latham", "Figure 2D")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check how drop times depend on the initial scale ε, and how plateaus disappear."""
    kappa = parameters_of_run(run, Parameters).kappa
    for model in (LINEAR, ATTENTION):
        data, small = run[model.name].ds, _SMALL[model.name]
        model.rest_levels(claim, data.sel(scale=slice(_CLEAN[model.name])), "scale")
        model.fall_times(claim, data.sel(scale=slice(small)), "scale")
        counts, scales = data["count"], data["scale"].values
        median = counts.median("seed")
        claim(
            f"{model.name}-fewer-plateaus",
            f"{model.words}: plateaus disappear as the initial scale ε increases; their number "
            "never increases",
            most_seeds(median.diff("scale") <= 0, of="steps between scales"),
            note=f"median number at each ε: {join_numbers(median)}",
        )
        if scales[0] <= _CLEAN[model.name] and (kappa >= 1 or model is ATTENTION):
            words = f"at the smallest initial scale ε the loss has {STAIRS} plateaus"
            model.counted(claim, "smallest", words, counts[0], counts[0] >= STAIRS, 0.9)
        if scales[-1] >= 0.1 and kappa <= 1:  # a steeper spectrum keeps some plateaus
            words = "at the largest initial scale ε an intermediate plateau is missing"
            model.counted(claim, "largest", words, counts[-1], counts[-1] < STAIRS, 0.9)
    linear, attention = run["linear"].ds, run["attention"].ds
    drops = linear["drop_time"].sel(scale=slice(_SMALL["linear"] / 10)).mean("seed")
    if drops.sizes["scale"] > 1:
        claim(
            "linear-time-of-scale",
            "linear network: the time t_k of the k-th drop depends on the initial scale ε as "
            "dt_k/d ln(1/ε) = 1/s_k",
            agree(
                np.polyfit(-np.log(drops["scale"]), drops.transpose("scale", "fall"), 1)[0],
                1 / linear["singular_value"].values[0],
                within=0.01,
                relative=True,
            ),
            at="Theorem 4",
            headline=True,
        )
    first = attention["drop_time"].isel(fall=0).sel(scale=slice(2 * _SMALL["attention"]))
    first = first.median("seed")
    if first.size > 1:
        claim(
            "attention-time-of-scale",
            "linear attention: the time of the first drop is proportional to 1/ε, with ε the "
            "initial scale (exponent of ε)",
            follows_power_law(first["scale"], first, -1.0, within=0.03),
            at="Proposition 5",
            note=f"median time × ε: {join_numbers(first * first['scale'])}",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot loss curves over time t (linear network) and rescaled time εt (attention)."""
    figure, (left, right) = panels("2D   Larger initial weights: shorter and fewer plateaus", 2)
    title = "linear network: times ∝ ln(1/ε)"
    draw_sweep(left, run["linear"].ds, "scale", "ε =", title=title, theory="theory")
    data = run["attention"].ds
    clocks = {name: data[name] * data["scale"] for name in ("time", "drop_time", "predicted_time")}
    title, theory = "linear attention: times ∝ 1/ε", "theory:\nlevels, first drop"
    rescaled = (data.assign(clocks), "scale", "ε =", "rescaled time $εt$")
    draw_sweep(right, *rescaled, title=title, theory=theory)
    return figure
