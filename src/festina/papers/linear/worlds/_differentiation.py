r"""A hierarchy of items is learned from the top: broad distinctions before fine ones.

Items are the leaves of a tree, one-hot inputs, with features that spread along its branches. Loss
½‖Y − W‖², summed over items, and τ Ẇ = −∂L/∂W with τ = 1; W = W₂W₁, or W itself in the shallow
network.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from pydantic import Field, model_validator

from ....dynamics import gradient_flow
from ....networks import DeepLinear, decoupled, deep_linear
from ....networks._seeds import Keys
from ....tasks import structured_task
from ....theory.linear import (
    World,
    differentiation_times,
    growing_gram,
    growing_strengths,
    layer_similarity,
    mode_strengths,
    modes,
    tree,
)
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from .._passage import passage_times
from ._differentiation_claims import NAME as NAME
from ._differentiation_claims import claims as claims
from ._differentiation_draw import draw as draw

_SAMPLES = 301
_SHALLOW_END = 5.0  # in units of τ, at which e⁻⁵ of everything is left to learn
_TREES = 100
"""How many other trees, of random shapes and flips, are looked at."""


class Parameters(BaseParameters):
    """A tree of items, and a network of two layers that learns what they are like."""

    seeds: int = Field(default=8, ge=1)
    """How many small random networks are trained."""

    branching: tuple[int, ...] = (2, 2, 2)
    """Children of a node, level by level from the root; two or more each."""

    flip: float = Field(default=0.1, gt=0, lt=0.5)
    """Probability with which a feature changes sign along an edge."""

    features: int = Field(default=32, ge=1)
    """Features N that a network learns, of exactly the covariance of the tree."""

    sampled_features: int = Field(default=20_000, ge=1000)
    """Features that are drawn from the tree, to compare their singular vectors with."""

    hidden: int = Field(default=32, ge=1)
    """Hidden units of the networks, at least four more than items."""

    initial_strength: float = Field(default=1e-4, gt=0)
    """Strength a₀ of every mode at the start; in the mean, for random weights."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if not self.branching or min(self.branching) < 2:
            raise ValueError(
                "`branching` must list two or more children for each level, like 2,2,2; got "
                f"{self.branching}."
            )
        world = tree(self.branching, self.flip)
        if self.features < world.items:
            raise ValueError(
                f"`features` must be at least the number of items, {world.items}, got "
                f"{self.features}."
            )
        if self.hidden < world.items + 4:
            raise ValueError(
                f"`hidden` must exceed the number of items, {world.items}, by four or more, got "
                f"{self.hidden}: else modes run out of units."
            )
        weakest = world.singular_values(self.features)[-1]
        if self.initial_strength > 0.01 * weakest:
            raise ValueError(
                "`initial_strength` must be small, below a hundredth of the smallest singular "
                f"value {weakest:.3g}, got {self.initial_strength:g}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """The tree's modes, deep and shallow networks that learn them, and other trees."""
    keys = keys_of(parameters, key)
    world = tree(parameters.branching, parameters.flip)
    say("sampling features", 0.0)
    hierarchy = _hierarchy(
        world, world.sample(parameters.sampled_features, key=jax.random.fold_in(keys[0], 1))
    )
    say("deep networks", 0.1)
    deep = _deep(parameters, world, keys)
    say("a shallow network", 0.6)
    shallow = _shallow(parameters, world)
    return run_tree(
        NAME,
        parameters,
        hierarchy=hierarchy,
        deep=deep,
        shallow=shallow,
        trees=_other_trees(parameters),
    )


def _hierarchy(world: World, samples: Float[np.ndarray, "feature item"]) -> xr.Dataset:
    """Singular vectors and values of sampled features against the levels of the tree."""
    _, s, vt = np.linalg.svd(samples, full_matrices=False)
    kinds = np.arange(len(world.kinds))
    # What of the sampled vectors of a level lies outside its contrasts: the largest sine.
    outside = [
        np.linalg.norm(world.modes[:, world.kind != k].T @ vt[world.kind == k].T, 2) for k in kinds
    ]
    return xr.Dataset(
        {
            "covariance": (("item", "other"), world.covariance),
            "groups": (("depth", "item"), world.groups),
            "mode_of_items": (("item", "mode"), world.modes),
            "level_of_mode": ("mode", world.kind),
            "eigenvalue": ("level", [kind.eigenvalue for kind in world.kinds]),
            "multiplicity": ("level", world.multiplicities),
            "numerical": ("mode", np.linalg.eigvalsh(world.covariance)[::-1]),
            "sampled": ("mode", s / np.sqrt(len(samples))),
            "outside": ("level", outside),
        }
    )


def _deep(parameters: Parameters, world: World, keys: Keys) -> xr.Dataset:
    """Decoupled and small random networks, what they tell apart, and the theory of both."""
    y, a0 = world.exact_features(parameters.features), parameters.initial_strength
    s, v = world.singular_values(parameters.features), world.modes
    u = y @ v / s
    hidden = parameters.hidden
    half = differentiation_times(world, parameters.features, a0)
    times = np.linspace(0.0, 1.3 * float(half[-1]) + 2 / s[-1], _SAMPLES)
    random = deep_linear(
        (world.items, hidden, len(y)),
        scale=float(np.sqrt(2 * a0 / hidden)),  # whose strength is a₀ in the mean
        key=keys,
    )
    first, second = (np.asarray(weight) for weight in random.weights)
    own = decoupled(u, v, (hidden,), initial_strength=a0)
    lanes = (np.stack([own.weights[0], *first]), np.stack([own.weights[1], *second]))
    task = structured_task(y)
    trained = gradient_flow(DeepLinear(lanes), task, times, loss="half-sum", rtol=1e-10).network

    data = modes(y)
    chains = np.asarray(mode_strengths(times, data, a0))
    gram = growing_gram(first, second, u, v)
    grown = growing_strengths(times, gram, s)
    predicted = np.diagonal(grown, axis1=-2, axis2=-1)
    learned = np.einsum("om,ltoi,im->ltm", u, np.asarray(trained.end_to_end()), v)
    curves = {
        "chains": _by_level(world, learned[0] / s),
        "chains_theory": _by_level(world, chains / s),
        "random": _by_level(world, learned[1:] / s),
        "random_theory": _by_level(world, predicted / s),
    }
    units = np.asarray(trained.weights[0])
    inner = np.einsum("lthi,lthj->ltij", units, units)
    over = {2: ("level", "time"), 3: ("seed", "level", "time")}
    return xr.Dataset(
        {
            **{name: (over[curve.ndim], curve) for name, curve in curves.items()},
            **{
                f"{name}_half_time": (over[curve.ndim][:-1], passage_times(times, curve))
                for name, curve in curves.items()
                if name != "chains_theory"
            },
            "chains_theory_half_time": ("level", half),
            "inner_products": (("time", "item", "other"), inner[0]),
            "inner_products_theory": (
                ("time", "item", "other"),
                np.asarray(layer_similarity(chains, data, 1)),
            ),
            "place": (("seed", "time", "item", "axis"), _places(world, inner[1:])),
            # Balanced layers hold equal amounts of every mode: W₁ᵀW₁ = V A Vᵀ.
            "place_theory": (
                ("seed", "time", "item", "axis"),
                _places(world, v @ grown @ v.T),
            ),
            "singular_value": ("level", s[np.searchsorted(world.kind, np.unique(world.kind))]),
            "weakest_growth": ("seed", np.linalg.eigvalsh(gram)[:, 0]),
        },
        {
            "time": ("time", times, {"long_name": "time in units of τ"}),
            "seed": parameters.seed + np.arange(parameters.seeds),
        },
    )


def _places(
    world: World, inner: Float[np.ndarray, "seed time item item"]
) -> Float[np.ndarray, "seed time item 2"]:
    """Hidden representations, scaled to a plane that is the same for all times.

    As in classical multidimensional scaling the items are rows of the root of their inner products,
    freed of the mean. The leading axes of a tree are no good choice of the plane: contrasts of one
    level are equally long, and two of them fill it. It is taken such that the tree lies flat, odd
    levels across and even ones upwards.
    """
    centring = np.eye(world.items) - 1 / world.items
    beta, axes = np.linalg.eigh(centring @ inner @ centring)
    root = (axes * np.sqrt(np.maximum(beta, 0.0))[..., None, :]) @ axes.swapaxes(-1, -2)
    flat = np.zeros((world.items, 2))
    width = np.ones(2)
    for level in range(len(world.groups) - 1, 0, -1):
        parents, nodes = world.groups[level - 1], world.groups[level]
        first = np.array([nodes[parents == parent].min() for parent in parents])
        branches = int((nodes - first).max()) + 1
        axis = (level + 1) % 2
        flat[:, axis] += width[axis] * (nodes - first - (branches - 1) / 2)
        width[axis] *= branches
    return root @ (flat / np.maximum(np.linalg.norm(flat, axis=0), 1e-300))


def _shallow(parameters: Parameters, world: World) -> xr.Dataset:
    """A single layer from the same strengths."""
    y, a0 = world.exact_features(parameters.features), parameters.initial_strength
    s, v = world.singular_values(parameters.features), world.modes
    u = y @ v / s
    times = np.linspace(0.0, _SHALLOW_END, _SAMPLES)
    network = decoupled(u, v, initial_strength=a0)
    trained = gradient_flow(network, structured_task(y), times, loss="half-sum", rtol=1e-10)
    learned = np.einsum("om,toi,im->tm", u, np.asarray(trained.network.end_to_end()), v)
    curve = _by_level(world, learned / s)
    theory = np.asarray(mode_strengths(times, modes(y), a0, depth=1))
    return xr.Dataset(
        {
            "strength": (("level", "time"), curve),
            "theory": (("level", "time"), _by_level(world, theory / s)),
            "half_time": ("level", passage_times(times, curve)),
        },
        {"time": ("time", times, {"long_name": "time in units of τ"})},
    )


def _other_trees(parameters: Parameters) -> xr.Dataset:
    """Trees of random shapes: when their levels are learned, from their covariance alone.

    The variance of a feature along a contrast between two siblings of a level stands for the level.
    Strengths start at 10⁻⁴ of the smallest singular value.
    """
    rng = np.random.default_rng(parameters.seed)
    ordered = []
    for _ in range(_TREES):
        shape = rng.integers(2, 5, size=rng.integers(1, 5))
        world = tree(shape.tolist(), rng.uniform(0.01, 0.49, size=len(shape)))
        c = [world.covariance.mean() * world.items]
        for level in range(1, len(world.groups)):
            nodes = world.groups[level]
            sides = (nodes == 0) * 1.0 - (nodes == 1)
            c.append(sides @ world.covariance @ sides / (sides @ sides))
        s = np.sqrt(c)
        half = np.log(1e4 * s / s[-1] - 1) / (2 * s)
        ordered.append(bool((np.diff(half) > 0).all()))
    return xr.Dataset({"ordered": ("tree", np.array(ordered))})


def _by_level(world: World, shares: Float[np.ndarray, "*lane time mode"]) -> np.ndarray:
    """The mean over the modes of each level, levels before times."""
    kinds = np.arange(len(world.kinds))[:, None]
    mean = (world.kind == kinds) / world.multiplicities[:, None]
    return np.einsum("km,...tm->...kt", mean, shares)
