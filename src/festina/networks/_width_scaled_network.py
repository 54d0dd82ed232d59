"""Networks whose weights have Gaussian priors, of which posteriors are sampled."""

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
    r"""A network whose sums are scaled by their width: $f(x) = N^{-\gamma}\sum_i a_i\phi(z_i)$.

    γ = 1 (non-lazy) or ½ (lazy), $z^1 = W^1 x/\sqrt D$ and $z^l = W^l\phi(z^{l-1})/\sqrt N$: every
    weight is of order one.

    - `weights`: $W^1 … W^L$, each `(out, in)`; axes in front make a batch of networks.
    - `readout`: a, `(output, unit)`.
    - `activation`, `scaling`: φ and which γ.
    """

    weights: tuple[Float[Array, "*batch _ _"], ...]
    readout: Float[Array, "*batch output unit"]
    activation: Scalar = field(metadata={"static": True})
    scaling: Scaling = field(default="non-lazy", metadata={"static": True})

    def hidden(self, x: Float[Array, " input"]) -> tuple[Float[Array, " unit"], ...]:
        """Return φ(z) of every hidden layer."""
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
    """Return φ(z) of every hidden layer, of inputs that are divided by √D already.

    Axes in front of the weights' own are in front of the samples' too.
    """
    found, below = [], scaled
    for weight in weights:
        found.append(function(below @ jnp.swapaxes(weight, -1, -2)))
        below = found[-1] / math.sqrt(weight.shape[-2])
    return tuple(found)


def output_scale(readout: Array, scaling: Scaling) -> float:
    """Return N^{-γ}."""
    return float(readout.shape[-1]) ** (-0.5 if scaling == "lazy" else -1.0)


def checked_scaling(scaling: object) -> Scaling:
    if scaling not in ("non-lazy", "lazy"):
        raise ValueError(f'`scaling` must be "non-lazy" or "lazy", got {scaling!r}.')
    return scaling


def readout_variance_of(
    value: float | None, samples: int, depth: int = 1, scaling: Scaling = "non-lazy"
) -> float:
    """Return σ_a²; by default $P^{-1/L}$ for a non-lazy network."""
    if value is None:
        if scaling == "lazy":
            raise ValueError(
                "`readout_variance` of a lazy network has no default: its variance, and the ridge "
                "of its mean, are as large as you choose. 1.0 is usual."
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
    r"""Draw a network from the prior: $W \sim N(0, 1)$, $a \sim N(0, \sigma_a^2)$.

    **Arguments:**

    - `readout_variance`: σ_a². Posteriors of P examples take $P^{-1/L}$ unless told otherwise.
    - `depth`: L, how many hidden layers of `width` units.
    - `activation`: φ, as in `festina.theory.coding`: `"linear"`, `"erf"`, `"erf-sigmoid"` and
      `"relu"` mean what they mean there.
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
