"""Layers of festina as models: hidden units are known, and samples may have weights."""

import math
from collections.abc import Collection, Iterator
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Float

from .._objective import Data
from .._precision import float64
from ..networks import Layer
from ..tasks import AbstractTask, Task
from ..theory.saddles._kinds import admissible
from ..theory.saddles._loss_function import relative_slope, value_and_gradient
from ..theory.saddles._responses import respond
from ..theory.saddles._subgradient import gradients_around, smallest_subgradient
from ._layers import REST, AbstractModel, Hidden, Loss, Part, Pull, Reads, Sloped, Weights, relative
from ._samples import Samples, arrays

_NEAR = 1e-3  # relative distance by which descent with finite steps oscillates across a kink
_GRADIENTS = 2e7  # most numbers in the gradients around a point


class LayerModel(AbstractModel):
    """A `Layer` on a task, or on samples.

    If `exact`, the data are weighted points whose averages are those of the task, so no point is
    held out. Otherwise the data are samples as for any network. Rows are multiplied by the square
    root of their weights, so the mean squares of rows are averages over the task. The weights of
    the layer are flattened: `u` has the shape `(units, weights of a unit)`, and `v` has a row for
    each unit and each of its responses.
    """

    kinds_are_known = True

    def __init__(self, layer: Layer, task: AbstractTask, *, exact: bool, targets: bool):
        self.original, self.exact = layer, exact
        self._structure, self.kinds = layer.structure, admissible(layer.unit.algebra)
        if exact or not isinstance(task, Task):
            found = task.statistics(layer.unit)
            psi, y, weight = found.psi, found.y, found.weight
            self.size_of_targets = math.sqrt(found.power) if targets else 0.0
        else:
            taken = arrays(task.x, task.y)
            look = jax.vmap(lambda x: (layer.features(x), taken.y[0] * 0.0 + layer.skip(x)))
            psi, skip = map(np.asarray, float64(look)(taken.x))
            y, weight, self.notes = taken.y - skip, np.full(len(psi), 1 / len(psi)), taken.notes
        psi, y, weight = (each[weight > 0] for each in (psi, y, weight))
        root = np.sqrt(weight * len(weight))
        self.samples = Samples((psi, root), root[:, None] * y if targets else None)
        self.weights = self._flat(layer)
        self.trained = frozenset(self.weights)
        free, units = len(layer.unit.weight_axes) == 1, layer.width
        block = len(self.weights["v"]) // units
        self._layer = Hidden("units", units, (Part("u"),), Part("v"), block=block, free=free)

    def candidates(self) -> Iterator[tuple[Hidden]]:
        yield (self._layer,)

    def is_hidden(self, layer: Hidden) -> bool:
        return True

    @float64
    def reads(self, weights: Weights, samples: Samples, layers: tuple[Hidden, ...]) -> Reads:
        u, _ = self._parts(weights, padded=True)
        psi, root = samples.x
        found = np.asarray(respond(self.original.unit, psi, np.moveaxis(u, 0, -1)))
        rows = np.moveaxis(found.reshape(len(psi), -1, len(u)), 1, -1)[:, : len(weights["u"])]
        return {self._layer.name: root[:, None] * rows.reshape(len(psi), -1)}

    def outputs(self, weights: Weights, samples: Samples) -> Float[np.ndarray, "sample number"]:
        return self.reads(weights, samples, ())[self._layer.name] @ weights["v"]

    def batches(self, samples: Samples) -> tuple[Samples]:
        return (samples,)

    def pull(self, samples: Samples) -> Pull:
        along = lambda probe: {self._layer.name: self.weights["v"] @ probe}
        reads = self.reads(self.weights, samples, ())
        return Pull(reads, self._structure.value_shape[0], along)

    @float64
    def slope(self, weights: Weights, samples: Samples, loss: Loss | None = None) -> Sloped:
        """Return half the mean squared error, minus the part that least squares cannot remove."""
        psi, root = samples.x
        parts = self._parts(weights, padded=True)
        structure = replace(self._structure, width=len(parts[0]))
        column = structure.columns(*parts)[:, 0]
        data = Data(psi, samples.y / root[:, None], root**2 / len(root))
        value, gradient = value_and_gradient(structure, column, data)
        u, v = structure.arrays(np.asarray(gradient))
        wide = self._flat(Layer(u, v, self.original.unit))
        return float(value), {name: wide[name][: len(each)] for name, each in weights.items()}

    def motion(
        self, weights: Weights, free: Collection[str], loss: Loss | None, least: float
    ) -> tuple[float, float]:
        """Return loss and slope; at a kink, the slope of the smallest nearby subgradient."""
        here, slope = super().motion(weights, free, loss, least)
        shapes = [weights[name].shape for name in ("u", "v")]
        unit = np.concatenate(
            [
                np.repeat(np.arange(len(weights["u"])), size // len(weights["u"]))
                for size in map(math.prod, shapes)
            ]
        )
        few = gradients_around(unit) * unit.size <= _GRADIENTS
        if not (self.original.kinked and few and REST < slope < math.inf):
            return here, slope
        flat = lambda parts: np.concatenate([parts["u"].ravel(), parts["v"].ravel()])

        def function(column: np.ndarray) -> tuple[float, np.ndarray]:
            parts = np.split(column, [math.prod(shapes[0])])
            u, v = (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
            value, slopes = self.slope({"u": u, "v": v}, self.samples)
            return value, flat(slopes)

        point = flat(weights)
        shortest = smallest_subgradient(function, point, radius=_NEAR, block=unit)
        return here, relative(relative_slope(point, shortest), max(here, least))

    def built(self, weights: Weights) -> Layer:
        return self.original.with_parts(*self._parts(weights))

    def computed(self, model: Layer, samples: Samples) -> Float[np.ndarray, "sample number"]:
        return self.outputs(self._flat(model), samples)

    def _flat(self, layer: Layer) -> dict[str, np.ndarray]:
        u, v = (np.asarray(part, float) for part in layer.parts)
        outputs = self._structure.value_shape[0]
        read = np.moveaxis(v.reshape(len(v), outputs, -1), 1, 2)
        return {"u": u.reshape(len(u), -1), "v": read.reshape(-1, outputs)}

    def _parts(self, weights: Weights, *, padded: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return u and v in the shapes of a layer, if `padded` with zero units to a power of four.

        Padding saves compilations, because programs are compiled once for each shape.
        """
        width = len(weights["u"])
        if padded:
            width = min(self._structure.width, 4 ** math.ceil(math.log(max(width, 16), 4)))
        u = np.zeros((width, weights["u"].shape[1]))
        u[: len(weights["u"])] = weights["u"]
        v = np.zeros((width * self._layer.block, weights["v"].shape[1]))
        v[: len(weights["v"])] = weights["v"]
        values = np.moveaxis(v.reshape(width, self._layer.block, -1), 1, 2)
        shape, read = self._structure.weight_shape, self._structure.value_shape
        return u.reshape(width, *shape), values.reshape(width, *read)
