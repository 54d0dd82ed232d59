"""Figure 2D: larger initial weights shorten the plateaus, by a logarithm or in proportion.

A linear network leaves zero at the rate s₁, so that times grow as ln(1/ε)/s_k; heads of attention
leave it in a time that is proportional to 1/ε.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from ..._frame import keys_of, parameters_of, part_of
from ..._old import compare, experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ...claims import Claim
from ...figures import styled
from ..panels._reading import PAPER
from ._claims import (
    REFERENCE_SEEDS,
    STAIRS,
    count_claim,
    level_claims,
    listed,
    mode_spread,
    reference_claims,
    time_claims,
)
from ._draw import draw_sweep, sheet
from ._models import ATTENTION, DIRECTIONS, LINEAR, Setting, spectrum, sweep

NAME = "saddles/figure-2d"
_SOURCE = f"{PAPER}, Figure 2D"

# Mean time of the first drop, by gradient descent with η = 0.01 (linear) and 0.02 (attention).
_LINEAR_TIMES = {1e-8: (28.97,), 1e-6: (20.49,), 1e-4: (11.99,), 1e-3: (7.73,), 1e-2: (3.28,)}
_LINEAR_TIMES |= {0.03: (1.07,), 0.1: (0.10,)}
_ATTENTION_TIMES = {1e-3: (1123.0,), 5e-3: (224.0,), 0.02: (54.9,), 0.1: (8.7,)}
# Standard deviations over draws: 13 % of the time at every scale.
_ATTENTION_SPREAD = {scale: (0.13 * first,) for scale, (first,) in _ATTENTION_TIMES.items()}
_LINEAR_COUNTS = {1e-8: 4, 1e-6: 4, 1e-4: 3, 1e-3: 2, 1e-2: 2, 0.03: 2, 0.1: 2}
_TIME_TIMES_SCALE = 1.12

_SMALL = {"linear": 1e-4, "attention": 0.01}
"""Scales up to which the initial weights are small: what follows holds in the limit."""


class Parameters(BaseParameters):
    """Section 6 and Figure 2D; the paper does not print the scales."""

    kappa: float = Field(default=1.0, ge=0.75, le=3)
    """Exponent κ of the power law of singular values."""

    linear_scales: tuple[float, ...] = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1)
    """Standard deviations ε of the linear network's initial weights, increasing."""

    attention_scales: tuple[float, ...] = (1e-3, 5e-3, 0.02, 0.1)
    """Standard deviations ε of attention's initial weights, increasing."""

    linear_width: int = Field(default=100, ge=DIRECTIONS, le=1000)
    """Width of the linear network."""

    attention_width: int = Field(default=25, ge=DIRECTIONS)
    """Number of heads of linear attention."""

    @model_validator(mode="after")
    def _increasing(self) -> "Parameters":
        for name in ("linear_scales", "attention_scales"):
            scales = getattr(self, name)
            if len(scales) < 2 or scales[0] <= 0 or list(scales) != sorted(set(scales)):
                raise ValueError(
                    f"`{name}` must be two or more increasing positive numbers, got {scales}."
                )
        return self


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 6, "attention_scales": (5e-3, 0.02, 0.1)}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train both networks at every scale, from the same draws."""
    keys, s = keys_of(parameters, key), spectrum(parameters.kappa)
    tables = {}
    for model, width, scales, start in (
        (LINEAR, parameters.linear_width, parameters.linear_scales, 0.0),
        (ATTENTION, parameters.attention_width, parameters.attention_scales, 0.5),
    ):
        settings = [Setting(scale, s, model.network(width, scale, keys)) for scale in scales]
        part = part_of(say, start, 0.5)
        tables[model.name] = sweep(model, "scale", settings, parameters.seed, part)
    return run_tree(NAME, parameters, **tables)


def claims(run: xr.DataTree) -> list[Claim]:
    """How times depend on the scale, and how plateaus disappear."""
    parameters = parameters_of(run, Parameters)
    linear, attention = run["linear"].to_dataset(), run["attention"].to_dataset()
    found = []
    for name, data in (("linear", linear), ("attention", attention)):
        scales = data["scale"].values
        small = scales[scales <= _SMALL[name]]
        found += level_claims(NAME, name, data.sel(scale=small), "scale") if small.size else []
        found += time_claims(NAME, name, data, "scale", small)
        found += _fading(name, data)
    found += [*_logarithm(linear), *_inverse(attention)]
    usual = Parameters()
    if parameters.kappa == usual.kappa and parameters.linear_width == usual.linear_width:
        spread = dict.fromkeys(
            _LINEAR_TIMES, mode_spread(usual.linear_width, spectrum(usual.kappa))
        )
        found += reference_claims(NAME, "linear", _SOURCE, linear, "scale", _LINEAR_TIMES, spread)
        found += _numbers(linear)
    if parameters.kappa == usual.kappa and parameters.attention_width == usual.attention_width:
        found += reference_claims(
            NAME, "attention", _SOURCE, attention, "scale", _ATTENTION_TIMES, _ATTENTION_SPREAD
        )
        found += _constant(attention)
    return found


def _logarithm(linear: xr.Dataset) -> list[Claim]:
    scales = linear["scale"].values
    small = scales[scales <= _SMALL["linear"] / 10]
    if small.size < 2:
        return []
    drops = linear["drop_time"].sel(scale=small).mean("seed")
    slope = np.polyfit(np.log(1 / small), drops.values, 1)[0]
    return [
        compare(
            experiment=NAME,
            claim="linear network: dt_k/d ln(1/ε) = 1/s_k",
            source=f"{PAPER}, Theorem 4",
            predicted=1 / linear["singular_value"].values[0],
            measured=slope,
            tolerance=0.01,
            relative=True,
        )
    ]


def _inverse(attention: xr.Dataset) -> list[Claim]:
    scales = attention["scale"].values
    small = scales[scales <= 2 * _SMALL["attention"]]
    if small.size < 2:
        return []
    first = attention["drop_time"].isel({"drop": 0}).sel(scale=small).median("seed")
    power = np.polyfit(np.log(small), np.log(first.values), 1)[0]
    return [
        compare(
            experiment=NAME,
            claim="linear attention: the first drop comes after a time proportional to 1/ε "
            "(exponent of ε)",
            source=f"{PAPER}, Proposition 5",
            predicted=-1.0,
            measured=float(power),
            tolerance=0.03,
            note=f"median t·ε: {listed(first * first['scale'], 'scale')}",
        )
    ]


def _constant(attention: xr.Dataset) -> list[Claim]:
    scales = attention["scale"].values
    small = scales[scales <= 2 * _SMALL["attention"]]
    if not small.size or attention.sizes["seed"] < REFERENCE_SEEDS:
        return []
    first = attention["drop_time"].isel({"drop": 0}).sel(scale=small).mean("seed")
    return [
        compare(
            experiment=NAME,
            claim="linear attention: mean time of the first drop times ε",
            source=f"{_SOURCE}; plain gradient descent, population averages, "
            f"{REFERENCE_SEEDS} seeds",
            predicted=[_TIME_TIMES_SCALE] * small.size,
            measured=(first * first["scale"]).values,
            tolerance=0.15,
            relative=True,
        )
    ]


def _numbers(linear: xr.Dataset) -> list[Claim]:
    """How many plateaus plain gradient descent has; of few seeds the median says little of it.

    Half a plateau is left to chance: the median of an even number of seeds that are about to lose
    one.
    """
    scales = [scale for scale in _LINEAR_COUNTS if scale in linear["scale"].values]
    if not scales or linear.sizes["seed"] < REFERENCE_SEEDS:
        return []
    counts = linear["count"].sel(scale=scales).median("seed")
    return [
        compare(
            experiment=NAME,
            claim="linear network: median numbers of plateaus are those of plain gradient descent",
            source=f"{_SOURCE}; population averages, {REFERENCE_SEEDS} seeds",
            predicted=[_LINEAR_COUNTS[scale] for scale in scales],
            measured=counts.values,
            tolerance=0.5,
            note=listed(counts, "scale"),
        )
    ]


def _fading(name: str, data: xr.Dataset) -> list[Claim]:
    """Weaker and weaker plateaus: all of them at the smallest scale, none at the largest."""
    counts = data["count"].median("seed")
    smallest, largest = data["count"].isel(scale=0), data["count"].isel(scale=-1)
    found = [
        compare(
            experiment=NAME,
            claim=f"{name}: increasing ε gradually removes the plateaus (their number never rises)",
            source=_SOURCE,
            predicted="falling",
            measured="falling" if bool((np.diff(counts) <= 0).all()) else "not falling",
            note=f"median number {listed(counts, 'scale')}",
        )
    ]
    if data["scale"].values[0] <= 1e-2 * _SMALL[name] or name == "attention":
        found.append(
            count_claim(
                NAME,
                f"{name}: at the smallest ε the loss shows {STAIRS} plateaus",
                _SOURCE,
                smallest,
                smallest >= STAIRS,
                0.9,
            )
        )
    if data["scale"].values[-1] >= 0.1:
        found.append(
            count_claim(
                NAME,
                f"{name}: at the largest ε some intermediate plateau is gone",
                _SOURCE,
                largest,
                largest < STAIRS,
                0.9,
            )
        )
    return found


@styled
def draw(run: xr.DataTree) -> Figure:
    """Linear network against t, attention against εt, on which its first drop stays in place."""
    figure = sheet("2D   Larger initial weights: plateaus shrink and fade")
    left, right = figure.subplots(1, 2)
    attention = run["attention"].to_dataset()
    draw_sweep(
        left,
        run["linear"].to_dataset(),
        "scale",
        title="linear network: times grow as ln(1/ε)",
        symbol="ε =",
        predicted="theory",
    )
    draw_sweep(
        right,
        attention,
        "scale",
        title="linear attention: times grow as 1/ε",
        symbol="ε =",
        predicted="theory:\nlevels, first drop",
        clock=attention["scale"],
        xlabel="rescaled time $εt$",
    )
    return figure
