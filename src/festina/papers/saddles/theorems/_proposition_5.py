r"""Proposition 5: in a quadratic network units separate, and the largest unit grows first.

Eq. (14) describes units near zero. Its direct integration, in coordinates that stay finite, is
compared with the predicted time at which a unit reaches infinity. Eq. (56) as printed assumes that
the readout v never changes sign. A unit *bounces* if v first shrinks through zero; Eq. (56) is then
imaginary. Times are those of gradient flow on the loss ½⟨(y − f)²⟩, half of the times of Section
H.2.
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
"""Quantiles of the norm of the second-largest of `WIDTH` units, in units of ε.

Computed for Σ_yZ = 4I and ε → 0 from two million draws of the closed form of a unit's trajectory,
with errors of ± 0.01 and ± 0.13.
"""

_ACCURACY = 1e-12  # of the integrals of Eq. (56) and of its correction
_SCALES = np.logspace(-2, -5, 7)
_LEVELS = np.array([4.0, 4 / 3])  # half losses of zero weights and of the best single unit
_BOUNCE = "includes units whose readout weight v changes sign before they grow"


class Parameters(BaseParameters):
    """Parameters of Proposition 5: random units, and quadratic networks as in Figure 1G."""

    seeds: int = Field(default=8, ge=1)
    """Number of quadratic networks that are trained at each scale."""

    eigenvalues: tuple[float, ...] = USUAL
    """Eigenvalues s_k of Σ_yZ; the proposition assumes that both signs occur."""

    units: int = Field(default=200, ge=20)
    """Number of random units that are integrated until they reach infinity."""

    width: int = Field(default=10, ge=2)
    """Number H of hidden units of a network."""

    draws: int = Field(default=400, ge=100)
    """Number of networks whose second-largest unit is measured."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.01, 1e-5)] = (5e-3, 1.5e-3, 5e-4)
    """Standard deviations ε of the initial weights of trained networks, decreasing."""

    def _check(self) -> None:
        s = self.eigenvalues
        if len(s) < 2 or min(s) >= 0 or max(s) <= 0:
            raise ValueError(
                f"`eigenvalues` must contain both signs, as Proposition 5 assumes, got {s}."
            )
        if np.min(np.abs(s)) < 0.1 * np.max(np.abs(s)):
            raise ValueError(f"`eigenvalues` must lie within a factor of ten in size, got {s}.")


QUICK: dict[str, Any] = {"seeds": 4, "draws": 200}


@make_run("saddles/proposition-5")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Integrate random units, train networks of Figure 1G, and check gradients of Section H.1."""
    s = np.array(parameters.eigenvalues)
    draw = np.random.default_rng((parameters.seed, 5)).normal
    weights = draw(size=(parameters.units, len(s) + 1))
    progress("integrating random units", 0.0)
    tables = {"both_signs": _escapes(weights, s), "gradients": gradients(parameters.seed)}
    ends = tables["both_signs"]["predicted"].values
    tables["reduced"] = reduced_speeds(lambda theta: _speed(theta, s), weights, s, ends)
    progress("integrating units with eigenvalues of one sign", 0.2)
    tables["one_sign"] = _escapes(weights, np.abs(s))
    progress("measuring the second-largest unit", 0.3)
    tables["rivals"] = _rivals(draw(size=(parameters.draws, parameters.width, 3)), np.full(2, 4.0))
    progress("training networks", 0.5)
    return tables | {"networks": _networks(parameters, key)}


def _speed(theta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return the right-hand side of Eq. (14) for units θ = (u, v) in the eigenbasis of Σ_yZ."""
    u, v = theta[..., :-1], theta[..., -1:]
    return np.concatenate((2 * v * s * u, np.sum(s * u**2, axis=-1, keepdims=True)), axis=-1)


def _escapes(weights: np.ndarray, s: np.ndarray) -> xr.Dataset:
    """Return the time at which each unit reaches infinity: integrated, predicted, by Eq. (56)."""
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
        # Units that stay near zero: v opposes s and is too strong to change sign.
        "never": against & (v**2 >= np.sum(u**2, axis=1) / 2),
    }
    return xr.Dataset({name: ("unit", values) for name, values in numbers.items()})


def _printed(u: np.ndarray, v: float, s: np.ndarray) -> float:
    """Evaluate Eq. (56) as printed, with π = e^x; return NaN where its radicand is negative."""
    from scipy.integrate import quad

    m, far = int(np.argmax(np.sign(v) * s)), 60.0
    radicand = lambda x: v**2 + np.expm1(np.multiply.outer(x, 2 * s / s[m])) @ (u**2 / 2)
    if np.min(radicand(np.linspace(0.0, far, 20_001))) < 0 or np.sign(v) * s[m] <= 0:
        return np.nan
    slowness = lambda x: 1 / np.sqrt(radicand(x))
    return quad(slowness, 0.0, far, epsabs=0, epsrel=_ACCURACY, limit=500)[0] / abs(s[m]) / 2


def _rivals(weights: np.ndarray, s: np.ndarray) -> xr.Dataset:
    """Return the second-largest unit's norm in units of ε when the largest unit has norm one.

    By homogeneity one integration covers every ε: weights ε θ at time t/ε are ε times the weights θ
    at time t. The clock dσ = |θ| dt keeps the largest unit from reaching infinity. A network that
    is beyond every scale of interest is held fixed until all networks are done.
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
        start = int(np.argmin(rising))  # the largest unit may shrink before it grows
        if rising.max() >= np.log(grown):
            row[:] = np.exp(np.interp(-np.log(_SCALES), rising[start:], other[start:]))
    return xr.Dataset({"second": (("draw", "scale"), ratio)}, {"scale": _SCALES}).dropna("draw")


def _networks(parameters: Parameters, key: Key) -> xr.Dataset:
    """Train quadratic networks of Figure 1G; return first drops and the units that cause them."""
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
    """Check the proposition with its correction, and the misprints."""
    parameters, at = parameters_of_run(run, Parameters), "Eq. (56)"
    both, one, networks = (run[name].ds for name in ("both_signs", "one_sign", "networks"))
    for id, table, signs in (
        ("escape-both-signs", both, "both signs"),
        ("escape-one-sign", one, "one sign, which Proposition 5 excludes"),
    ):
        escaped = ~table["never"].values
        seen, predicted = table["measured"][escaped], table["predicted"][escaped]
        words = (
            f"for eigenvalues of {signs}: the initial weights predict the time t_∞ at which a unit "
            "reaches infinity"
        )
        note = f"{int(table['bounces'].sum())} of {escaped.size} units bounce"
        judged = max_error_below(seen, predicted, within=1e-5, relative=True)
        claim(id, words, judged, at=at, corrected=_BOUNCE, note=note)
    real, bounces = np.isfinite(both["printed"]), both["bounces"]
    claim(
        "printed-time-for-all",
        "Eq. (56) as printed gives a real escape time for every unit",
        most_seeds(real, of="units"),
        at=at,
        wrong="the time is imaginary for the units whose v changes sign, and for no others",
        instead=most_seeds(real != bounces, of="units"),
    )
    printed, right = both["printed"][real], both["predicted"][real]
    words = "Eq. (56) as printed gives the right escape time for units whose v keeps its sign"
    judged = max_error_below(printed, right, within=_ACCURACY, relative=True)
    claim("printed-time", words, judged, at=at)
    if parameters.eigenvalues == USUAL:
        words = "Gaussian units bounce with the frequency computed by quadrature over their weights"
        claim("bounce-share", words, frequency_agrees(bounces, BOUNCING, of="units"), at=at)
    claim(
        "never-escape",
        "for eigenvalues of one sign, a unit never escapes if its readout v₀ opposes them and "
        "v₀² ≥ Σa_k² (a_k: its weights in the eigenbasis); every other unit escapes",
        most_seeds(one["never"] == ~np.isfinite(one["measured"]), of="units"),
        corrected="Proposition 5 excludes eigenvalues of one sign, the case of Figure 1G",
    )
    s = np.linalg.eigvalsh(networks["correlation"])
    claim(
        "example-signs",
        "Figure 1G, the paper's example of Proposition 5, has eigenvalues of both signs",
        equal_to(float(np.sign(s[0] * s[-1])), -1.0),
        wrong="in Figure 1G Σ_yZ is a multiple of the identity",
        instead=agree(s, 4.0, within=1e-10),
    )
    error = abs(networks["drop_time"] / networks["predicted_time"] - 1)
    largest = error.max("seed")
    claim(
        "first-drop",
        "in Figure 1G the first drop occurs at the shortest escape time of a unit (relative error "
        "at the smallest ε)",
        max_error_below(error.isel(scale=-1), within=max(0.0025, 5 * parameters.scales[-1])),
        corrected=_BOUNCE,
        note=f"largest errors by ε: {join_numbers(largest, 2)}",
    )
    words = (
        "in Figure 1G the error of the predicted first drop is proportional to ε (exponent of ε)"
    )
    judged = follows_power_law(networks["scale"], largest, 1.0, within=0.25)
    claim("first-drop-error", words, judged)
    words = "in Figure 1G the unit with the shortest escape time causes the first drop"
    fastest = most_seeds(networks["winner"] == networks["strongest"], of="networks")
    claim("winner", words, fastest, corrected=_BOUNCE)
    second = run["rivals"].ds["second"]
    size = (second * second["scale"]).median("draw")
    words = (
        "when the largest unit has norm 1, the median norm of the second-largest is proportional "
        "to ε (exponent of ε)"
    )
    claim("second-largest", words, follows_power_law(second["scale"], size, 1.0, within=0.03))
    for part, value in QUANTILES.items() if parameters.width == WIDTH else ():
        claim(
            "second-largest-" + ("tail" if part > 0.5 else "median"),
            f"when the largest unit has norm 1, the second-largest has a norm below {value:g} ε "
            f"in {100 * part:g} % of networks",
            frequency_agrees(second.isel(scale=-1) < value, part, of="networks"),
            corrected="O(ε) as the paper says, but with a heavy-tailed constant" * (part > 0.5),
        )
    errata(run, claim)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot escape times of random units, and the norm of the second-largest unit in a network."""
    title = "Proposition 5   One unit leaves zero while the others are still small"
    figure, (left, right) = panels(title, 2)
    data, second = run["both_signs"].ds, run["rivals"].ds["second"]
    for index, label in enumerate(("readout v keeps its sign", "readout v changes sign")):
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
    words = "initial scale ε", "norm when the largest has norm 1"
    label_axes(right, *words, f"second-largest unit, {second.sizes['draw']} networks", theory="∝ ε")
    return figure
