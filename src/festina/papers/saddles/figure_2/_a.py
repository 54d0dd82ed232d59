"""Figure 2A: more units hardly matter to a linear network and shorten attention's plateaus."""

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
from .._comparison import two_digits
from ..panels._reading import PAPER
from ._claims import (
    STAIRS,
    count_claim,
    duration_claims,
    level_claims,
    listed,
    mode_spread,
    reference_claims,
    sigmas,
    stay,
    time_claims,
)
from ._draw import draw_both
from ._models import ATTENTION, DIRECTIONS, LINEAR, Setting, spectrum, sweep

NAME = "saddles/figure-2a"
_SOURCE = f"{PAPER}, Figure 2A"

# Mean times of the three drops, by gradient descent with η = 0.01 (linear) and 0.02 (attention).
_LINEAR_TIMES = {3: (23.5, 50.2, 75.7), 10: (22.9, 44.7, 66.3), 100: (20.48, 39.46, 58.27)}
_LINEAR_TIMES |= {1000: (18.34, 35.32, 51.92)}
_ATTENTION_TIMES = {5: (305, 609, 839), 25: (224, 352, 471), 100: (205, 277, 343)}
_ATTENTION_TIMES |= {400: (166, 266, 335)}
# Standard deviations over 16 draws, with 25 heads over 64.
_ATTENTION_SPREAD = {5: (52, 156, 208), 25: (30, 69, 102), 100: (20, 46, 57), 400: (19, 42, 52)}


class Parameters(BaseParameters):
    """Section 6 and Figure 2A; the paper prints neither scales nor rates for it."""

    kappa: float = Field(default=1.0, ge=0.75, le=3)
    """Exponent κ of the power law of singular values."""

    linear_widths: tuple[int, ...] = (3, 10, 100, 1000)
    """Widths of the linear network, increasing."""

    attention_widths: tuple[int, ...] = (5, 25, 100, 400)
    """Numbers of heads of linear attention, increasing."""

    linear_scale: float = Field(default=1e-6, gt=0, le=1e-5)
    """Standard deviation ε of the linear network's initial weights."""

    attention_scale: float = Field(default=5e-3, gt=0, le=0.01)
    """Standard deviation ε of attention's initial weights."""

    @model_validator(mode="after")
    def _increasing(self) -> "Parameters":
        for name in ("linear_widths", "attention_widths"):
            widths = getattr(self, name)
            if len(widths) < 2 or widths[0] < DIRECTIONS or list(widths) != sorted(set(widths)):
                raise ValueError(
                    f"`{name}` must be two or more increasing numbers from {DIRECTIONS} up, one "
                    f"unit for each direction at least, got {widths}."
                )
        return self


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 6, "linear_widths": (10, 100, 1000), "attention_widths": (5, 50)}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train both networks at every width."""
    keys, s = keys_of(parameters, key), spectrum(parameters.kappa)
    tables = {}
    for model, widths, scale, share in (
        (LINEAR, parameters.linear_widths, parameters.linear_scale, (0.0, 0.2)),
        (ATTENTION, parameters.attention_widths, parameters.attention_scale, (0.2, 0.8)),
    ):
        settings = [Setting(width, s, model.network(width, scale, keys)) for width in widths]
        part = part_of(say, *share)
        tables[model.name] = sweep(model, "width", settings, parameters.seed, part)
    return run_tree(NAME, parameters, **tables)


def claims(run: xr.DataTree) -> list[Claim]:
    """What width does, and what it does not."""
    parameters = parameters_of(run, Parameters)
    linear, attention = run["linear"].to_dataset(), run["attention"].to_dataset()
    usual = Parameters()
    same = parameters.kappa == usual.kappa
    found = [
        *level_claims(NAME, "linear", linear, "width"),
        *level_claims(NAME, "attention", attention, "width"),
        *time_claims(NAME, "linear", linear, "width", linear["width"].values),
        *time_claims(NAME, "attention", attention, "width", attention["width"].values),
        *_logarithm(linear),
        *_shortened(linear, attention),
    ]
    if parameters.kappa >= usual.kappa:  # drops of a flatter spectrum overlap
        found += _means(linear, parameters.linear_scale)
    for name, data, share in (("linear", linear, 1.0), ("attention", attention, 0.75)):
        found.append(
            count_claim(
                NAME,
                f"{name}: at every width the loss shows {STAIRS} plateaus",
                _SOURCE,
                data["count"],
                data["count"] >= STAIRS,
                share,
            )
        )
    if same and parameters.linear_scale == usual.linear_scale:
        spread = {width: mode_spread(width, spectrum(usual.kappa)) for width in _LINEAR_TIMES}
        found += reference_claims(NAME, "linear", _SOURCE, linear, "width", _LINEAR_TIMES, spread)
    if same and parameters.attention_scale == usual.attention_scale:
        reference = (NAME, "attention", _SOURCE, attention, "width", _ATTENTION_TIMES)
        found += [*reference_claims(*reference, _ATTENTION_SPREAD), *duration_claims(*reference)]
    return found


def _distribution(linear: xr.Dataset, scale: float) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean and variance of drop times over all draws, in closed form.

    Of what it learns a mode has a₀ = Σcᵢ²/2s_k at first, with cᵢ from N(0, ε²), less what earlier
    modes span of it: 2s_k a₀/ε² is χ² of ν = H − k + 1 degrees of freedom, whose logarithm has mean
    ψ(ν/2) + ln 2. Half of the mode's share of the loss is gone at logit ln(√2 − 1).
    """
    from scipy.special import digamma

    s, widths = linear["singular_value"].values[0], linear["width"].values
    half = (widths[:, None] - np.arange(DIRECTIONS)) / 2
    growth = np.log(np.sqrt(2) - 1) - np.log(scale**2 / s) - digamma(half)
    variance = np.array([mode_spread(width, s) ** 2 for width in widths.tolist()])
    labels = {"dims": ("width", "drop"), "coords": {"width": widths}}
    return xr.DataArray(growth / (2 * s), **labels), xr.DataArray(variance, **labels)


def _means(linear: xr.Dataset, scale: float) -> list[Claim]:
    """Means over seeds against those over all draws: of drops, and of plateaus between them."""
    time, variance = (each.values for each in _distribution(linear, scale))
    drops = linear["drop_time"].mean("seed").values
    between = np.diff(time, axis=1), np.diff(drops, axis=1), variance[:, 1:] + variance[:, :-1]
    return [
        _mean("mean drop times", linear, time, drops, variance),
        _mean("mean times between drops", linear, *between),
    ]


def _mean(
    words: str,
    linear: xr.Dataset,
    predicted: np.ndarray,
    measured: np.ndarray,
    variance: np.ndarray,
) -> Claim:
    widths, error = linear["width"].values, np.sqrt(variance / linear.sizes["seed"])
    off = np.abs(measured - predicted) / error
    setting, drop = np.unravel_index(np.argmax(off), off.shape)
    return compare(
        experiment=NAME,
        claim=f"linear network: {words} follow from the distribution of initial weights; in "
        f"standard errors furthest off is number {drop + 1} at width {widths[setting]:g}",
        source=f"{PAPER}, Theorem 4; χ² distribution of a mode's initial amplitude",
        predicted=float(predicted[setting, drop]),
        measured=float(measured[setting, drop]),
        tolerance=two_digits(sigmas(off.size) * error[setting, drop]),
        note="; ".join(
            f"width {width}: " + ", ".join(f"{value:.4g}" for value in row)
            for width, row in zip(widths, predicted, strict=True)
        ),
    )


def _logarithm(linear: xr.Dataset) -> list[Claim]:
    """t_k = ln(1/a₀)/2s_k + …, and of many units a₀ = Hε²/2s_k; from the two largest widths."""
    widths = linear["width"].values[-2:]
    if widths[0] < 5 * DIRECTIONS:
        return []
    drops = linear["drop_time"].sel(width=widths).mean("seed").values
    s, octaves = linear["singular_value"].values[0], np.log(widths[1] / widths[0])
    # ln a₀ scatters by √(2/H) from seed to seed, so that means over seeds know no more than this.
    scatter = np.sqrt(np.sum(2 / widths) / linear.sizes["seed"]) / octaves
    return [
        compare(
            experiment=NAME,
            claim="linear network: width enters through its logarithm alone, "
            f"dt_k/d ln H = −1/(2 s_k), from width {widths[0]:g} to {widths[1]:g}",
            source=_SOURCE,
            predicted=-1 / (2 * s),
            measured=(drops[1] - drops[0]) / octaves,
            tolerance=round(0.03 + 4 * float(scatter), 3),
            relative=True,
            note="wider networks are a little faster: ‘little effect’, not none",
        )
    ]


def _shortened(linear: xr.Dataset, attention: xr.Dataset) -> list[Claim]:
    stays = {"linear": stay(linear, "width"), "attention": stay(attention, "width")}
    powers = {name: _power(time) for name, time in stays.items()}
    shorter = powers["attention"] < 0
    return [
        compare(
            experiment=NAME,
            claim="attention: more heads shorten the intermediate plateaus",
            source=_SOURCE,
            predicted="shorter",
            measured="shorter" if shorter else "longer",
            note=f"median time from first to last drop {listed(stays['attention'], 'width')}",
        ),
        compare(
            experiment=NAME,
            claim="width shortens attention's intermediate plateaus more than the linear network's",
            source=_SOURCE,
            predicted="attention",
            measured=min(powers, key=lambda name: powers[name]),
            note=f"as H to the power {powers['attention']:.2f}, {powers['linear']:.2f} if linear",
        ),
    ]


def _power(times: xr.DataArray) -> float:
    """Exponent of a power law through the narrowest and the widest network."""
    (short, *_, long), (narrow, *_, wide) = times.values, times["width"].values
    return float(np.log(long / short) / np.log(wide / narrow))


@styled
def draw(run: xr.DataTree) -> Figure:
    """Both networks side by side, a curve for each width."""
    heading = "2A   Width: logarithmic in a linear network, decisive in attention"
    return draw_both(heading, run, "width", symbol="H =", predicted="theory:\nlevels, first drop")
