r"""Transition to nonlinearity: with a margin Δ a linear network can do XoR too.

Inputs x = (±1, ±1, Δy) with y = −x₁x₂ (P = 4), loss ½⟨(y − f)²⟩, τ Ẇ = −∂L/∂W with τ = 1. A ReLU
unit along the third input is on for one class and grows with s_lin = Δ/2, one along an example with
s_XoR = √(2 + Δ²)/P. Which of them a network is made of in the end is told by what it says where
the third input is silenced, χ = (2 + Δ²)/2 ⟨y f(x₁, x₂, 0)⟩: 1 for XoR, 0 for a linear solution.
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
"""Δ/2 = √(2 + Δ²)/4."""
_BEGUN = 0.01
"""Fraction of the targets that the output reaches when units have turned, before they learn."""
_TURNED = 0.6
"""Fraction of the time until then after which small units have turned."""
_FEW = 0.1
"""A share below which the winner has finished before it was disturbed by the loser."""


class Parameters(BaseParameters):
    """Exclusive or with a margin, and ReLU networks from several scales."""

    seeds: int = Field(default=8, ge=1)
    """How many networks are trained for each margin and scale."""

    width: int = Field(default=128, ge=16)
    """Units of a network."""

    scales: Annotated[tuple[float, ...], check_decreasing(1e-2, 1e-8)] = (1e-2, 1e-4, 1e-6)
    """Standard deviations σ of their initial weights, from 0.01 down."""

    margins: Annotated[tuple[float, ...], check_increasing(0.3, 1.4, count=4)] = (
        *(0.4, 0.5, 0.6, 0.7, 0.75, 0.8),
        *(0.85, 0.9, 1.0, 1.1, 1.2, 1.3),
    )
    """Margins Δ, increasing: two or more up to 0.8, and two or more from 0.85 to below √2, where a
    unit along an example is still off for those of the other class."""


QUICK: dict[str, Any] = {"seeds": 4, "margins": (0.6, 0.7, 0.8, 0.85, 1.0, 1.2)}


@make_run("race/transition")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks for each margin from every scale, and let the two kinds of pathways race."""
    found, keys = [], keys_from_parameters(parameters, key)
    # The smaller of two rates is least where they are alike.
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
    """Networks and the race at one margin: what is said by pathways of examples, and by others."""
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
    # A sixth of the units for each of six pathways.
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
    """Return the rates s of both parts, e^{2st}, from when units have turned up to `start`."""
    parts, seed = np.stack((alone, whole - alone), axis=-1), np.arange(len(start))
    turned = (_TURNED * start).astype(int)
    with np.errstate(invalid="ignore", divide="ignore"):
        grown = np.log(parts[seed, start] / parts[seed, turned])
        return grown / (2 * (times[start] - times[turned]))[:, None]


def _starts(u: np.ndarray, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Strengths of the pathways of every class, and of its examples, those on the average."""
    up = x[:, 2] > 0
    ways = np.vstack((x, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    strength = np.linalg.norm(u, axis=1) * np.abs(v[:, 0])
    found = np.bincount(np.argmax(u @ ways.T, axis=1), strength, minlength=6)
    of_examples = np.where(up, found[:4][up].mean(), found[:4][~up].mean())
    return np.append(of_examples, found[4:])


def _parts(raced: Race, margin: float, times: np.ndarray) -> np.ndarray:
    """What pathways of an example, and of a class, say of it: π|x| and πΔ."""
    pi = between(times, raced.time, raced.strength)
    loudness = np.repeat([math.hypot(math.sqrt(2), margin), margin], [4, 2])
    return np.stack([part.mean(axis=1) for part in np.split(loudness * pi, [4], axis=1)], axis=1)


@claims_from_source("Saxe, slides", "“Example: transition to nonlinearity”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Rates, where the solution changes, how sharply, and what is left of the loser."""
    data = run["sweep"].ds
    margin, scale = data["margin"], data["scale"].values
    chi, rate = data["chi"].mean("seed"), data["rate"]
    crossing = _crossing(chi)
    growth = data["growth"].mean("seed")
    formula = {"XoR": np.sqrt(2 + margin**2) / 4, "linear": margin / 2}
    slower, faster = np.sort(list(formula.values()), axis=0)
    # If one part is much slower, what units of the other part still have to turn exceeds it.
    both_seen = slower > 0.7 * faster
    judged = lambda part: agree(
        growth.sel(part=part)[both_seen], formula[part][both_seen], within=0.03, relative=True
    )
    if scale[-1] <= 1e-5:
        where = f"growth in trained networks, σ = {scale[-1]:g}, "
        where += f"Δ = {join_numbers(margin.values[both_seen])}"
        claim("xor-growth", "s_XoR = √(2 + Δ²)/P", judged("XoR"), note=where)
        claim(
            "linear-growth",
            "s_lin = Δ/2",
            judged("linear"),
            corrected="of a ReLU unit, which is on for one class, half of the examples; a linear "
            "pathway that is open for all has s = Δ and would win from Δ = √(2/15) = 0.365 on",
            note=where,
        )
    claim(
        "crossing",
        "the solution changes where these are equal, Δ = √(2/3): curves of all σ cross there",
        agree(crossing, _CROSSING, within=0.03),
        headline=True,
        note=f"largest against smallest σ, means over {data.sizes['seed']} seeds",
    )
    small, slow = data.isel(scale=-1), margin < _CROSSING
    claim(
        "early-nonlinearity",
        f"nonlinear representations emerge before they are necessary: χ > 1/2 for Δ up to "
        f"{float(margin[slow][-1]):g}, though any Δ > 0 makes the task linear",
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
        note=f"σ = {scale[-1]:g}, Δ = {join_numbers(margin.values[far])}: where σ^γ < {_FEW:g}",
    )
    claim(
        "final-share",
        f"each network ends where the race leads its units, once these have turned: χ, "
        f"σ = {scale[-1]:g}",
        # The two examples of a class are taken to be alike; if not, they turn its pathway.
        max_error_below(small["chi"], small["chi_own"], within=0.1),
        note=f"from when {_BEGUN:g} of the targets is said; the race from equal strengths is off "
        f"by {float(abs(chi - data['chi_theory']).isel(scale=-1).max()):.2g} of the mean over "
        "seeds, and seeds differ because units are shared out by chance",
    )
    claim(
        "sharpening",
        "the change is a step in the limit of small weights: dχ/dΔ where curves cross",
        increasing(-_steepness(chi)),
        note=f"σ = {join_numbers(scale)}",
    )
    loser = xr.where(slow, 1 - chi, chi).isel(scale=slice(-2, None))
    # Integration leaves an error of some 1e-5.
    told = ((loser < _FEW) & (loser > 3e-4)).all("scale")
    decades = np.log(scale[-1] / scale[-2])
    seen = np.log(loser[{"scale": 1}] / loser[{"scale": 0}]) / decades
    claim(
        "loser-share",
        "the loser's share falls as σ^γ, γ = 2(1 − s_slow/s_fast)",
        agree(seen[told], gamma[told], within=0.05),
        note=f"Δ = {join_numbers(margin.values[told])}, where the share is below {_FEW:g}",
    )


def _crossing(chi: xr.DataArray) -> float:
    """The margin at which the curves of the largest and the smallest σ cross."""
    margin, gap = chi["margin"].values, (chi.isel(scale=0) - chi.isel(scale=-1)).values
    up = np.flatnonzero((gap[:-1] < 0) & (gap[1:] >= 0))
    if not up.size:
        return math.nan
    at = up[np.argmin(np.abs(margin[up] - _CROSSING))]
    return float(np.interp(0.0, gap[at : at + 2], margin[at : at + 2]))


def _steepness(chi: xr.DataArray) -> xr.DataArray:
    """dχ/dΔ between the margins next to the crossing, for each σ."""
    above = int(np.searchsorted(chi["margin"].values, _CROSSING))
    near = chi.isel(margin=[above - 1, above])
    return (near.diff("margin") / near["margin"].diff("margin")).squeeze("margin")


@styled
def draw(run: xr.DataTree) -> Figure:
    """The order parameter; two races, one on either side; and what is left of the loser."""
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
        label_axes(ax, "time $t/τ$", "output of a pathway along $y$", title, theory="race")
    for k in dict.fromkeys(map(near, (0.6, 0.7, 1.0, 1.2))):
        one = data.isel(margin=k)
        slow = margin[k] < _CROSSING
        share = (1 - one["chi"] if slow else one["chi"]).mean("seed")
        color = "C3" if slow else "C0"
        rates = np.sort(one["rate"].values)
        shade = 0.9 if k in (near(0.6), near(1.2)) else 0.5
        left.plot(scale, share, **POINT_STYLE, color=color, alpha=shade, label=f"Δ = {margin[k]:g}")
        power_law_guide(left, scale, float(share[-1]), 2 * (1 - rates[0] / rates[1]))
    words = "initial weights σ", "share of the loser", "who comes second"
    label_axes(left, *words, theory="slope γ", xscale="log", yscale="log")
    return figure
