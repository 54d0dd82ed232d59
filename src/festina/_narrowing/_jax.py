"""Models in JAX: any tree of weights with a function of the tree, analysed by its JAX program."""

import functools
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._precision import float64
from .._types import Array
from ._jax_program import Product, Program, Seen
from ._layers import AbstractModel, Hidden, Loss, Network, Part, Pull, Reads, Sloped, Weights
from ._pytorch import Function
from ._samples import Data, Samples, arrays, called
from ._trees import Tree, is_real


class JaxModel(AbstractModel):
    """A tree of weights and `apply(tree, x)`; without `apply` the tree is called with one example.

    A new shape would need a new compilation, so narrow networks are run as wide networks with zero
    units.
    """

    def __init__(self, model: object, x: Data, y: Data = None, apply: Function | None = None):
        self.original, self._tree = model, Tree(model)
        arrays_in = any(hasattr(leaf, "dtype") for leaf in self._tree.leaves.values())
        if isinstance(model, type | str) or not arrays_in or not (callable(model) or apply):
            raise ValueError(
                "`model` must be a `torch.nn.Module`, or a tree of JAX arrays that can be called "
                "with one example (Equinox) or comes with `apply=`, a function of tree and inputs; "
                f"got {type(model).__name__}."
            )
        self.weights = {
            name: np.asarray(leaf, float)
            for name, leaf in self._tree.leaves.items()
            if isinstance(leaf, jax.Array | np.ndarray) and is_real(leaf)
        }
        self.trained = frozenset(self.weights)
        self._apply = apply or (lambda tree, *x, **named: jax.vmap(tree)(*x, **named))
        self.samples = arrays(x, y, place=_placed)
        self.notes = self.samples.notes
        self._compiled = jax.jit(lambda weights, x: self._run(weights, x)[:2])
        self._sloped: tuple[Function | None, Function] = None, self._graded(_squared)

    @float64
    def outputs(self, weights: Weights, samples: Samples) -> Float[np.ndarray, "sample number"]:
        y = self._compiled(self._wide(weights), samples.x)[0]
        return np.asarray(y, float).reshape(len(y), -1)

    @float64
    def reads(self, weights: Weights, samples: Samples, layers: tuple[Hidden, ...]) -> Reads:
        _, found = self._compiled(self._wide(weights), samples.x)
        few = {h.name: weights[h.reader.name].shape[h.reader.axis] for h in layers}
        return {h.name: _flat(found[h.reader.name])[:, : few[h.name]] for h in layers}

    def batches(self, samples: Samples) -> tuple[Samples]:
        return (samples,)  # one batch, because another size would compile again

    def pull(self, samples: Samples) -> Pull:
        _, read = self._compiled(self.weights, samples.x)
        zero = {layer.reader.name: jnp.zeros_like(read[layer.reader.name]) for layer in self.hidden}
        nudged = lambda nudges: self._run(self.weights, samples.x, nudges)[0]
        y, pull = jax.vjp(jax.jit(nudged), zero)
        by_layer = lambda found: {h.name: _flat(found[h.reader.name]) for h in self.hidden}
        along = lambda probe: jnp.broadcast_to(probe.reshape(y.shape[1:]), y.shape)
        slopes = lambda probe: by_layer(pull(along(probe))[0])
        return Pull(by_layer(read), y[0].size, slopes)

    contributions = float64(AbstractModel.contributions)

    @float64
    def slope(self, weights: Weights, samples: Samples, loss: Loss | None = None) -> Sloped:
        if loss is not self._sloped[0]:
            self._sloped = loss, self._graded(loss or _squared)
        value, slopes = self._sloped[1](self._wide(weights), samples.x, samples.y)
        return float(value), {
            name: np.asarray(slopes[name])[tuple(map(slice, each.shape))]
            for name, each in weights.items()
        }

    def computed(self, model: Network, samples: Samples) -> Float[np.ndarray, "sample number"]:
        x = jax.tree.map(jnp.asarray, samples.x)
        y = called(functools.partial(self._apply, model), x)
        return np.asarray(y, float).reshape(len(y), -1)

    def _graded(self, loss: Loss) -> Function:
        return jax.jit(jax.value_and_grad(lambda weights, x, y: loss(self._call(weights, x), y)))

    def _wide(self, weights: Weights) -> dict[str, np.ndarray]:
        """Return weights padded with zero units to the shapes of the wide network."""
        found = {}
        for name, each in weights.items():
            sizes = zip(self.weights[name].shape, each.shape, strict=True)
            found[name] = np.pad(each, [(0, full - few) for full, few in sizes])
        return found

    def built(self, weights: Weights) -> Network:
        was = self._tree.leaves
        kind = lambda name: np if isinstance(was[name], np.ndarray) else jnp
        model = self._tree.replaced(
            {name: kind(name).asarray(each, was[name].dtype) for name, each in weights.items()}
        )
        sized = lambda node: hasattr(node, "out_features") and hasattr(node, "weight")
        for node in filter(sized, jax.tree.leaves(model, is_leaf=sized)):
            for name, size in zip(("out_features", "in_features"), node.weight.shape, strict=False):
                if (
                    type(getattr(node, name)) is int
                ):  # an attribute that states the width of a layer
                    object.__setattr__(node, name, size)
        return model

    def _call(self, weights: Mapping[str, Array], x: Data) -> Data:
        rest = {n: a for n, a in self._tree.leaves.items() if isinstance(a, np.ndarray)}
        tree = self._tree.replaced({**jax.tree.map(jnp.asarray, rest), **weights})
        return called(functools.partial(self._apply, tree), x)

    @float64
    def candidates(self) -> Iterator[Iterator[Hidden]]:
        *_, program = self._run(self.weights, self.samples.part(slice(2)).x)
        names = [each.name for each in program.products]
        once = [each for each in program.products if names.count(each.name) == 1]
        read_by = lambda at: self._read_by(once[at], once[:at], program.biases)
        return map(read_by, range(len(once)))

    def _read_by(
        self, reader: Product, before: list[Product], biases: dict[str, str]
    ) -> Iterator[Hidden]:
        read, bias = Part(reader.name, reader.reads), biases.get(reader.name)
        for maker in reversed(before):
            units = self.weights[maker.name].shape[maker.makes]
            block, left = divmod(self.weights[reader.name].shape[reader.reads], units)
            parts = [Part(maker.name, maker.makes)]
            parts += [Part(biases[maker.name])] if maker.name in biases else []
            if not left:
                yield Hidden(maker.name, units, tuple(parts), read, bias, block)

    def _run(
        self, weights: Mapping[str, Array], x: Data, nudges: dict[str, Array] | None = None
    ) -> tuple[Array, dict[str, jax.Array], Program]:
        """Return outputs, and the input of each product with weights, after optional nudges."""
        flat = {name: jnp.asarray(each) for name, each in weights.items()}
        call = lambda arrays, x: self._call(dict(zip(flat, arrays, strict=True)), x)
        shown = jax.make_jaxpr(call)(list(flat.values()), x)
        inputs = [Seen(each, name, None, tuple(range(each.ndim))) for name, each in flat.items()]
        inputs += [Seen(jnp.asarray(each)) for each in jax.tree.leaves(x)]
        program = Program(nudges or {})
        (out,) = program.run(shown.jaxpr, shown.consts, inputs)
        return out.value, program.read, program


def _placed(array: object) -> np.ndarray:
    return np.asarray(array, float) if is_real(array) else np.asarray(array)


def _squared(outputs: jax.Array, targets: Array) -> jax.Array:
    return 0.5 * jnp.sum((outputs.reshape(targets.shape) - targets) ** 2) / len(targets)


def _flat(array: Array) -> np.ndarray:
    return np.asarray(array).reshape(-1, array.shape[-1])
