"""Bayesian networks with Gaussian priors over their weights, and samples from the prior."""

import math
from dataclasses import dataclass, field
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._checks import real_number, whole_number
from .._precision import float64
from .._pytree import pytree
from .._types import Array, Keys
from ._activations import Scalar
from ._build import check_key
from ._code_activations import CodeActivation, code_activation

Scaling = Literal["non-lazy", "lazy"]


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class WidthScaledNetwork:
    r"""Network whose layers are scaled by their width: $f(x) = N^{-\gamma}\sum_i a_i\phi(z_i)$.

    The exponent is γ = 1 for the scaling "non-lazy" and γ = ½ for "lazy". The pre-activations are
    $z^1 = W^1 x/\sqrt D$ and $z^l = W^l\phi(z^{l-1})/\sqrt N$. All weights are of order one.

    - `weights`: $W^1, …, W^L$, each `(*batch, out, in)`.
    - `readout`: a, `(*batch, output, unit)`.
    - `activation`: function φ.
    - `scaling`: "non-lazy" or "lazy".

    **Example:**

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from festina.networks import WidthScaledNetwork
    >>> network = WidthScaledNetwork((np.ones((3, 4)),), np.ones((1, 3)), jnp.tanh)
    >>> network
    WidthScaledNetwork(non-lazy, 4 inputs, 1 hidden layer of 3, 1 outputs)
    >>> round(float(network(np.ones(4))[0]), 3)  # tanh(4/√4)
    0.964
    """

    weights: tuple[Float[Array, "*batch _ _"], ...]
    readout: Float[Array, "*batch output unit"]
    activation: Scalar = field(metadata={"static": True})
    scaling: Scaling = field(default="non-lazy", metadata={"static": True})

    def hidden(self, x: Float[Array, " input"]) -> tuple[Float[Array, " unit"], ...]:
        """Return the activities φ(z) of each hidden layer for one example."""
        return hidden(self.weights, x / math.sqrt(x.shape[-1]), self.activation)

    def __call__(self, x: Float[Array, " input"]) -> Float[Array, " output"]:
        return self.readout @ self.hidden(x)[-1] * output_scale(self.readout, self.scaling)

    def __repr__(self) -> str:
        *batch, outputs, width = self.readout.shape
        many = f"{tuple(batch)} networks, " if batch else ""
        depth, inputs = len(self.weights), self.weights[0].shape[-1]
        return (
            f"WidthScaledNetwork({many}{self.scaling}, {inputs} inputs, {depth} hidden "
            f"layer{'s' * (depth > 1)} of {width}, {outputs} outputs)"
        )


def hidden(
    weights: tuple[Array, ...], scaled: Float[Array, "*sample input"], function: Scalar
) -> tuple[Float[Array, "... unit"], ...]:
    """Return the activities φ(z) of each hidden layer for inputs that are already divided by √D.

    Batch axes of the weights come first in the result, before the axes of the samples.
    """
    found, below = [], scaled
    for weight in weights:
        found.append(function(below @ jnp.swapaxes(weight, -1, -2)))
        below = found[-1] / math.sqrt(weight.shape[-2])
    return tuple(found)


def output_scale(readout: Array, scaling: Scaling) -> float:
    """Return the factor N^{-γ} of a network's outputs."""
    return float(readout.shape[-1]) ** (-0.5 if scaling == "lazy" else -1.0)


def checked_scaling(scaling: object) -> Scaling:
    if scaling not in ("non-lazy", "lazy"):
        raise ValueError(f'`scaling` must be "non-lazy" or "lazy", got {scaling!r}.')
    return scaling


def readout_variance_of(
    value: float | None, samples: int, depth: int = 1, scaling: Scaling = "non-lazy"
) -> float:
    """Return the prior variance σ_a² of the readout, by default $P^{-1/L}$ for "non-lazy"."""
    if value is None:
        if scaling == "lazy":
            raise ValueError(
                "`readout_variance` has no default for a lazy network, because the "
                "predictor's variance and the ridge of its mean depend on it. Give a number; 1.0 "
                "is usual."
            )
        return float(samples) ** (-1 / depth)
    found = real_number("readout_variance", value)
    if not np.finfo(float).tiny <= found < np.inf:
        raise ValueError(f"`readout_variance` must be positive and finite, got {value!r}.")
    return found


@float64
def draw_from_prior(
    inputs: int,
    width: int,
    outputs: int,
    *,
    readout_variance: float,
    depth: int = 1,
    activation: CodeActivation = "linear",
    scaling: Scaling = "non-lazy",
    key: Keys,
) -> WidthScaledNetwork:
    r"""Draw a `WidthScaledNetwork` from its prior, $W \sim N(0, 1)$ and $a \sim N(0, \sigma_a^2)$.

    **Arguments:**

    - `inputs`, `outputs`: number of inputs and of outputs.
    - `width`, `depth`: number of units in each hidden layer, and number L of hidden layers.
    - `readout_variance`: σ_a². Posteriors of P examples have the default $P^{-1/L}$.
    - `activation`: φ, one of the names "linear", "erf", "erf-sigmoid" and "relu", which are defined
      as in `festina.theory.coding`, or your own function.
    - `scaling`: "non-lazy" (output divided by the width) or "lazy" (divided by its square root).
    - `key`: random key.

    **Example:**

    >>> import jax
    >>> from festina.networks import draw_from_prior
    >>> draw_from_prior(4, 3, 2, readout_variance=1.0, key=jax.random.key(0))
    WidthScaledNetwork(non-lazy, 4 inputs, 1 hidden layer of 3, 2 outputs)
    """
    inputs, outputs = whole_number("inputs", inputs), whole_number("outputs", outputs)
    width, depth = whole_number("width", width), whole_number("depth", depth)
    scaling = checked_scaling(scaling)
    variance = readout_variance_of(readout_variance, 1, depth, scaling)
    _, function = code_activation(activation)
    *inner, last = jax.random.split(check_key(key), depth + 1)
    fan_in = (inputs, *(width,) * (depth - 1))
    weights = tuple(
        np.asarray(jax.random.normal(k, (width, n), dtype=float))
        for k, n in zip(inner, fan_in, strict=True)
    )
    readout = math.sqrt(variance) * jax.random.normal(last, (outputs, width), dtype=jnp.float64)
    return WidthScaledNetwork(weights, np.asarray(readout), function, scaling)
