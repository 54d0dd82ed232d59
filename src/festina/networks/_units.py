r"""Units: what one hidden neuron, convolutional kernel or attention head computes.

A unit splits its response in two: $\phi(x; u) = $ `response(features(x), u)`. The features ψ(x)
hold no weights. Where the response is linear in ψ (`fixed_features`) it is ⟨ψ, c(u)⟩ with
`coefficients` c(u), and the data enter the loss only through the moments ⟨ψψᵀ⟩ and ⟨yψᵀ⟩, whatever
the architecture.

Responses are computed for all samples, units and networks of a batch at once: samples are the first
axis of ψ, units and networks the last axes of u.
"""

import abc
import math
from dataclasses import dataclass, fields
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import TypeAliasType

from .._checks import whole_number
from .._types import Array
from ._activations import Activation, ActivationLike, linear
from ._activations import activation as _resolve
from ._algebra import Algebra
from ._contract import mix, outer
from ._view import AbstractView, Shape


class AbstractUnit(AbstractView):
    """One kind of unit. Holds no weights and is hashable: part of a network's structure."""

    weight_axes: ClassVar[tuple[str, ...]]
    """Names of the axes of one unit's u."""
    read_axes: ClassVar[tuple[str, ...]]
    """Names of the axes of its response."""
    bias: bool = False
    """Whether the last entry of u is the weight of an input that is always 1."""

    @property
    @abc.abstractmethod
    def algebra(self) -> Algebra:
        """What φ does as a function of u."""

    @abc.abstractmethod
    def weight_shape(self, input_shape: Shape) -> Shape:
        """Shape of one unit's u for inputs of this shape; raises if they do not fit."""

    @abc.abstractmethod
    def read_shape(self, input_shape: Shape) -> Shape:
        """Shape of the response, which a unit's v reads for each output."""

    def input_shape(self, weight_shape: Shape, read_shape: Shape) -> Shape:
        """Shape of inputs for which u and the response have these shapes."""
        del read_shape
        return weight_shape

    def check_input(self, input_shape: Shape) -> None:
        self.weight_shape(input_shape)

    @abc.abstractmethod
    def response(
        self, psi: Float[Array, "sample *features"], u: Float[Array, "*weight_and_units"]
    ) -> Float[Array, "sample *read_and_units"]:
        """φ(x; u) from ψ(x), of every sample and every unit."""

    def coefficients(
        self, u: Float[Array, "*weight_and_units"]
    ) -> Float[Array, "*features_and_units"]:
        """c(u), where φ(x; u) = ⟨ψ(x), c(u)⟩ over the last axes of ψ: with fixed features only."""
        raise TypeError(f"{self} has no fixed features, hence no coefficients of them.")

    def bypass(self, x: Float[Array, "..."]) -> Float[Array, " _"]:
        """What a connection past the unit carries: the input, or of tokens the query."""
        return x


@dataclass(frozen=True, init=False, repr=False)
class _Activated(AbstractUnit):
    """Response σ(u·z) for one or several z; for σ(a) = aᵖ through the features z⊗…⊗z.

    A bias is the weight of one more entry of z, the last, which is always 1: no theorem about u,
    no statistics and no run on disk know of any difference.
    """

    activation: Activation = linear
    bias: bool = False

    def __init__(self, activation: ActivationLike = linear, *, bias: bool = False):
        object.__setattr__(self, "activation", _resolve(activation))
        object.__setattr__(self, "bias", bool(bias))

    def __repr__(self) -> str:
        shown = (each.name for each in fields(self) if each.name != "bias" or self.bias)
        options = (f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({', '.join(options)})"

    @property
    def algebra(self) -> Algebra:
        return self.activation.algebra

    @property
    def fixed_features(self) -> bool:
        return self.activation.power is not None

    @property
    def degree(self) -> int | None:
        return self.activation.power

    def response(
        self, psi: Float[Array, "sample *features"], u: Float[Array, "weight *units"]
    ) -> Float[Array, "sample *read_and_units"]:
        if self.activation.power is None:
            return self.activation(_project(psi, u, 1))
        return _project(psi, self.coefficients(u), self.activation.power)

    def coefficients(self, u: Float[Array, "weight *units"]) -> Float[Array, "*features_and_units"]:
        """u⊗…⊗u."""
        if self.activation.power is None:
            return super().coefficients(u)
        c = u
        for _ in range(1, self.activation.power):
            c = outer(c.reshape(-1, *u.shape[1:]), u)
        return c.reshape(*u.shape[:1] * self.activation.power, *u.shape[1:])

    def _tensor_power(self, z: Float[Array, "... _"]) -> Float[Array, "..."]:
        if self.bias:
            z = jnp.concatenate((z, jnp.ones_like(z[..., :1])), axis=-1)
        psi = z
        for already in range(1, self.activation.power or 1):
            psi = psi[..., None] * z[(..., *(None,) * already, slice(None))]
        return psi


@dataclass(frozen=True, init=False, repr=False)
class NeuronUnit(_Activated):
    """A hidden neuron of a fully-connected layer, σ(u·x).

    With `bias`, σ(u·[x, 1]): u has one more entry than x, the last.
    """

    weight_axes = ("input",)
    read_axes = ()

    def weight_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != 1:
            raise ValueError(f"A fully-connected unit takes vectors, got inputs {input_shape}.")
        return (input_shape[0] + self.bias,)

    def input_shape(self, weight_shape: Shape, read_shape: Shape) -> Shape:
        del read_shape
        return (weight_shape[0] - self.bias,)

    def read_shape(self, input_shape: Shape) -> Shape:
        del input_shape
        return ()

    def features(self, x: Float[Array, " _"]) -> Float[Array, "..."]:
        return self._tensor_power(x)


@dataclass(frozen=True, init=False, repr=False)
class ConvolutionUnit(_Activated):
    """A kernel of a 1-d convolution without padding, σ(u * x); one response per position.

    With `bias` it has one more weight, the last, which is added at every position.
    """

    weight_axes = ("tap",)
    read_axes = ("position",)

    size: int = 2
    stride: int = 1

    def __init__(
        self,
        activation: ActivationLike = linear,
        *,
        bias: bool = False,
        size: int = 2,
        stride: int = 1,
    ):
        super().__init__(activation, bias=bias)
        object.__setattr__(self, "size", whole_number("size", size))
        object.__setattr__(self, "stride", whole_number("stride", stride))

    def weight_shape(self, input_shape: Shape) -> Shape:
        self._positions(input_shape)
        return (self.size + self.bias,)

    def read_shape(self, input_shape: Shape) -> Shape:
        return (self._positions(input_shape),)

    def input_shape(self, weight_shape: Shape, read_shape: Shape) -> Shape:
        del weight_shape
        return (self.stride * (read_shape[0] - 1) + self.size,)

    def features(self, x: Float[Array, " _"]) -> Float[Array, "..."]:
        starts = self.stride * jnp.arange(self._positions(x.shape))
        return self._tensor_power(x[starts[:, None] + jnp.arange(self.size)])

    def _positions(self, input_shape: Shape) -> int:
        if len(input_shape) != 1 or input_shape[0] < self.size:
            raise ValueError(
                f"A kernel of size {self.size} takes vectors at least that long, "
                f"got inputs {input_shape}."
            )
        return (input_shape[0] - self.size) // self.stride + 1


@dataclass(frozen=True)
class _Head(AbstractUnit):
    """Key and query (u = [K, Q], each rank × embedding) and a value row per output (v)."""

    weight_axes = ("key_query", "rank", "embedding")
    read_axes = ("embedding_read",)

    rank: int = 1
    residual: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", whole_number("rank", self.rank))

    def weight_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != 2 or input_shape[1] < 2:
            raise ValueError(
                "An attention head takes tokens as columns, (embedding, token), the last of which "
                f"is the query: got inputs {input_shape}."
            )
        return (2, self.rank, input_shape[0])

    def read_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0],)

    def input_shape(self, weight_shape: Shape, read_shape: Shape) -> Shape:
        del weight_shape
        return (read_shape[0], 5)  # any number of tokens will do

    def bypass(self, x: Float[Array, "_ _"]) -> Float[Array, " _"]:
        return x[:, -1]

    def skip(self, x: Float[Array, "_ _"], outputs: int) -> Float[Array, " {outputs}"] | float:
        return x[-outputs:, -1] if self.residual else 0.0


@dataclass(frozen=True)
class LinearAttentionUnit(_Head):
    r"""A head of linear attention read at the query, $v\, X X^\top K^\top Q\, x_q$ (Eq. 69).

    `per_token` divides by the context length N, as Zhang et al. (2025b) do and Eq. (69) as printed
    does not. Raw Eq. (69) at scale ε and learning rate η is exactly the 1/N model at N^{1/3}ε and
    N^{2/3}η.

    With `residual`, as in Eq. (69), the layer adds the last entries of the query, as many as there
    are outputs: zero where the query carries no label. Of heads that stand alone set it to False.
    """

    per_token: bool = True

    @property
    def algebra(self) -> Algebra:
        return Algebra(zero=True, homogeneous=None, linear=False, even=True, order=2)

    @property
    def fixed_features(self) -> bool:
        return True

    @property
    def degree(self) -> int | None:
        return 3

    def features(self, x: Float[Array, "embedding token"]) -> Float[Array, "a b c"]:
        context = x.shape[1] - 1
        gram = x @ x.T / (context if self.per_token else 1)
        return gram[:, :, None] * x[:, -1]

    def response(
        self, psi: Float[Array, "sample a b c"], u: Float[Array, "2 rank b *units"]
    ) -> Float[Array, "sample a *units"]:
        return _project(psi, self.coefficients(u), 2)

    def coefficients(self, u: Float[Array, "2 rank b *units"]) -> Float[Array, "b b *units"]:
        """KᵀQ."""
        keys, queries = jnp.split(u, 2)  # whose gradient is not padded, as that of u[0] is
        return jnp.sum(keys[0, :, :, None] * queries[0, :, None], axis=0)


@dataclass(frozen=True)
class SoftmaxAttentionUnit(_Head):
    r"""A head of softmax attention at the query, $v\, X\,\mathrm{smax}(X^\top K^\top Q\,x_q)$."""

    @property
    def algebra(self) -> Algebra:
        return Algebra(zero=False, homogeneous=None, linear=False, even=True, order=0)

    @property
    def fixed_features(self) -> bool:
        return False

    @property
    def degree(self) -> int | None:
        return None

    def features(self, x: Float[Array, "embedding token"]) -> Float[Array, "embedding token"]:
        return x

    def response(
        self, psi: Float[Array, "sample a token"], u: Float[Array, "2 rank a *units"]
    ) -> Float[Array, "sample a *units"]:
        keys = jnp.einsum("ra...,sat->srt...", u[0], psi)
        query = jnp.einsum("ra...,sa->sr...", u[1], psi[:, :, -1])
        attention = jax.nn.softmax(jnp.sum(keys * query[:, :, None], axis=1), axis=1)
        return jnp.einsum("sat,st...->sa...", psi, attention)


UnitLike = TypeAliasType("UnitLike", AbstractUnit | ActivationLike)
"""A unit, or the activation of a neuron."""


def unit_of(phi: UnitLike) -> AbstractUnit:
    """Return a unit as it is, or the neuron with this activation."""
    return phi if isinstance(phi, AbstractUnit) else NeuronUnit(phi)


def _project(
    psi: Float[Array, "sample *features"], c: Float[Array, "*coefficients_and_units"], axes: int
) -> Float[Array, "sample *read_and_units"]:
    """Return ⟨ψ, c⟩ over the last `axes` of ψ, which are the first of c."""
    kept, units = psi.shape[: psi.ndim - axes], c.shape[axes:]
    size = math.prod(c.shape[:axes])
    return mix(psi.reshape(-1, size), c.reshape(size, *units)).reshape(*kept, *units)
