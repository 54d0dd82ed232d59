r"""Reversal learning: how long a network needs to learn −Σ after it has learned Σ.

Inputs are white. The loss is ½⟨‖y − W₂W₁x‖²⟩, with τ Ẇ = −∂L/∂W, τ = 1 and balance W₂ᵀW₂ − W₁W₁ᵀ =
λI. Networks learn Σ to the end and are then trained on −Σ. Networks with balance 0 then stay at a
saddle for ever, except if their training on Σ was stopped early.
"""

import math
import sys
from typing import Annotated

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat

from ...._types import Keys
from ....diagnose import passage_time
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_decreasing, check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    join_numbers,
    max_error_below,
)
from ....experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    SIMULATION_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ....networks import DeepLinear, lambda_balanced, orthogonal
from ....tasks import from_moments, linear_teacher
from ....theory.linear import balanced_flow, reversal_time, unbalanced_strength

_Falling = Annotated[tuple[PositiveFloat, ...], check_decreasing(math.inf, count=1)]
_SAMPLES = 301
_TRAPPED = 15.0
"""Duration, in units of τ/s, before rounding errors release a trapped network."""


class Parameters(BaseParameters):
    """Parameters of a linear map that is learned and then reversed, at several balances."""

    seeds: int = Field(default=3, ge=1)
    """Number of networks with random weights that are trained at each balance."""

    singular_values: _Falling = (2.0, 1.3, 0.8)
    """Singular values of the map, decreasing."""

    balances: Annotated[tuple[float, ...], check_increasing(1e-4)] = (0.01, 0.1, 1.0, 3.0, 10.0)
    """Balances λ of the networks, increasing from 1e-4 or more; balance 0 is always included."""

    stops: Annotated[tuple[float, ...], check_increasing(2, 8)] = (3.0, 4.0, 5.0, 6.0)
    """Times at which training of networks with balance 0 is stopped, in units of τ/s, increasing
    from 2 to 8. Before 2 little is learned; after 8 rounding errors decide."""

    size: int = Field(default=4, ge=2, le=16)
    """Even number of dimensions of the map that is learned at balance 0."""

    def _check(self) -> None:
        if self.size % 2:
            raise ValueError(
                f"`size` must be even, got {self.size}: in odd dimensions det(−Σ) has the "
                "opposite sign of det Σ, and one mode is never relearned at balance 0."
            )


@make_run("linear/reversal")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train, reverse and train again, at each balance and after learning was stopped early."""
    keys, s = keys_from_parameters(parameters, key), np.array(parameters.singular_values)
    typical = float(s[(len(s) - 1) // 2])  # the mode that is drawn
    progress("training to the end and after the reversal", 0.0)
    tables = {"converged": _converged(parameters, keys)}
    progress("training with balance 0, and a shallow network", 0.5)
    # One learned mode after the reversal: it approaches the saddle at zero.
    weight, times = np.full((1, 1), typical**0.5), np.linspace(0.0, _TRAPPED / typical, _SAMPLES)
    one = _reversed(DeepLinear((weight, weight)), np.full((1, 1), typical), times, rtol=1e-12)
    tables["trapped"] = xr.Dataset(
        {
            "strength": ("time", one[:, 0, 0]),
            "theory": ("time", unbalanced_strength(times, typical**0.5, typical**0.5, -typical)),
            "singular_value": ((), typical),
        },
        {"time": times},
    )
    # A single layer: all modes cross zero at once.
    times = np.linspace(0.0, 3.0, _SAMPLES)
    maps = _reversed(DeepLinear((np.diag(s),)), np.diag(s), times, rtol=1e-10)
    crossing = passage_time(times, np.einsum("tkk->kt", maps), 0.0)
    tables["shallow"] = xr.Dataset({"crossing": ("mode", crossing)}, {"mode": s})
    progress("training with balance 0, stopped early", 0.7)
    stops = np.array(parameters.stops) / typical
    early = [_stopped_early(typical, parameters.size, stops, each) for each in keys]
    return tables | {"early": xr.concat(early, tables["converged"]["seed"].variable)}


def _reversed(
    network: DeepLinear, sigma: np.ndarray, times: np.ndarray, *, rtol: float
) -> np.ndarray:
    """Train a network on −Σ and return its map over time."""
    trained = gradient_flow(network, linear_teacher(-sigma), times, rtol=rtol)
    return np.asarray(trained.network.end_to_end())


def _converged(parameters: Parameters, keys: Keys) -> xr.Dataset:
    """Train random weights on Σ, then on −Σ; return when each mode crosses zero."""
    s, lam = np.array(parameters.singular_values), np.array(parameters.balances)
    n = len(s)
    left, right = orthogonal((n, n, n), key=jax.random.fold_in(keys[0], 1)).weights
    sigma = np.asarray((left * s) @ right.T)
    # Random rotations may oppose Σ; a network then needs a time ln(1/λ)/s to escape.
    enough = (40.0 + 2.0 * np.log(1.0 / min(lam[0], 1.0))) / s[-1]
    start = lambda_balanced(
        (n, n, n), balance=lam[:, None], singular_values=np.full(n, 0.1 * s[-1]), key=keys
    )
    learned = gradient_flow(start, linear_teacher(sigma), np.array([enough]), rtol=1e-10).final
    crossing = reversal_time(s, lam[:, None])
    # Large balances are fast: samples are denser at the beginning.
    times = 2.5 * float(crossing.max()) * np.linspace(0.0, 1.0, _SAMPLES) ** 2
    product = _reversed(learned, sigma, times, rtol=1e-11)
    strength = np.einsum("om,...oi,im->...m", left, product, right)
    # After learning Σ, w₁ and w₂ of a mode have product s and balance λ.
    first = np.sqrt((np.hypot(lam[:, None], 2 * s) - lam[:, None]) / 2)
    theory = unbalanced_strength(times, first, s / first, np.broadcast_to(-s, first.shape))
    fine = np.geomspace(lam[0], lam[-1], 61)
    passed = passage_time(times, np.moveaxis(strength, 2, -1), 0.0)
    return xr.Dataset(
        {
            "strength": (("balance", "seed", "time", "mode"), strength),
            "theory": (("time", "balance", "mode"), theory),
            "crossing": (("balance", "seed", "mode"), passed),
            "crossing_theory": (("balance", "mode"), crossing),
            "crossing_curve": (("fine_balance", "mode"), reversal_time(s, fine[:, None])),
        },
        {
            "time": ("time", times, {"long_name": "time since the reversal, in units of τ"}),
            "balance": lam,
            "fine_balance": fine,
            "mode": s,
            "seed": parameters.seed + np.arange(len(keys)),
        },
    )


def _stopped_early(s: float, n: int, stops: np.ndarray, key: Keys) -> xr.Dataset:
    """Train with balance 0 and equal singular values, stopped at several times before the reversal.

    The initial map is a random rotation by angles well below half a turn. For angles near half a
    turn, learning Σ would take much longer, and learning −Σ much less.
    """
    # Σ is the same in all directions, so the planes of rotation do not matter.
    angles = np.pi * np.asarray(jax.random.uniform(key, (n // 2,), minval=0.1, maxval=0.7))
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    turn = np.kron(np.diag(np.cos(angles)), np.eye(2)) + np.kron(np.diag(np.sin(angles)), quarter)
    sigma, first, second = s * np.eye(n), (0.1 * s) ** 0.5 * np.eye(n), (0.1 * s) ** 0.5 * turn
    task, times = linear_teacher(sigma), np.linspace(0.0, 3.0 * stops[-1] + 6.0 / s, 2 * _SAMPLES)
    # Each time at which the first training stops gives one network of the second training.
    network = DeepLinear((first, second))
    learned = gradient_flow(network, task, stops, rtol=1e-12).network
    there = balanced_flow(network, from_moments(sigma), balance=0.0)(stops)
    again = DeepLinear((there.inward.transpose(2, 1, 0), there.outward.transpose(2, 0, 1)))
    exact = balanced_flow(again, from_moments(-sigma), balance=0.0)(times).map
    # Component of the map along −Σ: −1 at Σ, 1 at −Σ.
    part, theory = (
        -np.einsum("...ii", maps) / (n * s)
        for maps in (_reversed(learned, sigma, times, rtol=1e-12), np.asarray(exact))
    )
    return xr.Dataset(
        {
            "part": (("stop", "sample"), part),
            "part_theory": (("stop", "sample"), theory),
            "crossing": ("stop", passage_time(times, -part, 0.0)),
            "relearned": ("stop", passage_time(times, -part, -0.5)),
        },
        {"stop": stops, "time": ("sample", times)},
    )


@claims_from_source("Saxe, slides", "“Exact continual learning dynamics”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check crossing times, the trap at balance 0, and the ways out of the trap."""
    data, trapped, early = (run[name].ds for name in ("converged", "trapped", "early"))
    seen, s, lam = data["crossing"].median("seed"), data["mode"].values, data["balance"].values
    left = float(abs(data["strength"].isel(time=0) - data["mode"]).max())
    claim(
        "closed-form",
        "after the reversal every mode follows its closed form, at every balance λ",
        max_error_below((data["strength"] - data["theory"]) / data["mode"], within=1e-5),
        note=f"error over s; before the reversal strengths were within {left:.1g} of s",
    )
    claim(
        "crossing-times",
        "after the reversal each mode crosses zero at the predicted time, at each balance λ",
        agree(seen, data["crossing_theory"], within=1e-4, relative=True),
        note=f"s = {join_numbers(s)}; balances {join_numbers(lam)}",
    )
    # The two limits, if the balances are small and large enough.
    if lam[0] <= 0.05 * s[-1]:
        claim(
            "weak-balance-law",
            f"at small balance λ = {lam[0]:g} modes cross zero at τ/2s ln(2s/λ) after the reversal",
            agree(seen[0], np.log(2 * s / lam[0]) / (2 * s), within=0.02, relative=True),
        )
    if lam[-1] >= 5 * s[0]:
        claim(
            "strong-balance-law",
            f"at large balance λ = {lam[-1]:g} every mode crosses zero at τ ln 2/λ after the "
            "reversal",
            agree(seen[-1], math.log(2) / lam[-1], within=0.05, relative=True),
        )
    creeps = trapped["strength"], trapped["theory"]
    claim(
        "creep-to-saddle",
        "at balance λ = 0 a mode approaches the saddle at zero after the reversal, as its closed "
        "form predicts",
        max_error_below(*creeps, within=1e-7),
    )
    # The rounding error of w₁ − w₂ grows as e^{st}, while w₁ + w₂ falls as e^{−st}. The error of a
    # is its square.
    least = (sys.float_info.epsilon * math.exp(2 * _TRAPPED)) ** 2
    claim(
        "trapped-without-balance",
        "at balance λ = 0 a mode never crosses zero after the reversal: its strength stays "
        "positive, as predicted (relative error of the strength)",
        max_error_below(*creeps, relative=True, within=least),
        note=f"strength {float(creeps[0][-1]):.1g} after {float(trapped['time'][-1]):.3g} τ",
    )
    law = agree(run["shallow"]["crossing"], math.log(2), within=1e-5)
    words = "in a shallow network every mode crosses zero at τ ln 2 after the reversal"
    claim("shallow-crossing-time", words, law)
    claim(
        "stopped-early-closed-form",
        "at balance λ = 0, if training on Σ is stopped early, the map follows the closed form "
        "after the reversal",
        max_error_below(early["part"], early["part_theory"], within=1e-4),
        note="the saddle amplifies integration errors",
    )
    # Slopes between the two latest stops, nearest to the asymptotic law.
    slopes = early[["crossing", "relearned"]].diff("stop") / early["stop"].diff("stop")
    slopes = slopes.isel(stop=-1).median("seed")
    for name, what, slope, law in (
        ("crossing", "the map changes its sign", 1, "T"),
        ("relearned", "half of the new map is learned", 2, "2T"),
    ):
        claim(
            f"stopped-early-{name}",
            f"at balance λ = 0, if training on Σ is stopped at time T, {what} at a time after the "
            f"reversal that grows as {law} (slope against T)",
            agree(slopes[name], slope, within=0.05 * slope),
            note="longer training on Σ takes longer to unlearn",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot one mode over time, zero-crossing times, and training that was stopped early."""
    data, trapped = run["converged"].ds, run["trapped"].ds
    title = "Reversal learning: the smaller the balance, the longer it takes"
    ratios = (1.15, 1, 1)
    figure, (curves, crossing, early) = panels(title, 3, width=3, height=3.2, width_ratios=ratios)
    s = float(trapped["singular_value"])
    for balance, shade, label in shades([0.0, *data["balance"].values]):
        curve = data.sel(balance=balance, mode=s).isel(seed=0) if balance else trapped
        pair = curve["strength"], curve["theory"]
        draw_pair(curves, curve["time"], *pair, color=shade, label=label)
    curves.axhline(0, **GUIDE_STYLE)
    end = min(2.6 * float(data["crossing_theory"].sel(mode=s).max()), float(data["time"][-1]))
    box = {"xlim": (0, end), "ylim": (-1.1 * s, 1.35 * s), "title": f"$s$ = {s:g} → {-s:g}"}
    words = "time $t/τ$ since the reversal", "mode strength $a(t)$"
    label_axes(curves, *words, legend=None, **box)
    curves.legend(loc="upper right", title="balance $λ$", ncols=3)
    _draw_crossing(crossing, data)
    for name, label, color, slope in (
        ("relearned", "half relearned: slope 2", "C1", 2),
        ("crossing", "changes sign: slope 1", "C0", 1),
    ):
        times = run["early"].ds[name].transpose("stop", "seed")
        law = float(times[-1].median()) + slope * (times["stop"] - times["stop"][-1])
        dots = POINT_STYLE | {"alpha": 0.4, "color": color}
        draw_pair(early, times["stop"], times, law, **dots)
        early.plot([], [], **POINT_STYLE, color=color, alpha=0.6, label=label)
    top = 1.35 * float(run["early"].ds["relearned"].max())
    words = "first training time $T/τ$", "time $t/τ$ since the reversal"
    label_axes(early, *words, "balance 0, stopped early", legend="upper left", ylim=(0, top))
    return figure


def _draw_crossing(ax: Axes, data: xr.Dataset) -> None:
    fine = data["fine_balance"].values
    for index, s in enumerate(data["mode"].values):
        one, color = data.sel(mode=s), f"C{index}"
        how = {**POINT_STYLE, "ms": 9, "alpha": 0.5, "color": color}
        ax.plot(one["balance"], one["crossing"].median("seed"), **how, label=f"$s$ = {s:g}")
        ax.plot(fine, one["crossing_curve"], **THEORY_STYLE)
        weak = fine[fine < s]
        ax.plot(weak, np.log(2 * s / weak) / (2 * s), color=color, lw=1.2, ls=":")
    strong = fine[fine >= 0.7 * float(data["mode"].min())]
    ax.plot(strong, math.log(2) / strong, color="0.4", lw=1.2, ls=":", label="limits")
    ax.axhline(math.log(2), color="0.6", **SIMULATION_STYLE, alpha=0.35, zorder=0)
    ax.text(fine[-1], 1.08 * math.log(2), "shallow", color="0.4", ha="right", va="bottom")
    words = "balance $λ$", "time $t/τ$ to cross zero", "learned to the end"
    label_axes(ax, *words, legend="lower left", xscale="log", yscale="log")
