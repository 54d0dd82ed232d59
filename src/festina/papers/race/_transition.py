r"""Transition to nonlinearity: XoR with a third input Δy, which also has a linear solution.

Inputs are x = (±1, ±1, Δy) with y = −x₁x₂ and margin Δ (P = 4 examples), the loss is ½⟨(y − f)²⟩,
and τ Ẇ = −∂L/∂W with τ = 1. A ReLU unit along the third input is active for one class and grows at
the rate s_lin = Δ/2. A ReLU unit along one example grows at the rate s_XoR = √(2 + Δ²)/P. The order
parameter χ = (2 + Δ²)/2 ⟨y f(x₁, x₂, 0)⟩ uses the output with the third input set to zero: χ is 1
for the XoR solution and 0 for the linear solution.
"""

import math
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_decreasing, check_increasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    claims_from_source,
    increasing,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    power_law_guide,
    shades,
    styled,
)
from ...networks import fully_connected
from ...tasks import xor
from ...theory.gated import Race, race_of_gatings
from .._pathways import between

_SAMPLES = 121
_CROSSING = math.sqrt(2 / 3)
"""Margin Δ at which both rates are equal, Δ/2 = √(2 + Δ²)/4."""
_BEGUN = 0.01
"""Output, as a fraction of the targets, at which units have turned but the loss is still high."""
_TURNED = 0.6
"""Time after which small units have turned, as a fraction of the time to `_BEGUN`."""
_FEW = 0.1
"""Share of the slower pathway below which the faster one is learned without disturbance."""


class Parameters(BaseParameters):
    """ReLU networks on XoR with a margin, from initial weights of several scales."""

    seeds: int = Field(default=8, ge=1)
    """Number of networks that are trained for each margin and scale."""

    width: int = Field(default=128, ge=16)
    """Number of hidden units of each network."""

    scales: Annotated[tuple[float, ...], check_decreasing(1e-2, 1e-8)] = (1e-2, 1e-4, 1e-6)
    """Standard deviations σ of the initial weights, decreasing, from 0.01 at most."""

    margins: Annotated[tuple[float, ...], check_increasing(0.3, 1.4, count=4)] = (
        *(0.4, 0.5, 0.6, 0.7, 0.75, 0.8),
        *(0.85, 0.9, 1.0, 1.1, 1.2, 1.3),
    )
    """Margins Δ, increasing: two or more up to 0.8, and two or more from 0.85 to below √2. Below √2
    a unit along one example is inactive for examples of the other class."""


QUICK: dict[str, Any] = {"seeds": 4, "margins": (0.6, 0.7, 0.8, 0.85, 1.0, 1.2)}


@make_run("race/transition")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks at each margin and scale, and solve the race of XoR and linear pathways."""
    found, keys = [], keys_from_parameters(parameters, key)
    # The winning rate is smallest where both rates are equal.
    last = (2 * np.log(1 / parameters.scales[-1]) + 10) / _CROSSING
    times = np.linspace(0.0, last, _SAMPLES)
    for k, margin in enumerate(parameters.margins):
        progress(f"margin {margin:g}", k / len(parameters.margins))
        found.append(_at(margin, parameters, keys, times))
    table = xr.concat(found, xr.Variable("margin", list(parameters.margins)))
    return {
        "sweep": table.assign_coords(
            scale=list(parameters.scales),
            seed=parameters.seed + np.arange(len(keys)),
            time=("time", times, {"long_name": "time in units of τ"}),
            part=["XoR", "linear"],
        )
    }


def _at(margin: float, parameters: Parameters, keys: Keys, times: np.ndarray) -> xr.Dataset:
    """Train networks and solve the race at one margin; split outputs into XoR and linear parts."""
    task, scales = xor(margin), np.array(parameters.scales)
    x, y = np.asarray(task.x, float), np.asarray(task.y, float)[:, 0]
    network = fully_connected(
        3, parameters.width, activation="relu", scale=scales[:, None], key=keys
    )
    trained = gradient_flow(network, task, times)
    said = lambda x: np.mean(trained.network.predict(x)[..., 0] * y, axis=-1)
    alone = (2 + margin**2) / 2 * said(x * [1, 1, 0])
    gates = {f"example {i}": np.eye(4)[i] for i in range(4)}
    gates |= {"up": (y > 0) * 1.0, "down": (y < 0) * 1.0}
    # Each of the six pathways gets a sixth of the units.
    races = [
        race_of_gatings(task, gates, initial_strength=s**2 * parameters.width / 12) for s in scales
    ]
    raced = np.stack([_parts(one, margin, times) for one in races])
    whole, last = said(x), trained.network
    start = np.argmax(whole[-1] >= _BEGUN, axis=-1) - 1
    units = [np.asarray(part)[-1, np.arange(len(keys)), start] for part in (last.u, last.v)]
    own = [
        race_of_gatings(task, gates, initial_strength=_starts(u, v, x))
        for u, v in zip(*units, strict=True)
    ]
    over = "scale", "seed", "time"
    return xr.Dataset(
        {
            "parts": ((*over, "part"), np.stack((alone, whole - alone), axis=-1)),
            "parts_theory": ((over[0], *over[2:], "part"), raced),
            "chi": (over[:2], alone[..., -1]),
            "chi_theory": (over[0], raced[:, -1, 0]),
            "chi_own": (over[1], [_parts(one, margin, times[-1:])[0, 0] for one in own]),
            "growth": ((over[1], "part"), _growth(alone[-1], whole[-1], start, times)),
            "rate": ("pathway", races[0].rate[[0, 4]]),
        },
        {"pathway": ["example", "class"]},
    )


def _growth(
    alone: Float[np.ndarray, "seed time"],
    whole: Float[np.ndarray, "seed time"],
    start: Int[np.ndarray, " seed"],
    times: Float[np.ndarray, " time"],
) -> Float[np.ndarray, "seed 2"]:
    """Return rates s of the growth e^{2st} of XoR and linear parts, from turning to `start`."""
    parts, seed = np.stack((alone, whole - alone), axis=-1), np.arange(len(start))
    turned = (_TURNED * start).astype(int)
    with np.errstate(invalid="ignore", divide="ignore"):
        grown = np.log(parts[seed, start] / parts[seed, turned])
        return grown / (2 * (times[start] - times[turned]))[:, None]


def _starts(u: np.ndarray, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the initial strengths of six pathways: four of examples, then two of classes.

    Two pathways for examples of the same class both get the mean of their two strengths.
    """
    up = x[:, 2] > 0
    ways = np.vstack((x, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    strength = np.linalg.norm(u, axis=1) * np.abs(v[:, 0])
    found = np.bincount(np.argmax(u @ ways.T, axis=1), strength, minlength=6)
    of_examples = np.where(up, found[:4][up].mean(), found[:4][~up].mean())
    return np.append(of_examples, found[4:])


def _parts(raced: Race, margin: float, times: np.ndarray) -> np.ndarray:
    """Return the mean output of the pathways of examples, π|x|, and of pathways of classes, πΔ."""
    pi = between(times, raced.time, raced.strength)
    loudness = np.repeat([math.hypot(math.sqrt(2), margin), margin], [4, 2])
    return np.stack([part.mean(axis=1) for part in np.split(loudness * pi, [4], axis=1)], axis=1)


@claims_from_source("Saxe, slides", "“Example: transition to nonlinearity”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check growth rates, the margin and sharpness of the transition, and the loser's share."""
    data = run["sweep"].ds
    margin, scale = data["margin"], data["scale"].values
    chi, rate = data["chi"].mean("seed"), data["rate"]
    crossing = _crossing(chi)
    growth = data["growth"].mean("seed")
    formula = {"XoR": np.sqrt(2 + margin**2) / 4, "linear": margin / 2}
    slower, faster = np.sort(list(formula.values()), axis=0)
    # A much slower part is hidden by units of the faster part that have not finished turning.
    both_seen = slower > 0.7 * faster
    judged = lambda part: agree(
        growth.sel(part=part)[both_seen], formula[part][both_seen], within=0.03, relative=True
    )
    if scale[-1] <= 1e-5:
        where = f"growth in trained networks, σ = {scale[-1]:g}, "
        where += f"Δ = {join_numbers(margin.values[both_seen])}"
        claim(
            "xor-growth",
            "the XoR part of the output grows at the rate s_XoR = √(2 + Δ²)/P, Δ the margin",
            judged("XoR"),
            note=where,
        )
        claim(
            "linear-growth",
            "the linear part of the output grows at the rate s_lin = Δ/2, Δ the margin",
            judged("linear"),
            corrected="Δ/2 is the rate of a ReLU unit, which is active for half of the examples; a "
            "linear pathway that is open for all examples has s = Δ and wins above "
            "Δ = √(2/15) = 0.365",
            note=where,
        )
    claim(
        "crossing",
        "the solution changes from XoR to linear at the margin Δ = √(2/3), where both pathways "
        "learn at equal rates: order parameters χ from all initial scales σ cross at this margin",
        agree(crossing, _CROSSING, within=0.03),
        headline=True,
        note=f"crossing of the largest and smallest σ, χ averaged over {data.sizes['seed']} seeds",
    )
    small, slow = data.isel(scale=-1), margin < _CROSSING
    claim(
        "early-nonlinearity",
        f"networks learn the nonlinear solution (χ > 1/2) at margins Δ up to "
        f"{float(margin[slow][-1]):g}, although the task is linearly separable for any Δ > 0",
        all_above(small["chi"].mean("seed")[slow], 0.5),
        note=f"σ = {scale[-1]:g}",
    )
    gamma = 2 * (1 - rate.min("pathway") / rate.max("pathway"))
    winner = np.where(slow, "XoR", "linear")[:, None]
    won = np.where(small["chi"].transpose("margin", "seed") > 0.5, "XoR", "linear")
    far = scale[-1] ** gamma.values < _FEW
    claim(
        "fastest-dominates",
        "the faster of the two pathways dominates the solution",
        most_seeds((won == winner)[far], of="networks"),
        at="“Neural Race Reduction”",
        note=f"σ = {scale[-1]:g}, at margins with σ^γ < {_FEW:g}: "
        f"Δ = {join_numbers(margin.values[far])}",
    )
    claim(
        "final-share",
        "the race, started from the strengths of a network's turned units, predicts its final "
        f"order parameter χ, σ = {scale[-1]:g}",
        # The race gives both examples of a class equal strengths. Unequal strengths turn the
        # pathway of the class.
        max_error_below(small["chi"], small["chi_own"], within=0.1),
        note=f"strengths taken when the output reaches {_BEGUN:g} of the targets; the race from "
        "equal strengths misses the mean over seeds by "
        f"{float(abs(chi - data['chi_theory']).isel(scale=-1).max()):.2g}, and seeds differ "
        "because units join pathways by chance",
    )
    claim(
        "sharpening",
        "the transition becomes a step for small initial weights σ: the slope dχ/dΔ at the "
        "crossing grows as σ falls",
        increasing(-_steepness(chi)),
        note=f"σ = {join_numbers(scale)}",
    )
    loser = xr.where(slow, 1 - chi, chi).isel(scale=slice(-2, None))
    # The integration error of these shares is about 1e-5.
    told = ((loser < _FEW) & (loser > 3e-4)).all("scale")
    decades = np.log(scale[-1] / scale[-2])
    seen = np.log(loser[{"scale": 1}] / loser[{"scale": 0}]) / decades
    claim(
        "loser-share",
        "the output share of the slower pathway falls as σ^γ with the initial scale σ, "
        "γ = 2(1 − s_slow/s_fast)",
        agree(seen[told], gamma[told], within=0.05),
        note=f"margins with a share below {_FEW:g}: Δ = {join_numbers(margin.values[told])}",
    )


def _crossing(chi: xr.DataArray) -> float:
    """Return the margin at which the curves of the largest and the smallest σ cross."""
    margin, gap = chi["margin"].values, (chi.isel(scale=0) - chi.isel(scale=-1)).values
    up = np.flatnonzero((gap[:-1] < 0) & (gap[1:] >= 0))
    if not up.size:
        return math.nan
    at = up[np.argmin(np.abs(margin[up] - _CROSSING))]
    return float(np.interp(0.0, gap[at : at + 2], margin[at : at + 2]))


def _steepness(chi: xr.DataArray) -> xr.DataArray:
    """Return dχ/dΔ between the two margins next to the crossing, for each σ."""
    above = int(np.searchsorted(chi["margin"].values, _CROSSING))
    near = chi.isel(margin=[above - 1, above])
    return (near.diff("margin") / near["margin"].diff("margin")).squeeze("margin")


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the order parameter, one race on either side of the transition, and losers' shares."""
    data = run["sweep"].ds
    margin, scale = data["margin"].values, data["scale"].values
    figure, (order, below, above_, left) = panels("Transition to nonlinearity", 4, width=3.3)
    for sigma, shade, label in shades(scale, "σ ="):
        one = data.sel(scale=sigma)
        how = {**POINT_STYLE, "color": shade}
        order.errorbar(margin, one["chi"].mean("seed"), one["chi"].std("seed"), **how, label=label)
        order.plot(margin, one["chi_theory"], **THEORY_STYLE)
    order.axvline(_CROSSING, **GUIDE_STYLE)
    words = "margin Δ", "order parameter χ", "XoR (1) or linear (0)"
    label_axes(order, *words, theory="race")
    near = lambda target: int(np.argmin(np.abs(margin - target)))
    for ax, k in ((below, near(0.7)), (above_, near(1.0))):
        one = data.isel(margin=k, scale=-1)
        for part, color in (("XoR", "C0"), ("linear", "C3")):
            seen, theory = one["parts"].sel(part=part), one["parts_theory"].sel(part=part)
            draw_pair(ax, one["time"], seen.mean("seed"), theory, color=color, label=part)
        title = f"Δ = {margin[k]:g}, σ = {scale[-1]:g}"
        label_axes(ax, "time $t/τ$", "output of pathways along $y$", title, theory="race")
    for k in dict.fromkeys(map(near, (0.6, 0.7, 1.0, 1.2))):
        one = data.isel(margin=k)
        slow = margin[k] < _CROSSING
        share = (1 - one["chi"] if slow else one["chi"]).mean("seed")
        color = "C3" if slow else "C0"
        rates = np.sort(one["rate"].values)
        shade = 0.9 if k in (near(0.6), near(1.2)) else 0.5
        left.plot(scale, share, **POINT_STYLE, color=color, alpha=shade, label=f"Δ = {margin[k]:g}")
        power_law_guide(left, scale, float(share[-1]), 2 * (1 - rates[0] / rates[1]))
    words = "initial weights σ", "output share of the loser", "the slower pathway"
    label_axes(left, *words, theory="slope γ", xscale="log", yscale="log")
    return figure
