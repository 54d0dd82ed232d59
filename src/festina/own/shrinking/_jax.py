"""A network of JAX: any tree of weights and a function of it, read from the program it makes.

JAX has no hooks, but it shows the program of a function: there, products with weights are found
whoever wrote them (a dict of arrays, Equinox, Flax), and what they are given is taken down.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import Float

from ..._precision import float64
from ._layers import AbstractModel, Hidden, Part, Rows, Weights, is_hidden

_PROBES = 16
_INSIDE = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # what programs in programs are called


class Seen(NamedTuple):
    """A number of a program: its value, and whose weights or product with weights it is.

    `axes` are those of the weights that its own stand for.
    """

    value: Any
    weight: str | None = None
    product: str | None = None
    axes: tuple[int, ...] = ()


class Product(NamedTuple):
    """Weights that read something, along an axis, and make units along another."""

    name: str
    reads: int
    makes: int


class JaxModel(AbstractModel):
    """A tree of weights, and `apply(tree, x)`; left out, the tree is called with one example.

    What changes its shape compiles anew: narrow networks are run as wide ones with units of zeros.
    """

    @float64
    def __init__(self, model: Any, x: Any, apply: Callable[..., Any] | None = None):
        leaves, self._tree = jax.tree.flatten_with_path(model)
        self._names = [jax.tree_util.keystr(path) for path, _ in leaves]
        self._leaves = [leaf for _, leaf in leaves]
        self.weights = {
            name: np.asarray(leaf, float)
            for name, leaf in zip(self._names, self._leaves, strict=True)
            if isinstance(leaf, jax.Array | np.ndarray) and np.issubdtype(leaf.dtype, np.floating)
        }
        self._apply = apply or (lambda tree, x: jax.vmap(tree)(x))
        given = np.asarray(x)
        if given.ndim == 0 or len(given) < 2 or given.dtype.kind not in "fiub":
            raise ValueError(
                f"`x` must be an array of two or more samples, got {given.dtype} {given.shape}."
            )
        self.taken = np.linspace(0, len(given) - 1, min(len(given), 4096)).round().astype(int)
        kept = given[self.taken]
        self._x = kept.astype(float) if kept.dtype.kind == "f" else kept
        self.samples = len(self._x)
        self._products: list[Product] = []
        self._biases: dict[str, str] = {}
        try:
            here = self.outputs(self.weights, slice(64))
        except TypeError as error:
            what = str(error).splitlines()[0]
            raise ValueError(f"`model` does not take inputs {self._x.shape[1:]}: {what}") from error
        if not np.isfinite(here).all():
            raise ValueError("The outputs of `model` are not finite: see to its weights and `x`.")
        self._run(self.weights, self._x[:2], note=True)
        self.hidden = tuple(self._found())

    @float64
    def outputs(self, weights: Weights, rows: Rows) -> Float[np.ndarray, "sample number"]:
        x = self._x[rows]
        return np.asarray(self._compiled(self._wide(weights), x)[0], float).reshape(len(x), -1)

    @float64
    def reads(
        self, weights: Weights, rows: Rows, layers: tuple[Hidden, ...]
    ) -> dict[str, np.ndarray]:
        _, found = self._compiled(self._wide(weights), self._x[rows])
        read = {}
        for layer in layers:
            each = np.asarray(found[layer.reader.name])
            few = weights[layer.reader.name].shape[layer.reader.axis]
            read[layer.name] = each.reshape(-1, each.shape[-1])[:, :few]
        return read

    @float64
    def contributions(self, rows: Rows) -> dict[str, np.ndarray]:
        x = self._x[rows]
        _, read = self._compiled(self.weights, x)
        zero = {layer.reader.name: jnp.zeros_like(read[layer.reader.name]) for layer in self.hidden}
        y, pull = jax.vjp(jax.jit(lambda nudges: self._run(self.weights, x, nudges)[0]), zero)
        y_size = y[0].size
        few = y_size <= _PROBES
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, y_size))
        probes = np.eye(y_size) if few else signs / np.sqrt(_PROBES)
        total = {layer.name: np.zeros(layer.units) for layer in self.hidden}
        for probe in probes:
            slopes = pull(jnp.broadcast_to(probe.reshape(y.shape[1:]), y.shape))[0]
            for layer in self.hidden:
                part = np.asarray(slopes[layer.reader.name] * read[layer.reader.name])
                part = part.reshape(-1, layer.units, layer.block).sum(-1)
                total[layer.name] += (part**2).sum(0) / len(x)
        return total

    @float64
    def slope(
        self, weights: Weights, rows: Rows, target: Any, loss: Callable[..., Any] | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        goal = target if loss is None else target[rows]
        value, slopes = self._slope(self._wide(weights), self._x[rows], jnp.asarray(goal), loss)
        return float(value), {
            name: np.asarray(slopes[name])[tuple(map(slice, each.shape))]
            for name, each in weights.items()
        }

    def _wide(self, weights: Weights) -> dict[str, np.ndarray]:
        """With units of zeros, which nobody reads, up to the shapes of the wide network."""
        found = {}
        for name, each in weights.items():
            sizes = zip(self.weights[name].shape, each.shape, strict=True)
            found[name] = np.pad(each, [(0, full - few) for full, few in sizes])
        return found

    @functools.partial(jax.jit, static_argnums=0)
    def _compiled(self, weights: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        return self._run(weights, x)

    @functools.partial(jax.jit, static_argnums=(0, 4))
    def _slope(self, weights: Any, x: Any, target: Any, loss: Any) -> Any:
        def of(weights: Any) -> Any:
            y = self._call(weights, x)
            if loss is not None:
                return loss(y, target)
            return 0.5 * jnp.sum((y.reshape(target.shape) - target) ** 2) / len(target)

        return jax.value_and_grad(of)(weights)

    def targets(self, y: Any) -> np.ndarray:
        found = np.asarray(y)
        if found.ndim == 0 or len(found) <= self.taken[-1]:
            raise ValueError(
                f"`y` must hold one target for each of the inputs, got shape {found.shape}."
            )
        kept = found[self.taken]
        return kept.astype(float) if kept.dtype.kind == "f" else kept

    def built(self, weights: Weights) -> Any:
        leaves = [
            jnp.asarray(weights[name], leaf.dtype) if name in weights else leaf
            for name, leaf in zip(self._names, self._leaves, strict=True)
        ]
        model = jax.tree.unflatten(self._tree, leaves)
        sized = lambda node: hasattr(node, "out_features") and hasattr(node, "weight")
        for node in filter(sized, jax.tree.leaves(model, is_leaf=sized)):
            for name, size in zip(("out_features", "in_features"), node.weight.shape, strict=False):
                if type(getattr(node, name)) is int:  # a layer says how wide it is
                    object.__setattr__(node, name, size)
        return model

    def _call(self, weights: Any, x: Any) -> Any:
        leaves = [
            weights.get(name, leaf) for name, leaf in zip(self._names, self._leaves, strict=True)
        ]
        return self._apply(jax.tree.unflatten(self._tree, map(_device, leaves)), jnp.asarray(x))

    def _found(self) -> Iterator[Hidden]:
        taken: set[str] = set()
        for at, reader in enumerate(self._products):
            for maker in reversed(self._products[:at]):
                units = self.weights[maker.name].shape[maker.makes]
                block, left = divmod(self.weights[reader.name].shape[reader.reads], units)
                if left or maker.name in taken or maker.name == reader.name:
                    continue
                parts = [Part(maker.name, maker.makes)]
                if maker.name in self._biases:
                    parts.append(Part(self._biases[maker.name]))
                layer = Hidden(
                    maker.name,
                    units,
                    tuple(parts),
                    Part(reader.name, reader.reads),
                    self._biases.get(reader.name),
                    block,
                )
                if is_hidden(self, layer):
                    taken.add(maker.name)
                    yield layer
                    break

    # The program.

    def _run(
        self, weights: Any, x: Any, nudges: dict[str, Any] | None = None, note: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        """Outputs, and what each product with weights is given, nudged if asked."""
        names = list(weights)
        flat = [jnp.asarray(weights[name]) for name in names]
        call = lambda *arrays: self._call(dict(zip(names, arrays[:-1], strict=True)), arrays[-1])
        program = jax.make_jaxpr(call)(*flat, x)
        inputs = [
            Seen(array, weight=name, axes=tuple(range(array.ndim)))
            for name, array in zip(names, flat, strict=True)
        ]
        read: dict[str, Any] = {}
        (out,) = self._evaluate(
            program.jaxpr, program.consts, [*inputs, Seen(jnp.asarray(x))], read, nudges or {}, note
        )
        return out.value, read

    def _evaluate(
        self,
        program: Any,
        constants: Any,
        inputs: list[Seen],
        read: dict[str, Any],
        nudges: dict[str, Any],
        note: bool,
    ) -> list[Seen]:
        known: dict[Any, Seen] = dict(zip(program.invars, inputs, strict=True))
        known |= zip(program.constvars, map(Seen, constants), strict=True)
        look = lambda atom: Seen(atom.val) if isinstance(atom, Literal) else known[atom]
        for step in program.eqns:
            given = [look(atom) for atom in step.invars]
            inside = next((step.params[name] for name in _INSIDE if name in step.params), None)
            if inside is not None and step.primitive.name not in ("scan", "while", "cond"):
                body, held = getattr(inside, "jaxpr", inside), getattr(inside, "consts", ())
                out = self._evaluate(body, held, given, read, nudges, note)
            else:
                given = self._taken_down(step, given, read, nudges, note)
                done = step.primitive.bind(*(each.value for each in given), **step.params)
                done = done if step.primitive.multiple_results else [done]
                out = [self._origin(step, given, each, note) for each in done]
            known |= zip(step.outvars, out, strict=True)
        return [look(atom) for atom in program.outvars]

    def _taken_down(
        self, step: Any, given: list[Seen], read: Any, nudges: Any, note: bool
    ) -> list[Seen]:
        """Notes what is multiplied with weights along one axis."""
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
        if len(weight.axes) == 2 and note:
            self._products.append(Product(name, axis, 1 - axis))
        value = jnp.moveaxis(other.value, along, -1)
        if name in nudges:
            value = value + nudges[name]
            other = other._replace(value=jnp.moveaxis(value, -1, along))
        read[name] = value
        return [weight, other] if side == 0 else [other, weight]

    def _origin(self, step: Any, given: list[Seen], value: Any, note: bool) -> Seen:
        """Whose weights these are still, or whose product; a bias is what is added to one."""
        first = given[0] if given else Seen(None)
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
                pairs = itertools.permutations(given, 2)
                for product, bias in pairs:
                    if note and product.product and bias.weight and len(bias.axes) == 1:
                        self._biases.setdefault(product.product, bias.weight)
        return Seen(value)


def _device(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
