"""Train networks on a structured world, and predict when each level of modes is learned.

Items are one-hot inputs, and their features Y are the targets. The loss is ½‖Y − W₂W₁‖², summed
over items, with τ Ẇ = −∂L/∂W and τ = 1. A mode with eigenvalue c of the world's covariance over
items has singular value s = √(Nc) for N features, and is half learned at t = ln(s/a₀ − 1)/2s.
"""

from collections.abc import Collection

import numpy as np
import xarray as xr
from jaxtyping import Float
from pydantic import Field

from ....dynamics import gradient_flow
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters
from ....experiments.claims import ClaimCollector, max_error_below, most_seeds
from ....networks import DeepLinear, decoupled, deep_linear
from ....tasks import from_moments, structured_task
from ....tasks.worlds import World
from ....theory.linear import (
    chain_strength,
    coupled_mode_strengths,
    effective_initial_strengths,
    initial_mode_overlaps,
)
from ....theory.saddles import mode_drop_times
from .._passage import half_times

_SAMPLES = 301


class Learning(Parameters):
    """Parameters of a two-layer network that learns a structured world."""

    features: int = Field(default=32, ge=1)
    """Number N of features, whose covariance is exactly that of the world."""

    hidden: int = Field(default=32, ge=1)
    """Number of hidden units, at least four more than items."""

    initial_strength: float = Field(default=1e-4, gt=0)
    """Initial strength a₀ of every mode; for random weights, its mean."""

    def check(self, worlds: Collection[World]) -> None:
        """Raise `ValueError` unless these networks can learn these worlds from small weights."""
        items = max(world.items for world in worlds)
        if self.features < items:
            raise ValueError(
                f"`features` must be at least the number of items, {items}, got {self.features}."
            )
        if self.hidden < items + 4:
            raise ValueError(
                f"`hidden` must exceed the number of items, {items}, by four or more, got "
                f"{self.hidden}: every mode needs hidden units of its own."
            )
        weakest = min(world.singular_values(self.features)[-1] for world in worlds)
        if self.initial_strength > 0.01 * weakest:
            raise ValueError(
                "`initial_strength` must be below a hundredth of the smallest singular value "
                f"{weakest:.3g}, got {self.initial_strength:g}."
            )


def random_network(parameters: Learning, items: int, key: Key) -> DeepLinear:
    """Return networks with random weights of mean strength a₀, one for each seed."""
    scale = float(np.sqrt(2 * parameters.initial_strength / parameters.hidden))
    widths = items, parameters.hidden, parameters.features
    return deep_linear(widths, scale=scale, key=keys_from_parameters(parameters, key))


def learn(
    parameters: Learning, world: World, level: np.ndarray, network: DeepLinear
) -> tuple[xr.Dataset, Float[np.ndarray, "lane time hidden item"], np.ndarray]:
    """Train decoupled and small random networks on the world's exact features; add the theory.

    Also return the first layers over time (decoupled network first) and the strengths A(t) that the
    growing part of the random weights predicts. Worlds with fewer items than the network are padded
    with items without features and zero weights, which stay zero. Worlds of all sizes then share
    one compiled program.
    """
    y, a0 = world.exact_features(parameters.features), parameters.initial_strength
    s, v = world.singular_values(parameters.features), world.modes
    u, items = y @ v / s, world.items
    first, second = (np.asarray(weight) for weight in network.weights)
    absent, first = first.shape[-1] - items, first[..., :items]
    present, data = DeepLinear((first, second)), from_moments(y)
    last = mode_drop_times(present, data).max()
    times = np.linspace(0.0, float(last) + 3 / s[-1], _SAMPLES)

    own = decoupled(u, v, (parameters.hidden,), initial_strength=a0)
    whole = lambda a: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, absent)])
    lanes = (whole(np.stack([own.weights[0], *first])), np.stack([own.weights[1], *second]))
    task = structured_task(whole(y))
    trained = gradient_flow(DeepLinear(lanes), task, times, loss="half-sum", rtol=1e-10).network
    gram = initial_mode_overlaps(first, second, u, v)
    grown = coupled_mode_strengths(times, gram, s)
    product = np.asarray(trained.end_to_end())[..., :items]
    learned = np.einsum("om,ltoi,im->ltm", u, product, v)
    mean, table = level_means(level), {}
    for name, curve in (
        ("chains", learned[0]),
        ("random", learned[1:]),
        ("random_theory", np.diagonal(grown, axis1=-2, axis2=-1)),
    ):
        shares = np.einsum("km,...tm->...kt", mean, curve / s)
        over = ("seed", "level", "time")[3 - shares.ndim :]
        table |= {name: (over, shares), f"{name}_half_time": (over[:-1], half_times(times, shares))}
    strength, effective = mean @ s, effective_initial_strengths(present, data) @ mean.T
    half = lambda start: np.log(strength / start - 1) / (2 * strength)
    exact = mean @ np.asarray(chain_strength(times, s, a0, depth=2) / s).T
    table |= {
        "chains_theory": (("level", "time"), exact),
        "chains_theory_half_time": ("level", half(a0)),
        "simple_half_time": (("seed", "level"), half(effective)),
        "singular_value": ("level", strength),
        "weakest_growth": ("seed", np.linalg.eigvalsh(gram)[:, 0]),
    }
    coords = {
        "time": ("time", times, {"long_name": "time in units of τ"}),
        "seed": parameters.seed + np.arange(parameters.seeds),
    }
    return xr.Dataset(table, coords), np.asarray(trained.weights[0])[..., :items], grown


def level_means(level: np.ndarray) -> Float[np.ndarray, "level mode"]:
    """Return the matrix that averages over the modes of each level."""
    return (level == np.unique(level)[:, None]) / np.bincount(level)[:, None]


def together(tables: Collection[xr.Dataset], one: str, other: str) -> np.ndarray:
    """Return the relative difference of two variables, for all worlds in one array."""
    return np.concatenate([np.ravel(table[one] / table[other] - 1) for table in tables])


def from_growing_part(
    claim: ClaimCollector, tables: Collection[xr.Dataset], initial_strength: float, order: str
) -> None:
    """Check when small random networks learn each level, and in which order.

    The prediction uses the growing part of the initial weights: half the sum of both layers along a
    mode. Half the difference of both layers decays.
    """
    names = "singular_value", "weakest_growth"
    weakest, growth = (np.min([table[name].min() for table in tables]) for name in names)
    unknown = min(float(initial_strength**2 / (weakest * growth)) + 1e-5, 0.02)
    off = together(tables, "random_half_time", "random_theory_half_time")
    claim(
        "growing-part-half-times",
        "small random weights: half the sum of both layers' initial weights predicts when each "
        "level is half learned (relative error)",
        max_error_below(off, within=unknown),
        note="neglected terms are of second order in the weights; tolerance a₀²/(s γ), with γ the "
        "smallest eigenvalue of the growing part",
    )
    right, early = [], 0
    for table in tables:
        seen, theory = table["random_half_time"], table["random_theory_half_time"]
        later, expected = seen.diff("level"), theory.diff("level")
        told = abs(expected) > 2 * unknown * theory.max()
        right.append((later * expected > 0).values[told.values])
        early += int((later < 0).sum())
    claim(
        "order-of-levels",
        f"{order}: the initial weights predict which of two neighbouring levels comes first",
        most_seeds(np.concatenate(right), of="pairs"),
        corrected="levels with similar singular values swap, as their initial weights predict"
        * (early > 0),
        note=f"{early} pairs are swapped",
    )
