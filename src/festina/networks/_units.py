r"""Units: hidden neurons, convolution kernels and attention heads.

A unit computes its response in two steps: $\phi(x; u) = $ `response(features(x), u)`. The features
ψ(x) do not depend on weights. A response that is linear in ψ (`fixed_features`) is ⟨ψ, c(u)⟩ with
`coefficients` c(u). The loss then depends on the data only through the moments ⟨ψψᵀ⟩ and ⟨yψᵀ⟩.

Responses are computed for all samples, units and networks of a batch at once. Samples are the first
axis of ψ; units and networks are the last axes of u.
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
    """Abstract class of all kinds of unit; hashable, and without weights.

    **Example:**

    >>> from festina.networks import AbstractUnit, ConvolutionUnit
    >>> unit = ConvolutionUnit("relu", size=2)
    >>> isinstance(unit, AbstractUnit)
    True
    >>> unit.weight_shape((6,)), unit.read_shape((6,))
    ((2,), (5,))
    """

    weight_axes: ClassVar[tuple[str, ...]]
    """Names of the axes of one unit's weights u."""
    read_axes: ClassVar[tuple[str, ...]]
    """Names of the axes of one unit's response."""
    bias: bool = False
    """Whether the unit has a bias, the last entry of u."""

    @property
    @abc.abstractmethod
    def algebra(self) -> Algebra:
        """Algebraic properties of the response φ(x; u) as a function of u."""

    @abc.abstractmethod
    def weight_shape(self, input_shape: Shape) -> Shape:
        """Return the shape of one unit's u for inputs of this shape; raise for unfit inputs."""

    @abc.abstractmethod
    def read_shape(self, input_shape: Shape) -> Shape:
        """Return the shape of one unit's response, which is also that of its v for each output."""

    def input_shape(self, weight_shape: Shape, read_shape: Shape) -> Shape:
        """Return the shape of inputs for which u and the response have these shapes."""
        del read_shape
        return weight_shape

    def check_input(self, input_shape: Shape) -> None:
        self.weight_shape(input_shape)

    @abc.abstractmethod
    def response(
        self, psi: Float[Array, "sample *features"], u: Float[Array, "*weight_and_units"]
    ) -> Float[Array, "sample *read_and_units"]:
        """Return the response φ(x; u) of every unit to every sample, from the features ψ(x)."""

    def coefficients(
        self, u: Float[Array, "*weight_and_units"]
    ) -> Float[Array, "*features_and_units"]:
        """Return c(u), where φ(x; u) = ⟨ψ(x), c(u)⟩; raise `TypeError` without fixed features."""
        raise TypeError(
            f"{self} has no fixed features, so its response has no coefficients c(u). "
            "Use `response`."
        )

    def bypass(self, x: Float[Array, "..."]) -> Float[Array, " _"]:
        """Return the vector that a skip from the input adds: the input x, or the query token."""
        return x


@dataclass(frozen=True, init=False, repr=False)
class _Activated(AbstractUnit):
    """Units with the response σ(u·z) to one or several vectors z that are parts of the input.

    For σ(a) = aᵖ the features are z⊗…⊗z, else z itself. A bias is the weight of an additional last
    entry of z that is always 1, so results about u hold for biases as well.
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
        """Return the tensor power u⊗…⊗u."""
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
    """Neuron of a fully-connected layer, with the response σ(u·x).

    With `bias` the response is σ(u·[x, 1]), so the last entry of u is the bias.

    **Example:**

    >>> from festina.networks import NeuronUnit
    >>> unit = NeuronUnit("relu", bias=True)
    >>> unit.weight_shape((3,)), unit.algebra.homogeneous
    ((4,), 'positive')
    """

    weight_axes = ("input",)
    read_axes = ()

    def weight_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != 1:
            raise ValueError(
                f"A fully-connected unit takes vectors, got inputs {input_shape}. Flatten each "
                "input."
            )
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
    """Kernel of a 1-d convolution without padding, with one response σ(u·z) for each patch z of x.

    A patch has `size` entries, and neighbouring patches start `stride` entries apart. With `bias`
    the kernel has one more weight, its last, which is added at every position.

    **Example:**

    >>> from festina.networks import ConvolutionUnit
    >>> unit = ConvolutionUnit("relu", size=2, stride=2)
    >>> unit.weight_shape((6,)), unit.read_shape((6,))  # taps, positions
    ((2,), (3,))
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
                f"A kernel of size {self.size} takes vectors of at least {self.size} entries, "
                f"got inputs {input_shape}."
            )
        return (input_shape[0] - self.size) // self.stride + 1


@dataclass(frozen=True)
class _Head(AbstractUnit):
    """Attention heads with weights u = [K, Q], each (rank, embedding); v has a row per output."""

    weight_axes = ("key_query", "rank", "embedding")
    read_axes = ("embedding_read",)

    rank: int = 1
    residual: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", whole_number("rank", self.rank))

    def weight_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != 2 or input_shape[1] < 2:
            raise ValueError(
                "An attention head takes tokens as columns, (embedding, token), at least one "
                f"labelled token and then the query, got inputs {input_shape}."
            )
        return (2, self.rank, input_shape[0])

    def read_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0],)

    def input_shape(self, weight_shape: Shape, read_shape: Shape) -> Shape:
        del weight_shape
        return (read_shape[0], 5)  # heads take any number of tokens; 5 is arbitrary

    def bypass(self, x: Float[Array, "_ _"]) -> Float[Array, " _"]:
        return x[:, -1]

    def skip(self, x: Float[Array, "_ _"], outputs: int) -> Float[Array, " {outputs}"] | float:
        return x[-outputs:, -1] if self.residual else 0.0


@dataclass(frozen=True)
class LinearAttentionUnit(_Head):
    r"""Head of linear attention that is read out at the query, $v\, X X^\top K^\top Q\, x_q$.

    The response follows Eq. (69) of Zhang, Saxe & Latham. The tokens are the columns of X, the last
    token is the query $x_q$, and `rank` is the number of rows of K and Q.

    - `residual`: if True, the layer adds the last entries of the query to its outputs, as Eq. (69)
      does. In in-context regression the last entry of the query is zero.
    - `per_token`: if True, divide by the context length N, as Zhang et al. (2025b) do. Eq. (69) as
      printed does not divide by N. Training without the factor 1/N from scale ε with learning rate
      η is equivalent to training with the factor from scale $N^{1/3}ε$ with learning rate
      $N^{2/3}η$.

    **Example:**

    >>> from festina.networks import LinearAttentionUnit
    >>> unit = LinearAttentionUnit(rank=2)
    >>> unit.weight_shape((3, 9))  # key and query, rank, embedding
    (2, 2, 3)
    >>> unit.degree  # in the input
    3
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
        """Return KᵀQ."""
        # `split` instead of indexing, whose gradient would be an array padded with zeros.
        keys, queries = jnp.split(u, 2)
        return jnp.sum(keys[0, :, :, None] * queries[0, :, None], axis=0)


@dataclass(frozen=True)
class SoftmaxAttentionUnit(_Head):
    r"""Head of softmax attention, $v\, X\,\mathrm{softmax}(X^\top K^\top Q\,x_q)$.

    The tokens are the columns of X, the last token is the query $x_q$, and `rank` is the number of
    rows of K and Q. If `residual` is True, the layer adds the last entries of the query to its
    outputs.

    **Example:**

    >>> from festina.networks import SoftmaxAttentionUnit
    >>> unit = SoftmaxAttentionUnit(rank=2)
    >>> unit.weight_shape((3, 9)), unit.fixed_features
    ((2, 2, 3), False)
    """

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
"""A unit, or the activation of a neuron: a name, an `Activation` or a scalar JAX function."""


def unit_of(phi: UnitLike) -> AbstractUnit:
    """Return a unit unchanged, or the neuron with a given activation."""
    return phi if isinstance(phi, AbstractUnit) else NeuronUnit(phi)


def _project(
    psi: Float[Array, "sample *features"], c: Float[Array, "*coefficients_and_units"], axes: int
) -> Float[Array, "sample *read_and_units"]:
    """Return ⟨ψ, c⟩, summed over the last `axes` axes of ψ, which are the first axes of c."""
    kept, units = psi.shape[: psi.ndim - axes], c.shape[axes:]
    size = math.prod(c.shape[:axes])
    return mix(psi.reshape(-1, size), c.reshape(size, *units)).reshape(*kept, *units)
