"""Figure 2D: larger initial weights shorten the plateaus, by a logarithm or in proportion.

A linear network leaves zero at the rate s₁, so that times grow as ln(1/ε)/s_k; heads of attention
leave it in a time that is proportional to 1/ε.
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
"""Scales up to which initial weights are small, as theory has it, and every plateau is clean."""


class Parameters(BaseParameters):
    """Section 6 and Figure 2D; the paper does not print the scales."""

    kappa: float = Field(default=1.0, ge=0.75, le=3)
    """Exponent κ of the power law of singular values."""

    linear_scales: Annotated[tuple[PositiveFloat, ...], check_increasing(0)] = (
        *(1e-8, 1e-6, 1e-4, 1e-3, 1e-2),
        *(0.03, 0.1),
    )
    """Standard deviations ε of the linear network's initial weights, increasing."""

    attention_scales: Annotated[tuple[PositiveFloat, ...], check_increasing(0)] = (
        1e-3,
        5e-3,
        0.02,
        0.1,
    )
    """Standard deviations ε of attention's initial weights, increasing."""

    linear_width: int = Field(default=100, ge=DIRECTIONS, le=1000)
    """Width of the linear network."""

    attention_width: int = Field(default=25, ge=DIRECTIONS)
    """Number of heads of linear attention."""


QUICK: dict[str, Any] = {"seeds": 6, "attention_scales": (5e-3, 0.02, 0.1)}


@make_run("saddles/figure-2d")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train both networks at every scale, from the same draws."""
    keys, s, p = keys_from_parameters(parameters, key), spectrum(parameters.kappa), parameters
    linear = {e: (s, LINEAR.network(p.linear_width, e, keys)) for e in p.linear_scales}
    heads = {e: (s, ATTENTION.network(p.attention_width, e, keys)) for e in p.attention_scales}
    return sweep("scale", linear, heads, p.seed, progress)


@claims_from_source("Zhang, Saxe & Latham", "Figure 2D")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """How times depend on the scale, and how plateaus disappear."""
    kappa = parameters_of_run(run, Parameters).kappa
    for model in (LINEAR, ATTENTION):
        data, small = run[model.name].ds, _SMALL[model.name]
        model.rest_levels(claim, data.sel(scale=slice(_CLEAN[model.name])), "scale")
        model.fall_times(claim, data.sel(scale=slice(small)), "scale")
        counts, scales = data["count"], data["scale"].values
        median = counts.median("seed")
        claim(
            f"{model.name}-fewer-plateaus",
            f"{model.words}: increasing ε gradually removes the plateaus (their number never "
            "rises)",
            most_seeds(median.diff("scale") <= 0, of="steps from scale to scale"),
            note=f"median number {join_numbers(median)}",
        )
        if scales[0] <= _CLEAN[model.name] and (kappa >= 1 or model is ATTENTION):
            words = f"at the smallest ε the loss shows {STAIRS} plateaus"
            model.counted(claim, "smallest", words, counts[0], counts[0] >= STAIRS, 0.9)
        if scales[-1] >= 0.1 and kappa <= 1:  # a steeper spectrum keeps some
            words = "at the largest ε some intermediate plateau is gone"
            model.counted(claim, "largest", words, counts[-1], counts[-1] < STAIRS, 0.9)
    linear, attention = run["linear"].ds, run["attention"].ds
    drops = linear["drop_time"].sel(scale=slice(_SMALL["linear"] / 10)).mean("seed")
    if drops.sizes["scale"] > 1:
        claim(
            "linear-time-of-scale",
            "linear network: dt_k/d ln(1/ε) = 1/s_k",
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
            "linear attention: the first drop comes after a time proportional to 1/ε (exponent "
            "of ε)",
            follows_power_law(first["scale"], first, -1.0, within=0.03),
            at="Proposition 5",
            note=f"median t·ε: {join_numbers(first * first['scale'])}",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Linear network against t, attention against εt, on which its first drop stays in place."""
    figure, (left, right) = panels("2D   Larger initial weights: plateaus shrink and fade", 2)
    title = "linear network: times grow as ln(1/ε)"
    draw_sweep(left, run["linear"].ds, "scale", "ε =", title=title, theory="theory")
    data = run["attention"].ds
    clocks = {name: data[name] * data["scale"] for name in ("time", "drop_time", "predicted_time")}
    title, theory = "linear attention: times grow as 1/ε", "theory:\nlevels, first drop"
    rescaled = (data.assign(clocks), "scale", "ε =", "rescaled time $εt$")
    draw_sweep(right, *rescaled, title=title, theory=theory)
    return figure
