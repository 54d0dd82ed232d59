r"""What is learned of a structured world, and when: trees, clusters, chains, rings, grids, tori.

Items are one-hot inputs, their features Y the targets. Loss ½‖Y − W₂W₁‖², summed over items, and
τ Ẇ = −∂L/∂W with τ = 1: a mode with the eigenvalue c of the world's covariance over items has the
singular value s = √(Nc) for N features, and is half learned at t = ln(s/a₀ − 1)/2s.
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
    chain,
    chain_strength,
    clusters,
    effective_strengths,
    grid,
    growing_gram,
    growing_strengths,
    ring,
    torus,
    tree,
)
from ....theory.saddles import mode_drop_times
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from .._passage import passage_times
from ._structures_claims import NAME as NAME
from ._structures_claims import claims as claims
from ._structures_draw import draw as draw
from ._structures_drawing import edges

_SAMPLES = 241
_EQUAL = 1e-9  # eigenvalues closer than this fraction of the largest are one level


class Parameters(BaseParameters):
    """The sizes of six worlds, and a network of two layers that learns each of them."""

    seeds: int = Field(default=3, ge=1)
    """How many small random networks are trained on each world."""

    branching: tuple[int, ...] = (2, 2, 2)
    """Tree: children of a node, level by level from the root."""

    flip: float = Field(default=0.1, gt=0, lt=0.5)
    """Tree: probability with which a feature changes sign along an edge."""

    cluster_sizes: tuple[int, ...] = (3, 5, 2)
    """Clusters: items of each."""

    items: int = Field(default=12, ge=3)
    """Chain and ring: number of items."""

    rows: int = Field(default=4, ge=3)
    """Grid and torus: items from top to bottom."""

    columns: int = Field(default=5, ge=3)
    """Grid and torus: items from left to right."""

    coupling: float = Field(default=0.8, gt=0)
    """Weight w of the edges of all worlds but the tree."""

    precision: float = Field(default=0.3, gt=0)
    """Precision g with which a feature of a single item is held near zero."""

    features: int = Field(default=32, ge=1)
    """Features N that a network learns, of exactly the covariance of the world."""

    sampled_features: int = Field(default=40_000, ge=1000)
    """Features that are drawn from the world's process, to compare its spectrum with."""

    hidden: int = Field(default=32, ge=1)
    """Hidden units of the networks, at least four more than items."""

    initial_strength: float = Field(default=1e-4, gt=0)
    """Strength a₀ of every mode at the start; in the mean, for random weights."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if not self.cluster_sizes or min(self.cluster_sizes) < 1:
            raise ValueError(
                "`cluster_sizes` must be one or more numbers of items from 1 up, got "
                f"{self.cluster_sizes}."
            )
        worlds = _worlds(self)
        if min(world.items for world in worlds.values()) < 2:
            raise ValueError(
                "`branching` and `cluster_sizes` must make two or more items, got "
                f"{self.branching} and {self.cluster_sizes}: one alone has nothing to differ from."
            )
        most = max(world.items for world in worlds.values())
        if self.features < most:
            raise ValueError(
                "`features` must be at least the number of items of the largest world, "
                f"{most}, got {self.features}."
            )
        if self.hidden < most + 4:
            raise ValueError(
                f"`hidden` must exceed the number of items of the largest world, {most}, by four "
                f"or more, got {self.hidden}: else modes run out of units."
            )
        weakest = min(world.singular_values(self.features)[-1] for world in worlds.values())
        if self.initial_strength > 0.01 * weakest:
            raise ValueError(
                "`initial_strength` must be small, below a hundredth of the smallest singular "
                f"value {weakest:.3g}, got {self.initial_strength:g}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


def _worlds(parameters: Parameters) -> dict[str, World]:
    p = parameters
    field = {"coupling": p.coupling, "precision": p.precision}
    return {
        "tree": tree(p.branching, p.flip),
        "clusters": clusters(p.cluster_sizes, **field),
        "chain": chain(p.items, **field),
        "ring": ring(p.items, **field),
        "grid": grid(p.rows, p.columns, **field),
        "torus": torus(p.rows, p.columns, **field),
    }


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Diagonalise, sample and learn each world."""
    keys = keys_of(parameters, key)
    samples_key = jax.random.fold_in(keys[0], 1)
    worlds = _worlds(parameters)
    network = _network(parameters, max(world.items for world in worlds.values()), keys)
    tables = {}
    for index, (name, world) in enumerate(worlds.items()):
        say(f"a network learns the {name}", index / len(worlds))
        samples = world.sample(
            parameters.sampled_features, key=jax.random.fold_in(samples_key, index)
        )
        parts = _spectrum(name, world), _sampled(world, samples)
        tables[name] = parts[0].merge(parts[1]).merge(_learned(parameters, world, network))
    return run_tree(NAME, parameters, **tables)


def _levels(world: World) -> np.ndarray:
    """For each mode, which of the distinct eigenvalues it has, largest first."""
    c = world.eigenvalues
    return np.concatenate(([0], np.cumsum(-np.diff(c) > _EQUAL * c[0])))


def _spectrum(name: str, world: World) -> xr.Dataset:
    """The world itself: closed form against numerical diagonalisation of its covariance."""
    c, v = world.eigenvalues, world.modes
    return xr.Dataset(
        {
            "covariance": (("item", "other"), world.covariance),
            "position": (("item", "axis"), world.position),
            "edge": (("line", "end", "axis"), edges(name, world)),
            "eigenvalue": ("mode", c),
            "numerical": ("mode", np.linalg.eigvalsh(world.covariance)[::-1]),
            "level_of_mode": ("mode", _levels(world)),
            "mode_of_items": (("item", "mode"), v),
            "residual": ((), np.abs(world.covariance @ v - c * v).max() / c[0]),
        },
        attrs={"world": world.name},
    )


def _sampled(world: World, samples: Float[np.ndarray, "feature item"]) -> xr.Dataset:
    """Many features from the process: their spectrum, and how correlated the modes are in them."""
    count = len(samples)
    along = samples @ world.modes
    products = (along.T @ along) / count
    # Of a mean of products z_i z_j that has the mean zero.
    error = np.sqrt((along**2).T @ along**2) / count
    error = np.maximum(error, 1e-12)  # two items alike have exactly none
    apart = ~np.eye(world.items, dtype=bool)
    return xr.Dataset(
        {
            "sampled": ("mode", np.linalg.svd(samples, compute_uv=False) / np.sqrt(count)),
            "correlation_in_errors": ((), np.abs(products / error)[apart].max()),
        }
    )


def _network(parameters: Parameters, items: int, keys: Keys) -> DeepLinear:
    """Random weights with the mean strength a₀, one network for each seed."""
    scale = float(np.sqrt(2 * parameters.initial_strength / parameters.hidden))
    return deep_linear((items, parameters.hidden, parameters.features), scale=scale, key=keys)


def _learned(parameters: Parameters, world: World, network: DeepLinear) -> xr.Dataset:
    """Decoupled and small random networks on the world's exact features, with their theory."""
    y, a0 = world.exact_features(parameters.features), parameters.initial_strength
    s, v = world.singular_values(parameters.features), world.modes
    u = y @ v / s
    first, second = (np.asarray(weight) for weight in network.weights)
    first = first[..., : world.items]
    last = mode_drop_times(first, second.swapaxes(-1, -2), y, np.eye(world.items)).max()
    times = np.linspace(0.0, float(last) + 3 / s[-1], _SAMPLES)

    own = decoupled(u, v, (parameters.hidden,), initial_strength=a0)
    lanes = (np.concatenate([own.weights[0][None], first]), np.stack([own.weights[1], *second]))
    trained = _train(lanes, y, times, network.widths[0])
    learned = np.einsum("om,ltoi,im->ltm", u, trained, v)
    theory = np.asarray(chain_strength(times, s, a0, depth=2))
    gram = growing_gram(first, second, u, v)
    predicted = growing_strengths(times, gram, s)
    predicted = np.diagonal(predicted, axis1=-2, axis2=-1)
    simple = effective_strengths(first, second, y)

    level = _levels(world)
    mean = (level == np.arange(level[-1] + 1)[:, None]) / np.bincount(level)[:, None]
    s_level, shares = mean @ s, lambda a: np.einsum("km,...tm->...kt", mean, a / s)
    curves = {
        "chains": shares(learned[0]),
        "chains_theory": shares(theory),
        "random": shares(learned[1:]),
        "random_theory": shares(predicted),
    }
    over = {2: ("level", "time"), 3: ("seed", "level", "time")}
    half = lambda a: np.log(s_level / a - 1) / (2 * s_level)
    return xr.Dataset(
        {
            **{name: (over[curve.ndim], curve) for name, curve in curves.items()},
            **{
                f"{name}_half_time": (over[curve.ndim][:-1], passage_times(times, curve))
                for name, curve in curves.items()
                if name != "chains_theory"
            },
            "chains_theory_half_time": ("level", half(a0)),
            "simple_half_time": (("seed", "level"), half(simple @ mean.T)),
            "singular_value": ("level", s_level),
            "weakest_growth": ("seed", np.linalg.eigvalsh(gram)[:, 0]),
        },
        {
            "time": ("time", times, {"long_name": "time in units of τ"}),
            "seed": parameters.seed + np.arange(parameters.seeds),
        },
    )


def _train(
    weights: tuple[np.ndarray, np.ndarray],
    y: Float[np.ndarray, "feature item"],
    times: Float[np.ndarray, " time"],
    inputs: int,
) -> Float[np.ndarray, "lane time feature item"]:
    """The networks' maps over time, from one compiled program for worlds of all sizes.

    Items that a world does not have come without features and with weights of zero, which no flow
    changes.
    """
    absent = inputs - y.shape[1]
    first = np.pad(weights[0], ((0, 0), (0, 0), (0, absent)))
    task = structured_task(np.pad(y, ((0, 0), (0, absent))))
    network = DeepLinear((first, weights[1]))
    trained = gradient_flow(network, task, times, loss="half-sum", rtol=1e-10)
    return np.asarray(trained.network.end_to_end())[..., : y.shape[1]]
