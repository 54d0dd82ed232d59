r"""Distribution over many seeds of the drop times of a quadratic network, from initial weights.

The network of Figure 1G learns y = |x|². The correlation is Σ_yZ = sI with s = 4, so the weights u
of a unit keep their direction. The readout follows v̇ = 2s(v² − c), where c = v² − |u|²/2 is
conserved (Eq. 14; loss ½⟨(y − f)²⟩, τ = 1). With k = √|c|, a unit reaches infinity at
t_∞ = arccot(v/k)/2sk. For c > 0 the function is hyperbolic, and a negative result means that the
unit never grows. Units with Gaussian weights of size ε are independent. The probability that the
first of H units has grown by time t is therefore 1 − (1 − F(εt))^H, where F is an integral over
directions. Once the first unit, with direction n, is learned, Σ_yZ = s'(I − nnᵀ) with s' = 8/3. All
other units then continue to grow, but only orthogonally to n. The closed form of the first drop
also gives the second drop, from the weights of all other units at the time of the first drop.
"""

import itertools
import math
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_increasing
from ...experiments.claims import (
    SIGNIFICANCE_LEVEL,
    ClaimCollector,
    agree,
    all_below,
    claims_from_source,
    decreasing,
    frequency_agrees,
    join_numbers,
    most_seeds,
)
from ...experiments.figures import (
    POINT_STYLE,
    diagonal,
    draw_distribution,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import Layer, fully_connected
from ...tasks import quadratic_teacher

_S, _NEXT = 4.0, 8 / 3
"""Growth rates of units at zero, and orthogonally to the first learned unit."""
_MIDDLES = (8 / 3, 2 / 3)
"""Midpoints between the losses ½⟨(y − f)²⟩ of consecutive plateaus, which are 4, 4/3 and 0."""
_BATCH = 4096  # number of networks whose loss curves are in memory at a time
_NEVER = (1 - 1 / math.sqrt(3)) / 2
"""Probability that a unit never grows: v < 0 and v² > |u|²/2, which is exponential."""
_QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


class Parameters(BaseParameters):
    """Parameters of the drop-time experiment: many random draws of the network of Figure 1G."""

    seeds: int = Field(default=10_000, ge=200, le=1_000_000)
    """Number of networks that are trained."""

    width: int = Field(default=10, ge=2, le=1000)
    """Number H of hidden units of a network."""

    scale: float = Field(default=5e-3, ge=1e-4, le=0.01)
    """Standard deviation ε of the initial weights."""

    widths: Annotated[tuple[int, ...], check_increasing(1, 1000)] = (1, 3, 30)
    """Further widths H, increasing; a tenth as many networks are trained at each."""


PRESETS: dict[str, dict[str, Any]] = {"many": {"seeds": 100_000}}
QUICK: dict[str, Any] = {"seeds": 2000, "widths": (3, 30)}


@make_run("saddles/drop-times")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train all networks, and predict both drops of each from its initial weights."""
    keys, few = keys_from_parameters(parameters, key), max(parameters.seeds // 10, 100)
    sizes = [(parameters.width, keys), *((width, keys[:few]) for width in parameters.widths)]
    work = np.array([width * len(each) for width, each in sizes], float)
    done, found = 0.0, list[xr.Dataset]()
    for (width, each), amount in zip(sizes, work / work.sum(), strict=True):
        pieces = range(0, len(each), _BATCH)
        parts = list[xr.Dataset]()
        for start in pieces:
            progress(f"training {len(each)} networks of width {width}", done)
            parts.append(_networks(parameters.scale, width, each[start : start + _BATCH]))
            done += amount / len(pieces)
        found.append(xr.concat(parts, "seed"))
    over = xr.Variable("width", list(parameters.widths))
    return {"networks": found[0], "widths": xr.concat(found[1:], over)}


def _networks(scale: float, width: int, keys: Keys) -> xr.Dataset:
    """Return measured and predicted times of both drops of each network; NaN without a drop."""
    network = fully_connected(2, width, activation="quadratic", scale=scale, key=keys)
    predicted = _predict(network)
    # End training at a high quantile, because a few second drops are very late.
    last = max(np.nanmax(predicted[:, 0]), np.quantile(predicted[np.isfinite(predicted)], 0.999))
    task = quadratic_teacher(np.eye(2))
    how: dict[str, Any] = {"rtol": 1e-7, "t_end": last + 10, "converged": 1e-3, "observe": {}}
    trained = gradient_flow(network, task, **how)
    curves = trained.time, trained.loss, trained.slope
    time, loss, slope = (curve[:, None] for curve in curves)
    seen = passage_time(time, loss, _MIDDLES, slope=slope)
    over = "seed", "fall"
    never = np.isnan(seen[:, 0])
    return xr.Dataset(
        {"seen": (over, seen), "predicted": (over, predicted), "never": (over[:1], never)}
    )


def _escape(v: np.ndarray, half: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Return t_∞ of units with |u|²/2 = `half` (negative for units that never grow), and c."""
    c = v**2 - half
    k = np.sqrt(np.abs(c))
    with np.errstate(divide="ignore", invalid="ignore"):
        clock = np.where(c < 0, np.arctan2(k, v), np.arctanh(np.clip(k / v, -1, 1)))
        return clock / (2 * rate * k), c


def _first(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index and the time of the first unit that grows; NaN if no unit grows."""
    left = np.where(times > 0, times, np.inf)
    when = left.min(axis=-1)
    return left.argmin(axis=-1), np.where(np.isfinite(when), when, np.nan)


def _predict(network: Layer) -> Float[np.ndarray, "seed fall"]:
    """Predict both drops to leading order in ε."""
    u, v = (np.asarray(part, float) for part in network.parts)
    v, half = v[..., 0], np.sum(u**2, axis=-1) / 2
    escape, c = _escape(v, half, _S)
    winner, first = _first(escape)
    rest = np.arange(v.shape[1]) != winner[:, None]
    # State of all other units when the first has grown: v = k cot or coth of their remaining time.
    k, left = np.sqrt(np.abs(c)), escape - first[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        v = k / np.where(c < 0, np.tan(2 * _S * k * left), np.tanh(2 * _S * k * left))
        n = np.take_along_axis(u, winner[:, None, None], axis=1)
        across = 1 - np.sum(u * n, axis=-1) ** 2 / (2 * half * np.sum(n**2, axis=-1))
        later, _ = _escape(v, (v**2 - c) * across, _NEXT)
    return np.stack((first, first + _first(np.where(rest, later, -1.0))[1]), axis=-1)


def advance() -> float:
    r"""Return the time from the middle of the first drop to the divergence of the unit.

    A balanced unit, c = 0, follows v̇ = 2s v²(1 − 3v³/2). The output f = 2v³(n·x)² of the unit
    crosses the middle where 6v⁶ − 8v³ + 4/3 = 0.
    """
    from scipy.integrate import quad

    there = ((2 - math.sqrt(2)) / 3) ** (1 / 3)
    late, _ = quad(lambda v: 1.5 * v / (1 - 1.5 * v**3), 0.0, there)
    return (1 / there - late) / (2 * _S)


def law(times: np.ndarray, width: int, scale: float) -> Float[np.ndarray, " time"]:
    """Return the probability that the first drop has happened by each time, for Gaussian weights.

    With v = ρ cos φ and |u|/√2 = ρ sin φ, F = ∫ 2 sin φ/√2π ∫_R ρ² exp(−ρ²(1 + sin²φ)/2) dρ dφ. The
    lower limit R = t_∞(φ)/εt is the smallest size ρ of units that have grown by time t.
    """
    from scipy.special import erfc, roots_legendre

    x, weight = roots_legendre(100)
    # Two pieces, because t_∞ has a kink where v² = |u|²/2; units beyond the second never grow.
    edges = (0.0, np.pi / 4, 3 * np.pi / 4)
    phi = np.concatenate([(b - a) / 2 * x + (a + b) / 2 for a, b in itertools.pairwise(edges)])
    weight = np.concatenate([(b - a) / 2 * weight for a, b in itertools.pairwise(edges)])
    alone, _ = _escape(np.cos(phi), np.sin(phi) ** 2, _S)
    k, reduced = (1 + np.sin(phi) ** 2) / 2, scale * np.maximum(times + advance(), 1e-9)
    size = alone / reduced[:, None]
    inner = size * np.exp(-k * size**2) / (2 * k)
    inner += math.sqrt(math.pi) * erfc(np.sqrt(k) * size) / (4 * k**1.5)
    left = (2 * np.sin(phi) * inner) @ weight / math.sqrt(2 * math.pi)
    return -np.expm1(width * np.log1p(-left))


@claims_from_source("Zhang, Saxe & Latham", "Proposition 5; Figure 1G")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the distribution of the first drop at every width, and each network's plateau."""
    parameters = parameters_of_run(run, Parameters)
    data, widths = run["networks"].ds, run["widths"].ds
    first, plateau = (data["seen"].isel(fall=0), data.diff("fall").isel(fall=0))
    predicted = data["predicted"].isel(fall=0)
    scale, count = parameters.scale, data.sizes["seed"]
    claim(
        "first-drop-law",
        f"the time of the first drop of a network with {parameters.width} units is distributed "
        "over seeds as the shortest escape time of this number of independent units",
        all_below(_distance(first, parameters.width, scale), _critical(count)),
        headline=True,
        note=f"largest difference of the cumulative distributions, {count} seeds; chance alone "
        "gives less in 99 of 100 cases",
    )
    claim(
        "before-infinity",
        "the middle of the first drop precedes the predicted divergence of the unit by a time that "
        "does not depend on its initial weights",
        agree((predicted - first).median(), advance(), within=1e-3),
        note="median; this time is of order τ, the escape time t_∞ of order τ/ε",
    )
    off = [_distance(each.isel(fall=0), int(each["width"]), scale) for each in widths["seen"]]
    claim(
        "every-width",
        "at every width the time of the first drop follows the predicted distribution over seeds",
        all_below(off, _critical(widths.sizes["seed"], len(off))),
        note="largest differences of the cumulative distributions: "
        f"{join_numbers(widths['width'].copy(data=off), 2)}",
    )
    width = int(widths["width"][0])
    claim(
        "never-drop",
        f"with probability p^{width} the loss of a network of {width} unit{'s' * (width > 1)} "
        "never drops, because each unit stays near zero with probability p = (1 − 1/√3)/2",
        frequency_agrees(widths["never"].isel(width=0), _NEVER**width),
        corrected="the statement holds for eigenvalues of one sign, which Proposition 5 excludes",
    )
    middle = widths["seen"].isel(fall=0).quantile([0.25, 0.5, 0.75], "seed")
    spread = (middle[2] - middle[0]) / middle[1]
    told = spread.isel(width=widths["width"].values >= 3)  # narrower networks may lack a quartile
    claim(
        "wider-more-certain",
        "the time of the first drop varies less over seeds in wider networks (interquartile range "
        "over median)",
        decreasing(told),
    )
    off = plateau["seen"] - plateau["predicted"]
    claim(
        "plateau-lengths",
        "the length of the intermediate plateau is the growth time of the next unit from its "
        "weights at the first drop; in 19 of 20 networks the difference is below 1/s' = 3/8",
        most_seeds(abs(off) < 1 / _NEXT, 0.95),
        note=f"lengths {join_numbers(plateau['seen'].quantile(_QUANTILES, 'seed').values, 3)} at "
        f"quantiles {join_numbers(_QUANTILES)}; predicted "
        f"{join_numbers(plateau['predicted'].quantile(_QUANTILES, 'seed').values, 3)}",
    )


def _distance(times: xr.DataArray, width: int, scale: float) -> float:
    """Return the largest difference from the predicted distribution; no drop counts as infinity."""
    seen = np.sort(times.values[np.isfinite(times.values)])
    some = np.geomspace(seen[0], seen[-1], 500)  # dense enough for linear interpolation
    expected = np.interp(seen, some, law(some, width, scale))
    steps = np.arange(seen.size + 1) / times.size
    return float(np.maximum(abs(steps[1:] - expected), abs(expected - steps[:-1])).max())


def _critical(count: int, tests: int = 1) -> float:
    from scipy.stats import kstwo

    return float(kstwo.isf(SIGNIFICANCE_LEVEL / tests, count))


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the first drop's distribution at several widths, and the length of the plateau."""
    parameters, data = parameters_of_run(run, Parameters), run["networks"].ds
    title = f"Drop times of {data.sizes['seed']:,} quadratic networks, from initial weights"
    title += " (τ: time constant of gradient flow)"
    figure, (first, wide, lengths, each) = panels(title, 4)
    seen = data["seen"].isel(fall=0).assign_attrs(long_name="time of the first drop, $t/τ$")
    times = np.linspace(0.6 * float(seen.min()), float(seen.quantile(0.999)), 300)
    below_ = law(times, parameters.width, parameters.scale)
    density = xr.DataArray(np.gradient(below_, times), {"time": times}, ("time",))
    draw_distribution(first, seen, density, bins=np.linspace(times[0], times[-1], 61))
    label_axes(
        first,
        title=f"{parameters.width} units, initial scale ε = {parameters.scale:g}",
        theory="theory",
    )
    for width, shade, units in shades(run["widths"]["width"].values):
        some = run["widths"]["seen"].sel(width=width).isel(fall=0)
        some = (some * parameters.scale).assign_attrs(long_name="time of the first drop, εt/τ")
        at = np.geomspace(0.02, 2.0, 200)
        theory = law(at / parameters.scale, int(width), parameters.scale)
        theory = xr.DataArray(theory, {"time": at}, ("time",))
        label = f"{units} unit" + "s" * (int(width) > 1)
        how: dict[str, Any] = {"color": shade, "label": label}
        draw_distribution(wide, some, theory, cumulative=True, of="networks", **how)
    label_axes(wide, theory="theory", xscale="log", xlim=(0.02, 2.0))
    plateau = data.diff("fall").isel(fall=0).dropna("seed", subset=["seen"])
    low, high = plateau["predicted"].quantile([0.002, 0.999]).values.tolist()
    logs, bins = np.log10(plateau.clip(1e-9)), np.linspace(np.log10(low), np.log10(high), 50)
    counts, _ = np.histogram(logs["predicted"], bins)
    law_ = counts / np.diff(bins) / logs.sizes["seed"]
    law_ = xr.DataArray(law_, {"length": (bins[1:] + bins[:-1]) / 2}, ("length",))
    words = "length of the intermediate plateau, $\\log_{10} t/τ$"
    shown = logs["seen"].assign_attrs(long_name=words)
    draw_distribution(lengths, shown, law_, bins=bins)
    label_axes(lengths, theory="predicted from initial weights", legend="upper left")
    few = plateau.isel(seed=slice(1000))
    each.loglog(few["predicted"], few["seen"], **POINT_STYLE | {"ms": 2}, color="C0", alpha=0.4)
    diagonal(each, few["predicted"])
    label_axes(each, "predicted length of the plateau, $t/τ$", "measured length, $t/τ$")
    return figure
