"""Figure 2C: a linear network needs an invariant manifold nearby, not a saddle.

Large weights of rank r plus small noise are near the invariant manifold of effective width r and
away from every saddle. The loss drops at once, then rests on the saddles of width r and more.
"""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ...._types import Keys
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import (
    ClaimCollector,
    agree,
    all_below,
    claims_from_source,
    join_numbers,
    max_error_below,
)
from ....experiments.figures import panels, styled
from ....networks import Layer, low_rank_layer
from ._models import DIRECTIONS, LINEAR, STAIRS, draw_sweep, spectrum


class Parameters(BaseParameters):
    """Section 6 and Figure 2C; the paper prints neither scale nor strength."""

    seeds: int = Field(default=24, ge=1)
    """How many independent initialisations are trained."""

    kappa: float = Field(default=1.0, ge=0.75, le=1.5)
    """Exponent κ of the power law of singular values."""

    width: int = Field(default=100, ge=10, le=1000)
    """Number of units H."""

    scale: float = Field(default=1e-6, gt=0, le=1e-6)
    """Standard deviation ε of the small weights: all of them, or the noise on those of rank r."""

    strength: float = Field(default=0.3, ge=0.1, le=0.5)
    """Size σ of the weights of low rank, σ Z R/√H with standard normal Z and R."""


QUICK: dict[str, Any] = {"seeds": 12}


@make_run("saddles/figure-2c")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train from small isotropic weights (rank 0), and from large ones of rank one to three."""
    s = spectrum(parameters.kappa)
    given = networks(parameters, keys_from_parameters(parameters, key))
    settings = {rank: (s, network) for rank, network in enumerate(given)}
    data = LINEAR.sweep("rank", settings, parameters.seed, progress)
    # Theory starts from small weights: what the large ones learn at once it does not time.
    later = xr.DataArray(np.arange(DIRECTIONS), dims="fall") >= data["rank"]
    data["predicted_time"] = data["predicted_time"].where(later)
    data["theory_loss"] = data["theory_loss"].where(data["rank"] == 0)
    return {"linear": data}


def networks(p: Parameters, keys: Keys) -> list[Layer]:
    """Small weights, and large ones of every rank."""
    small = LINEAR.network(p.width, p.scale, keys)
    sizes = (small.unit, (DIRECTIONS,), p.width, DIRECTIONS)
    how: dict[str, Any] = {"strength": p.strength, "scale": p.scale, "key": keys}
    return [small, *(low_rank_layer(*sizes, rank=rank, **how) for rank in range(1, STAIRS))]


@claims_from_source("Zhang, Saxe & Latham", "Figure 2C")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """No plateau at the start, plateaus later, one less for each rank that is given."""
    data, p = run["linear"].ds, parameters_of_run(run, Parameters)
    LINEAR.rest_levels(claim, data.sel(rank=[0]), "rank")
    LINEAR.fall_times(claim, data.sel(rank=[0]), "rank")
    rate, counts = data["initial_rate"], data["count"].median("seed")
    claim(
        "small-weights-start",
        "small isotropic weights start on a plateau: initial over fastest rate of loss",
        all_below(rate.sel(rank=0), 1e-6),
    )
    claim(
        "plateaus-by-rank",
        "plateaus between the first drop and the last (medians for small weights and rank one, "
        "two, three): one less for each direction given beyond the first",
        agree(counts - 2, [DIRECTIONS - 1, *range(DIRECTIONS - 1, -1, -1)]),
        note="from rank three the loss drops once, without a plateau",
        headline=True,
    )
    if p.strength >= 0.3:  # smaller weights fall fastest a little later
        claim(
            "low-rank-start",
            "large weights of low rank start on no plateau: the loss falls fastest at the very "
            "start (median of initial over fastest rate of loss, of rank one, two and three)",
            agree(rate.sel(rank=slice(1, None)).median("seed"), 1.0, within=0.1),
        )
    # Beyond the rank that is given, levels and times are those of small weights.
    partial = data.sel(rank=slice(1, DIRECTIONS - 1))
    if p.kappa >= 1:  # drops of a flatter spectrum overlap
        # The plateau after `rank` directions, counted from the end: the final one is the last.
        position = (partial["count"] - STAIRS + partial["rank"]).clip(0)
        seen, levels = partial["visited"].isel(rest=position), data["level"].values[0]
        claim(
            "low-rank-levels",
            "of rank one and two, the loss comes to rest where one and two of three directions "
            "are learned (medians)",
            agree(seen.median("seed"), levels[1:DIRECTIONS], within=0.01 * float(levels[0])),
            at="Lemma 6 and Figure 2C",
        )
    if p.strength <= 0.3:  # larger weights hold the others up for longer
        error = abs(partial["drop_time"] / partial["predicted_time"] - 1).median("seed")
        claim(
            "low-rank-drop-times",
            "of rank one and two, later drops are timed by the noise alone, as if all weights "
            "were small (largest median of relative errors)",
            max_error_below(error.max(), within=0.1),
            at="Theorem 4 and Figure 2C",
            note=f"mean drop times {join_numbers(partial['drop_time'].mean('seed'), 3)}",
        )
    claim(
        "final-rank",
        "the solution has weights of rank three from every start (medians)",
        agree(data["final_rank"].median("seed"), DIRECTIONS),
        note="an exponential loss curve (rank three) with features learned: not lazy",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """A curve for each rank of the initial weights."""
    figure, ax = panels("2C   Near an invariant manifold, away from saddles", width=5.6)
    title = "linear network; rank 0: small isotropic weights; losses above 1.5 are cut off"
    draw_sweep(ax, run["linear"].ds, "rank", "rank", title=title, theory="theory:\nloss, or drops")
    ax.set_ylim(-0.06, 1.5)
    return figure
