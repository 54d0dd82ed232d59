"""The posterior as a potential of one vector of whitened weights for each chain."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._types import Array
from ...networks._activations import Scalar
from ...networks._width_scaled_network import Scaling, hidden, output_scale


@dataclass(frozen=True)
class Model:
    """Shapes, activation and scaling of the network, for which programs are compiled.

    - `directions`: number of directions of the inputs that the examples span.
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
        """Return the shapes of W¹ … W^L and of the readout, in their order in the vector."""
        deeper = ((self.width, self.width),) * (self.depth - 1)
        return ((self.width, self.directions), *deeper, (self.outputs, self.width))

    @property
    def size(self) -> int:
        """Return the number of weights."""
        return sum(math.prod(shape) for shape in self.shapes)

    def split(self, position: Float[Array, "*batch weight"]) -> tuple[Array, ...]:
        """Return W¹ … W^L and a/σ_a from vectors of whitened weights."""
        parts, start = [], 0
        for shape in self.shapes:
            end = start + math.prod(shape)
            parts.append(position[..., start:end].reshape(*position.shape[:-1], *shape))
            start = end
        return tuple(parts)


class Data(NamedTuple):
    """Inputs in the basis of their directions divided by √D, targets, and σ_a."""

    x: Float[Array, "sample direction"]
    y: Float[Array, "sample output"]
    deviation: Float[Array, ""]


def reduce(
    x: Float[np.ndarray, "sample input"],
) -> tuple[Float[np.ndarray, "sample direction"], Float[np.ndarray, "input direction"]]:
    r"""Return XV/√D and V, the orthonormal directions that the examples span: $X = USV^\top$.

    The likelihood depends on W only through WV, and the prior of WV is white like that of W.
    Weights orthogonal to all examples keep their prior and need not be sampled. This reduction is
    exact and saves time if there are more inputs than examples.
    """
    root = math.sqrt(x.shape[1])
    u, s, v = np.linalg.svd(x, full_matrices=False)
    if not s[0] > 0:
        raise ValueError("All inputs are zero, so the network has the same output for all of them.")
    seen = s > 1e-12 * s[0]
    if seen.sum() == x.shape[1]:  # nothing to reduce, so the original inputs are kept
        return x / root, np.eye(x.shape[1])
    return (u * s)[:, seen] / root, v[seen].T


def loss(model: Model, data: Data, position: Float[Array, " weight"]) -> Float[Array, ""]:
    """Return the loss ½|Y − f|², summed over examples."""
    *weights, white = model.split(position)
    layer = hidden(tuple(weights), data.x, model.function)[-1]
    f = layer @ white.T * (data.deviation * output_scale(white, model.scaling))
    return 0.5 * jnp.sum((data.y - f) ** 2)


def potential(
    model: Model, data: Data, temperature: Float[Array, ""], position: Float[Array, " weight"]
) -> Float[Array, ""]:
    """Return minus the log of prior times likelihood exp(−|Y − f|²/2T′), up to a constant."""
    noise = temperature if model.scaling == "lazy" else temperature / model.width
    return 0.5 * jnp.sum(position**2) + loss(model, data, position) / noise
