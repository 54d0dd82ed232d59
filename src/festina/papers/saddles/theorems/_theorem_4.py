r"""Theorem 4: in a linear network directions separate as ε^(1 − s_{r+1}/s₁).

Eq. (10) is the linear system that holds near zero. Its direct integration tests two predictions:
the escape time (Eq. 37), and the exponent in ε of the weights outside the top r directions at that
time (Eq. 39). The whole network, which saturates, is trained from the same weights and has the same
exponent at its first drop. Times are those of the loss ½⟨‖y − f‖²⟩.
"""

import functools
from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ....diagnose import passage_time
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_decreasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    join_numbers,
    max_error_below,
)
from ....experiments.figures import SIMULATION_STYLE, label_axes, panels, power_law_guide, styled
from ....networks import fully_connected, layer_from
from ....tasks import from_moments, linear_teacher
from ....theory.saddles import residual_exponent, unit_growth_times

_SCALES, _SAMPLES = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12), 400
_LEFT = 0.1
"""Largest part of a unit outside the top directions, at the largest ε, for claims on networks."""


class Parameters(BaseParameters):
    """Parameters of Theorem 4: spectra with one smaller singular value, and initial scales ε."""

    seeds: int = Field(default=1, ge=1)
    """Number of networks that are drawn; claims use medians over all of them."""

    ratios: tuple[float, ...] = (0.5, 0.8, 0.2, 0.4, 0.95)
    """Ratio s_{r+1}/s₁ of singular values, for each spectrum."""

    multiplicities: tuple[int, ...] = (1, 1, 1, 2, 1)
    """Multiplicity r of the largest singular value, for each spectrum."""

    scales: Annotated[tuple[float, ...], check_decreasing(1e-3, 1e-13)] = _SCALES
    """Standard deviations ε of the initial weights, decreasing over four decades or more."""

    width: int = Field(default=50, ge=10)
    """Number H of hidden units."""

    def _check(self) -> None:
        if not self.ratios or not all(0.15 <= ratio <= 0.98 for ratio in self.ratios):
            raise ValueError(f"`ratios` must contain numbers from 0.15 to 0.98, got {self.ratios}.")
        if len(self.multiplicities) != len(self.ratios) or min(self.multiplicities) < 1:
            count, given = len(self.ratios), self.multiplicities
            raise ValueError(
                f"`multiplicities` must be {count} numbers ≥ 1, one for each entry of `ratios`, "
                f"got {given}."
            )
        if self.scales[0] < 1e4 * self.scales[-1] * (1 - 1e-9):
            raise ValueError(
                "`scales` must span four decades so that exponents can be measured, got "
                f"{self.scales}."
            )


QUICK: dict[str, Any] = {"ratios": (0.5, 0.2, 0.4), "multiplicities": (1, 1, 2), "width": 30}


@make_run("saddles/theorem-4")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Integrate Eq. (10) and train the network, for every spectrum and scale."""
    cases = list(zip(parameters.ratios, parameters.multiplicities, strict=True))
    tables: dict[str, list[xr.Dataset]] = {"linear": [], "network": []}
    scales, keys = np.array(parameters.scales), keys_from_parameters(parameters, key)
    for index, (ratio, r) in enumerate(cases):
        progress(f"spectrum with s_{r + 1}/s_1 = {ratio:g}", index / len(cases))
        s = np.append(np.ones(r), ratio)
        # A random basis with one input more than outputs, so that a part of u never grows.
        rng = np.random.default_rng((parameters.seed, r))
        q, _ = np.linalg.qr(rng.normal(size=(s.size, s.size)))
        basis, _ = np.linalg.qr(rng.normal(size=(s.size + 1, s.size)))
        top = np.concatenate((q[:, :r], basis[:, :r]))
        sigma, projection = (q * s) @ basis.T, top @ top.T / 2  # P of Eq. (11), on θ = [v, u]
        outputs, inputs = sigma.shape
        network = functools.partial(fully_connected, inputs, parameters.width, outputs)
        drawn = network(scale=1.0, key=keys)
        u, v = (np.asarray(part).reshape(-1, part.shape[-1]) for part in drawn.parts)
        linear = _linear_system(scales, sigma, projection, u, v)
        linear["predicted_exponent"] = residual_exponent(s)
        start = network(scale=scales[:, None], key=keys.reshape(1, -1))
        left = (("scale", "seed"), _network(start, sigma, projection, r))
        seeds = (0 if key is not None else parameters.seed) + np.arange(parameters.seeds)
        whole = xr.Dataset({"residual": left}, {"scale": scales, "seed": seeds})
        for name, table in (("linear", linear), ("network", whole)):
            tables[name].append(table.assign(exponent=_exponents(table)))
    axis = xr.Variable("spectrum", np.arange(len(cases)))
    return {name: xr.concat(each, axis) for name, each in tables.items()}


def _linear_system(
    scales: np.ndarray, sigma: np.ndarray, projection: np.ndarray, u: np.ndarray, v: np.ndarray
) -> xr.Dataset:
    """Solve Eq. (10) for units of all scales: its propagator is integrated once."""
    from scipy.integrate import solve_ivp

    theta, outputs, size = np.concatenate((v, u), axis=1), len(sigma), sum(sigma.shape)
    system = np.zeros((size, size))
    system[:outputs, outputs:], system[outputs:, :outputs] = sigma, sigma.T
    sizes = scales[:, None, None]
    predicted = unit_growth_times(layer_from("linear", sizes * u, sizes * v), from_moments(sigma))
    times = np.linspace(0.0, 1.05 * float(predicted.max()), _SAMPLES)
    flow = lambda _, g: (system @ g.reshape(size, size)).ravel()
    how: dict[str, Any] = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-16, "dense_output": True}
    solution = solve_ivp(flow, (0.0, times[-1]), np.eye(size).ravel(), **how)
    at = lambda times: solution.sol(times).T.reshape(-1, size, size)
    direct = np.einsum("tab,ib->tia", at(times), theta)
    logs = np.log(np.linalg.norm(direct @ projection, axis=-1))
    measured = np.array([[np.interp(-np.log(e), log, times) for log in logs.T] for e in scales])
    then = np.array([np.einsum("iab,ib->ia", at(t), theta) for t in measured])
    left = scales[:, None] * np.linalg.norm(then - then @ projection, axis=-1)
    over = ("scale", "unit")
    return xr.Dataset(
        {
            "escape_predicted": (over, predicted),
            "escape_measured": (over, measured),
            "residual": (over, left),
        },
        {"scale": scales},
    )


def _network(network: Any, sigma: np.ndarray, projection: np.ndarray, r: int) -> np.ndarray:
    """Train on y = Σ_yz x, x white; return weights outside the top directions in mid-drop."""
    trained = gradient_flow(network, linear_teacher(sigma), loss="half", converged=1e-3, rtol=1e-10)
    s = np.linalg.svd(sigma, compute_uv=False)
    middle = 0.5 * np.sum(s**2) - 0.25 * np.sum(s[:r] ** 2)
    left = np.empty(trained.saves.shape)
    for index in np.ndindex(left.shape):
        lane = trained.lane(*index)
        when = passage_time(lane.time, lane.loss, middle, slope=lane.slope)
        theta = np.concatenate([np.asarray(part) for part in lane.network.parts[::-1]], axis=-1)
        size = np.linalg.norm(theta - theta @ projection, axis=(-1, -2))
        left[index] = np.exp(np.interp(when, lane.time, np.log(size)))
    return left


def _exponents(table: xr.Dataset) -> xr.DataArray:
    """Return the slope of ln(residual) against ln ε, for every unit or seed."""
    slopes = np.polyfit(np.log(table["scale"]), np.log(table["residual"]), 1)[0]
    return xr.DataArray(slopes, dims=table["residual"].dims[1:])


@claims_from_source("Zhang, Saxe & Latham", "Theorem 4")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the escape time, and the exponent of every spectrum."""
    linear, network = run["linear"].ds, run["network"].ds
    parameters = parameters_of_run(run, Parameters)
    words = (
        "Eq. (10): the part of a unit along the top directions reaches norm one at the time "
        "T = ln(1/|Pθ(0)|)/s₁"
    )
    late = max_error_below(linear["escape_measured"], linear["escape_predicted"], within=1e-6)
    claim("escape-time", words, late, at="Eq. (37)")
    power, ratios = linear["predicted_exponent"], np.array(parameters.ratios)
    first, *_, last = parameters.scales
    note = f"r = {join_numbers(parameters.multiplicities)}; {np.log10(first / last):g} decades of ε"
    claim(
        "linear-exponents",
        "at the time T of Eq. (37) the part of a unit outside the top directions is proportional "
        f"to ε^p with p = 1 − s_{{r+1}}/s_1, for s_{{r+1}}/s_1 = {join_numbers(ratios)} (medians "
        "over units)",
        agree(linear["exponent"].median("unit"), power, within=0.005),
        at="Eq. (39)",
        note=note,
        headline=True,
    )
    if (clear := first**power.values <= _LEFT).any():
        claim(
            "network-exponents",
            "at the first drop of a network, the part of its weights outside the top directions is "
            "proportional to ε^p with p = 1 − s_{r+1}/s_1, for s_{r+1}/s_1 = "
            f"{join_numbers(ratios[clear])} (medians over seeds)",
            agree(network["exponent"].median("seed")[clear], power[clear], within=0.01),
            note=note,
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the part outside the top directions against ε, in Eq. (10) and in the network."""
    title = "Theorem 4   The smaller the initial weights, the better directions separate"
    figure, axes = panels(title, 2, sharey=True)
    parameters, power = parameters_of_run(run, Parameters), run["linear"].ds["predicted_exponent"]
    for ax, group, over in zip(axes, ("linear", "network"), ("unit", "seed"), strict=True):
        for index, residual in enumerate(run[group].ds["residual"].median(over)):
            scale, r = residual["scale"], parameters.multiplicities[index]
            label = f"$s_{{{r + 1}}}/s_1 = {parameters.ratios[index]:g}$"
            ax.loglog(
                scale, residual, **SIMULATION_STYLE, color=f"C{index}", alpha=0.5, label=label
            )
            power_law_guide(ax, scale, float(residual[-1]), float(power[index]))
    words = "initial scale ε", "part outside the top directions"
    label_axes(axes[0], *words, "linearised dynamics: median over units", legend=None)
    words = "initial scale ε", "", "whole network, middle of the first drop"
    label_axes(axes[1], *words, theory="$ε^{1 − s_{r+1}/s_1}$", legend="beside")
    return figure
