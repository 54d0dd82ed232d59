"""The posterior as a potential of one vector of whitened weights for each chain."""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._types import Array
from ...networks._activations import Scalar
from ...networks._bayesian import Scaling, hidden, output_scale


@dataclass(frozen=True)
class Model:
    """What programs are compiled for: no number that a user turns is in it.

    - `directions`: how many directions of the inputs the examples span.
    """

    width: int
    directions: int
    outputs: int
    depth: int
    activation: str
    function: Scalar
    scaling: Scaling

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Of W¹ … W^L and of the readout, in the order in which they are in the vector."""
        deeper = ((self.width, self.width),) * (self.depth - 1)
        return ((self.width, self.directions), *deeper, (self.outputs, self.width))

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def split(self, position: Float[Array, "*batch weight"]) -> tuple[Array, ...]:
        """W¹ … W^L and a/σ_a."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        namespace = np if isinstance(position, np.ndarray) else jnp
        parts = namespace.split(position, ends, axis=-1)
        batch = position.shape[:-1]
        return tuple(
            part.reshape(*batch, *shape) for part, shape in zip(parts, self.shapes, strict=True)
        )

    def noise(self, temperature: Array | float) -> Array | float:
        """T′ of the likelihood exp(−|Y − f|²/2T′)."""
        return temperature if self.scaling == "lazy" else temperature / self.width


class Data(NamedTuple):
    """Inputs by their directions and divided by √D, targets, and σ_a."""

    x: Float[Array, "sample direction"]
    y: Float[Array, "sample output"]
    deviation: Float[Array, ""]


def reduce(
    x: Float[np.ndarray, "sample input"],
) -> tuple[Float[np.ndarray, "sample direction"], Float[np.ndarray, "input direction"]]:
    r"""XV/√D and V, the directions that examples span: $X = USV^\top$.

    The likelihood asks W only for WV, and the prior of that is as white as that of W: what is
    orthogonal to all examples keeps its prior, and need not be sampled. Exact, and of use where
    there are more inputs than examples.
    """
    root = math.sqrt(x.shape[1])
    u, s, v = np.linalg.svd(x, full_matrices=False)
    seen = s > 1e-12 * max(s[0], np.finfo(float).tiny)
    if not s[0] > 0:
        raise ValueError("All inputs are zero: the network says the same of each of them.")
    if seen.sum() == x.shape[1]:  # nothing to gain: weights stay those of the inputs
        return x / root, np.eye(x.shape[1])
    return (u * s)[:, seen] / root, v[seen].T


def loss(model: Model, data: Data, position: Float[Array, " weight"]) -> Float[Array, ""]:
    """½|Y − f|², summed over examples."""
    *_, found = answers(model, data, position)
    return 0.5 * jnp.sum((data.y - found) ** 2)


def answers(
    model: Model, data: Data, position: Float[Array, " weight"]
) -> tuple[tuple[Array, ...], Array, Array]:
    """φ of all hidden layers, a, and f."""
    *weights, white = model.split(position)
    readout = data.deviation * white
    layers = hidden(tuple(weights), data.x, model.function)
    return layers, readout, layers[-1] @ readout.T * output_scale(readout, model.scaling)


def log_density(
    model: Model, data: Data, temperature: Float[Array, ""], position: Float[Array, " weight"]
) -> Float[Array, ""]:
    """log prior + log likelihood, up to a constant: minus the potential."""
    return -0.5 * jnp.sum(position**2) - loss(model, data, position) / model.noise(temperature)


class Seen(NamedTuple):
    """What does not depend on the order of neurons."""

    outputs: Array
    readout_covariance: Array
    kernels: tuple[Array, ...]


@functools.partial(jax.jit, static_argnames="model")
def look(model: Model, data: Data, positions: Float[Array, "draw weight"]) -> Seen:
    """f, U = ⟨aaᵀ⟩ over neurons and K = ⟨φφᵀ⟩ of every hidden layer, draw by draw."""

    def one(position: Array) -> Seen:
        layers, readout, found = answers(model, data, position)
        kernels = tuple(layer @ layer.T / model.width for layer in layers)
        return Seen(found, readout @ readout.T / model.width, kernels)

    return jax.lax.map(one, positions)
