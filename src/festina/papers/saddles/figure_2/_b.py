"""Figure 2B: the spectrum of the data makes a linear network's plateaus, not attention's.

The paper says that a flatter spectrum shortens the plateaus. With Σ s = 1 it does so for those in
between; the first one gets longer, because s₁ falls.
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
from ...claims import Claim, Verdict
from ...figures import styled
from ..panels._reading import PAPER
from ._claims import (
    STAIRS,
    count_claim,
    level_claims,
    listed,
    mode_spread,
    reference_claims,
    stay,
    time_claims,
)
from ._draw import draw_both
from ._models import ATTENTION, DIRECTIONS, LINEAR, Setting, spectrum, sweep

NAME = "saddles/figure-2b"
_SOURCE = f"{PAPER}, Figure 2B"

# Mean times of the three drops, by gradient descent with η = 0.01 (linear) and 0.02 (attention).
_LINEAR_TIMES = {0.0: (30.5, 32.7, 34.6), 0.5: (25.2, 34.9, 42.6), 1.0: (20.5, 39.5, 58.3)}
_LINEAR_TIMES |= {2.0: (15.4, 57.5, 124.8)}
_ATTENTION_TIMES = {0.0: (319, 339, 383), 0.5: (273, 355, 412), 1.0: (224, 352, 471)}
_ATTENTION_TIMES |= {2.0: (167, 422, 873)}
# Standard deviations over 64 draws.
_ATTENTION_SPREAD = {0.0: (27, 29, 33), 0.5: (32, 40, 56), 1.0: (30, 69, 102)}
_ATTENTION_SPREAD |= {2.0: (24, 148, 300)}

_STEEP = 1.0
"""From this κ on a linear network at the default scale shows every plateau."""


class Parameters(BaseParameters):
    """Section 6 and Figure 2B; the paper prints neither scales nor rates for it."""

    seeds: int = Field(default=32, ge=1)
    """How many independent initialisations are trained."""

    kappas: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)
    """Exponents κ of the power law of singular values, increasing."""

    linear_width: int = Field(default=100, ge=DIRECTIONS, le=1000)
    """Width of the linear network."""

    attention_width: int = Field(default=25, ge=DIRECTIONS)
    """Number of heads of linear attention."""

    linear_scale: float = Field(default=1e-6, gt=0, le=1e-6)
    """Standard deviation ε of the linear network's initial weights."""

    attention_scale: float = Field(default=5e-3, gt=0, le=0.01)
    """Standard deviation ε of attention's initial weights."""

    @model_validator(mode="after")
    def _increasing(self) -> "Parameters":
        kappas = self.kappas
        if len(kappas) < 2 or kappas[0] < 0 or list(kappas) != sorted(set(kappas)):
            raise ValueError(
                f"`kappas` must be two or more increasing exponents from 0 up, got {kappas}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 16}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train both networks on every spectrum, from the same initial weights."""
    keys = keys_of(parameters, key)
    tables = {}
    for model, width, scale, start in (
        (LINEAR, parameters.linear_width, parameters.linear_scale, 0.0),
        (ATTENTION, parameters.attention_width, parameters.attention_scale, 0.5),
    ):
        network = model.network(width, scale, keys)
        settings = [Setting(kappa, spectrum(kappa), network) for kappa in parameters.kappas]
        part = part_of(say, start, 0.5)
        tables[model.name] = sweep(model, "kappa", settings, parameters.seed, part)
    return run_tree(NAME, parameters, **tables)


def claims(run: xr.DataTree) -> list[Claim]:
    """Which plateaus a flatter spectrum shortens, and which it makes disappear."""
    parameters = parameters_of(run, Parameters)
    linear, attention = run["linear"].to_dataset(), run["attention"].to_dataset()
    kappas = linear["kappa"].values
    found = [
        *level_claims(NAME, "linear", linear, "kappa"),
        *level_claims(NAME, "attention", attention, "kappa"),
        *time_claims(NAME, "linear", linear, "kappa", kappas),
        *time_claims(NAME, "attention", attention, "kappa", kappas),
    ]
    for name, data in (("linear network", linear), ("linear attention", attention)):
        found += [_intermediate(name, data), _first(name, data)]
    found += _counts(linear, attention)
    found += _orders(linear, attention)
    usual = Parameters()
    if (parameters.linear_width, parameters.linear_scale) == (100, usual.linear_scale):
        width = parameters.linear_width
        spread = {kappa: mode_spread(width, spectrum(kappa)) for kappa in _LINEAR_TIMES}
        found += reference_claims(NAME, "linear", _SOURCE, linear, "kappa", _LINEAR_TIMES, spread)
    if (parameters.attention_width, parameters.attention_scale) == (25, usual.attention_scale):
        found += reference_claims(
            NAME, "attention", _SOURCE, attention, "kappa", _ATTENTION_TIMES, _ATTENTION_SPREAD
        )
    return found


def _intermediate(name: str, data: xr.Dataset) -> Claim:
    between, first = stay(data, "kappa"), _first_drop(data)
    return compare(
        experiment=NAME,
        claim=f"{name}: decreasing κ shortens the plateaus",
        source=_SOURCE,
        predicted="shorter",
        measured="shorter" if bool((np.diff(between) > 0).all()) else "not shorter",
        correction="the intermediate ones only: with Σs = 1 the first gets longer, "
        f"{listed(first, 'kappa')}",
        note=f"median time from first to last drop {listed(between, 'kappa')}",
    )


def _first(name: str, data: xr.Dataset) -> Claim:
    first = _first_drop(data)
    return compare(
        experiment=NAME,
        claim=f"{name}: decreasing κ shortens the first plateau as well",
        source=_SOURCE,
        predicted="shorter",
        measured="shorter" if bool((np.diff(first) > 0).all()) else "longer",
        expected="does not hold",
        note=f"median time of the first drop {listed(first, 'kappa')}: s₁ falls with κ",
    )


def _first_drop(data: xr.Dataset) -> xr.DataArray:
    return data["drop_time"].isel({"drop": 0}).median("seed").sortby("kappa")


def _counts(linear: xr.Dataset, attention: xr.Dataset) -> list[Claim]:
    found = []
    steep = linear["count"].sel(kappa=slice(_STEEP, None))
    if steep.size:
        found.append(
            count_claim(
                NAME,
                f"linear network: {STAIRS} plateaus at κ ≥ {_STEEP:g}",
                _SOURCE,
                steep,
                steep == STAIRS,
                1.0,
            )
        )
    if 0 in linear["kappa"].values:
        flat = linear["count"].sel(kappa=0)
        kept = attention["count"].sel(kappa=0)
        found += [
            count_claim(
                NAME,
                "linear network: equal singular values leave no plateau but the first and the last",
                _SOURCE,
                flat,
                flat == 2,
                1.0,
            ),
            count_claim(
                NAME,
                "linear attention: equal singular values do not eliminate intermediate plateaus",
                _SOURCE,
                kept,
                kept >= 3,
                0.9,
            ),
            # Four of five seeds of plain gradient descent, less a standard error.
            count_claim(
                NAME,
                f"linear attention: with equal singular values most seeds keep all {STAIRS}",
                _SOURCE,
                kept,
                kept >= STAIRS,
                0.6,
            ),
        ]
    return found


def _orders(linear: xr.Dataset, attention: xr.Dataset) -> list[Claim]:
    """Whether directions are learned in the order of their singular values."""
    rising = linear["kappa"].values[linear["kappa"].values > 0]
    if not rising.size:
        return []
    cases: tuple[tuple[str, xr.Dataset, Verdict], ...] = (
        ("linear network", linear, "holds"),
        ("linear attention", attention, "does not hold"),
    )
    found = []
    for name, data, expected in cases:
        in_order = data["in_order"].sel(kappa=rising)
        found.append(
            compare(
                experiment=NAME,
                claim=f"{name}: directions are learned in the order of s, in every seed",
                source=_SOURCE,
                predicted=1.0,
                measured=float(in_order.mean()),
                expected=expected,
                note=f"share of seeds {listed(in_order.mean('seed'), 'kappa')}"
                + "".join(_other_levels(data.sel(kappa=kappa), kappa) for kappa in rising.tolist()),
            )
        )
    return found


def _other_levels(data: xr.Dataset, kappa: float) -> str:
    """Where the loss rests if directions are not learned in order: {1, 3} instead of {1, 2}, say.

    Neighbours k and k + 1 that change places leave the difference of their gains on the plateau
    between them, or a part of it if the second of them is not waiting until the first is learned.
    """
    swapped = data.sel(seed=(data["count"] == STAIRS) & ~data["in_order"])
    if not swapped.sizes["seed"]:
        return ""
    levels = data["level"].values
    exchanged = levels[:-2] + levels[2:] - levels[1:-1]

    def shown(each: np.ndarray) -> str:
        return " and ".join(f"{level:.4f}" for level in each)

    visited = ", ".join(shown(each) for each in swapped["visited"].values[:, 1 : STAIRS - 1])
    return (
        f"; at kappa {kappa:g} seeds that learn out of order rest at {visited}: in the order of s "
        f"at {shown(levels[1:-1])}, with neighbours that change places at {shown(exchanged)}"
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Both networks side by side, a curve for each exponent."""
    heading = "2B   A flatter spectrum: shorter plateaus in between, a longer first one"
    return draw_both(heading, run, "kappa", symbol="κ =", predicted="theory:\nfirst drop")
