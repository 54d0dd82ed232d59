"""Figure 2C: a linear network needs an invariant manifold nearby, not a saddle.

Large weights of rank r plus small noise are near the invariant manifold of effective width r and
away from every saddle. The loss drops at once, then rests on the saddles of width r and more.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure
from pydantic import Field

from ....networks import Layer, low_rank
from ..._frame import keys_of, parameters_of
from ..._old import compare, experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ...claims import Claim
from ...figures import styled
from .._comparison import same_but_for, standard_error
from .._plain_descent import furthest
from ..panels._reading import PAPER
from ._c_reduced import reduced_losses
from ._claims import REFERENCE_SEEDS, STAIRS, level_claims, sigmas, time_claims
from ._draw import draw_sweep, sheet
from ._models import DIRECTIONS, LINEAR, Setting, passages, spectrum, sweep

NAME = "saddles/figure-2c"
_SOURCE = f"{PAPER}, Figure 2C"

# Mean times of the three drops by gradient descent, η = 0.01, from weights of rank one to three;
# standard deviations over 400 draws of this library that no run is started from by default.
_DESCENT = {1: (3.9, 37.0, 54.0), 2: (1.1, 6.8, 53.2), 3: (1.3, 4.0, 8.2)}
_SPREAD = {1: (3.3, 3.6, 2.7), 2: (1.4, 6.1, 5.5), 3: (0.72, 1.7, 4.9)}


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


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 12}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train from small isotropic weights (rank 0), and from large ones of rank one to three."""
    keys, s = keys_of(parameters, key), spectrum(parameters.kappa)
    small = LINEAR.network(parameters.width, parameters.scale, keys)
    networks = [small] + [
        low_rank(
            small.unit,
            (DIRECTIONS,),
            parameters.width,
            DIRECTIONS,
            rank=rank,
            strength=parameters.strength,
            scale=parameters.scale,
            key=keys,
        )
        for rank in range(1, STAIRS)
    ]
    settings = [Setting(rank, s, network) for rank, network in enumerate(networks)]
    data = sweep(LINEAR, "rank", settings, parameters.seed, say)
    # Theory starts from small weights: what the large ones learn at once it does not time.
    later = xr.DataArray(np.arange(DIRECTIONS), dims="drop") >= data["rank"]
    data["predicted_time"] = data["predicted_time"].where(later)
    data["theory_loss"] = data["theory_loss"].where(data["rank"] == 0)
    say("six units for all", 0.9)
    data["reduced_time"] = (data["drop_time"].dims, _reduced_times(data, networks, s))
    return run_tree(NAME, parameters, linear=data)


def _reduced_times(data: xr.Dataset, networks: list[Layer], s: np.ndarray) -> np.ndarray:
    """Drop times `(rank, seed, drop)` of six units that learn the same."""
    end = 1.2 * float(data["drop_time"].max())
    levels = LINEAR.levels(s)
    return np.array(
        [
            [passages(times, loss, levels) for loss in losses]
            for times, losses in (reduced_losses(network, s, end) for network in networks)
        ]
    )


def claims(run: xr.DataTree) -> list[Claim]:
    """No plateau at the start, plateaus later, one less for each rank that is given."""
    data = run["linear"].to_dataset()
    small, large = data.sel(rank=0), data.sel(rank=slice(1, None))
    rate = large["initial_rate"].median("seed")
    counts = data["count"].median("seed")
    return [
        *level_claims(NAME, "linear", data.sel(rank=[0]), "rank"),
        *time_claims(NAME, "linear", data, "rank", [0]),
        compare(
            experiment=NAME,
            claim="small isotropic weights start on a plateau: initial over fastest rate of loss",
            source=_SOURCE,
            predicted=0.0,
            measured=float(small["initial_rate"].max()),
            tolerance=1e-6,
        ),
        compare(
            experiment=NAME,
            claim="large weights of low rank start on no plateau: the loss falls fastest at the "
            "very start (median of initial over fastest rate of loss, of rank one, two and three)",
            source=_SOURCE,
            predicted=np.ones(rate.size),
            measured=rate.values,
            tolerance=0.1,
        ),
        compare(
            experiment=NAME,
            claim="plateaus between the first drop and the last (medians for small weights and "
            "rank one, two, three): one less for each direction given beyond the first",
            source=_SOURCE,
            predicted=[DIRECTIONS - 1, *range(DIRECTIONS - 1, -1, -1)],
            measured=counts.values - 2,
            note="from rank three the loss drops once, without a plateau",
        ),
        *_later(data),
        *_times(run, data),
        compare(
            experiment=NAME,
            claim="the solution has weights of rank three from every start (medians)",
            source=_SOURCE,
            predicted=[DIRECTIONS] * data.sizes["rank"],
            measured=data["final_rank"].median("seed").values,
            note="an exponential loss curve (rank three) with features learned: not lazy",
        ),
    ]


def _times(run: xr.DataTree, data: xr.Dataset) -> list[Claim]:
    """All drops, those that large weights make at once included."""
    found = [
        compare(
            experiment=NAME,
            claim="every drop from every start is that of six units in place of all, integrated by "
            "SciPy from the same weights: largest difference in time",
            source=f"{_SOURCE}; Theorem 3, F.3",
            predicted=0.0,
            measured=furthest(data["drop_time"].values, data["reduced_time"].values),
            tolerance=0.02,
            note=f"times from {float(data['drop_time'].min()):.2g} to "
            f"{float(data['drop_time'].max()):.3g}",
        )
    ]
    if not same_but_for(parameters_of(run, Parameters), Parameters(), {"seeds", "seed"}):
        return found
    ranks = list(_DESCENT)
    mean = data["drop_time"].sel(rank=ranks).mean("seed").transpose("rank", "drop").values
    there, spread = (np.array([table[rank] for rank in ranks]) for table in (_DESCENT, _SPREAD))
    off = (mean - there) / standard_error(1.0, data.sizes["seed"], REFERENCE_SEEDS) / spread
    shown = (
        "; ".join(", ".join(f"{time:.3g}" for time in times) for times in table)
        for table in (mean, there)
    )
    here, descent = shown
    return [
        *found,
        compare(
            experiment=NAME,
            claim="mean drop times from large weights are those of plain gradient descent from "
            "other draws: largest distance in standard errors, of nine",
            source=f"{_SOURCE}; population averages, {REFERENCE_SEEDS} seeds",
            predicted=0.0,
            measured=float(np.abs(off).max()),
            tolerance=round(sigmas(off.size), 2),
            note=f"by rank {here}; there {descent}",
        ),
    ]


def _later(data: xr.Dataset) -> list[Claim]:
    """Beyond the rank that is given, levels and times are those of small weights."""
    found = []
    for rank in range(1, DIRECTIONS):
        one = data.sel(rank=rank)
        # The plateau after `rank` directions, counted from the end: the final one is the last.
        position = one["count"] - (STAIRS - rank)
        rests = one["visited"].isel(rest=position.clip(0))
        levels = one["level"]
        error = abs(one["drop_time"] / one["predicted_time"] - 1).median("seed")
        found += [
            compare(
                experiment=NAME,
                claim=f"rank {rank}: the loss comes to rest where {rank} of three directions are "
                "learned (median)",
                source=f"{PAPER}, Lemma 6 and Figure 2C",
                predicted=float(levels[rank]),
                measured=float(rests.median()),
                tolerance=0.01 * float(levels[0]),
            ),
            compare(
                experiment=NAME,
                claim=f"rank {rank}: later drops are timed by the noise alone, as if all weights "
                "were small (median relative error)",
                source=f"{PAPER}, Theorem 4 and Figure 2C",
                predicted=0.0,
                measured=float(error.max()),
                tolerance=0.1,
                note="mean drop times "
                + ", ".join(f"{time:.3g}" for time in one["drop_time"].mean("seed").values),
            ),
        ]
    return found


@styled
def draw(run: xr.DataTree) -> Figure:
    """A curve for each rank of the initial weights."""
    figure = sheet("2C   Near an invariant manifold, away from saddles", (5.6, 3.5))
    data = run["linear"].to_dataset()
    draw_sweep(
        figure.subplots(),
        data,
        "rank",
        title="linear network; rank 0: small isotropic weights",
        symbol="rank",
        predicted="theory:\nloss, or drops",
    )
    return figure
