"""Figure 2C: plateaus of a linear network need a start near an invariant manifold, not a saddle.

Large weights of rank r plus small noise lie near the invariant manifold of effective width r, but
far from every saddle. The loss drops at once, then rests at the saddles of width r and above.
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
    """Parameters of Figure 2C (paper: Section 6, without initial scale and strength)."""

    seeds: int = Field(default=24, ge=1)
    """Number of independent initialisations that are trained."""

    kappa: float = Field(default=1.0, ge=0.75, le=1.5)
    """Exponent κ of the power law s_n ∝ n^(−κ) of singular values."""

    width: int = Field(default=100, ge=10, le=1000)
    """Number of hidden units H."""

    scale: float = Field(default=1e-6, gt=0, le=1e-6)
    """Standard deviation ε of the small weights, or of the noise added to low-rank weights."""

    strength: float = Field(default=0.3, ge=0.1, le=0.5)
    """Scale σ of the low-rank weights σ Z R/√H, with standard normal matrices Z and R."""


QUICK: dict[str, Any] = {"seeds": 12}


@make_run("saddles/figure-2c")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train from small isotropic weights (rank 0) and from large weights of rank 1, 2 and 3."""
    s = spectrum(parameters.kappa)
    given = networks(parameters, keys_from_parameters(parameters, key))
    settings = {rank: (s, network) for rank, network in enumerate(given)}
    data = LINEAR.sweep("rank", settings, parameters.seed, progress)
    # The theory assumes small weights; it predicts no times for modes that start large.
    later = xr.DataArray(np.arange(DIRECTIONS), dims="fall") >= data["rank"]
    data["predicted_time"] = data["predicted_time"].where(later)
    data["theory_loss"] = data["theory_loss"].where(data["rank"] == 0)
    return {"linear": data}


def networks(p: Parameters, keys: Keys) -> list[Layer]:
    """Return networks with small weights, and with large weights of every rank."""
    small = LINEAR.network(p.width, p.scale, keys)
    sizes = (small.unit, (DIRECTIONS,), p.width, DIRECTIONS)
    how: dict[str, Any] = {"strength": p.strength, "scale": p.scale, "key": keys}
    return [small, *(low_rank_layer(*sizes, rank=rank, **how) for rank in range(1, STAIRS))]


@claims_from_source("Zhang, Saxe & Latham", "Figure 2C")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check that large low-rank weights skip the first plateaus but show the later ones."""
    data, p = run["linear"].ds, parameters_of_run(run, Parameters)
    LINEAR.rest_levels(claim, data.sel(rank=[0]), "rank")
    LINEAR.fall_times(claim, data.sel(rank=[0]), "rank")
    rate, counts = data["initial_rate"], data["count"].median("seed")
    claim(
        "small-weights-start",
        "small isotropic weights start on a plateau: the initial speed of the loss is below 10⁻⁶ "
        "of its largest speed",
        all_below(rate.sel(rank=0), 1e-6),
    )
    claim(
        "plateaus-by-rank",
        "each rank of large initial weights beyond rank one removes a plateau (median number of "
        "intermediate plateaus for small weights, then for large weights of rank one, two, three)",
        agree(counts - 2, [DIRECTIONS - 1, *range(DIRECTIONS - 1, -1, -1)]),
        note="from weights of rank three the loss drops once, without an intermediate plateau",
        headline=True,
    )
    if p.strength >= 0.3:  # for smaller weights the loss decreases fastest a little later
        claim(
            "low-rank-start",
            "large weights of low rank do not start on a plateau: the loss decreases fastest at "
            "the start (median ratio of initial to largest speed, for rank one, two and three)",
            agree(rate.sel(rank=slice(1, None)).median("seed"), 1.0, within=0.1),
        )
    # Modes beyond the initial rank have the same levels and times as from small weights.
    partial = data.sel(rank=slice(1, DIRECTIONS - 1))
    if p.kappa >= 1:  # drops of a flatter spectrum overlap
        # Index of the plateau after `rank` directions, counted from the final plateau backwards.
        position = (partial["count"] - STAIRS + partial["rank"]).clip(0)
        seen, levels = partial["visited"].isel(rest=position), data["level"].values[0]
        claim(
            "low-rank-levels",
            "from large weights of rank one or two, the loss comes to rest at the level with one "
            "or two of three directions learned (medians)",
            agree(seen.median("seed"), levels[1:DIRECTIONS], within=0.01 * float(levels[0])),
            at="Lemma 6 and Figure 2C",
        )
    if p.strength <= 0.3:  # larger weights delay later modes
        error = abs(partial["drop_time"] / partial["predicted_time"] - 1).median("seed")
        claim(
            "low-rank-drop-times",
            "from large weights of rank one or two, the small noise alone sets the later drop "
            "times, as if all weights were small (largest median of relative errors)",
            max_error_below(error.max(), within=0.1),
            at="Theorem 4 and Figure 2C",
            note=f"mean drop times {join_numbers(partial['drop_time'].mean('seed'), 3)}",
        )
    claim(
        "final-rank",
        "the final weights have rank three from every initialisation (median rank)",
        agree(data["final_rank"].median("seed"), DIRECTIONS),
        note="from weights of rank three the loss decreases exponentially although features are "
        "learned, so an exponential loss curve does not imply lazy learning",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot one loss curve for each rank of the initial weights."""
    figure, ax = panels("2C   Near an invariant manifold, away from saddles", width=5.6)
    title = "linear network; initial rank 0: small isotropic weights"
    words = {"title": title, "theory": "theory:\nloss, or drops"}
    draw_sweep(ax, run["linear"].ds, "rank", "initial rank", **words)
    ax.set_ylim(-0.06, 1.5)
    return figure
