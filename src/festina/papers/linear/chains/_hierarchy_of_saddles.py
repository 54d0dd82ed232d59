r"""Learning passes near a sequence of saddles, and each individual in its own way.

White inputs, Σ = diag(s). Loss ½⟨‖y − W₂W₁x‖²⟩ and τ Ẇ = −∂L/∂W with τ = 1. Each set of learned
modes is a stationary point, with the loss ½ Σ s² of the modes that are left. Individuals differ in
how much of each mode their initial weights hold, and so in when, and in which order, they learn.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from pydantic import Field, model_validator

from ...._types import Array
from ....diagnose import plateaus
from ....dynamics import gradient_flow
from ....networks import DeepLinear, decoupled, deep_linear
from ....networks._seeds import Keys
from ....tasks import linear_teacher
from ....theory.linear import (
    effective_strengths,
    growing_gram,
    growing_strengths,
    modes,
    saddle_sequence,
)
from ....theory.saddles import mode_drop_times
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from .._passage import passage_times
from ._hierarchy_of_saddles_claims import NAME as NAME
from ._hierarchy_of_saddles_claims import claims as claims
from ._hierarchy_of_saddles_draw import draw as draw

_SAMPLES = 401
_NEARBY = (1e-3, 1e-6, 1e-10, 1e-16, 1e-24)
"""Initial strengths for which the closest approach to a saddle is measured, over the smallest s."""


class Parameters(BaseParameters):
    """A few modes, and individuals whose initial weights hold more or less of each."""

    seeds: int = Field(default=12, ge=1)
    """How many individuals."""

    singular_values: tuple[float, ...] = (3.0, 2.5, 1.2)
    """Singular values s of the task, from two to six, each smaller than the one before."""

    hidden: int = Field(default=12, ge=2)
    """Hidden units, at least two more than there are modes."""

    initial_strength: float = Field(default=1e-8, gt=0)
    """Mean strength a₀ of a mode in random weights, before individuals differ."""

    variability: float = Field(default=2.0, ge=0)
    """Standard deviation of the logarithm of an individual's weights along a mode."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        s = self.singular_values
        if not 2 <= len(s) <= 6 or min(s) <= 0 or max(np.diff(s)) >= 0:
            raise ValueError(
                "`singular_values` must be two to six positive numbers, each smaller than the one "
                f"before, got {s}."
            )
        if self.hidden < len(s) + 2:
            raise ValueError(
                f"`hidden` must exceed the {len(s)} modes by two or more, got {self.hidden}: else "
                "modes run out of units to escape a saddle with."
            )
        # Of an individual that is two standard deviations above the others.
        largest = self.initial_strength * float(np.exp(4 * self.variability))
        if largest > 0.01 * s[-1]:
            raise ValueError(
                "`initial_strength` must be small, so that with this `variability` "
                "a₀ exp(4 variability) is below a hundredth of the smallest singular value "
                f"{s[-1]:g}; got {largest:.3g}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {
    "alike": {"variability": 0.0},
    "two-modes": {"singular_values": (2.0, 1.6)},
}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Individuals, the saddles, how near networks come to them, and a shallow network."""
    s = np.array(parameters.singular_values)
    say("saddles", 0.0)
    saddles = _saddles(s, parameters.hidden)
    say("individuals", 0.2)
    weights = _weights(parameters, keys_of(parameters, key))
    individuals = _individuals(parameters, s, weights)
    say("near saddles", 0.7)
    near = _near(parameters, s)
    say("a shallow network", 0.9)
    return run_tree(
        NAME,
        parameters,
        saddles=saddles,
        individuals=individuals,
        near=near,
        shallow=_shallow(parameters, s, weights),
    )


def _saddles(s: Float[np.ndarray, " mode"], hidden: int) -> xr.Dataset:
    """Every set of learned modes as a point of weights: gradient and curvature by autodiff."""
    sets = np.array(list(itertools.product((0, 1), repeat=len(s))))
    # Balanced weights of the learned modes, each in a hidden unit of its own.
    first = np.einsum("km,hm->khm", sets * np.sqrt(s), np.eye(hidden, len(s)))
    theta = np.concatenate([first.reshape(len(sets), -1)] * 2, axis=1)

    def loss(theta: Array) -> Array:
        w1, w2 = theta.reshape(2, hidden, len(s))
        return 0.5 * jnp.sum((jnp.diag(s) - w2.T @ w1) ** 2)

    gradient, hessian = jax.jit(
        lambda points: (jax.vmap(jax.grad(loss))(points), jax.vmap(jax.hessian(loss))(points))
    )(theta)
    curvature = np.linalg.eigvalsh(np.asarray(hessian))
    return xr.Dataset(
        {
            "learned": (("set", "mode"), sets),
            "loss": ("set", [float(loss(jnp.asarray(point))) for point in theta]),
            "gradient": ("set", np.linalg.norm(gradient, axis=1)),
            "index": ("set", (curvature < -1e-9 * s[0]).sum(axis=1)),
            "escape_rate": ("set", -curvature[:, 0]),
        }
    )


def _individuals(
    parameters: Parameters, s: Float[np.ndarray, " mode"], weights: tuple[np.ndarray, np.ndarray]
) -> xr.Dataset:
    """Networks whose weights along each mode are larger or smaller, and their predictions."""
    first, second = weights
    axes = np.eye(len(s))
    gram = growing_gram(first, second, axes, axes)
    drops = mode_drop_times(first, second.swapaxes(-1, -2), np.diag(s), axes)
    times = np.linspace(0.0, 1.1 * float(drops.max()) + 3 / s[-1], _SAMPLES)
    trained = gradient_flow(
        DeepLinear((first, second)), linear_teacher(np.diag(s)), times, rtol=1e-10
    )
    learned = np.asarray(trained.network.end_to_end())
    predicted = growing_strengths(times, gram, s)
    strength, theory = (np.diagonal(a, axis1=-2, axis2=-1) for a in (learned, predicted))
    error = np.diag(s) - predicted
    velocity = s[:, None] * predicted + predicted * s - 2 * predicted @ predicted
    fall = np.sum(error * velocity, axis=(-2, -1))
    loss_theory = 0.5 * np.sum(error**2, axis=(-2, -1))
    own = effective_strengths(first, second, np.diag(s))
    simple = np.log(s / own - 1) / (2 * s)
    scaled = gram / np.sqrt(own[:, :, None] * own[:, None, :])
    half = lambda a: passage_times(times, np.moveaxis(a / s, -1, -2))
    return xr.Dataset(
        {
            "loss": (("seed", "time"), trained.loss),
            "loss_theory": (("seed", "time"), loss_theory),
            "strength": (("seed", "time", "mode"), strength),
            "strength_theory": (("seed", "time", "mode"), theory),
            "half_time": (("seed", "mode"), half(strength)),
            "half_time_theory": (("seed", "mode"), half(theory)),
            "half_time_simple": (("seed", "mode"), simple),
            "plateaus": ("seed", _plateaus(times, trained.loss, trained.squared_gradient)),
            "plateaus_theory": ("seed", _plateaus(times, loss_theory, fall)),
            # How nearly the modes share their hidden units: 1 if not at all.
            "independence": ("seed", np.linalg.eigvalsh(scaled)[:, 0]),
            "initial_size": (
                "seed",
                np.max(np.sum(first**2, axis=1) + np.sum(second**2, axis=2), axis=1),
            ),
        },
        {
            "time": ("time", times, {"long_name": "time in units of τ"}),
            "seed": parameters.seed + np.arange(parameters.seeds),
        },
    )


def _plateaus(times: np.ndarray, loss: np.ndarray, fall: np.ndarray) -> np.ndarray:
    """How many plateaus each curve has that falls at the given rate, first and last included."""
    return np.array(
        [len(plateaus(times, one, rate, slope=-rate)) for one, rate in zip(loss, fall, strict=True)]
    )


def _weights(parameters: Parameters, keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    """Small random weights, times a factor for each individual and mode."""
    count = len(parameters.singular_values)
    scale = float(np.sqrt(2 * parameters.initial_strength / parameters.hidden))
    network = deep_linear((count, parameters.hidden, count), scale=scale, key=keys)
    draw = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, 1), (count,)))
    factor = np.exp(parameters.variability * np.asarray(draw(keys)))
    first, second = (np.asarray(weight) for weight in network.weights)
    return first * factor[:, None, :], factor[:, :, None] * second


def _near(parameters: Parameters, s: Float[np.ndarray, " mode"]) -> xr.Dataset:
    """Closest approach to each saddle of decoupled networks that start nearer and nearer zero."""
    strengths = s[-1] * np.array(_NEARBY)
    axes = np.eye(len(s))
    network = decoupled(
        axes, axes, (parameters.hidden,), initial_strength=np.repeat(strengths[:, None], len(s), 1)
    )
    # When a mode is as far from its end as the next one is from its start.
    passing = np.log(s[:-1, None] / strengths) / (s[:-1] + s[1:])[:, None]
    ends = np.linspace(-0.2, 0.2, 81)
    times = np.unique(
        np.concatenate([[0.0], *(np.ravel(p[:, None] * (1 + ends)) for p in passing)])
    )
    trained = gradient_flow(network, linear_teacher(np.diag(s)), times, rtol=1e-10)
    learned = np.asarray(trained.network.end_to_end())
    stages = np.array([np.diag(s * (np.arange(len(s)) <= k)) for k in range(len(s) - 1)])
    away = np.linalg.norm(learned[:, :, None] - stages, axis=(-2, -1))
    level = np.take_along_axis(trained.loss, away.argmin(axis=1), axis=1)
    sequence = saddle_sequence(modes(np.diag(s)), float(strengths[-1]))
    return xr.Dataset(
        {
            "closest": (("initial_strength", "stage"), away.min(axis=1)),
            "loss": (("initial_strength", "stage"), level),
            "saddle_loss": ("stage", sequence.loss[1:-1]),
        },
        {"initial_strength": strengths},
    )


def _shallow(
    parameters: Parameters, s: Float[np.ndarray, " mode"], weights: tuple[np.ndarray, np.ndarray]
) -> xr.Dataset:
    """One layer that starts from the maps of the individuals."""
    first, second = weights
    times = np.linspace(0.0, 6.0, _SAMPLES)
    start = second @ first
    trained = gradient_flow(DeepLinear((start,)), linear_teacher(np.diag(s)), times, rtol=1e-10)
    learned = np.asarray(trained.network.end_to_end())
    theory = 0.5 * np.sum((np.diag(s) - start) ** 2, axis=(-2, -1))[:, None] * np.exp(-2 * times)
    return xr.Dataset(
        {
            "loss": (("seed", "time"), trained.loss),
            "loss_theory": (("seed", "time"), theory),
            "strength": (("seed", "time", "mode"), np.diagonal(learned, axis1=-2, axis2=-1)),
            "plateaus": ("seed", _plateaus(times, trained.loss, trained.squared_gradient)),
        },
        {
            "time": ("time", times, {"long_name": "time in units of τ"}),
            "seed": parameters.seed + np.arange(parameters.seeds),
        },
    )
