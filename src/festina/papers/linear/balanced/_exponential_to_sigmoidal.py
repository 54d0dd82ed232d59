r"""The relative scale of two layers: modes are learned as exponentials or as sigmoids.

Loss ½⟨‖y − W₂W₁x‖²⟩, white inputs, τ Ẇ = −∂L/∂W with τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. In a square
network whose initial map has the singular vectors of the task, the strength a of a mode with
singular value s follows ȧ = √(λ² + 4a²) (s − a): logistic for λ = 0, exponential with the rate |λ|
for large |λ|.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, model_validator

from ....networks import DeepLinear, balanced
from ....theory.linear import unbalanced_weights
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._exponential_to_sigmoidal_claims import NAME as NAME
from ._exponential_to_sigmoidal_claims import claims as claims
from ._exponential_to_sigmoidal_draw import draw as draw
from ._shapes import (
    check_balances,
    check_modes,
    generators,
    random_frame,
    random_task,
    rotated,
    train,
)

_SAMPLES = 801
_MARKS = (0.1, 0.5, 0.9)
"""Fractions of a mode whose times are read off."""
_SIGMOID = (0.1, 0.4)
"""λ over the initial strength of the strongest mode, where the limit λ → 0 is measured."""
_EXPONENTIAL = (25.0, 100.0)
"""λ over the largest singular value, where the limit of large λ is measured."""


class Parameters(BaseParameters):
    """A square network whose weights are aligned with the task, at several balances."""

    seeds: int = Field(default=2, ge=1)
    """How many random rotations of the hidden units are trained; they make no difference."""

    balances: tuple[float, ...] = (0.0, 0.1, 0.5, 2.0, 10.0)
    """Balances λ, not negative, in increasing order; −λ is trained as well."""

    singular_values: tuple[float, ...] = (2.0, 1.0)
    """Singular values of the task, in decreasing order."""

    initial_strength: float = Field(default=0.01, gt=0)
    """Strength a₀ of every mode of the initial map."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        check_balances(self.balances, least=2)
        check_modes(self.singular_values)
        if self.balances[0] < 0:
            raise ValueError(
                f"`balances` must not be negative, got {self.balances}: both signs are trained."
            )
        if list(self.singular_values) != sorted(self.singular_values, reverse=True):
            raise ValueError(f"`singular_values` must not increase, got {self.singular_values}.")
        if self.initial_strength > 0.05 * min(self.singular_values):
            raise ValueError(
                f"`initial_strength` must be at most a twentieth of the singular values, got "
                f"{self.initial_strength:g}: less than a tenth of a mode is to be there already."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train at each balance, and evaluate the closed form of every mode at the same times."""
    sweep = _sweep(parameters, parameters.balances, key)
    say("the limits", 0.5)
    largest, a0 = parameters.singular_values[0], parameters.initial_strength
    return run_tree(
        NAME,
        parameters,
        curves=sweep,
        shape=_shape(parameters),
        sigmoid=_deviations(_sweep(parameters, tuple(a0 * r for r in _SIGMOID), key)),
        exponential=_deviations(_sweep(parameters, tuple(largest * r for r in _EXPONENTIAL), key)),
    )


def _sweep(
    parameters: Parameters, balances: tuple[float, ...], key: PRNGKeyArray | None
) -> xr.Dataset:
    tables = [_curve(parameters, balance, key) for balance in balances]
    return xr.concat(tables, xr.Variable("balance", list(balances)))


def _curve(parameters: Parameters, balance: float, key: PRNGKeyArray | None) -> xr.Dataset:
    """Training and theory at one balance, over the time that its slowest mode needs."""
    s, a0 = np.asarray(parameters.singular_values), parameters.initial_strength
    times = np.linspace(0.0, time_to(0.995 * s, s, a0, balance).max(), _SAMPLES)
    strength, beside = _train(parameters, balance, times, key)
    marks = np.asarray(_MARKS)
    fall = np.exp(-balance * times[:, None])
    grow = np.exp(-2 * s * times[:, None])
    return xr.Dataset(
        {
            "time": ("sample", times, {"long_name": "time in units of τ"}),
            "strength": (("sign", "seed", "sample", "mode"), strength),
            "off_diagonal": ((), beside),
            "theory": (("sample", "mode"), _theory(times, s, a0, balance)),
            "exponential": (("sample", "mode"), s + (a0 - s) * fall),
            "logistic": (("sample", "mode"), s * a0 / (a0 + (s - a0) * grow)),
            "rate": ("mode", np.sqrt(balance**2 + 4 * s**2)),
            "time_to": (("mark", "mode"), time_to(marks[:, None] * s, s, a0, balance)),
        },
        {"sign": [1.0, -1.0], "mark": marks, "singular_value": ("mode", s)},
    )


def _train(
    parameters: Parameters, balance: float, times: np.ndarray, key: PRNGKeyArray | None
) -> tuple[np.ndarray, float]:
    """Strengths of the modes for both signs of λ, and the largest entry beside them."""
    s = np.asarray(parameters.singular_values)
    size, many = len(s), parameters.seeds
    rngs = generators(many, parameters.seed, key)
    correlation = random_task((size, size, size), parameters.singular_values, rngs[0])
    u, _, vt = np.linalg.svd(correlation)
    pairs = []
    for sign in (1.0, -1.0):
        network = balanced(
            (size, size, size), balance=sign * balance, product=parameters.initial_strength * u @ vt
        )
        pairs += [rotated(network, random_frame(size, size, rng)).weights for rng in rngs]
    first, second = (np.stack(layer) for layer in zip(*pairs, strict=True))
    maps = np.asarray(train(DeepLinear((first, second)), correlation, times).end_to_end())
    in_modes = u.T @ maps @ vt.T
    strength = np.diagonal(in_modes, axis1=-2, axis2=-1)
    beside = np.abs(in_modes - strength[..., None] * np.eye(size)).max()
    return strength.reshape(2, many, len(times), size), float(beside)


def _theory(times: np.ndarray, s: np.ndarray, a0: float, balance: float) -> np.ndarray:
    """Each mode is a chain of two weights whose squares differ by λ."""
    large = np.sqrt((np.hypot(balance, 2 * a0) + balance) / 2)
    ones = np.ones(len(s))
    first, second = unbalanced_weights(times, a0 / large * ones, large * ones, s)
    return np.asarray(first * second)


def time_to(a: np.ndarray, s: np.ndarray, a0: float, balance: float | np.ndarray) -> np.ndarray:
    r"""When a mode has the strength a.

    u = (√(λ² + 4a²) + 2a)/4 follows u̇ = 2 (u₊ − u)(u − u₋) with u_± = (s ± S_λ)/2.
    """
    growing = lambda strength: (np.hypot(balance, 2 * strength) + 2 * strength) / 4
    rate = np.hypot(s, balance / 2)
    above, below = (s + rate) / 2, -(balance**2) / (8 * (s + rate))
    odds = lambda u: (u - below) / (above - u)
    return np.log(odds(growing(a)) / odds(growing(a0))) / (2 * rate)


def _shape(parameters: Parameters) -> xr.Dataset:
    """Times of the strongest mode for many balances."""
    s, a0 = parameters.singular_values[0], parameters.initial_strength
    positive = [balance for balance in parameters.balances if balance > 0]
    balances = np.geomspace(positive[0] / 30, positive[-1], 81)
    marks = np.asarray(_MARKS)[:, None]
    return xr.Dataset(
        {"time_to": (("mark", "balance"), time_to(marks * s, np.array(s), a0, balances))},
        {"balance": balances, "mark": list(_MARKS)},
    )


def _deviations(curves: xr.Dataset) -> xr.Dataset:
    """How far training is from either limit, at most."""
    away = lambda limit: (abs(curves["strength"] - curves[limit]) / curves["singular_value"]).max(
        ("sign", "seed", "sample", "mode")
    )
    return xr.Dataset({name: away(name) for name in ("exponential", "logistic")})
