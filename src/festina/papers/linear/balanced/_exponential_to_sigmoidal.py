r"""The relative scale of two layers: modes are learned as exponentials or as sigmoids.

Inputs are white. The loss is ½⟨‖y − W₂W₁x‖²⟩, with τ Ẇ = −∂L/∂W, τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. The
network is square, and its initial map has the singular vectors of the task. The strength a of a
mode with singular value s then follows ȧ = √(λ² + 4a²) (s − a). The solution is logistic for λ = 0,
and exponential with rate |λ| for large |λ|.
"""

from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    follows_power_law,
    max_error_below,
)
from ....experiments.figures import (
    GUIDE_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ....networks import lambda_balanced
from ....theory.linear import unbalanced_weights
from ._shapes import WIDEST, Modes, generators, random_frame, random_task, rotated, train

_SAMPLES = 801
_MARKS = np.array([0.1, 0.5, 0.9])
"""Fractions of a mode whose times are measured."""
_SIGMOID = np.array([0.1, 0.4])
"""Values of λ, in units of the initial strength of the strongest mode, for the limit λ → 0."""
_EXPONENTIAL = np.array([25.0, 100.0])
"""Values of λ, in units of the largest singular value, for the limit of large λ."""
_NO_WAIT = np.log(1 / 0.9) / np.log(9)
"""Ratio of the time to 10 % and the time from 10 % to 90 % for an exponential from zero."""


class Parameters(BaseParameters):
    """Parameters of a square network that is aligned with the task, at several balances."""

    seeds: int = Field(default=2, ge=1)
    """Number of random rotations of the hidden units that are trained; all learn the same map."""

    balances: Annotated[tuple[float, ...], check_increasing(0, WIDEST)] = (0.0, 0.1, 0.5, 2.0, 10.0)
    """Nonnegative balances λ, increasing; −λ is trained as well."""

    singular_values: Modes = (2.0, 1.0)
    """Singular values of the task, decreasing."""

    initial_strength: float = Field(default=0.01, gt=0)
    """Strength a₀ of every mode of the initial map."""

    def _check(self) -> None:
        if list(self.singular_values) != sorted(self.singular_values, reverse=True):
            raise ValueError(f"`singular_values` must not increase, got {self.singular_values}.")
        if self.initial_strength > 0.05 * min(self.singular_values):
            raise ValueError(
                "`initial_strength` must be at most a twentieth of the smallest singular value, "
                f"{min(self.singular_values):g}, got {self.initial_strength:g}."
            )


@make_run("linear/exponential-to-sigmoidal")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train at each balance, and evaluate the closed form of every mode at the same times."""
    s, a0, lam = parameters.singular_values[0], parameters.initial_strength, parameters.balances

    def sweep(balances: np.ndarray) -> xr.Dataset:
        tables = [_curve(parameters, float(balance), key) for balance in balances]
        return xr.concat(tables, xr.Variable("balance", balances))

    curves = sweep(np.array(lam))
    progress("training near both limits", 0.5)
    many = np.geomspace((lam[0] or lam[1]) / 30, lam[-1], 81)
    marks = time_to(_MARKS[:, None] * s, np.array(s), a0, many)
    return {
        "curves": curves,
        "shape": xr.Dataset(
            {"time_to": (("mark", "balance"), marks)}, {"balance": many, "mark": _MARKS}
        ),
        "sigmoid": _deviations(sweep(a0 * _SIGMOID)),
        "exponential": _deviations(sweep(s * _EXPONENTIAL)),
    }


def _curve(parameters: Parameters, balance: float, key: Key) -> xr.Dataset:
    """Train at one balance and evaluate the theory, until the slowest mode is learned."""
    s, a0 = np.asarray(parameters.singular_values), parameters.initial_strength
    times = np.linspace(0.0, time_to(0.995 * s, s, a0, balance).max(), _SAMPLES)
    sizes = (len(s), len(s), len(s))
    rngs = generators(parameters.seeds, parameters.seed, key)
    correlation = random_task(sizes, parameters.singular_values, rngs[0])
    u, _, vt = np.linalg.svd(correlation)
    start = lambda_balanced(sizes, balance=np.array([balance, -balance]), product=a0 * u @ vt)
    turns = np.stack([random_frame(len(s), len(s), rng) for rng in rngs])[:, None]
    maps = np.asarray(train(rotated(start, turns), correlation, times).end_to_end())
    in_modes = u.T @ maps @ vt.T
    strength = np.diagonal(in_modes, axis1=-2, axis2=-1)
    # Each mode is a chain of two weights whose squares differ by λ.
    large = np.full(len(s), np.sqrt((np.hypot(balance, 2 * a0) + balance) / 2))
    first, second = unbalanced_weights(times, a0 / large, large, s)
    fall, grow = np.exp(-balance * times[:, None]), np.exp(-2 * s * times[:, None])
    return xr.Dataset(
        {
            "time": ("sample", times, {"long_name": "time in units of τ"}),
            "strength": (("seed", "sign", "sample", "mode"), strength),
            "off_diagonal": ((), np.abs(in_modes - strength[..., None] * np.eye(len(s))).max()),
            "theory": (("sample", "mode"), np.asarray(first * second)),
            "exponential": (("sample", "mode"), s + (a0 - s) * fall),
            "logistic": (("sample", "mode"), s * a0 / (a0 + (s - a0) * grow)),
            "rate": ("mode", np.sqrt(balance**2 + 4 * s**2)),
            "time_to": (("mark", "mode"), time_to(_MARKS[:, None] * s, s, a0, balance)),
        },
        {"sign": [1.0, -1.0], "mark": _MARKS, "singular_value": ("mode", s)},
    )


def time_to(a: np.ndarray, s: np.ndarray, a0: float, balance: float | np.ndarray) -> np.ndarray:
    r"""Return the time at which a mode has the strength a.

    u = (√(λ² + 4a²) + 2a)/4 follows u̇ = 2 (u₊ − u)(u − u₋) with u_± = (s ± S_λ)/2.
    """
    growing = lambda strength: (np.hypot(balance, 2 * strength) + 2 * strength) / 4
    rate = np.hypot(s, balance / 2)
    above, below = (s + rate) / 2, -(balance**2) / (8 * (s + rate))
    odds = lambda u: (u - below) / (above - u)
    return np.log(odds(growing(a)) / odds(growing(a0))) / (2 * rate)


def _deviations(curves: xr.Dataset) -> xr.Dataset:
    """Return the largest deviation of training from either limit."""
    off = abs(curves["strength"] - curves[["exponential", "logistic"]]) / curves["singular_value"]
    return off.max(("sign", "seed", "sample", "mode"))


@claims_from_source("Saxe, slides", "“From exponential to sigmoidal dynamics”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the curves, their shape, and how fast the two limits are approached."""
    curves, s = run["curves"].ds, run["curves"].ds["singular_value"].values
    off = abs(curves["strength"] - curves["theory"]).max(("sign", "seed", "sample", "mode"))
    off = max_error_below(np.maximum(off, curves["off_diagonal"]), within=1e-6)
    claim("closed-form", "every mode follows its closed form for each balance λ", off)
    off = max_error_below(*curves["strength"].transpose("sign", ...), within=1e-6)
    words = "a square network learns the same map over time for balances λ and −λ"
    claim("sign-of-balance", words, off)
    seen, theory, near = _reached(curves), curves["time_to"], {"within": 0.01, "relative": True}
    claim(
        "wait-over-rise",
        "the strongest mode has the predicted ratio of wait and rise for each balance λ (time to "
        "10 % over time from 10 % to 90 %)",
        agree(_wait(seen.isel(mode=0)), _wait(theory.isel(mode=0)), **near),
        note=f"an exponential from zero has the ratio {_NO_WAIT:.3f}",
    )
    if len(set(s)) > 1:
        ratio = lambda times: (times.isel(mode=-1) / times.isel(mode=0)).isel(mark=1)
        claim(
            "weakest-over-strongest",
            "the times at which the weakest and the strongest mode are half learned have the "
            "predicted ratio for each balance λ",
            agree(ratio(seen), ratio(theory), **near),
            note=f"about s₁/s₂ = {s[0] / s[-1]:g} for sigmoids, learned one after the other; 1 for "
            "exponentials, learned together",
        )
    for name, limit, power, words in (
        ("exponential", "exponential", -2.0, "for large λ modes approach s + (a₀ − s) e^{−|λ|t/τ}"),
        (
            "sigmoid",
            "logistic",
            2.0,
            "for λ → 0 modes approach the sigmoid of two layers of equal scale",
        ),
    ):
        off = run[name].ds[limit]
        claim(
            f"{name}-limit",
            f"{words} (exponent of the balance λ in the deviation)",
            follows_power_law(off["balance"], off, power, within=0.1),
            note=f"deviation at most {float(off.max()):.2g} of s",
        )


def _reached(curves: xr.Dataset) -> xr.DataArray:
    """Return when training has learned given fractions of each mode, by interpolation."""
    return xr.apply_ufunc(
        np.interp,
        curves["mark"] * curves["singular_value"],
        curves["strength"].sel(sign=1.0).isel(seed=0),
        curves["time"],
        input_core_dims=[["mark"], ["sample"], ["sample"]],
        output_core_dims=[["mark"]],
        vectorize=True,
    )


def _wait(times: xr.DataArray) -> xr.DataArray:
    """Return the time to 10 % over the time from 10 % to 90 %."""
    return times.isel(mark=0, drop=True) / times.isel(mark=[0, -1]).diff("mark").isel(mark=0)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the strongest mode, its distance from the target, and the wait before the rise."""
    curves, many = run["curves"].ds.isel(mode=0), run["shape"].ds
    s = float(curves["singular_value"])
    ratio, used = curves["balance"].values / s, []
    title = "Layers of equal scale learn in sigmoids, of unequal scale exponentially"
    figure, (rise, rest, shape) = panels(title, 3, width=3.33, height=3.2)
    for index, (_, shade, label) in enumerate(shades(ratio)):
        curve = curves.isel(balance=index)
        clock = curve["rate"] * curve["time"]
        trained, theory = curve["strength"].sel(sign=1.0).isel(seed=0) / s, curve["theory"] / s
        draw_pair(rise, clock, trained, theory, color=shade, label=label)
        draw_pair(rest, clock, 1 - trained, 1 - theory, color=shade)
        used.append(shade)
    # The axis ends when the slowest curve of this mode is learned.
    end = 1.05 * float((curves["rate"] * curves["time_to"].isel(mark=-1)).max()) + 2
    words = "time $t/τ$ times final rate $2S_λ$", "strength $a/s$", "strongest mode"
    box: dict[str, Any] = {"xlim": (0, end), "ylim": (0, 1.05)}
    label_axes(rise, *words, legend="lower right", legend_title="$λ/s$", **box)
    draw_pair(rest, [], [], color="0.6", alpha=0.5, label="training")
    words = words[0], "$1 - a/s$", "what is left to learn"
    box |= {"yscale": "log", "ylim": (1e-2, 4.0)}
    label_axes(rest, *words, theory="closed form", legend="upper right", **box)
    _draw_shape(shape, ratio, many["balance"].values / s, _wait(many["time_to"]).values)
    # λ = 0 is drawn at the left edge of the logarithmic axis.
    place = np.maximum(ratio, float(many["balance"][0]) / s)
    shape.scatter(place, _wait(_reached(curves)), s=60, c=used, alpha=0.6)
    return figure


def _draw_shape(ax: Axes, ratio: np.ndarray, many: np.ndarray, wait: np.ndarray) -> None:
    ax.plot(many, wait, **THEORY_STYLE)
    ax.axhline(_NO_WAIT, **GUIDE_STYLE)
    ax.text(many[0], 1.08 * _NO_WAIT, "exponential", color="0.4")
    words = "balance $λ/s$", "time to 10 % over rise to 90 %", "wait before the rise"
    label_axes(ax, *words, xscale="log", yscale="log")
    ticks = {x: f"{x:g}" for x in 10.0 ** np.arange(-6, 4) if 2 * many[0] < x < 2 * many[-1]}
    ticks |= {} if ratio[0] else {many[0]: "0"}
    ax.set_xticks([*ticks], [*ticks.values()])
    levels = [y for y in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if 0.8 * _NO_WAIT < y < wait[0]]
    ax.set_yticks(levels, [f"{level:g}" for level in levels])
    ax.minorticks_off()
