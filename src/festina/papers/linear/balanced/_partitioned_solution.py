r"""The exact learning of balanced networks, QQᵀ(t), for square and for funnel-shaped ones.

Loss ½⟨‖y − W₂W₁x‖²⟩, white inputs, τ Ẇ = −∂L/∂W with τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. One network
of each shape is fixed; random ones are trained beside it.
"""

import warnings
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, model_validator

from ....networks import DeepLinear
from ....theory.linear import ObstructionWarning, balanced_blocks
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._partitioned_solution_claims import NAME as NAME
from ._partitioned_solution_claims import claims as claims
from ._partitioned_solution_draw import draw as draw
from ._shapes import (
    SHAPES,
    Shape,
    check_balances,
    check_modes,
    check_sizes,
    flows,
    generators,
    mirrored,
    random_frame,
    random_networks,
    random_task,
    rotated,
    stacked,
    train,
    widths,
)

_TIMES = np.linspace(0.0, 6.0, 41)
_LITERAL = 15.0
"""Up to this S_λ t the exponentials of the printed form leave digits to compare."""


class Parameters(BaseParameters):
    """Two-layer linear networks with balanced weights."""

    seeds: int = Field(default=4, ge=1)
    """How many random tasks and networks are trained, for each shape and balance."""

    balances: tuple[float, ...] = (-5.0, -1.0, 0.0, 1.0, 5.0)
    """Balances λ, in increasing order."""

    singular_values: tuple[float, ...] = (1.5, 0.7)
    """Of the random tasks; as many as there are hidden units."""

    wide: int = Field(default=3, ge=2, le=64)
    """Neurons on the wider side of the random funnels."""

    scale: float = Field(default=0.4, gt=0, le=2)
    """Two Gaussian layers of this standard deviation have the initial product."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        check_balances(self.balances, least=1)
        check_modes(self.singular_values)
        check_sizes(len(self.singular_values), self.wide)
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train networks of each shape, and evaluate the solution at the same times."""
    random = lambda: generators(parameters.seeds, parameters.seed, key)
    count = xr.Variable("seed", range(parameters.seeds))
    groups = {}
    for index, shape in enumerate(SHAPES):
        say(f"{shape} networks", index / 4)
        groups[shape] = _fixed(shape, parameters.balances, random()[0])
        tables = [_random(parameters, shape, rng) for rng in random()]
        groups[f"random_{shape}"] = xr.concat(tables, count)
    say("networks that get stuck", 3 / 4)
    tables = [_obstruction(parameters, rng) for rng in random()]
    groups["obstruction"] = xr.concat(tables, count)
    return run_tree(NAME, parameters, **groups)


def _fixed(shape: Shape, balances: tuple[float, ...], rng: np.random.Generator) -> xr.Dataset:
    """One network without anything random, and the same with its hidden units rotated."""
    network, correlation = fixed_networks(shape, balances)
    table = _solutions(network, correlation, balances, _TIMES)
    turned = rotated(network, random_frame(2, 2, rng))
    one, other = train(network, correlation, _TIMES), train(turned, correlation, _TIMES)
    apart = [np.asarray(a) - b for a, b in zip(one.weights, other.weights, strict=True)]
    return table.assign(
        rotated=(table["trained"].dims, stacked(other)),
        weights_apart=((), max(np.abs(difference).max() for difference in apart)),
    )


def fixed_networks(shape: Shape, balances: tuple[float, ...]) -> tuple[DeepLinear, np.ndarray]:
    """Two hidden units, weights and task given by a few angles; one network for each λ."""
    small = np.array([0.3, 0.2])
    sigma = np.array([[1.2, 0.4, 0.5], [-0.3, 0.8, -0.6]])
    inward, outward, sigma = {
        "square": (_turn(0.3).T, _turn(1.1), sigma[:, :2]),
        "funnel": (np.eye(2, 3), _turn(1.1), sigma),
        "inverted": (_turn(1.1).T, np.eye(3, 2), sigma.T),
    }[shape]
    lam = np.asarray(balances)[:, None]
    large = np.sqrt(small**2 + np.abs(lam))
    p, q = np.where(lam >= 0, small, large), np.where(lam >= 0, large, small)
    return DeepLinear((p[:, :, None] * inward, outward * q[:, None, :])), sigma


def _turn(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _random(parameters: Parameters, shape: Shape, rng: np.random.Generator) -> xr.Dataset:
    """The largest differences between solutions and training, for one random task."""
    s = parameters.singular_values
    sizes = widths(shape, len(s), parameters.wide)
    correlation = random_task(sizes, s, rng)
    network = random_networks(sizes, parameters.balances, parameters.scale, rng)
    # Leaving saddles amplifies rounding by e^{st}: no longer than that leaves digits.
    times = np.linspace(0.0, 8.0 / max(s), len(_TIMES))
    table = _solutions(network, correlation, parameters.balances, times)
    forms = [str(name) for name in table.data_vars if name != "trained"]
    return xr.Dataset(
        {name: abs(table[name] - table["trained"]).max(("time", "row", "column")) for name in forms}
    )


def _solutions(
    network: DeepLinear, correlation: np.ndarray, balances: tuple[float, ...], times: np.ndarray
) -> xr.Dataset:
    """QQᵀ by training, by the solution, and by the equations in print and variants of them."""
    dims = ("balance", "time", "row", "column")
    with warnings.catch_warnings():
        # Half of random square networks of balance 0 are: that is a claim of its own.
        warnings.simplefilter("ignore", ObstructionWarning)
        factors = [flow(times).factor for flow in flows(network, correlation, balances)]
    first, second = (np.asarray(weight) for weight in network.weights)
    fastest = np.linalg.norm(correlation, 2)

    def literal(sign: float = 1.0, *, as_printed: bool = False) -> np.ndarray:
        table = np.full((len(balances), len(times), *[sum(correlation.shape)] * 2), np.nan)
        for index, balance in enumerate(balances):
            early = times * np.hypot(fastest, balance / 2) <= _LITERAL
            weights = first[index], second[index], correlation
            table[index, early] = balanced_blocks(
                times[early], *weights, balance=sign * balance, as_printed=as_printed
            )
        return table

    return xr.Dataset(
        {
            "trained": (dims, stacked(train(network, correlation, times))),
            "theory": (dims, np.stack([b @ b.swapaxes(-1, -2) for b in factors])),
            "corrected": (dims, literal()),
            "printed": (dims, literal(as_printed=True)),
            "opposite": (dims, literal(-1.0)),
        },
        {"balance": list(balances), "time": times},
        {"inputs": correlation.shape[1]},
    )


def _obstruction(parameters: Parameters, rng: np.random.Generator) -> xr.Dataset:
    """Square and λ = 0: a random network and its mirror image, until the others have learned."""
    s = parameters.singular_values
    sizes = widths("square", len(s), parameters.wide)
    correlation = random_task(sizes, s, rng)
    network = random_networks(sizes, (0.0,), parameters.scale, rng)
    both = jax.tree.map(lambda *w: np.concatenate(w), network, mirrored(network))
    # Long enough to learn, too short for rounding to leave the saddle, which takes 36/s.
    times = np.linspace(0.0, 14.0 / min(s), 29)
    maps = np.asarray(train(both, correlation, times).end_to_end())
    signs = np.sign(np.linalg.det(maps[:, 0])) * np.sign(np.linalg.det(correlation))
    loss = ((correlation - maps) ** 2).sum((-2, -1)) / 2
    order = np.argsort(-signs)  # the one that can learn first
    return xr.Dataset(
        {"loss": (("sign", "sample"), loss[order]), "time": ("sample", times)},
        {"sign": signs[order]},
        {"weakest": float(min(s))},
    )
