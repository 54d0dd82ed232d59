r"""Rich, lazy, and rich with a delay: how far the tangent kernel moves, over balance and shape.

Loss ½⟨‖y − W₂W₁x‖²⟩, white inputs, τ Ẇ = −∂L/∂W with τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. Networks of
three shapes are trained to the end; their kernels are computed by differentiating them. The
semantic task has eight items, one input each, and features that split them like a tree.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, model_validator

from ..._precision import float64
from ...diagnose import kernel_distance, neural_tangent_kernel
from ...networks import DeepLinear
from .._parameters import Parameters as BaseParameters
from .._registry import Progress
from .._tree import run_tree
from ._regimes_claims import NAME as NAME
from ._regimes_claims import claims as claims
from ._regimes_draw import draw as draw
from ._shapes import (
    SHAPES,
    Shape,
    check_balances,
    check_modes,
    check_sizes,
    flows,
    generators,
    random_networks,
    random_task,
    train,
    widths,
)


class Parameters(BaseParameters):
    """Random tasks and networks of three shapes, at many balances."""

    seeds: int = Field(default=6, ge=2)
    """How many random tasks, each with its own weights, are learned at each balance."""

    balances: tuple[float, ...] = (-30.0, -10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, 30.0)
    """Balances λ, in increasing order; zero among them, and with each its opposite."""

    singular_values: tuple[float, ...] = (1.5, 1.2, 0.9)
    """Singular values of the random tasks; as many as there are hidden units."""

    wide: int = Field(default=6, ge=2, le=32)
    """Neurons on the wider side of the funnels."""

    scale: float = Field(default=0.05, gt=0, le=0.3)
    """Two Gaussian layers of this standard deviation have the initial product."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        check_balances(self.balances, least=3)
        check_modes(self.singular_values)
        check_sizes(len(self.singular_values), self.wide)
        if sorted(-balance for balance in self.balances) != sorted(self.balances):
            raise ValueError(
                f"`balances` must come with their opposites, and zero, got {self.balances}: for "
                "example (-10, -1, 0, 1, 10)."
            )
        if 0.0 not in self.balances:
            raise ValueError(f"`balances` must contain 0, the rich regime, got {self.balances}.")
        least, most = (ratio * max(self.singular_values) for ratio in (10, 100))
        if not least <= self.balances[-1] <= most:
            raise ValueError(
                f"`balances` must reach {least:g} and not exceed {most:g}, ten and a hundred times "
                f"the largest singular value, got {self.balances[-1]:g}: less is not lazy, and "
                "more takes too long to train."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@float64
def run(
    parameters: Parameters, *, key: PRNGKeyArray | None = None, progress: Progress | None = None
) -> xr.DataTree:
    """Train to the end at each balance, and compare kernels at start and end."""
    say = progress or (lambda words, fraction: None)
    groups = {}
    for index, shape in enumerate(SHAPES):
        say(f"{shape} networks", index / 4)
        rngs = generators(parameters.seeds, parameters.seed, key)
        tables = [_one_task(parameters, shape, rng) for rng in rngs]
        groups[shape] = xr.concat(tables, xr.Variable("seed", range(parameters.seeds)))
    say("the semantic task", 3 / 4)
    rng = generators(1, parameters.seed, key)[0]
    for name, outputs, balance in SEMANTIC:
        groups[name] = _semantic(outputs, balance, parameters.scale, rng)
    return run_tree(NAME, parameters, **groups)


def _one_task(parameters: Parameters, shape: Shape, rng: np.random.Generator) -> xr.Dataset:
    """One random task, learned at every balance from the same initial map."""
    s, balances = parameters.singular_values, parameters.balances
    sizes = widths(shape, len(s), parameters.wide)
    correlation = random_task(sizes, s, rng)
    network = random_networks(sizes, balances, parameters.scale, rng, correlation=correlation)
    trained = [
        _to_the_end(_at(network, index), correlation, balance)
        for index, balance in enumerate(balances)
    ]
    final = DeepLinear(
        tuple(np.concatenate(layer) for layer in zip(*(n.weights for n in trained), strict=True))
    )
    before, after = (neural_tangent_kernel(each, np.eye(sizes[0])) for each in (network, final))
    limits = [flow.limit() for flow in flows(network, correlation, balances)]
    u, _, vt = np.linalg.svd(correlation, full_matrices=False)
    first, second = (np.asarray(weight) for weight in final.weights)
    return xr.Dataset(
        {
            "kernel_distance": ("balance", np.asarray(kernel_distance(before, after))),
            "theory": ("balance", [float(limit.kernel_distance()[0]) for limit in limits]),
            "loss": ("balance", ((correlation - second @ first) ** 2).sum((-2, -1)) / 2),
            # In the singular vectors of the task: diagonal once it is learned.
            "inward": (("balance", "mode", "mode_"), vt @ _gram(first.swapaxes(-1, -2)) @ vt.T),
            "outward": (("balance", "mode", "mode_"), u.T @ _gram(second) @ u),
        },
        {"balance": list(balances), "singular_value": ("mode", list(s))},
    )


def _to_the_end(network: DeepLinear, correlation: np.ndarray, balance: float) -> DeepLinear:
    """Train one network until its slowest mode has been learned.

    Modes leave small weights at the rate S_λ + |λ|/2 or, where directions compete, only by the gap
    between S_λ and |λ|/2.
    """
    s = np.linalg.svd(correlation, compute_uv=False)
    gap = s.min() ** 2 / (np.hypot(s.min(), balance / 2) + abs(balance) / 2)
    inputs, outputs = correlation.shape[1], correlation.shape[0]
    rate = gap if (outputs - inputs) * balance > 0 else s.min() + abs(balance) / 2
    last = train(network, correlation, np.array([0.0, 16.0 / rate]), rtol=1e-8)
    return DeepLinear(tuple(np.asarray(weight)[:, -1] for weight in last.weights))


def _at(network: DeepLinear, index: int) -> DeepLinear:
    return DeepLinear(tuple(np.asarray(weight)[index : index + 1] for weight in network.weights))


def _gram(weight: np.ndarray) -> np.ndarray:
    return weight @ weight.swapaxes(-1, -2)


SEMANTIC = (("items_first_large", 8, -30.0), ("items_equal", 8, 0.0), ("items_second_large", 8, 30.0), ("items_funnel", 4, -30.0))
"""Name, number of features, broadest first, and balance of the networks that learn the tree."""


def _tree() -> np.ndarray:
    """Features of eight items, ±1 on the two sides of every split, broadest first: 8 × 8."""
    rows = [np.ones(8)]
    for size in (8, 4, 2):
        for start in range(0, 8, size):
            row = np.zeros(8)
            row[start : start + size // 2], row[start + size // 2 : start + size] = 1, -1
            rows.append(row)
    return np.array(rows)


def _semantic(
    features: int, balance: float, scale: float, rng: np.random.Generator
) -> xr.Dataset:
    """Similarity of the items in the hidden layer, before and after learning."""
    correlation = _tree()[:features] / np.sqrt(8)
    sizes = (8, features, features)
    network = random_networks(sizes, (balance,), scale, rng, correlation=correlation)
    final = _to_the_end(network, correlation, balance)
    gram = lambda each: _gram(np.asarray(each.weights[0])[0].T)
    limit = flows(network, correlation, (balance,))[0].limit()
    return xr.Dataset(
        {
            "before": (("item", "item_"), gram(network)),
            "after": (("item", "item_"), gram(final)),
            "theory": (("item", "item_"), np.asarray(limit.input_gram)[0]),
        },
        attrs={"balance": balance, "features": features},
    )
