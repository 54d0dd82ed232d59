"""Theorem 1: fixed points of a narrow network are fixed points of every wider one.

Exact fixed points are manufactured for every architecture and embedded in a wider network in each
of the four ways; where φ does not admit one, the same construction is a control that must fail. The
width-1 minima of Figure 1's tasks are embedded likewise, and left again. Loss ½⟨‖y − f‖²⟩.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from pydantic import Field, model_validator

from ...._types import Array
from ....networks import (
    AbstractNetwork,
    AbstractUnit,
    Algebra,
    Kernel,
    Layer,
    LinearHead,
    Neuron,
    activation,
    attention,
    convolutional,
    fully_connected,
    layer,
    stack,
)
from ....tasks import (
    AbstractTask,
    convolutional_teacher,
    in_context_regression,
    kernel_points,
    linear_teacher,
    orthogonal_points,
    quadratic_teacher,
    task,
)
from ....theory.saddles import embed_units, narrow_minima, stationary_task
from ....theory.saddles._embedding import unit_defects
from ....theory.saddles._fixed_points import losses_and_gradients
from ....theory.saddles._hidden import hidden_layers, with_hidden_layer
from ....theory.saddles._kinds import admissible
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._theorem_1_claims import CASES, NAME
from ._theorem_1_claims import claims as claims
from ._theorem_1_draw import draw as draw


class Parameters(BaseParameters):
    """Fixed points of random networks, embedded in wider ones with random γ."""

    seeds: int = Field(default=8, ge=1)
    """How many fixed points of each architecture are made and embedded."""

    units: int = Field(default=2, ge=1, le=6)
    """Units of the narrow network."""

    width: int = Field(default=6, ge=2, le=40)
    """Units of the wide network."""

    samples: int = Field(default=80, ge=20, le=2000)
    """Inputs that the fixed points are made for."""

    scale: float = Field(default=0.6, ge=0.3, le=1)
    """Standard deviation of the narrow network's weights."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if self.width <= self.units:
            raise ValueError(
                f"`width` must be above `units` {self.units}, got {self.width}: nothing would be "
                "embedded."
            )
        if self.samples < 16 * self.units:
            raise ValueError(
                f"`samples` must be at least 16 for each of the {self.units} `units`, got "
                f"{self.samples}: with fewer only a perfect fit is stationary."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 2}


class _Architecture(NamedTuple):
    build: Callable[..., AbstractNetwork]  # from a key, the number of units and the scale
    input_shape: tuple[int, ...]
    hidden: int = 0  # the hidden layer that is widened


def _neurons(name: str) -> _Architecture:
    return _Architecture(
        lambda key, units, scale: fully_connected(
            4, units, 3, activation=name, scale=scale, key=key
        ),
        (4,),
    )


def _kernels(name: str) -> _Architecture:
    return _Architecture(
        lambda key, units, scale: convolutional(5, units, 2, activation=name, scale=scale, key=key),
        (5,),
    )


def _heads(softmax: bool) -> _Architecture:
    return _Architecture(
        lambda key, units, scale: attention(2, units, softmax=softmax, scale=scale, key=key), (3, 5)
    )


def _between(key: Any, units: int, scale: float) -> AbstractNetwork:
    """A layer of ReLU units with tanh layers before and behind it."""
    return stack((3, 3, units, 3, 2), activations=("tanh", "relu", "tanh"), scale=scale, key=key)


_ARCHITECTURES: dict[str, _Architecture] = {
    "tanh": _neurons("tanh"),
    "sigmoid": _neurons("sigmoid"),
    "quadratic": _neurons("quadratic"),
    "ReLU": _neurons("relu"),
    "leaky ReLU": _neurons("leaky-relu"),
    "linear": _neurons("linear"),
    "conv ReLU": _kernels("relu"),
    "conv linear": _kernels("linear"),
    "linear attention": _heads(softmax=False),
    "softmax attention": _heads(softmax=True),
    "ReLU between tanh": _Architecture(_between, (3,), hidden=1),
}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Make fixed points, embed them in each way, allowed or not, and measure the gradient."""
    keys = keys_of(parameters, key)
    tables: list[xr.Dataset] = []
    for index, (name, architecture) in enumerate(_ARCHITECTURES.items()):
        say(f"fixed points of {name} networks", index / (len(_ARCHITECTURES) + 2))
        tables.append(_embeddings(parameters, architecture, keys))
    say("width-1 minima of Figure 1's tasks", len(tables) / (len(tables) + 2))
    return run_tree(
        NAME,
        parameters,
        embeddings=xr.concat(tables, xr.Variable("architecture", list(_ARCHITECTURES))),
        panels=_panels(parameters),
        section_e=_section_e(parameters, keys),
    )


def _embeddings(parameters: Parameters, architecture: _Architecture, keys: Any) -> xr.Dataset:
    """Gradient of each fixed point before, and after each way of embedding it."""
    shape = (parameters.seeds, len(CASES))
    before, after, otherwise = np.zeros(parameters.seeds), np.zeros(shape), np.zeros(shape)
    moved = np.zeros(shape)
    heard, heard_after = np.zeros(parameters.seeds), np.zeros(parameters.seeds)
    algebra: Algebra | None = None
    for seed, key in enumerate(keys):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        x = rng.standard_normal((parameters.samples, *architecture.input_shape))
        network = architecture.build(key, parameters.units, parameters.scale)
        # Of the size at which what is left of a sum over samples does not depend on their number.
        residual = np.sqrt(parameters.samples) / 3
        y = stationary_task(network, x, residual=residual, key=key).y
        f, before[seed] = _outputs_and_gradient(network, x, y)
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], y.shape)
        unit, u, v = hidden_layers(network)[architecture.hidden]
        algebra = unit.algebra
        for index, case in enumerate(CASES):
            mixing = _mixing(case, parameters, rng)
            wide = with_hidden_layer(network, architecture.hidden, *embed_units(u, v, *mixing))
            outputs, after[seed, index] = _outputs_and_gradient(wide, x, y)
            _, otherwise[seed, index] = _outputs_and_gradient(wide, x, f + signs * (y - f))
            moved[seed, index] = np.abs(outputs - f).max()
        wide = with_hidden_layer(network, architecture.hidden, *_read_at_zero(u, v, rng))
        outputs, heard_after[seed] = _outputs_and_gradient(wide, x, y)
        heard[seed] = np.abs(outputs - f).max()
    assert algebra is not None
    allowed = admissible(algebra)
    real = algebra.homogeneous == "real"
    admitted = [real if case == "negative" else case in allowed for case in CASES]
    return xr.Dataset(
        {
            "before": ("seed", before),
            "after": (("seed", "case"), after),
            "otherwise": (("seed", "case"), otherwise),
            "map_change": (("seed", "case"), moved),
            "heard": ("seed", heard),
            "heard_after": ("seed", heard_after),
            "admitted": ("case", admitted),
        },
        {"case": list(CASES), "seed": parameters.seed + np.arange(parameters.seeds)},
        {"units": parameters.units, "samples": parameters.samples},
    )


def _mixing(
    case: str, parameters: Parameters, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Γ_u and Γ_v of a case, drawn so that no γ is close to one that would prove nothing."""
    added, units = parameters.width - parameters.units, parameters.units
    sizes = rng.uniform(0.4, 1.6, size=(2, added, units)) * rng.choice([-1, 1], (2, added, units))
    # γ_u away from one, at which a proportional unit would be an equal one.
    sizes[0] += np.sign(sizes[0]) * (np.abs(sizes[0]) > 1) - 0.2 * np.sign(sizes[0])
    if case == "linear":
        return sizes[0], sizes[1]
    one = np.eye(units)[np.arange(added) % units]
    first, second = np.abs(sizes[0]) * one, sizes[1] * one
    return {
        "equal": (one, second),
        "zero": (0 * one, 0 * one),
        "proportional": (first, second),
        "negative": (-first, second),
    }[case]


def _read_at_zero(u: Array, v: Array, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One more unit, with u_H = 0 and v_H as large as those of the others are."""
    u, v = np.asarray(u), np.asarray(v)
    direction = rng.standard_normal((1, *v.shape[1:]))
    size = np.linalg.norm(v) / np.sqrt(len(v)) / np.linalg.norm(direction)
    return np.concatenate((u, 0 * u[:1])), np.concatenate((v, size * direction))


@jax.jit
def _outputs_and_gradient(
    network: AbstractNetwork, x: Float[Array, "sample ..."], y: Float[Array, "sample output"]
) -> tuple[Array, Array]:
    """f at every sample and |∂L/∂θ|, from the samples as they are."""

    def loss(network: AbstractNetwork) -> tuple[Array, Array]:
        f = jax.vmap(network)(x)
        return 0.5 * jnp.mean(jnp.sum((y - f) ** 2, axis=1)), f

    slopes, f = jax.grad(loss, has_aux=True)(network)
    return f, jnp.sqrt(sum(jnp.sum(slope**2) for slope in jax.tree.leaves(slopes)))


class _Panel(NamedTuple):
    unit: AbstractUnit
    task: AbstractTask
    read_shape: tuple[int, ...]


def _figure_1() -> dict[str, _Panel]:
    covariance = np.array([[1.0, 1.0], [1.0, 4.0]])
    teacher = np.array([[1.0, 0.0], [0.0, 1.0]])
    relu = activation("relu")
    return {
        "B": _Panel(Neuron(), linear_teacher(teacher, covariance), ()),
        "C": _Panel(Kernel(size=2, stride=2), convolutional_teacher(), (2,)),
        "D": _Panel(Neuron(relu), orthogonal_points(), ()),
        "E": _Panel(Kernel(relu, size=2, stride=2), kernel_points(), (2,)),
        "F": _Panel(LinearHead(), in_context_regression(2, 32), (3,)),
        "G": _Panel(Neuron(activation("quadratic")), quadratic_teacher(teacher), ()),
    }


_RADII = (3e-2, 1e-2, 3e-3, 1e-3)
_DIRECTIONS = 512


def _panels(parameters: Parameters) -> xr.Dataset:
    """The lowest minimum of one unit, embedded by Eq. (5), and what a silent unit can gain."""
    rng = np.random.default_rng(parameters.seed)
    rows: list[dict[str, Any]] = []
    panels = _figure_1()
    for panel in panels.values():
        found = narrow_minima(panel.unit, panel.task, width=1, starts=12)
        u, v = found.network.lane(0).parts
        mixing = np.zeros((1, 1)), np.zeros((1, 1))
        wide = layer(panel.unit, *embed_units(u, v, *mixing))
        defects = unit_defects(panel.unit, u.shape[1:], panel.read_shape)
        rows.append(
            {
                "level": found.loss[0],
                "gradient": float(np.linalg.norm(losses_and_gradients(wide, panel.task)[1])),
                "gain": _gains(wide, panel.task, rng),
                "homogeneity_defect": defects.positive,
                "order": panel.unit.algebra.order,
            }
        )
    return xr.Dataset(
        {
            name: (("panel", "radius") if name == "gain" else "panel", [row[name] for row in rows])
            for name in rows[0]
        },
        {"panel": list(panels), "radius": list(_RADII)},
    )


def _gains(wide: Layer, task: AbstractTask, rng: np.random.Generator) -> np.ndarray:
    """Most that the loss falls when only the silent unit moves so far, over random directions."""
    u = rng.standard_normal((_DIRECTIONS, *wide.u[1].shape))
    v = rng.standard_normal((_DIRECTIONS, *wide.v[1].shape))
    size = np.sqrt(sum(np.sum(part.reshape(len(part), -1) ** 2, axis=1) for part in (u, v)))
    # For each radius every direction, and once none.
    radii = np.append(np.repeat(_RADII, _DIRECTIONS) / np.tile(size, len(_RADII)), 0.0)
    directions = np.append(np.tile(np.arange(_DIRECTIONS), len(_RADII)), 0)
    parts = []
    for part, change in ((wide.u, u), (wide.v, v)):
        moved = np.repeat(np.asarray(part)[None], len(radii), axis=0)
        moved[:, 1] = radii.reshape(-1, *(1,) * (change.ndim - 1)) * change[directions]
        parts.append(moved)
    losses, _ = losses_and_gradients(wide.with_parts(*parts), task)
    return losses[-1] - losses[:-1].reshape(len(_RADII), _DIRECTIONS).min(axis=1)


def _section_e(parameters: Parameters, keys: Any) -> xr.Dataset:
    """Gradients after Eq. (7), away from a fixed point, where signs can be seen."""
    rows: list[dict[str, float]] = []
    for key in keys:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        network = fully_connected(
            4, parameters.units, 3, activation="linear", scale=parameters.scale, key=key
        )
        x = rng.standard_normal((parameters.samples, 4))
        data = task(x, rng.standard_normal((parameters.samples, 3)))
        added = np.zeros((parameters.width - parameters.units - 1, parameters.units))
        gamma = rng.standard_normal((2, 1, parameters.units))
        mixing = (np.concatenate((row, added)) for row in gamma)
        wide = layer(network.unit, *embed_units(network.u, network.v, *mixing))
        (u_before, v_before), (u_after, v_after) = (_speeds(net, data) for net in (network, wide))
        u_after = u_after[: parameters.units]
        # u̇_i = u̇*_i ∓ γ_ui Σ_j γ_vj u̇*_j
        term = gamma[0, 0][:, None] * (gamma[1, 0] @ u_before)
        # −⟨φ(z; u_H)ᵀ ∂ℓ/∂ζ⟩ = Σ_i γ_ui v̇*_i
        new, drive = parameters.units, gamma[0, 0] @ v_before
        rows.append(
            {
                "printed": np.abs(u_after - (u_before + term)).max(),
                "corrected": np.abs(u_after - (u_before - term)).max(),
                "size": np.abs(u_after).max(),
                "printed_v": np.abs(wide.v[new] - drive).max(),
                "corrected_v": np.abs(v_after[new] - drive).max(),
                "size_v": np.abs(drive).max(),
            }
        )
    return xr.Dataset(
        {name: ("seed", [row[name] for row in rows]) for name in rows[0]},
        {"seed": parameters.seed + np.arange(parameters.seeds)},
    )


def _speeds(network: Layer, data: AbstractTask) -> tuple[np.ndarray, np.ndarray]:
    """u̇ and v̇ of every unit by automatic differentiation."""
    _, slopes = losses_and_gradients(network, data)
    u, v = network.structure.arrays(slopes[0])
    return -u, -v
