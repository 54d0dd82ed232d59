r"""Theorem 4: in a linear network directions separate as ε^(1 − s_{r+1}/s₁).

Loss ½⟨‖y − f‖²⟩ and its time. Eq. (10), the linear system that holds near zero, is integrated
directly and held against the exact time of escape (Eq. 37), its closed form (Eq. 34) and the
exponent of what is left outside the top r directions then (Eq. 39). The whole network, which
saturates, is trained from the same weights and has the same exponent at its first drop.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from ....diagnose import passage_time
from ....dynamics import gradient_flow
from ....networks import Layer, fully_connected
from ....networks._seeds import Keys
from ....tasks import linear_teacher
from ....theory.saddles import escape_time, linear_phase, residual_exponent
from ..._frame import keys_of, parameters_of
from ..._old import compare, experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ...claims import Claim
from ...figures import PALE, THEORY, styled
from ..figure_2._draw import sheet
from ..panels._reading import PAPER

NAME = "saddles/theorem-4"
_SOURCE = f"{PAPER}, Theorem 4"
_SAMPLES = 400
_LEFT = 0.1
"""Most of a unit that may be left at the largest ε, for its directions to be apart in a network."""


class Parameters(BaseParameters):
    """Spectra with one or several equal largest singular values and one smaller, and scales ε."""

    seeds: int = Field(default=1, ge=1)
    """How many networks are drawn; all of them are averaged over."""

    ratios: tuple[float, ...] = (0.5, 0.8, 0.2, 0.4, 0.95)
    """s_{r+1}/s₁ of each spectrum."""

    multiplicities: tuple[int, ...] = (1, 1, 1, 2, 1)
    """r, how often the largest singular value occurs, of each spectrum."""

    scales: tuple[float, ...] = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
    """Standard deviations ε of the initial weights, falling by four decades or more."""

    width: int = Field(default=50, ge=10)
    """Number of units H."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if not self.ratios or not all(0.15 <= ratio <= 0.98 for ratio in self.ratios):
            raise ValueError(f"`ratios` must lie between 0.15 and 0.98, got {self.ratios}.")
        if len(self.multiplicities) != len(self.ratios) or min(self.multiplicities) < 1:
            raise ValueError(
                f"`multiplicities` must be one number from 1 up for each of the "
                f"{len(self.ratios)} ratios, got {self.multiplicities}."
            )
        scales = self.scales
        falling = list(scales) == sorted(set(scales), reverse=True)
        if len(scales) < 2 or not falling or scales[0] > 1e-3 or scales[-1] < 1e-13:
            raise ValueError(
                f"`scales` must fall, from 1e-3 at most to 1e-13 at least, got {scales}: at larger "
                "ones there is no plateau, below float64 does not hold the small directions."
            )
        if scales[0] < 1e4 * scales[-1] * (1 - 1e-9):
            raise ValueError(f"`scales` must span four decades for an exponent, got {scales}.")
        return self


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"ratios": (0.5, 0.2, 0.4), "multiplicities": (1, 1, 2), "width": 30}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Integrate Eq. (10) and train the network, for every spectrum and scale."""
    keys = keys_of(parameters, key)
    tables: dict[str, list[xr.Dataset]] = {"linear": [], "network": []}
    cases = list(zip(parameters.ratios, parameters.multiplicities, strict=True))
    for index, (ratio, multiplicity) in enumerate(cases):
        say(f"s_{multiplicity + 1}/s_1 = {ratio:g}", index / len(cases))
        correlation = _correlation(parameters, ratio, multiplicity)
        weights = _weights(parameters, correlation, keys)
        tables["linear"].append(_linear_system(parameters, correlation, multiplicity, weights))
        tables["network"].append(_network(parameters, correlation, multiplicity, keys))
    axis = xr.Variable("spectrum", np.arange(len(cases)))
    return run_tree(
        NAME,
        parameters,
        **{name: xr.concat(each, axis) for name, each in tables.items()},
    )


def _correlation(parameters: Parameters, ratio: float, multiplicity: int) -> np.ndarray:
    """Σ_yz in a random basis, with one input more than outputs: something of u never grows."""
    s = np.append(np.ones(multiplicity), ratio)
    rng = np.random.default_rng((parameters.seed, multiplicity))
    q, _ = np.linalg.qr(rng.normal(size=(s.size, s.size)))
    r, _ = np.linalg.qr(rng.normal(size=(s.size + 1, s.size)))
    return (q * s) @ r.T


def _weights(
    parameters: Parameters, correlation: np.ndarray, keys: Keys
) -> tuple[np.ndarray, np.ndarray]:
    """u and v of all units of all seeds, at ε = 1."""
    outputs, inputs = correlation.shape
    drawn = fully_connected(inputs, parameters.width, outputs, scale=1.0, key=keys)
    return np.asarray(drawn.u).reshape(-1, inputs), np.asarray(drawn.v).reshape(-1, outputs)


def _projection(correlation: np.ndarray, multiplicity: int) -> np.ndarray:
    """P of Eq. (11), on θ = [v, u]."""
    q, _, rt = np.linalg.svd(correlation, full_matrices=False)
    both = np.concatenate((q[:, :multiplicity], rt[:multiplicity].T))
    return both @ both.T / 2


def _linear_system(
    parameters: Parameters,
    correlation: np.ndarray,
    multiplicity: int,
    weights: tuple[np.ndarray, np.ndarray],
) -> xr.Dataset:
    """Eq. (10) is linear: its propagator is integrated once, for units of all scales."""
    from scipy.integrate import solve_ivp

    u, v = weights
    theta, scales = np.concatenate((v, u), axis=1), np.array(parameters.scales)
    outputs, size = len(correlation), sum(correlation.shape)
    system = np.zeros((size, size))
    system[:outputs, outputs:], system[outputs:, :outputs] = correlation, correlation.T
    predicted = np.array([escape_time(e * u, e * v, correlation) for e in scales])
    end = 1.05 * float(predicted.max())
    solution = solve_ivp(
        lambda _, g: (system @ g.reshape(size, size)).ravel(),
        (0.0, end),
        np.eye(size).ravel(),
        method="DOP853",
        rtol=1e-13,
        atol=1e-16,
        dense_output=True,
    )

    def at(times: np.ndarray) -> Float[np.ndarray, "time weight weight"]:
        return solution.sol(times).T.reshape(-1, size, size)

    projection = _projection(correlation, multiplicity)
    rest = np.eye(size) - projection
    times = np.linspace(0.0, end, _SAMPLES)
    grown = np.einsum("ab,tbc,ic->tia", projection, at(times), theta)
    logs = np.log(np.linalg.norm(grown, axis=-1))
    measured = np.array([[np.interp(-np.log(e), log, times) for log in logs.T] for e in scales])
    left = np.array(
        [
            e * np.linalg.norm(np.einsum("ab,ibc,ic->ia", rest, at(t), theta), axis=-1)
            for e, t in zip(scales, measured, strict=True)
        ]
    )
    closed = np.concatenate(linear_phase(u, v, correlation, times)[::-1], axis=-1)
    direct = np.einsum("tab,ib->tia", at(times), theta)
    apart = np.linalg.norm(closed - direct, axis=-1) / np.linalg.norm(direct, axis=-1)
    s = np.linalg.svd(correlation, compute_uv=False)
    return xr.Dataset(
        {
            "singular_ratio": ((), s[-1] / s[0]),
            "multiplicity": ((), multiplicity),
            "predicted_exponent": ((), residual_exponent(s)),
            "escape_predicted": (("scale", "unit"), predicted),
            "escape_measured": (("scale", "unit"), measured),
            "residual": (("scale", "unit"), left),
            "exponent": ("unit", _exponents(scales, left)),
            "phase_error": ((), apart.max()),
        },
        {"scale": scales},
    )


def _network(
    parameters: Parameters, correlation: np.ndarray, multiplicity: int, keys: Keys
) -> xr.Dataset:
    """White inputs, y = Σ_yz x: trained until the top directions have made half of their drop."""
    scales = np.array(parameters.scales)
    outputs, inputs = correlation.shape
    network = fully_connected(
        inputs, parameters.width, outputs, scale=scales[:, None], key=keys.reshape(1, -1)
    )
    task = linear_teacher(correlation)
    trained = gradient_flow(network, task, loss="half", converged=1e-3, rtol=1e-10)
    s = np.linalg.svd(correlation, compute_uv=False)
    middle = 0.5 * np.sum(s**2) - 0.25 * np.sum(s[:multiplicity] ** 2)
    rest = np.eye(outputs + inputs) - _projection(correlation, multiplicity)
    left = np.empty(trained.saves.shape)
    for index in np.ndindex(left.shape):
        lane = trained.lane(*index)
        when = passage_time(lane.time, lane.loss, middle, slope=lane.slope)
        size = np.linalg.norm(_theta(lane.network) @ rest, axis=(-1, -2))
        left[index] = np.exp(np.interp(when, lane.time, np.log(size)))
    return xr.Dataset(
        {
            "residual": (("scale", "seed"), left),
            "exponent": ("seed", _exponents(scales, left)),
        },
        {"scale": scales, "seed": parameters.seed + np.arange(parameters.seeds)},
    )


def _theta(network: Layer) -> np.ndarray:
    return np.concatenate((np.asarray(network.v), np.asarray(network.u)), axis=-1)


def _exponents(scales: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Slope of ln(left) against ln ε, for each column."""
    return np.polyfit(np.log(scales), np.log(left), 1)[0]


def claims(run: xr.DataTree) -> list[Claim]:
    """Escape time, exact linear phase, and the exponent of every spectrum."""
    linear, network = run["linear"].to_dataset(), run["network"].to_dataset()
    late = np.abs(linear["escape_measured"] - linear["escape_predicted"]).max()
    found = [
        compare(
            experiment=NAME,
            claim="Eq. (10): a unit's part along the top directions is one at "
            "T = ln(1/|Pθ(0)|)/s₁ (largest difference)",
            source=f"{PAPER}, Eq. (37)",
            predicted=0.0,
            measured=float(late),
            tolerance=1e-6,
        ),
        compare(
            experiment=NAME,
            claim="Eq. (10): the weights follow the closed form (largest relative difference)",
            source=f"{PAPER}, Eq. (34)",
            predicted=0.0,
            measured=float(linear["phase_error"].max()),
            tolerance=1e-8,
        ),
    ]
    for spectrum in linear["spectrum"].values:
        found += _exponent_claims(linear.sel(spectrum=spectrum), network.sel(spectrum=spectrum))
    return found


def _exponent_claims(linear: xr.Dataset, network: xr.Dataset) -> list[Claim]:
    ratio, r = float(linear["singular_ratio"]), int(linear["multiplicity"])
    decades = float(np.log10(linear["scale"][0] / linear["scale"][-1]))
    words = f"s_{r + 1}/s_1 = {ratio:.3g}" + (f", s_1 = … = s_{r}" if r > 1 else "")
    predicted = float(linear["predicted_exponent"])
    found = [
        compare(
            experiment=NAME,
            claim=f"{words}: what is left of a unit at T is ε^p, p = 1 − s_{r + 1}/s_1 "
            "(median over units)",
            source=f"{_SOURCE}, Eq. (39)",
            predicted=predicted,
            measured=float(linear["exponent"].median()),
            tolerance=0.005,
            note=f"over {decades:g} decades of ε",
        )
    ]
    if float(linear["scale"][0]) ** predicted <= _LEFT:
        found.append(
            compare(
                experiment=NAME,
                claim=f"{words}: the same exponent in the network, all units, at its first drop",
                source=_SOURCE,
                predicted=predicted,
                measured=float(network["exponent"].median()),
                tolerance=0.01,
                note=f"over {decades:g} decades of ε",
            )
        )
    return found


@styled
def draw(run: xr.DataTree) -> Figure:
    """What is left outside the top directions against ε, in Eq. (10) and in the network."""
    parameters = parameters_of(run, Parameters)
    figure = sheet("Theorem 4   The smaller the weights, the fewer directions leave together")
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_residuals(left, run, "linear", "unit", parameters)
    _draw_residuals(right, run, "network", "seed", parameters)
    left.set(title="linear phase: one unit in the median", ylabel="left outside the top directions")
    right.set(title="whole network, half-way down the first drop")
    right.plot([], [], **THEORY, label="$ε^{1 − s_{r+1}/s_1}$")
    right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)
    return figure


def _draw_residuals(
    ax: Axes, run: xr.DataTree, group: str, over: str, parameters: Parameters
) -> None:
    data, theory = run[group].to_dataset(), run["linear"].to_dataset()["predicted_exponent"]
    for index, spectrum in enumerate(data["spectrum"].values):
        residual = data["residual"].sel(spectrum=spectrum).median(over)
        scale, r = residual["scale"].values, parameters.multiplicities[index]
        label = f"$s_{{{r + 1}}}/s_1 = {parameters.ratios[index]:g}$"
        ax.loglog(scale, residual, **PALE, color=f"C{index}", alpha=0.5, label=label)
        power = float(theory.sel(spectrum=spectrum))
        # Through the smallest scale: theory gives the slope alone.
        ax.loglog(scale, float(residual[-1]) * (scale / scale[-1]) ** power, **THEORY)
    ax.set_xlabel("initial scale ε")
