"""Theorem 3: relations between units that training keeps, and the narrower networks they allow.

Networks of every kind start on a manifold, are trained by gradient descent, and are reduced to
fewer units at every moment (F.3). Controls start on relations that the unit's algebra does not
keep. Two manifolds that the theorem does not list are among those kept: mirrored units of even φ,
and opposite units of odd φ.
"""

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, Int, PRNGKeyArray
from pydantic import Field, model_validator

from ...._objective import Data, descent, objective
from ...._types import Array
from ....networks import Layer, Structure, attention, convolutional, fully_connected
from ....networks._seeds import Keys
from ....tasks import Task, task
from ....theory.saddles import (
    Constraint,
    embed,
    manifold_distance,
    project_on_manifold,
    readout_on_manifold,
    reduce_width,
)
from ....theory.saddles._kinds import Kind
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ...claims import Claim
from ._theorem_3_cases import ARCHITECTURES, CASES, Architecture, Case

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "saddles/theorem-3"
_MOMENTS = 50  # of training at which distances and errors are taken


class Parameters(BaseParameters):
    """Section 4 and F; the paper trains nothing here, sizes are ours."""

    seeds: int = Field(default=4, ge=1)
    """How many networks are trained on each manifold."""

    width: int = Field(default=4, ge=4)
    """Number of units H."""

    samples: int = Field(default=20, ge=8)
    """Size of the data set, random inputs and targets."""

    scale: float = Field(default=0.7, ge=0.3, le=2)
    """Standard deviation of the initial weights."""

    architectures: tuple[Architecture, ...] = Field(default=ARCHITECTURES, min_length=1)
    """Which networks to train."""

    learning_rate: float = Field(default=0.02, gt=0, le=0.05)
    """Learning rate of gradient descent on ½⟨|y − f|²⟩."""

    steps: int = Field(default=2000, ge=100)
    """Steps of training."""

    @model_validator(mode="after")
    def _long_enough(self) -> "Parameters":
        if self.steps * self.learning_rate < 5:
            raise ValueError(
                "`steps` times `learning_rate` must be at least 5, or the controls have no time to "
                f"leave: got {self.steps * self.learning_rate:g}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 2, "steps": 500}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train all cases of an architecture together, and measure how far they drift."""
    keys = keys_of(parameters, key)
    rng = np.random.default_rng(parameters.seed)
    kinds = parameters.architectures
    tables: list[xr.Dataset] = []
    for index, kind in enumerate(kinds):
        say(f"training {kind}", index / len(kinds))
        cases = [case for case in CASES if case.architecture == kind]
        tables.append(_train(parameters, kind, cases, keys, rng))
    return run_tree(
        NAME,
        parameters,
        drift=xr.concat(tables, "case", join="outer"),
        embedding=_embedding(parameters, keys, rng),
    )


def _setting(
    parameters: Parameters, kind: Architecture, keys: Keys, rng: np.random.Generator
) -> tuple[Layer, Task]:
    """Networks of one architecture, and data without any structure."""
    size: dict[str, Any] = {"scale": parameters.scale, "key": keys}
    if kind in ("linear attention", "softmax attention"):
        network = attention(2, parameters.width, softmax=kind == "softmax attention", **size)
        x = rng.normal(size=(parameters.samples, 3, 4))
    elif kind == "convolutional relu":
        network = convolutional(4, parameters.width, activation="relu", **size)
        x = rng.normal(size=(parameters.samples, 4))
    else:
        network = fully_connected(2, parameters.width, activation=kind, **size)
        x = rng.normal(size=(parameters.samples, 2))
    return network, task(x, rng.normal(size=parameters.samples))


def _train(
    parameters: Parameters,
    kind: Architecture,
    cases: list[Case],
    keys: Keys,
    rng: np.random.Generator,
) -> xr.Dataset:
    network, data = _setting(parameters, kind, keys, rng)
    start = [project_on_manifold(network, case.constraint) for case in cases]
    # A narrow network with a silent unit, which stays silent, is as wide and needs no new program.
    narrow = [
        [_padded(reduce_width(one, case.constraint, same_flow=even), one) for even in (False, True)]
        for one, case in zip(start, cases, strict=True)
        if case.learns_alike
    ]
    networks = _stacked([*start, *(one for pair in narrow for one in pair)])
    problem = objective(networks, data, "half")
    structure, stride = networks.structure, parameters.steps // _MOMENTS
    columns = _descend(
        structure,
        structure.columns(*networks.parts),
        problem.data,
        parameters.learning_rate,
        stride,
    )
    weights = np.asarray(columns).reshape(*columns.shape[:2], *networks.batch_shape)
    if not np.isfinite(weights).all():
        raise ValueError(
            f"Training of {kind} diverged at `learning_rate` {parameters.learning_rate:g}: take a "
            "smaller one, or a smaller `scale`."
        )
    moments = networks.with_parts(*structure.arrays(np.moveaxis(weights, 0, -1)))
    count = len(cases)
    wide = [_lane(moments, index) for index in range(count)]
    distance = [manifold_distance(w, c.constraint) for w, c in zip(wide, cases, strict=True)]
    size = np.sqrt(np.sum(weights[:, :, :count] ** 2, axis=1))  # (moment, case, seed)
    reduced = [_padded(reduce_width(w, c.constraint), w) for w, c in zip(wide, cases, strict=True)]
    ends = [_lane(moments, index) for index in range(count, len(moments.u))]
    outputs = _outputs(_stacked([*wide, *reduced, *ends]), data)
    rms = lambda f: np.sqrt(np.mean(f**2, axis=-1)) / np.sqrt(np.mean(data.y**2))
    alike = np.full((count, 2, parameters.seeds), np.nan)
    companions = iter(outputs[2 * count :])
    for index in (index for index, case in enumerate(cases) if case.learns_alike):
        for form in (0, 1):
            alike[index, form] = rms(next(companions) - outputs[index])[:, -1]
    over = ("case", "seed", "moment")
    return xr.Dataset(
        {
            "distance": (over, np.array(distance) / np.moveaxis(size, 0, -1)),
            "reduction_error": (over, rms(outputs[count : 2 * count] - outputs[:count])),
            "flow_error": (("case", "form", "seed"), alike),
        },
        {
            "case": [case.name for case in cases],
            "step": ("moment", stride * np.arange(_MOMENTS + 1)),
            "form": ["F.3", "even"],
            "seed": parameters.seed + np.arange(parameters.seeds),
        },
    )


def _embedding(parameters: Parameters, keys: Keys, rng: np.random.Generator) -> xr.Dataset:
    """F.4: how far embeddings of Eqs. (6) and (7) are from a manifold, by γ_v over its formula."""
    network, _ = _setting(parameters, "linear", keys, rng)
    width = parameters.width
    factors = np.linspace(0.0, 2.0, 21)
    one = rng.normal()
    several = rng.normal(size=(1, width)) / np.sqrt(width)
    units = tuple(range(width))
    kinds: dict[Kind, Any] = {
        "proportional": (one, 0, Constraint("proportional", width, (0,), (one,))),
        "linear": (several, None, Constraint("linear", width, units, tuple(several[0].tolist()))),
    }

    def distance(kind: Kind, factor: float) -> float:
        gamma, parent, constraint = kinds[kind]
        readout = factor * readout_on_manifold(gamma)
        wider = embed(network, width + 1, kind, gamma_u=gamma, gamma_v=readout, parent=parent)
        return float(manifold_distance(wider, constraint).max())

    return xr.Dataset(
        {"distance": (("kind", "factor"), [[distance(k, f) for f in factors] for k in kinds])},
        {"kind": list(kinds), "factor": factors},
    )


def _padded(narrow: Layer, like: Layer) -> Layer:
    """With silent units behind, as wide as another network."""
    axis = len(like.batch_shape)

    def fill(part: np.ndarray) -> np.ndarray:
        missing = [(0, 0)] * part.ndim
        missing[axis] = (0, like.width - part.shape[axis])
        return np.pad(part, missing)

    return narrow.with_parts(*(fill(np.asarray(part)) for part in narrow.parts))


def _stacked(networks: list[Layer]) -> Layer:
    parts = zip(*(network.parts for network in networks), strict=True)
    return networks[0].with_parts(*(np.stack(part) for part in parts))


def _lane(networks: Layer, index: int) -> Layer:
    """One case: `(seed, moment)` networks."""
    return networks.with_parts(*(part[index] for part in networks.parts))


@functools.partial(jax.jit, static_argnums=0)
def _descend(
    structure: Structure,
    weights: Float[Array, "weight lane"],
    data: Data,
    rate: Float[Array, ""] | float,
    stride: Int[Array, ""] | int,
) -> Float[Array, "moment weight lane"]:
    """Plain gradient descent, kept at equal distances, the start included.

    Rounding is what is measured here, and every lane is wanted to the last step.
    """
    step = lambda _, weights: weights + rate * descent(structure, weights, data)[1]

    def stage(weights: Array, _: None) -> tuple[Array, Array]:
        after = jax.lax.fori_loop(0, stride, step, weights)
        return after, after

    _, kept = jax.lax.scan(stage, weights, None, length=_MOMENTS)
    return jnp.concatenate((weights[None], kept))


def _outputs(networks: Layer, data: Task) -> Float[np.ndarray, "*batch sample"]:
    """Of the one output, but for a residual connection, which is the same for all."""
    structure = networks.structure
    psi = np.asarray(jax.vmap(networks.unit.features)(data.x))
    found = np.asarray(_compute(structure, structure.columns(*networks.parts), psi))
    return np.moveaxis(found[:, 0], 0, -1).reshape(*networks.batch_shape, -1)


@functools.partial(jax.jit, static_argnums=0)
def _compute(
    structure: Structure, weights: Float[Array, "weight lane"], psi: Float[Array, "sample ..."]
) -> Float[Array, "sample output lane"]:
    return structure.outputs(psi, *structure.split(weights))


def claims(run: xr.DataTree) -> list[Claim]:
    """What is kept, what is not, and what the narrower networks compute and learn."""
    from ._theorem_3_claims import theorem_claims

    return theorem_claims(NAME, run)


def draw(run: xr.DataTree) -> "Figure":
    """Distance from the manifold over training, and the error of the reduced networks."""
    from ._theorem_3_draw import draw_theorem

    return draw_theorem(run)
