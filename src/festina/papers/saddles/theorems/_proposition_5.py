r"""Proposition 5: in a quadratic network units separate, the largest one first.

Eq. (14), which holds near zero, is integrated directly in coordinates that stay finite, and held
against the time at which a unit reaches infinity. Eq. (56) as printed keeps the sign of v for ever;
a unit whose v and drive disagree may *bounce*, and then it is imaginary. Times are those of the
loss ½⟨(y − f)²⟩, half of Section H.2's.
"""

from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from pydantic import Field

from ....diagnose import plateaus_of_batch
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_decreasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    equal_to,
    follows_power_law,
    frequency_agrees,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import (
    POINT_STYLE,
    SIMULATION_STYLE,
    diagonal,
    label_axes,
    panels,
    power_law_guide,
    styled,
)
from ....networks import fully_connected, layer_from
from ....tasks import from_moments, quadratic_teacher
from ....theory.saddles import blow_up_times, first_unit_to_escape
from .._units_flow import blow_up
from ._proposition_5_errata import errata, gradients, reduced_speeds

USUAL, BOUNCING = (1.0, 0.4, -0.7), 0.19199
"""Probability that a unit with these eigenvalues and Gaussian weights bounces, by quadrature."""

WIDTH, QUANTILES = 10, {0.5: 10.51, 0.9: 62.2}
"""Of the second-largest of so many units in units of ε, for Σ_yZ = 4I and ε → 0: two million draws
of the closed form of a unit's way, ± 0.01 and ± 0.13."""

_ACCURACY = 1e-12  # of both integrals for a unit's time, Eq. (56) and its correction
_SCALES = np.logspace(-2, -5, 7)
_LEVELS = np.array([4.0, 4 / 3])  # half losses of zero weights and of the best single unit
_BOUNCE = "with the bounce of units whose v changes sign"


class Parameters(BaseParameters):
    """Random units, their eigenvalues, and quadratic networks as in Figure 1G."""

    seeds: int = Field(default=8, ge=1)
    """How many quadratic networks are trained at each scale."""

    eigenvalues: tuple[float, ...] = USUAL
    """Eigenvalues s_k of Σ_yZ, of both signs as the proposition asks."""

    units: int = Field(default=200, ge=20)
    """Number of random units whose escape is integrated."""

    width: int = Field(default=10, ge=2)
    """Number of units H of a network."""

    draws: int = Field(default=400, ge=100)
    """Number of networks in which the second-largest unit is measured."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.01, 1e-5)] = (5e-3, 1.5e-3, 5e-4)
    """Standard deviations ε of the trained networks' weights, falling."""

    def _check(self) -> None:
        s = self.eigenvalues
        if len(s) < 2 or min(s) >= 0 or max(s) <= 0:
            raise ValueError(f"`eigenvalues` must have both signs, as it assumes, got {s}.")
        if np.min(np.abs(s)) < 0.1 * np.max(np.abs(s)):
            raise ValueError(f"`eigenvalues` must be within a factor of ten in size, got {s}.")


QUICK: dict[str, Any] = {"seeds": 4, "draws": 200}


@make_run("saddles/proposition-5")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Units of both signs and of one, networks of Figure 1G, and the gradients of Section H.1."""
    s = np.array(parameters.eigenvalues)
    draw = np.random.default_rng((parameters.seed, 5)).normal
    weights = draw(size=(parameters.units, len(s) + 1))
    progress("random units", 0.0)
    tables = {"both_signs": _escapes(weights, s), "gradients": gradients(parameters.seed)}
    ends = tables["both_signs"]["predicted"].values
    tables["reduced"] = reduced_speeds(lambda theta: _speed(theta, s), weights, s, ends)
    progress("units of one sign", 0.2)
    tables["one_sign"] = _escapes(weights, np.abs(s))
    progress("the second-largest unit", 0.3)
    tables["rivals"] = _rivals(draw(size=(parameters.draws, parameters.width, 3)), np.full(2, 4.0))
    progress("networks", 0.5)
    return tables | {"networks": _networks(parameters, key)}


def _speed(theta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Eq. (14) for units θ = (u, v) in the eigenbasis of Σ_yZ, along the last axis."""
    u, v = theta[..., :-1], theta[..., -1:]
    return np.concatenate((2 * v * s * u, np.sum(s * u**2, axis=-1, keepdims=True)), axis=-1)


def _escapes(weights: np.ndarray, s: np.ndarray) -> xr.Dataset:
    """When each unit reaches infinity: integrated, predicted, and by Eq. (56) as it stands."""
    measured, directions = blow_up(lambda theta: _speed(theta, s), weights, rtol=1e-11)
    signs = np.sign(directions[:, :, -1])
    u, v = weights[:, :-1], weights[:, -1]
    units, task = layer_from("quadratic", u, v), from_moments(np.diag(s)[None])
    against = (s > 0).all() & (v < 0)
    numbers = {
        "measured": measured,
        "predicted": blow_up_times(units, task, tolerance=_ACCURACY),
        "printed": [_printed(*unit, s) for unit in zip(u, v, strict=True)],
        "bounces": (signs != signs[:, :1]).any(axis=1) & np.isfinite(measured),
        # Units that stay near zero: v is against s and too strong for u to turn.
        "never": against & (v**2 >= np.sum(u**2, axis=1) / 2),
    }
    return xr.Dataset({name: ("unit", values) for name, values in numbers.items()})


def _printed(u: np.ndarray, v: float, s: np.ndarray) -> float:
    """Eq. (56) as it stands, with π = e^x; NaN where its radicand is negative on the way."""
    from scipy.integrate import quad

    m, far = int(np.argmax(np.sign(v) * s)), 60.0
    radicand = lambda x: v**2 + np.expm1(np.multiply.outer(x, 2 * s / s[m])) @ (u**2 / 2)
    if np.min(radicand(np.linspace(0.0, far, 20_001))) < 0 or np.sign(v) * s[m] <= 0:
        return np.nan
    slowness = lambda x: 1 / np.sqrt(radicand(x))
    return quad(slowness, 0.0, far, epsabs=0, epsrel=_ACCURACY, limit=500)[0] / abs(s[m]) / 2


def _rivals(weights: np.ndarray, s: np.ndarray) -> xr.Dataset:
    """The second-largest unit of each network when the largest has norm one, in units of ε.

    Homogeneity makes every scale of one: weights ε θ at time t/ε are ε times weights θ at time t.
    The clock dσ = |θ| dt keeps the largest unit from reaching infinity; who is beyond every scale
    of interest waits for the others.
    """
    from scipy.integrate import RK45

    shape, grown = weights.shape, 1 / _SCALES.min()

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        theta = state.reshape(shape)
        total = np.linalg.norm(theta, axis=(1, 2), keepdims=True)
        return np.where(total > 4 * grown, 0.0, _speed(theta, s) / total).ravel()

    two_largest = lambda theta: np.sort(np.linalg.norm(theta, axis=2), axis=1)[:, -2:]
    solver = RK45(flow, 0.0, weights.ravel(), 200 / s.max(), rtol=1e-6, atol=1e-9)
    seen = [two_largest(weights)]
    while solver.status == "running" and (seen[-1][:, 1] <= 2 * grown).any():
        solver.step()
        seen.append(two_largest(solver.y.reshape(shape)))
    ratio = np.full((len(weights), _SCALES.size), np.nan)
    for row, (other, rising) in zip(ratio, np.log(seen).transpose(1, 2, 0), strict=True):
        start = int(np.argmin(rising))  # the largest one may shrink before it grows
        if rising.max() >= np.log(grown):
            row[:] = np.exp(np.interp(-np.log(_SCALES), rising[start:], other[start:]))
    return xr.Dataset({"second": (("draw", "scale"), ratio)}, {"scale": _SCALES}).dropna("draw")


def _networks(parameters: Parameters, key: Key) -> xr.Dataset:
    """The quadratic network of Figure 1G, where Σ_yZ = 4I: first drop and who makes it."""
    scales, keys = np.array(parameters.scales), keys_from_parameters(parameters, key)
    size: dict[str, Any] = {"scale": scales[:, None], "key": keys.reshape(1, -1)}
    network = fully_connected(2, parameters.width, activation="quadratic", **size)
    task = quadratic_teacher(np.eye(2))
    who, when = first_unit_to_escape(network, task)
    trained = gradient_flow(network, task, loss="half", rtol=1e-7, converged=1e-3)
    found = plateaus_of_batch(trained, _LEVELS).isel(middle=0)
    at = found["save"].values[..., None, None, None]
    u, v = (np.take_along_axis(np.asarray(part), at, axis=2) for part in trained.network.parts)
    numbers = {
        "drop_time": found["passage"].values,
        "predicted_time": when,
        "winner": who,
        "strongest": np.argmax(np.abs(v[..., 0]) * np.sum(u**2, axis=-1), axis=-1)[..., 0],
    }
    table: dict[str, Any] = {name: (("scale", "seed"), each) for name, each in numbers.items()}
    table["correlation"] = (("row", "column"), task.statistics(network.unit).correlation[0])
    seeds = (0 if key is not None else parameters.seed) + np.arange(parameters.seeds)
    return xr.Dataset(table, {"scale": scales, "seed": seeds})


@claims_from_source("Zhang, Saxe & Latham", "Proposition 5")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """What the proposition says, where it needs a correction, and its misprints."""
    parameters, at = parameters_of_run(run, Parameters), "Eq. (56)"
    both, one, networks = (run[name].ds for name in ("both_signs", "one_sign", "networks"))
    for id, table, signs in (
        ("escape-both-signs", both, "both signs"),
        ("escape-one-sign", one, "one sign, against the assumption"),
    ):
        escaped = ~table["never"].values
        seen, predicted = table["measured"][escaped], table["predicted"][escaped]
        words = f"eigenvalues of {signs}: t_∞ from the initial weights is that of integration"
        note = f"{int(table['bounces'].sum())} of {escaped.size} units bounce"
        judged = max_error_below(seen, predicted, within=1e-5, relative=True)
        claim(id, words, judged, at=at, corrected=_BOUNCE, note=note)
    real, bounces = np.isfinite(both["printed"]), both["bounces"]
    claim(
        "printed-time-for-all",
        "Eq. (56) as printed gives a time for every unit",
        most_seeds(real, of="units"),
        at=at,
        wrong="imaginary for those whose v changes sign, and for no others",
        instead=most_seeds(real != bounces, of="units"),
    )
    printed, right = both["printed"][real], both["predicted"][real]
    words = "Eq. (56) as printed is right for units whose v keeps its sign"
    judged = max_error_below(printed, right, within=_ACCURACY, relative=True)
    claim("printed-time", words, judged, at=at)
    if parameters.eigenvalues == USUAL:
        words = "Gaussian units bounce as often as quadrature over their weights says"
        claim("bounce-share", words, frequency_agrees(bounces, BOUNCING, of="units"), at=at)
    claim(
        "never-escape",
        "eigenvalues of one sign: units with v₀ against them and v₀² ≥ Σa_k² never escape, all "
        "others do",
        most_seeds(one["never"] == ~np.isfinite(one["measured"]), of="units"),
        corrected="the proposition excludes this case, which is that of Figure 1G",
    )
    s = np.linalg.eigvalsh(networks["correlation"])
    claim(
        "example-signs",
        "its own example, Figure 1G, has eigenvalues of both signs",
        equal_to(float(np.sign(s[0] * s[-1])), -1.0),
        wrong="Σ_yZ is a multiple of I",
        instead=agree(s, 4.0, within=1e-10),
    )
    error = abs(networks["drop_time"] / networks["predicted_time"] - 1)
    largest = error.max("seed")
    claim(
        "first-drop",
        "Figure 1G: first drop at the shortest escape time, from the smallest weights",
        max_error_below(error.isel(scale=-1), within=max(0.0025, 5 * parameters.scales[-1])),
        corrected=_BOUNCE,
        note=join_numbers(largest, 2),
    )
    words = "Figure 1G: the error of the first drop falls in proportion to ε"
    judged = follows_power_law(networks["scale"], largest, 1.0, within=0.25)
    claim("first-drop-error", words, judged)
    words = "Figure 1G: the unit with the shortest escape time makes the first drop"
    fastest = most_seeds(networks["winner"] == networks["strongest"], of="networks")
    claim("winner", words, fastest, corrected=_BOUNCE)
    second = run["rivals"].ds["second"]
    size = (second * second["scale"]).median("draw")
    words = "when one unit is O(1) the others are O(ε): the second-largest in the median"
    claim("second-largest", words, follows_power_law(second["scale"], size, 1.0, within=0.03))
    for part, value in QUANTILES.items() if parameters.width == WIDTH else ():
        claim(
            "second-largest-" + ("tail" if part > 0.5 else "median"),
            f"when one unit is O(1) the second-largest is below {value:g} ε in {100 * part:g} % of "
            "networks, by the closed form of a unit's way",
            frequency_agrees(second.isel(scale=-1) < value, part, of="networks"),
            corrected="O(ε) with a heavy-tailed constant" * (part > 0.5),
        )
    errata(run, claim)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Escape of random units on the left, the second-largest unit on the right."""
    title = "Proposition 5   One unit leaves zero while the others are still small"
    figure, (left, right) = panels(title, 2)
    data, second = run["both_signs"].ds, run["rivals"].ds["second"]
    for index, label in enumerate(("Eq. (56) is right", "v changes sign: Eq. (56) imaginary")):
        shown = data.isel(unit=np.flatnonzero(data["bounces"] == index))
        x, y = shown["predicted"], shown["measured"]
        left.loglog(x, y, **POINT_STYLE, color=f"C{index}", alpha=0.5, label=label)
    diagonal(left, data["measured"].where(np.isfinite(data["measured"])))
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    words = "escape time predicted from the initial weights", "escape time by direct integration"
    label_axes(left, *words, f"{data.sizes['unit']} random units", legend="upper left")
    for part, alpha in ((0.9, 0.3), (0.5, 0.7), (0.1, 0.3)):
        size = second["scale"] * second.quantile(part, "draw")
        label = "median" if part == 0.5 else f"{100 * part:g} % quantile"
        right.loglog(size["scale"], size, **SIMULATION_STYLE, color="C0", alpha=alpha, label=label)
        power_law_guide(right, size["scale"], float(size[-1]), 1.0)
    words = "initial scale ε", "its norm when the largest has norm 1"
    label_axes(right, *words, f"second-largest unit, {second.sizes['draw']} networks", theory="∝ ε")
    return figure
