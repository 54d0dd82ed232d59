r"""Proposition 5: in a quadratic network units separate, the largest one first.

Eq. (14), which holds near zero, is integrated directly in coordinates that stay finite, and held
against the time at which a unit reaches infinity. Eq. (56) as printed keeps the sign of v for ever;
a unit whose v and drive disagree may *bounce*, and then it is imaginary. Times are those of the
loss ½⟨(y − f)²⟩, half of Section H.2's.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from ....diagnose import passage_time
from ....dynamics import gradient_flow
from ....networks import fully_connected
from ....tasks import quadratic_teacher
from ....theory.saddles import escape_times, winner
from ..._frame import keys_of, parameters_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ...claims import Claim
from .._moments import correlation
from .._units_flow import Field as Velocity
from .._units_flow import blow_up
from ._proposition_5_claims import all_claims
from ._proposition_5_reduced import reduced_speeds
from ._proposition_5_rivals import rivals
from ._proposition_5_signs import sign_table

NAME = "saddles/proposition-5"
_ACCURACY = 1e-12  # of both integrals for a unit's time, Eq. (56) and its correction


class Parameters(BaseParameters):
    """Random units, their eigenvalues, and quadratic networks as in Figure 1G."""

    seeds: int = Field(default=8, ge=1)
    """How many quadratic networks are trained at each scale."""

    eigenvalues: tuple[float, ...] = (1.0, 0.4, -0.7)
    """Eigenvalues s_k of Σ_yZ, of both signs as the proposition asks."""

    units: int = Field(default=200, ge=20)
    """Number of random units whose escape is integrated."""

    width: int = Field(default=10, ge=2)
    """Number of units H of a network."""

    draws: int = Field(default=400, ge=100)
    """Number of networks in which the second-largest unit is measured."""

    scales: tuple[float, ...] = (5e-3, 1.5e-3, 5e-4)
    """Standard deviations ε of the trained networks' weights, falling."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        s = self.eigenvalues
        if len(s) < 2 or min(s) >= 0 or max(s) <= 0:
            raise ValueError(
                f"`eigenvalues` must have both signs, as Proposition 5 assumes, got {s}. "
                "Positive ones alone are part of every run: Σ_yZ = 4I of Figure 1G."
            )
        if min(abs(each) for each in s) < 0.1 * max(abs(each) for each in s):
            raise ValueError(f"`eigenvalues` must be within a factor of ten in size, got {s}.")
        scales = self.scales
        falling = list(scales) == sorted(set(scales), reverse=True)
        if len(scales) < 2 or not falling or scales[-1] < 1e-5 or scales[0] > 0.01:
            raise ValueError(
                f"`scales` must be two or more, falling, from 0.01 at most to 1e-5 at least, got "
                f"{scales}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 4, "draws": 200}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Units of both signs and of one, networks of Figure 1G, and the gradients of Section H.1."""
    size = len(parameters.eigenvalues)
    draw = np.random.default_rng((parameters.seed, 5)).normal
    weights = draw(size=(parameters.units, size + 1))
    say("random units", 0.0)
    s = np.array(parameters.eigenvalues)
    both = _escapes(weights, s)
    reduced = reduced_speeds(_field(s), weights, s, both["predicted"].values)
    say("units of one sign", 0.2)
    one = _escapes(weights, np.abs(s))
    say("the second-largest unit", 0.3)
    rest = rivals(draw(size=(parameters.draws, parameters.width, 3)), np.full(2, 4.0))
    say("networks", 0.5)
    networks = _networks(parameters, key)
    return run_tree(
        NAME,
        parameters,
        both_signs=both,
        reduced=reduced,
        one_sign=one,
        rivals=rest,
        networks=networks,
        gradients=sign_table(parameters.seed),
    )


def _field(s: np.ndarray) -> Velocity:
    """Eq. (14) for units θ = (u, v) in the eigenbasis of Σ_yZ."""

    def field(theta: np.ndarray) -> np.ndarray:
        u, v = theta[:, :-1], theta[:, -1:]
        return np.concatenate((2 * v * s * u, np.sum(s * u**2, axis=1, keepdims=True)), axis=1)

    return field


def _escapes(weights: np.ndarray, s: np.ndarray) -> xr.Dataset:
    """Units θ = (u, v) in the eigenbasis of Σ_yZ, integrated and predicted."""
    measured, directions = blow_up(_field(s), weights, rtol=1e-11)
    signs = np.sign(directions[:, :, -1])
    u, v = weights[:, :-1], weights[:, -1]
    return xr.Dataset(
        {
            "measured": ("unit", measured),
            "predicted": ("unit", escape_times(u, v, np.diag(s), tolerance=_ACCURACY)),
            "printed": ("unit", [_printed(*unit, s) for unit in zip(u, v, strict=True)]),
            "bounces": ("unit", (signs != signs[:, :1]).any(axis=1) & np.isfinite(measured)),
            "never": ("unit", _never(u, v, s)),
            "eigenvalue": ("mode", s),
            "u": (("unit", "mode"), u),
            "v": ("unit", v),
        }
    )


def _printed(u: np.ndarray, v: float, s: np.ndarray) -> float:
    """Eq. (56) as it stands, with π = e^x; NaN where its radicand is negative on the way."""
    from scipy.integrate import quad

    a2 = u**2 / 2
    m = int(np.argmax(np.sign(v) * s))
    power = 2 * s / s[m]

    def radicand(x: np.ndarray | float) -> Any:
        return v**2 + np.expm1(np.multiply.outer(x, power)) @ a2

    far = 60.0
    if np.min(radicand(np.linspace(0.0, far, 20_001))) < 0 or np.sign(v) * s[m] <= 0:
        return np.nan
    value, _ = quad(
        lambda x: 1 / np.sqrt(radicand(x)), 0.0, far, epsabs=0, epsrel=_ACCURACY, limit=500
    )
    return value / abs(s[m]) / 2


def _never(u: np.ndarray, v: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Units that stay near zero: s of one sign, v against it and too strong for u to turn."""
    sign = np.sign(s[0]) if (np.sign(s) == np.sign(s[0])).all() else 0.0
    return (sign * v < 0) & (v**2 >= np.sum(u**2, axis=1) / 2) if sign else np.zeros(len(v), bool)


def _networks(parameters: Parameters, key: PRNGKeyArray | None) -> xr.Dataset:
    """The quadratic network of Figure 1G, where Σ_yZ = 4I: first drop and who makes it."""
    scales = np.array(parameters.scales)
    keys = keys_of(parameters, key)
    network = fully_connected(
        2,
        parameters.width,
        activation="quadratic",
        scale=scales[:, None],
        key=keys.reshape(1, -1),
    )
    task = quadratic_teacher(np.eye(2))
    sigma = correlation(task, network.unit)[0]
    who, when = winner(network.u, network.v[..., 0], sigma)
    trained = gradient_flow(network, task, loss="half", rtol=1e-7, converged=1e-3)
    # From ⟨y²⟩ = 8 the best single unit takes the loss to 8/3, in the half loss from 4 to 4/3.
    middle = (4 + 4 / 3) / 2
    drop, strongest = np.empty(who.shape), np.empty(who.shape, int)
    for index in np.ndindex(who.shape):
        lane = trained.lane(*index)
        drop[index] = passage_time(lane.time, lane.loss, middle, slope=lane.slope)
        at = int(np.argmax(lane.loss <= middle))
        u, v = (np.asarray(part)[at] for part in (lane.network.u, lane.network.v))
        strongest[index] = np.argmax(np.abs(v[:, 0]) * np.sum(u**2, axis=-1))
    over = ("scale", "seed")
    return xr.Dataset(
        {
            "drop_time": (over, drop),
            "predicted_time": (over, when),
            "winner": (over, who),
            "strongest": (over, strongest),
            "correlation": (("row", "column"), sigma),
        },
        {"scale": scales, "seed": parameters.seed + np.arange(parameters.seeds)},
    )


def claims(run: xr.DataTree) -> list[Claim]:
    """What the proposition says, where it needs a correction, and its misprints."""
    return all_claims(NAME, run, parameters_of(run, Parameters).width)


def draw(run: xr.DataTree) -> Figure:
    """Predicted and integrated times; the second-largest unit against ε."""
    from ._proposition_5_draw import draw_units

    return draw_units(run)
