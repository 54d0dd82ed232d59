"""Diagonal linear networks: each input has its own chain of two weights."""

from dataclasses import dataclass

from jaxtyping import Float

from .._checks import finite_array, misfit, whole_number
from .._precision import float64
from .._pytree import pytree
from .._types import Array, ArrayLike, Keys
from ._build import random_parts
from ._contract import mix
from ._network import AbstractNetwork
from ._structure import AbstractStructure
from ._view import Shape


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class DiagonalLinear(AbstractNetwork):
    r"""Diagonal linear network $x \mapsto \sum_i u_i v_i x_i$ with one output.

    Trained from small weights, the network learns one coordinate after the other and finds sparse
    solutions (Woodworth et al. 2020; Pesme & Flammarion 2023). `u` and `v` have shape
    `(*batch, input)`. The batch axes, if any, hold several networks, which are trained together.

    **Example:**

    >>> from festina.networks import diagonal_linear_from
    >>> network = diagonal_linear_from([1.0, 2.0], [3.0, 0.5])
    >>> network
    DiagonalLinear(2 inputs)
    >>> network.coefficients()
    array([3., 1.])
    """

    u: Float[Array, "..."]
    v: Float[Array, "..."]

    def _described(self) -> str:
        return f"{self.inputs} inputs"

    def hidden(self, x: Float[Array, " input"]) -> tuple[Float[Array, "..."], ...]:
        """Return u_i x_i for each coordinate i of one example."""
        return (self.u * self._checked(x),)

    def coefficients(self) -> Float[Array, "*batch input"]:
        """Return β = u∘v, the coefficients of the linear map that each network computes."""
        return self.u * self.v

    @property
    def inputs(self) -> int:
        return self.u.shape[-1]

    @property
    def outputs(self) -> int:
        return 1

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.u, self.v

    @property
    def part_axes(self) -> dict[str, tuple[str, ...]]:
        return {"u": ("input",), "v": ("input",)}

    def with_parts(self, *parts: Float[Array, "..."]) -> "DiagonalLinear":
        return DiagonalLinear(*parts)._labelled_like(self)

    @property
    def structure(self) -> "DiagonalStructure":
        return DiagonalStructure(self.inputs)

    def check_fit(self, input_shape: tuple[int, ...], outputs: int) -> None:
        if ((self.inputs,), 1) != (input_shape, outputs):
            raise misfit((self.inputs,), 1, input_shape, outputs)


@dataclass(frozen=True)
class DiagonalStructure(AbstractStructure):
    """A diagonal linear network without its weights, which compiled programs hold separately."""

    inputs: int

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        return (self.inputs,), (self.inputs,)

    def outputs(
        self, psi: Float[Array, "sample input"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        """Return Σ_i u_i v_i ψ_i for every sample."""
        u, v = parts
        return mix(psi, u * v)[:, None]


@float64
def diagonal_linear(inputs: int, *, scale: ArrayLike, key: Keys) -> DiagonalLinear:
    """Draw a diagonal linear network with weights from N(0, scale²).

    **Arguments:**

    - `inputs`: number of coordinates.
    - `scale`: standard deviation of the initial weights, or an array of standard deviations.
    - `key`: random key. An array of keys draws a batch of networks, one for each key. `scale` and
      `key` broadcast against each other: `scale[:, None]` with eight keys draws eight seeds for
      every scale.

    **Example:**

    >>> from festina.networks import diagonal_linear, seeds
    >>> networks = diagonal_linear(4, scale=1e-3, key=seeds(3))
    >>> networks.coefficients().shape  # (seed, input)
    (3, 4)
    """
    inputs = whole_number("inputs", inputs)
    parts, labels = random_parts(((inputs,),) * 2, scale, key)
    return DiagonalLinear(*parts).with_labels(labels)


def diagonal_linear_from(u: ArrayLike, v: ArrayLike) -> DiagonalLinear:
    """Return a diagonal linear network with the given weights `u` and `v`, `(*batch, input)`.

    Raises `ValueError` if their shapes differ or an entry is not finite.

    **Example:**

    >>> from festina.networks import diagonal_linear_from
    >>> diagonal_linear_from([1.0, 2.0], [3.0, 0.5]).predict([[1.0, 1.0]])
    array([[4.]])
    """
    u, v = finite_array("u", u), finite_array("v", v)
    if u.shape != v.shape or u.ndim < 1:
        raise ValueError(
            "`u` and `v` must be (*batch, input), with one entry each for every input, got shapes "
            f"{u.shape} and {v.shape}."
        )
    return DiagonalLinear(u, v)
