"""Represent the weights of a model as one vector, for PyTorch, JAX and NumPy alike."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

_Operand: TypeAlias = Any
"""A number, or an array of the same library."""


@runtime_checkable
class Array(Protocol):
    """Common interface of PyTorch tensors and of JAX or NumPy arrays.

    Methods are annotated with `Any` although they return such arrays, because type checkers would
    otherwise follow all overloads of NumPy.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __add__(self, other: _Operand, /) -> Any: ...
    def __sub__(self, other: _Operand, /) -> Any: ...
    def __mul__(self, other: _Operand, /) -> Any: ...
    def __truediv__(self, other: _Operand, /) -> Any: ...
    def __rtruediv__(self, other: _Operand, /) -> Any: ...
    def __pow__(self, other: _Operand, /) -> Any: ...
    def __float__(self) -> float: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def sum(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Vector:
    """A vector in parts, each on its own device; only `dot` transfers numbers from a device."""

    parts: tuple[Array, ...]

    def __add__(self, other: "Vector") -> "Vector":
        return self.with_(lambda a, b: a + b, other)

    def __sub__(self, other: "Vector") -> "Vector":
        return self.with_(lambda a, b: a - b, other)

    def __mul__(self, by: "float | Vector") -> "Vector":
        """Multiply by a number, or entry by entry."""
        if isinstance(by, Vector):
            return self.with_(lambda a, b: a * b, by)
        return Vector(tuple(a * by for a in self.parts))

    def with_(self, what: Callable[..., Array], *others: "Vector") -> "Vector":
        """Return `what` applied to each part and the corresponding parts of `others`."""
        them = (other.parts for other in others)
        return Vector(tuple(what(*each) for each in zip(self.parts, *them, strict=True)))

    def scaled(self, factors: Iterable[float]) -> "Vector":
        """Return the vector with each part multiplied by its own factor."""
        return Vector(tuple(a * c for a, c in zip(self.parts, factors, strict=True)))

    def dot(self, other: "Vector") -> float:
        products = zip(self.parts, other.parts, strict=True)
        return sum(float((a * b).sum()) for a, b in products)

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(math.prod(a.shape) for a in self.parts)

    @property
    def square(self) -> float:
        return self.dot(self)

    @property
    def norm(self) -> float:
        return self.square**0.5


def combination(*terms: tuple[float, Vector]) -> Vector:
    """Return Σ c v over the terms with non-zero c."""
    weights, vectors = zip(*(term for term in terms if term[0]), strict=True)
    summed = lambda *parts: sum(c * part for c, part in zip(weights, parts, strict=True))
    return vectors[0].with_(summed, *vectors[1:])
