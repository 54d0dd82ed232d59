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

from ....diagnose import kernel_distance, neural_tangent_kernel
from ....networks import DeepLinear
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
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
    train,
    widths,
)


class Parameters(BaseParameters):
    """Random networks of three shapes, at many balances."""

    seeds: int = Field(default=6, ge=1)
    """How many random networks are trained, for each shape and balance."""

    balances: tuple[float, ...] = (
        *(-30.0, -10.0, -1.0, -0.1, -0.01),
        *(0.0, 0.01, 0.1, 1.0, 10.0, 30.0),
    )
    """Balances λ, in increasing order; zero among them, and with each its opposite."""

    singular_values: tuple[float, ...] = (1.5, 1.2, 0.9)
    """Singular values of the task; as many as there are hidden units."""

    wide: int = Field(default=6, ge=2, le=32)
    """Neurons on the wider side of the funnels."""

    scale: float = Field(default=0.05, gt=0, le=0.3)
    """Two Gaussian layers of this standard deviation have the initial product."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        check_balances(self.balances, least=3)
        check_modes(self.singular_values)
        if len(self.singular_values) < 2:
            raise ValueError(
                f"`singular_values` must be two or more, got {self.singular_values}: the kernel of "
                "a single square unit is a number, which cannot turn."
            )
        check_sizes(len(self.singular_values), self.wide)
        if sorted(-balance for balance in self.balances) != sorted(self.balances):
            raise ValueError(
                f"`balances` must come with their opposites, and zero, got {self.balances}: for "
                "example (-10, -1, 0, 1, 10)."
            )
        if 0.0 not in self.balances:
            raise ValueError(f"`balances` must contain 0, the rich regime, got {self.balances}.")
        least, most = 10 * max(self.singular_values), 100 * min(self.singular_values)
        if not least <= self.balances[-1] <= most:
            raise ValueError(
                f"`balances` must reach {least:g}, ten times the largest singular value, or "
                f"nothing is lazy, and not exceed {most:g}, a hundred times the smallest, "
                f"which takes too long to train; got {self.balances[-1]:g}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train to the end at each balance, and compare kernels at start and end."""
    groups = {}
    for index, shape in enumerate(SHAPES):
        say(f"{shape} networks", index / 4)
        rngs = generators(parameters.seeds, parameters.seed, key)
        groups[shape], groups[f"theory_{shape}"] = _one_shape(parameters, shape, rngs)
    say("the semantic task", 3 / 4)
    rng = generators(1, parameters.seed, key)[0]
    for name, outputs, balance in SEMANTIC:
        groups[name] = _semantic(outputs, balance, parameters.scale, rng)
    return run_tree(NAME, parameters, **groups)


def _one_shape(
    parameters: Parameters, shape: Shape, rngs: list[np.random.Generator]
) -> tuple[xr.Dataset, xr.Dataset]:
    """Networks trained at every balance, each from the same maps; the theory at many more.

    The singular vectors of the task are the axes, the weights have random directions.
    """
    s, balances = parameters.singular_values, parameters.balances
    sizes = widths(shape, len(s), parameters.wide)
    correlation = np.zeros((sizes[2], sizes[0]))
    np.fill_diagonal(correlation, s)
    # Below the strength of the initial map λ makes no difference.
    inner = len(s) * parameters.scale**2
    positive = np.geomspace(inner / 10, balances[-1], 20)
    every = (*balances, *-positive[::-1], 0.0, *positive)
    weights = [
        random_networks(sizes, every, parameters.scale, rng, correlation=correlation).weights
        for rng in rngs
    ]
    first, second = (np.stack(layer, axis=1) for layer in zip(*weights, strict=True))

    moved = np.array(
        [
            [float(flow.limit().kernel_distance()[0]) for flow in flows(network, correlation, lam)]
            for network, lam in (
                (DeepLinear((one, other)), [balance] * len(rngs))
                for one, other, balance in zip(first, second, every, strict=True)
            )
        ]
    )
    trained = [
        _one_balance(DeepLinear((one, other)), correlation, balance)
        for one, other, balance in zip(first, second, balances, strict=False)
    ]
    table = xr.concat(trained, xr.Variable("balance", list(balances)))
    table = table.assign(theory=(("balance", "seed"), moved[: len(balances)]))
    limits = xr.Dataset(
        {"kernel_distance": (("balance", "seed"), moved[len(balances) :])},
        {"balance": list(every[len(balances) :])},
        {"inner": inner},
    )
    return table.assign_coords(singular_value=("mode", list(s))), limits


def _one_balance(network: DeepLinear, correlation: np.ndarray, balance: float) -> xr.Dataset:
    """How far kernels move by training, and the representations that are learned."""
    final = _to_the_end(network, correlation, balance)
    examples = np.eye(correlation.shape[1])
    before, after = (neural_tangent_kernel(each, examples) for each in (network, final))
    first, second = (np.asarray(weight) for weight in final.weights)
    modes = slice(min(correlation.shape))
    return xr.Dataset(
        {
            "kernel_distance": ("seed", np.asarray(kernel_distance(before, after))),
            "inward": (
                ("seed", "mode", "mode_"),
                _gram(first.swapaxes(-1, -2))[:, modes, modes],
            ),
            "outward": (("seed", "mode", "mode_"), _gram(second)[:, modes, modes]),
        }
    )


def _to_the_end(network: DeepLinear, correlation: np.ndarray, balance: float) -> DeepLinear:
    """Train until the slowest mode has been learned.

    Modes leave small weights at the rate S_λ + |λ|/2 or, where directions compete, only by the gap
    between S_λ and |λ|/2.
    """
    weakest = np.linalg.svd(correlation, compute_uv=False).min()
    fast = np.hypot(weakest, balance / 2) + abs(balance) / 2
    outputs, inputs = correlation.shape
    rate = weakest**2 / fast if (outputs - inputs) * balance > 0 else fast
    last = train(network, correlation, np.array([0.0, 20.0 / rate]), rtol=1e-8)
    return DeepLinear(tuple(np.asarray(weight)[:, -1] for weight in last.weights))


def _gram(weight: np.ndarray) -> np.ndarray:
    return weight @ weight.swapaxes(-1, -2)


SEMANTIC = (
    ("items_first_large", 8, -30.0),
    ("items_equal", 8, 0.0),
    ("items_second_large", 8, 30.0),
    ("items_funnel", 4, -30.0),
)
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


def _semantic(features: int, balance: float, scale: float, rng: np.random.Generator) -> xr.Dataset:
    """Similarity of the items in the hidden layer, before and after learning."""
    correlation = _tree()[:features] / np.sqrt(8)
    sizes = (8, features, features)
    network = random_networks(sizes, (balance,), scale, rng, correlation=correlation)
    final = _to_the_end(network, correlation, balance)
    gram = lambda each: _gram(np.asarray(each.weights[0])[0].T)
    _, s, vt = np.linalg.svd(correlation, full_matrices=False)
    expected = (vt.T * (np.hypot(s, balance / 2) - balance / 2)) @ vt
    return xr.Dataset(
        {
            "before": (("item", "item_"), gram(network)),
            "after": (("item", "item_"), gram(final)),
            "theory": (("item", "item_"), expected),
        },
        attrs={"balance": balance, "features": features},
    )
