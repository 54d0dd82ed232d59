"""Figure 2B: equal singular values remove the plateaus of a linear network, not of attention.

The paper says that a flatter spectrum shortens the plateaus. With the sum of singular values fixed
at 1, a flatter spectrum shortens the intermediate plateaus only. The first plateau gets longer,
because s₁ decreases.
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
"""Smallest κ at which a linear network with the default ε has every plateau, and learns in order.
"""


class Parameters(BaseParameters):
    """Parameters of Figure 2B (paper: Section 6, without initial scales and learning rates)."""

    seeds: int = Field(default=32, ge=1)
    """Number of independent initialisations that are trained."""

    kappas: Annotated[tuple[float, ...], check_increasing(0)] = (0.0, 0.5, 1.0, 2.0)
    """Exponents κ of the power law s_n ∝ n^(−κ) of singular values, increasing."""

    linear_width: int = Field(default=100, ge=DIRECTIONS, le=1000)
    """Number of hidden units H of the linear network."""

    attention_width: int = Field(default=25, ge=DIRECTIONS)
    """Number of heads of linear attention."""

    linear_scale: float = Field(default=1e-6, gt=0, le=1e-6)
    """Standard deviation ε of the initial weights of the linear network."""

    attention_scale: float = Field(default=5e-3, gt=0, le=0.01)
    """Standard deviation ε of the initial weights of linear attention."""


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
    """Check which plateaus a flatter spectrum shortens, and which it removes."""
    p = parameters_of_run(run, Parameters)
    linear, attention = (run[model.name].ds for model in MODELS)
    few = p.linear_width < 10  # initial amplitudes then vary so much that similar modes mix
    unequal = slice(_STEEP if few else None, None)
    flattest, steepest = (spectrum(kappa)[0] for kappa in (p.kappas[0], p.kappas[-1]))
    for model, data in ((LINEAR, linear), (ATTENTION, attention)):
        model.rest_levels(claim, data, "kappa")
        model.fall_times(claim, data.sel(kappa=unequal) if model is LINEAR else data, "kappa")
        first = data["drop_time"].isel(fall=0).median("seed")
        if steepest > 1.5 * flattest:  # a larger effect than the variation of medians
            claim(
                f"{model.name}-shorter-plateaus",
                f"{model.words}: a smaller exponent κ of the spectrum shortens the plateaus",
                increasing(stay(data)),
                corrected="the statement holds for the intermediate plateaus, from the first to "
                "the last drop",
                headline=True,
            )
            claim(
                f"{model.name}-first-plateau",
                f"{model.words}: a smaller exponent κ of the spectrum shortens the first plateau",
                increasing(first),
                wrong="at a fixed sum of singular values the first plateau gets longer, because s₁ "
                "decreases",
                instead=decreasing(first.isel(kappa=[0, -1])),
            )
        ordered = data["in_order"].sel(kappa=slice(_ORDERED, None))
        if ordered.size:
            only = "the statement holds in most seeds; in the linear network it holds in all seeds"
            claim(
                f"{model.name}-order",
                f"{model.words}: directions are learned in decreasing order of singular values s",
                most_seeds(ordered, 1.0 if model is LINEAR else 0.75),
                corrected=only * (model is ATTENTION),
                note=f"share of seeds for each κ: {join_numbers(ordered.mean('seed'))}",
            )
    steep = linear["count"].sel(kappa=slice(_STEEP, None))
    if steep.size:
        words = f"the loss has {STAIRS} plateaus for exponents κ ≥ {_STEEP:g} of the spectrum"
        LINEAR.counted(claim, "plateaus", words, steep, steep == STAIRS)
    if 0 in linear["kappa"]:
        flat, kept = (data["count"].sel(kappa=0) for data in (linear, attention))
        equal = "equal singular values"
        if not few:
            words = f"{equal} leave only the initial and the final plateau"
            LINEAR.counted(claim, "equal-strengths", words, flat, flat == 2)
        words = f"{equal} do not remove all intermediate plateaus"
        ATTENTION.counted(claim, "equal-strengths", words, kept, kept >= 3, 0.9)
        words = f"with {equal}, most seeds keep all {STAIRS} plateaus"
        ATTENTION.counted(claim, "keeps-all", words, kept, kept >= STAIRS, 0.6)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot both networks side by side, with one curve for each exponent κ."""
    title = "2B   Flatter spectrum: shorter intermediate plateaus, longer first plateau"
    heading = "spectrum $n^{-κ}$\n(κ = 0: flat)"
    return draw_pair(title, run, "kappa", "κ =", "theory:\nfirst drop", (heading, heading))
