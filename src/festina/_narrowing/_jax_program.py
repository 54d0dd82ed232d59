"""Run the JAX program of a function, and record the inputs of its products with weights.

JAX has no hooks, but gives access to the program (jaxpr) of a function. Products with weights are
found in this program for any kind of model (a dict of arrays, Equinox, Flax).
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from .._types import Array

_INSIDE = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # names of programs inside programs


class Seen(NamedTuple):
    """A value in a program, and the name of the weights or of the product that it holds.

    `axes` are the axes of the weights that correspond to the axes of the value.
    """

    value: Array
    weight: str | None = None
    product: str | None = None
    axes: tuple[int, ...] = ()


class Product(NamedTuple):
    """Weights that read an input along one axis and make units along another axis."""

    name: str
    reads: int
    makes: int


class Program:
    """One run of a program, in which the inputs of products can be nudged.

    - `read`: input of each product with weights, by the name of the weights, with units along the
      last axis.
    - `products`: products with weights, in their order.
    - `biases`: bias of each product, by its name.
    """

    def __init__(self, nudges: Mapping[str, Array]):
        self._nudges = nudges
        self.read: dict[str, jax.Array] = {}
        self.products: list[Product] = []
        self.biases: dict[str, str] = {}

    def run(self, program: Jaxpr, constants: Iterable[Array], inputs: list[Seen]) -> list[Seen]:
        known: dict[Var, Seen] = dict(zip(program.invars, inputs, strict=True))
        known |= zip(program.constvars, map(Seen, constants), strict=True)
        look = lambda atom: Seen(atom.val) if isinstance(atom, Literal) else known[atom]
        for step in program.eqns:
            given = [look(atom) for atom in step.invars]
            inside = next((step.params[name] for name in _INSIDE if name in step.params), None)
            if inside is not None and step.primitive.name not in ("scan", "while", "cond"):
                body, held = getattr(inside, "jaxpr", inside), getattr(inside, "consts", ())
                out = self.run(body, held, given)
            else:
                given = self._taken_down(step, given)
                done = step.primitive.bind(*(each.value for each in given), **step.params)
                done = done if step.primitive.multiple_results else [done]
                out = [self._origin(step, given, each) for each in done]
            known |= zip(step.outvars, out, strict=True)
        return [look(atom) for atom in program.outvars]

    def _taken_down(self, step: JaxprEqn, given: list[Seen]) -> list[Seen]:
        """Record the input of a product with weights along one axis."""
        if step.primitive.name != "dot_general":
            return given
        contracted, batch = step.params["dimension_numbers"]
        sides = [side for side in (0, 1) if given[side].weight]
        if len(sides) != 1 or any(map(len, batch)) or len(contracted[0]) != 1:
            return given
        (side,) = sides
        weight, other = given[side], given[1 - side]
        name = str(weight.weight)
        axis, along = weight.axes[contracted[side][0]], contracted[1 - side][0]
        if len(weight.axes) == 2:
            self.products.append(Product(name, axis, 1 - axis))
        self.read[name] = jnp.moveaxis(other.value, along, -1)
        if name in self._nudges:
            value = self.read[name] + self._nudges[name]
            other = other._replace(value=jnp.moveaxis(value, -1, along))
        return [weight, other] if side == 0 else [other, weight]

    def _origin(self, step: JaxprEqn, given: list[Seen], value: jax.Array) -> Seen:
        """Return a value with the name of its weights or product, and record an added bias."""
        first = given[0] if given else Seen(value)
        match step.primitive.name:
            case "transpose" if first.weight or first.product:
                axes = tuple(first.axes[axis] for axis in step.params["permutation"] if first.axes)
                return first._replace(value=value, axes=axes)
            case "convert_element_type" | "copy":
                return first._replace(value=value)
            case "broadcast_in_dim" | "reshape" if first.weight and len(first.axes) == 1:
                return first._replace(value=value)
            case "dot_general":
                names = [each.weight for each in given if each.weight]
                return Seen(value, product=names[0] if len(names) == 1 else None)
            case "add" | "add_any":
                for product, bias in itertools.permutations(given, 2):
                    if product.product and bias.weight and len(bias.axes) == 1:
                        self.biases.setdefault(product.product, bias.weight)
        return Seen(value)
