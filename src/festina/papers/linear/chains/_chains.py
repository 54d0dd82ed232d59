r"""A whole network learns like several chains, one for each mode; with depth, one after the other.

Loss ½⟨‖y − W_D ⋯ W_1 x‖²⟩, τ Ẇ = −∂L/∂W with τ = 1. Weights that are decoupled (layers share their
directions with the data) follow the chains exactly, for white inputs and for others that vary
along the modes. Small random weights come near them, and nearer the exact balanced solution.
"""

import warnings
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from pydantic import Field, model_validator

from ...._types import Array
from ....diagnose import passage_time
from ....dynamics import gradient_flow
from ....networks import decoupled, deep_linear, orthogonal
from ....networks._seeds import Keys
from ....tasks import Task, linear_teacher
from ....theory.linear import (
    BalanceWarning,
    Modes,
    balanced_flow,
    effective_strengths,
    learning_time,
    mode_map,
    mode_strengths,
)
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._chains_claims import claims as claims
from ._chains_draw import draw as draw

NAME = "linear/chains"
_SAMPLES = 401


class Parameters(BaseParameters):
    """A linear map with distinct singular values, learned at several depths."""

    seeds: int = Field(default=5, ge=1)
    """How many networks with small random weights are trained at each scale."""

    singular_values: tuple[float, ...] = (5.0, 3.0, 2.0, 1.0)
    """Singular values of the input-output correlation, the largest first."""

    input_variances: tuple[float, ...] = (2.0, 0.5, 1.0, 0.7)
    """Input variance along each mode, for the inputs that are not white."""

    width: int = Field(default=5, ge=1, le=32)
    """Number of inputs, outputs and units of every hidden layer."""

    depths: tuple[int, ...] = (2, 3, 4)
    """Depths of the deep networks, in increasing order."""

    initial_strength: float = Field(default=1e-3, gt=0)
    """Product a₀ of the initial weights of a mode, in decoupled networks."""

    scales: tuple[float, ...] = (0.1, 0.01, 0.001)
    """Standard deviations of small random weights, the largest first."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        s, variances = np.array(self.singular_values), np.array(self.input_variances)
        if len(s) < 2 or (s <= 0).any() or (s[1:] > 0.8 * s[:-1]).any():
            raise ValueError(
                "`singular_values` must be two or more positive numbers, each a fifth below "
                f"the one before, got {self.singular_values}: modes that are alike mix."
            )
        if variances.shape != s.shape or (variances <= 0).any():
            raise ValueError(
                f"`input_variances` must be {len(s)} positive numbers, one for each singular "
                f"value, got {self.input_variances}."
            )
        if self.width < len(s):
            raise ValueError(f"`width` must be at least {len(s)}, the number of modes.")
        least = min(s.min(), (s / variances).min())
        if self.initial_strength >= least / 4:
            raise ValueError(
                f"`initial_strength` must lie below a quarter of the weakest target, {least:g}, "
                f"got {self.initial_strength:g}."
            )
        depths = list(self.depths)
        if not depths or depths[0] < 2 or depths != sorted(set(depths)):
            raise ValueError(f"`depths` must be increasing numbers from 2 up, got {self.depths}.")
        scales = np.array(self.scales)
        if len(scales) < 2 or (scales <= 0).any() or (np.diff(scales) >= 0).any():
            raise ValueError(f"`scales` must be two or more falling numbers, got {self.scales}.")
        if self.width * scales[0] ** 2 > s[-1] / 8:
            raise ValueError(
                f"`scales` must start below {np.sqrt(s[-1] / 8 / self.width):.2g}, or the weakest "
                f"mode is half learned by chance, got {scales[0]:g}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train decoupled networks of each depth and random ones of each scale, beside theory."""
    keys = keys_of(parameters, key)
    shared = jax.random.fold_in(keys[0], 1)
    # Directions of outputs, of inputs, and of the modes in each hidden layer.
    count = 1 + parameters.depths[-1]
    left, right, *frames = orthogonal((parameters.width,) * (count + 1), key=shared).weights

    depths = (1, *parameters.depths)
    tables: list[xr.Dataset] = []
    for index, depth in enumerate(depths):
        say(f"decoupled weights, depth {depth}", index / (len(depths) + 1))
        kinds: list[xr.Dataset] = [
            _decoupled(parameters, left, right, variances, frames[: depth - 1])
            for variances in ((1.0,) * len(parameters.singular_values), parameters.input_variances)
        ]
        tables.append(xr.concat(kinds, xr.Variable("input", ["white", "coloured"])))
    say("small random weights", len(depths) / (len(depths) + 1))
    small = [_random(parameters, left, right, scale, keys) for scale in parameters.scales]
    return run_tree(
        NAME,
        parameters,
        decoupled=xr.concat(tables, xr.Variable("depth", list(depths))),
        random=xr.concat(small, xr.Variable("scale", list(parameters.scales))).assign_coords(
            seed=parameters.seed + np.arange(parameters.seeds)
        ),
    )


def _data(
    parameters: Parameters, left: Array, right: Array, variances: tuple[float, ...]
) -> tuple[Modes, Task]:
    """The modes, and a task that has them; inputs that no mode uses have variance one."""
    s, lam = np.array(parameters.singular_values), np.array(variances)
    count = len(s)
    modes = Modes(left[:, :count], s, right[:, :count], lam)
    everywhere = np.append(lam, np.ones(parameters.width - count))
    return modes, linear_teacher(
        (modes.left * (s / lam)) @ modes.right.T, (right * everywhere) @ right.T
    )


def _decoupled(
    parameters: Parameters,
    left: Array,
    right: Array,
    variances: tuple[float, ...],
    frames: list[Array],
) -> xr.Dataset:
    """One depth on one kind of input: strengths of training and theory, and what is left over."""
    modes, task = _data(parameters, left, right, variances)
    depth, count = 1 + len(frames), len(modes)
    a0 = np.full(count, parameters.initial_strength)
    times = np.linspace(0.0, float(_times(modes, a0, depth, 0.99).max()), _SAMPLES)
    half = _times(modes, a0, depth, 0.5)
    theory = mode_strengths(np.append(times, half), modes, a0, depth=depth)
    network = decoupled(
        modes.left,
        modes.right,
        [parameters.width] * len(frames),
        initial_strength=a0,
        frames=[frame[:, :count] for frame in frames],
    )
    product = np.asarray(gradient_flow(network, task, times, rtol=1e-11).network.end_to_end())
    strength = _strengths(product, modes)
    target = modes.singular_values / modes.input_variance
    at_half = theory[_SAMPLES:] / target
    return xr.Dataset(
        {
            "time": ("sample", times, {"long_name": "time in units of τ"}),
            "strength": (("sample", "mode"), strength),
            "theory": (("sample", "mode"), theory[:_SAMPLES]),
            "target": ("mode", target),
            "input_variance": ("mode", modes.input_variance),
            # What the next mode has learned of its target when one is half learned.
            "overlap": ("earlier", np.diagonal(at_half, 1)),
            "leak": ("sample", _norm(product - mode_map(strength, modes))),
        }
    )


def _random(
    parameters: Parameters, left: Array, right: Array, scale: float, keys: Keys
) -> xr.Dataset:
    """Two layers of small random weights on white inputs, seed by seed, and what predicts them."""
    modes, task = _data(parameters, left, right, (1.0,) * len(parameters.singular_values))
    s, n = np.asarray(modes.singular_values), parameters.width
    correlation = np.asarray((modes.left * s) @ modes.right.T)
    network = deep_linear((n, n, n), scale=scale, key=keys)
    first, second = (np.asarray(weight) for weight in network.weights)
    start = effective_strengths(first, second, correlation)[:, : len(s)]
    half = np.stack([_times(modes, a0, 2, 0.5) for a0 in start])
    end = 1.5 * float(half.max()) + 3.0 / float(s[-1])
    times = np.linspace(0.0, end, _SAMPLES + len(s))  # as many as above: nothing compiles anew
    trained = gradient_flow(network, task, times, rtol=1e-11)
    product = np.asarray(trained.network.end_to_end())
    strength = _strengths(product, modes)
    chains = np.stack([mode_strengths(times, modes, a0, depth=2) for a0 in start])
    balanced = np.stack(
        [_balanced_map(*weights, correlation, times) for weights in zip(first, second, strict=True)]
    )
    size = np.linalg.norm(s)
    error = {
        "chain_error": np.stack([mode_map(a, modes) for a in chains]) - product,
        "balanced_error": balanced - product,
    }
    return xr.Dataset(
        {
            "time": ("sample", times, {"long_name": "time in units of τ"}),
            "strength": (("seed", "sample", "mode"), strength),
            "theory": (("seed", "sample", "mode"), chains),
            "singular_value": ("mode", s),
            "half_time": (("seed", "mode"), half),
            "half_time_trained": (
                ("seed", "mode"),
                [
                    [passage_time(times, -a[:, mode], -s[mode] / 2) for mode in range(len(s))]
                    for a in strength
                ],
            ),
            **{name: ("seed", _norm(e).max(axis=1) / size) for name, e in error.items()},
        }
    )


def _balanced_map(
    first: np.ndarray, second: np.ndarray, correlation: np.ndarray, times: np.ndarray
) -> Float[np.ndarray, "time output input"]:
    """The exact solution for balanced weights, used on weights that are nearly so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        flow = balanced_flow(first, second, correlation, tolerance=np.inf)
    return np.asarray(flow(times).map)


def _times(
    modes: Modes, a0: Float[np.ndarray, " mode"], depth: int, fraction: float
) -> Float[np.ndarray, " mode"]:
    """When each chain has learned a fraction of its target."""
    s, lam = modes.singular_values, modes.input_variance
    return np.asarray(learning_time(s, a0, depth=depth, fraction=fraction, input_variance=lam))


def _strengths(product: np.ndarray, modes: Modes) -> Float[np.ndarray, "*batch mode"]:
    return np.einsum("om,...oi,im->...m", modes.left, product, modes.right)


def _norm(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.norm(matrices, axis=(-2, -1))
