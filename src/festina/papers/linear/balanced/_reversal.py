r"""The task changes its sign after it was learned: how long a network clings to what it knew.

White inputs, loss ½⟨‖y − W₂W₁x‖²⟩, τ Ẇ = −∂L/∂W with τ = 1, balance W₂ᵀW₂ − W₁W₁ᵀ = λI. Networks
learn Σ to the end and are then given −Σ; those of balance 0 would sit on a saddle for ever, unless
they were stopped early.
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
"""How long the trapped network is watched, in units of τ/s: later rounding sets it free."""


class Parameters(BaseParameters):
    """A linear map that is learned and then reversed, at several balances."""

    seeds: int = Field(default=3, ge=1)
    """How many networks with random weights are trained at each balance."""

    singular_values: _Falling = (2.0, 1.3, 0.8)
    """Singular values of the map, the largest first."""

    balances: Annotated[tuple[float, ...], check_increasing(1e-4)] = (0.01, 0.1, 1.0, 3.0, 10.0)
    """Balances λ of the networks, increasing from 1e-4 up; that of 0 is shown in any case."""

    stops: Annotated[tuple[float, ...], check_increasing(2, 8)] = (3.0, 4.0, 5.0, 6.0)
    """When learning is stopped in networks of balance 0, in units of τ/s; increasing, from 2 to 8:
    before that little is learned, and later rounding decides."""

    size: int = Field(default=4, ge=2, le=16)
    """Dimension of the map that is learned at balance 0, an even number."""

    def _check(self) -> None:
        if self.size % 2:
            raise ValueError(
                f"`size` must be even, got {self.size}: in odd dimensions −Σ has a determinant of "
                "the other sign, and one mode is never relearned at balance 0."
            )


@make_run("linear/reversal")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train, reverse and train again, at each balance and for learning that was stopped early."""
    keys, s = keys_from_parameters(parameters, key), np.array(parameters.singular_values)
    typical = float(s[(len(s) - 1) // 2])  # for what is shown of one mode
    progress("learned to the end, then reversed", 0.0)
    tables = {"converged": _converged(parameters, keys)}
    progress("balance 0, and a shallow network", 0.5)
    # One mode at its target, then reversed: it creeps to the saddle at zero.
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
    # One layer: all modes at once.
    times = np.linspace(0.0, 3.0, _SAMPLES)
    maps = _reversed(DeepLinear((np.diag(s),)), np.diag(s), times, rtol=1e-10)
    crossing = passage_time(times, np.einsum("tkk->kt", maps), 0.0)
    tables["shallow"] = xr.Dataset({"crossing": ("mode", crossing)}, {"mode": s})
    progress("balance 0, stopped early", 0.7)
    stops = np.array(parameters.stops) / typical
    early = [_stopped_early(typical, parameters.size, stops, each) for each in keys]
    return tables | {"early": xr.concat(early, tables["converged"]["seed"].variable)}


def _reversed(
    network: DeepLinear, sigma: np.ndarray, times: np.ndarray, *, rtol: float
) -> np.ndarray:
    """The map of a network over time that is given −Σ."""
    trained = gradient_flow(network, linear_teacher(-sigma), times, rtol=rtol)
    return np.asarray(trained.network.end_to_end())


def _converged(parameters: Parameters, keys: Keys) -> xr.Dataset:
    """From random weights to Σ, from there to −Σ: when does each mode pass through zero?"""
    s, lam = np.array(parameters.singular_values), np.array(parameters.balances)
    n = len(s)
    left, right = orthogonal((n, n, n), key=jax.random.fold_in(keys[0], 1)).weights
    sigma = np.asarray((left * s) @ right.T)
    # Rotations of both ends may oppose Σ, from which a network frees itself in time ln(1/λ)/s.
    enough = (40.0 + 2.0 * np.log(1.0 / min(lam[0], 1.0))) / s[-1]
    start = lambda_balanced(
        (n, n, n), balance=lam[:, None], singular_values=np.full(n, 0.1 * s[-1]), key=keys
    )
    learned = gradient_flow(start, linear_teacher(sigma), np.array([enough]), rtol=1e-10).final
    crossing = reversal_time(s, lam[:, None])
    # Strong balances are fast: more often at the beginning.
    times = 2.5 * float(crossing.max()) * np.linspace(0.0, 1.0, _SAMPLES) ** 2
    product = _reversed(learned, sigma, times, rtol=1e-11)
    strength = np.einsum("om,...oi,im->...m", left, product, right)
    # Where Σ is learned, w₁ and w₂ of a mode have the product s and the balance λ.
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
    """Balance 0, all singular values alike, stopped at several times before the reversal.

    The map is at first a random rotation, none of whose angles is nearly half a turn: from there
    learning Σ takes much longer, and reversing it much less.
    """
    # Which planes are turned makes no difference to a Σ that is the same in all directions.
    angles = np.pi * np.asarray(jax.random.uniform(key, (n // 2,), minval=0.1, maxval=0.7))
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    turn = np.kron(np.diag(np.cos(angles)), np.eye(2)) + np.kron(np.diag(np.sin(angles)), quarter)
    sigma, first, second = s * np.eye(n), (0.1 * s) ** 0.5 * np.eye(n), (0.1 * s) ** 0.5 * turn
    task, times = linear_teacher(sigma), np.linspace(0.0, 3.0 * stops[-1] + 6.0 / s, 2 * _SAMPLES)
    # One network for each stop, which is the time axis of the first training.
    network = DeepLinear((first, second))
    learned = gradient_flow(network, task, stops, rtol=1e-12).network
    there = balanced_flow(network, from_moments(sigma), balance=0.0)(stops)
    again = DeepLinear((there.inward.transpose(2, 1, 0), there.outward.transpose(2, 0, 1)))
    exact = balanced_flow(again, from_moments(-sigma), balance=0.0)(times).map
    # How much of −Σ is in the map: −1 at Σ, 1 at −Σ.
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
    """Crossing times against the closed form, the trap at balance 0, and the ways out of it."""
    data, trapped, early = (run[name].ds for name in ("converged", "trapped", "early"))
    seen, s, lam = data["crossing"].median("seed"), data["mode"].values, data["balance"].values
    left = float(abs(data["strength"].isel(time=0) - data["mode"]).max())
    claim(
        "closed-form",
        "after the reversal every mode follows its closed form, at every balance",
        max_error_below((data["strength"] - data["theory"]) / data["mode"], within=1e-5),
        note=f"of s; strengths had come within {left:.1g} of Σ before the reversal",
    )
    claim(
        "crossing-times",
        "time until each mode passes through zero, at each balance",
        agree(seen, data["crossing_theory"], within=1e-4, relative=True),
        note=f"s = {join_numbers(s)}; balances {join_numbers(lam)}",
    )
    # Where the balances go far enough to either side, the two laws.
    if lam[0] <= 0.05 * s[-1]:
        claim(
            "weak-balance-law",
            f"weak balance {lam[0]:g}: the time is τ/2s ln(2s/λ), logarithmic in λ",
            agree(seen[0], np.log(2 * s / lam[0]) / (2 * s), within=0.02, relative=True),
        )
    if lam[-1] >= 5 * s[0]:
        claim(
            "strong-balance-law",
            f"strong balance {lam[-1]:g}: the time is τ ln 2/λ for every mode",
            agree(seen[-1], math.log(2) / lam[-1], within=0.05, relative=True),
        )
    creeps = trapped["strength"], trapped["theory"]
    claim(
        "creep-to-saddle",
        "balance 0: the mode creeps to the saddle at zero along its closed form",
        max_error_below(*creeps, within=1e-7),
    )
    # Rounding of w₁ − w₂ grows as e^{st} where w₁ + w₂ falls as e^{−st}; of a it is the square.
    least = (sys.float_info.epsilon * math.exp(2 * _TRAPPED)) ** 2
    claim(
        "trapped-without-balance",
        "balance 0: it never passes zero, whatever is left of it follows the closed form too",
        max_error_below(*creeps, relative=True, within=least),
        note=f"{float(creeps[0][-1]):.1g} after {float(trapped['time'][-1]):.3g} τ",
    )
    law = agree(run["shallow"]["crossing"], math.log(2), within=1e-5)
    claim("shallow-crossing-time", "shallow: every mode passes through zero after τ ln 2", law)
    claim(
        "stopped-early-closed-form",
        "balance 0, stopped early: what is relearned follows the closed form",
        max_error_below(early["part"], early["part_theory"], within=1e-4),
        note="the saddle magnifies errors of the integrator",
    )
    # Between the two latest stops, where the law is nearest.
    slopes = early[["crossing", "relearned"]].diff("stop") / early["stop"].diff("stop")
    slopes = slopes.isel(stop=-1).median("seed")
    for name, what, slope, law in (
        ("crossing", "the map changes its sign", 1, "T"),
        ("relearned", "half of the new map is learned", 2, "2T"),
    ):
        claim(
            f"stopped-early-{name}",
            f"balance 0, stopped early at T: {what} a time later that grows as {law}",
            agree(slopes[name], slope, within=0.05 * slope),
            note="the better it was learned, the longer it takes to unlearn",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """One mode over time, when modes pass through zero, and learning that was stopped early."""
    data, trapped = run["converged"].ds, run["trapped"].ds
    title = "Learning the opposite: the nearer to balance 0, the longer it takes"
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
    words = "time $t$ since the reversal, in units of $τ$", "mode strength $a(t)$"
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
    words = "learned for a time $T$, in units of $τ$", "time since the reversal, in $τ$"
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
    words = "balance $λ$", "time to pass through zero, in $τ$", "learned to the end"
    label_axes(ax, *words, legend="lower left", xscale="log", yscale="log")
