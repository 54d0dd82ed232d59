"""Figure 2B: the spectrum of the data makes a linear network's plateaus, not attention's.

The paper says that a flatter spectrum shortens the plateaus. With Σ s = 1 it does so for those in
between; the first one gets longer, because s₁ falls.
"""

from typing import Annotated, Any

import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_increasing
from ....experiments.claims import (
    ClaimCollector,
    claims_from_source,
    decreasing,
    increasing,
    join_numbers,
    most_seeds,
)
from ....experiments.figures import styled
from ._models import ATTENTION, DIRECTIONS, LINEAR, MODELS, STAIRS, draw_pair, spectrum, stay, sweep

_STEEP, _ORDERED = 1.0, 0.5
"""From these κ on a linear network at the default scale shows every plateau, and learns in order.
"""


class Parameters(BaseParameters):
    """Section 6 and Figure 2B; the paper prints neither scales nor rates for it."""

    seeds: int = Field(default=32, ge=1)
    """How many independent initialisations are trained."""

    kappas: Annotated[tuple[float, ...], check_increasing(0)] = (0.0, 0.5, 1.0, 2.0)
    """Exponents κ of the power law of singular values, increasing."""

    linear_width: int = Field(default=100, ge=DIRECTIONS, le=1000)
    """Width of the linear network."""

    attention_width: int = Field(default=25, ge=DIRECTIONS)
    """Number of heads of linear attention."""

    linear_scale: float = Field(default=1e-6, gt=0, le=1e-6)
    """Standard deviation ε of the linear network's initial weights."""

    attention_scale: float = Field(default=5e-3, gt=0, le=0.01)
    """Standard deviation ε of attention's initial weights."""


QUICK: dict[str, Any] = {"seeds": 16}


@make_run("saddles/figure-2b")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train both networks on every spectrum, from the same initial weights."""
    keys, p = keys_from_parameters(parameters, key), parameters
    units = LINEAR.network(p.linear_width, p.linear_scale, keys)
    heads = ATTENTION.network(p.attention_width, p.attention_scale, keys)
    given = ({kappa: (spectrum(kappa), each) for kappa in p.kappas} for each in (units, heads))
    linear, attention = given
    return sweep("kappa", linear, attention, p.seed, progress)


@claims_from_source("Zhang, Saxe & Latham", "Figure 2B")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Which plateaus a flatter spectrum shortens, and which it makes disappear."""
    p = parameters_of_run(run, Parameters)
    linear, attention = (run[model.name].ds for model in MODELS)
    few = p.linear_width < 10  # whose amplitudes scatter so much that close directions mix
    unequal = slice(_STEEP if few else None, None)
    flattest, steepest = (spectrum(kappa)[0] for kappa in (p.kappas[0], p.kappas[-1]))
    for model, data in ((LINEAR, linear), (ATTENTION, attention)):
        model.rest_levels(claim, data, "kappa")
        model.fall_times(claim, data.sel(kappa=unequal) if model is LINEAR else data, "kappa")
        first = data["drop_time"].isel(fall=0).median("seed")
        if steepest > 1.5 * flattest:  # more than medians scatter
            claim(
                f"{model.name}-shorter-plateaus",
                f"{model.words}: decreasing κ shortens the plateaus",
                increasing(stay(data)),
                corrected="the intermediate ones only, from first to last drop",
                headline=True,
            )
            claim(
                f"{model.name}-first-plateau",
                f"{model.words}: decreasing κ shortens the first plateau as well",
                increasing(first),
                wrong="with Σs = 1 it gets longer: s₁ falls",
                instead=decreasing(first.isel(kappa=[0, -1])),
            )
        ordered = data["in_order"].sel(kappa=slice(_ORDERED, None))
        if ordered.size:
            only = "in most seeds, not in all as if linear"
            claim(
                f"{model.name}-order",
                f"{model.words}: directions are learned in the order of s",
                most_seeds(ordered, 1.0 if model is LINEAR else 0.75),
                corrected=only * (model is ATTENTION),
                note=f"share of seeds {join_numbers(ordered.mean('seed'))}",
            )
    steep = linear["count"].sel(kappa=slice(_STEEP, None))
    if steep.size:
        words = f"{STAIRS} plateaus at κ ≥ {_STEEP:g}"
        LINEAR.counted(claim, "plateaus", words, steep, steep == STAIRS)
    if 0 in linear["kappa"]:
        flat, kept = (data["count"].sel(kappa=0) for data in (linear, attention))
        equal = "equal singular values"
        if not few:
            words = f"{equal} leave no plateau but the first and the last"
            LINEAR.counted(claim, "equal-strengths", words, flat, flat == 2)
        words = f"{equal} do not eliminate intermediate plateaus"
        ATTENTION.counted(claim, "equal-strengths", words, kept, kept >= 3, 0.9)
        words = f"with {equal} most seeds keep all {STAIRS}"
        ATTENTION.counted(claim, "keeps-all", words, kept, kept >= STAIRS, 0.6)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Both networks side by side, a curve for each exponent."""
    title = "2B   A flatter spectrum: shorter plateaus in between, a longer first one"
    return draw_pair(title, run, "kappa", "κ =", "theory:\nfirst drop")
