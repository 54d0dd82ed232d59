"""Replace many units by few: merge units by their responses, and refit the readout."""

import functools
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ..theory.saddles._kinds import Kind
from ._layers import AbstractModel, Hidden, Weights, close, rms
from ._samples import Samples
from ._ward import Merges, ward

Widths = Mapping[str, int]
Way = tuple[np.ndarray, np.ndarray]
"""Two arrays `(few, unit)`: the combination of units that makes each of the few units, and the
signs of the units that it replaces."""

Reading = Literal["anew", "in sum", "in proportion"]

_RIDGE = 1e-10
"""Ridge as a fraction of the mean square of responses, because copies of a unit make least squares
singular."""

_REFINED = 2  # refinements of the solution, which remove the error of the ridge except for copies

_ALIKE = 0.1  # units whose responses differ by less than this fraction are copies
_CLOSE = 1e-4  # relative accuracy of measured properties of units in single precision


class Census(NamedTuple):
    """Statistics of the units of a layer.

    - `cosine`: cosines between the responses of units on the data.
    - `size`: root mean square of the response of each unit.
    - `weight`: contribution of each unit to the squared outputs.
    - `norm`: product of the norms of the input and output weights of each unit.
    - `merges`: order in which units are merged.
    """

    cosine: Float[np.ndarray, "unit unit"]
    size: Float[np.ndarray, " unit"]
    weight: Float[np.ndarray, " unit"]
    norm: Float[np.ndarray, " unit"]
    merges: Merges


class Merging:
    """Make narrow networks from a wide network and data."""

    def __init__(self, network: AbstractModel, fit: Samples):
        self.network, self.fit = network, fit
        self.full = {layer.name: layer.units for layer in network.hidden}
        self.reads = network.reads(network.weights, fit, network.hidden)
        weights = network.contributions(fit)
        self.census = {
            layer.name: _census(layer, network.weights, self.reads[layer.name], weights[layer.name])
            for layer in network.hidden
        }
        self._leading: dict[str, np.ndarray] = {}

    def costs(self) -> list[tuple[float, str]]:
        """Return for each merge its effect on the outputs and its layer, smallest effect first."""
        rising = {name: np.maximum.accumulate(c.merges.cost) for name, c in self.census.items()}
        return sorted((float(cost), name) for name, costs in rising.items() for cost in costs)

    def merged(self, widths: Widths) -> dict[str, np.ndarray]:
        """Return weights with units merged layer by layer.

        Linear units are also replaced by units along leading directions, if these fit better.
        """
        turned = lambda layer, few: [*self._merged(layer, few), self._directions(layer, few)]
        return self._narrowed(widths, turned if "linear" in self.kinds else self._merged)

    def pruned(self, widths: Widths) -> dict[str, np.ndarray]:
        """Return refitted weights of the units with the largest product of both weight norms."""
        return self._narrowed(
            widths, lambda layer, few: [_chosen(self.census[layer.name].norm, few)]
        )

    def embedded(self, widths: Widths, kind: Kind) -> dict[str, np.ndarray]:
        """Return the narrow network that the wide network embeds at a saddle of one kind.

        The kinds are those of Theorem 1 of the saddle-to-saddle paper. For "zero", silent units are
        left out. For "equal", the readout of a copy is the sum of the readouts of all copies. For
        "proportional", this sum is weighted by the ratios of the units. For "linear", the readout
        is refitted, also for linear units along leading directions.
        """
        match kind:
            case "zero":
                loudest = lambda layer, few: [_chosen(self.census[layer.name].weight, few)]
                return self._narrowed(widths, loudest, "in sum")
            case "equal":
                return self._narrowed(widths, self._copies, "in sum")
            case "proportional":
                return self._narrowed(widths, self._merged, "in proportion")
        return self.merged(widths)

    @functools.cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of embedding that the units of all layers admit, known or measured on the data."""
        by_layer = [self._admissible(layer) for layer in self.network.hidden]
        return tuple(kind for kind in self.network.kinds if all(kind in each for each in by_layer))

    def _admissible(self, layer: Hidden) -> tuple[Kind, ...]:
        if self.network.kinds_are_known:
            return self.network.kinds
        alone, here = np.eye(layer.units), self.reads[layer.name]
        turned = np.roll(alone, 1, axis=0)

        def read(shares: np.ndarray) -> np.ndarray:
            made = layer.combined(self.network.weights, shares)
            return self.network.reads(made, self.fit, (layer,))[layer.name]

        silent = read(0.0 * alone)
        silent = silent - (
            silent.mean(0) if layer.bias else 0.0
        )  # a bias absorbs constant responses
        sum_of_two = here + here @ np.kron(turned, np.eye(layer.block)).T
        allowed: dict[Kind, bool] = {
            "zero": rms(silent) <= _CLOSE * rms(here),
            "equal": True,
            "proportional": layer.free and close(2.0 * here, read(2.0 * alone), _CLOSE),
            "linear": layer.free and close(sum_of_two, read(alone + turned), _CLOSE),
        }
        return tuple(kind for kind, fits in allowed.items() if fits)

    def _copies(self, layer: Hidden, few: int) -> list[Way]:
        """Return the most typical unit of each cluster, which replaces units that respond alike."""
        way, stands = self._merged(layer, few)[0]
        census, typical = self.census[layer.name], way.argmax(1)
        size, chosen = census.size, census.size[typical][:, None]
        apart = size**2 + chosen**2 - 2 * np.abs(census.cosine[typical]) * size * chosen
        return [(way, stands * (apart <= _ALIKE**2 * np.maximum(size, chosen) ** 2))]

    def _directions(self, layer: Hidden, few: int) -> Way:
        """Return linear units along the leading singular directions of the reader's sums."""
        if layer.name not in self._leading:
            reader = self.network.weights[layer.reader.name]
            flat = np.moveaxis(reader, layer.reader.axis, 0).reshape(layer.units, -1)
            reads = self.reads[layer.name].reshape(-1, layer.units, layer.block)
            alike = np.moveaxis(reads, 1, -1).reshape(-1, layer.units)
            leading = np.linalg.svd(alike @ flat, full_matrices=False)[2]
            self._leading[layer.name] = leading @ flat.T
        shares, leading = np.zeros((few, layer.units)), self._leading[layer.name][:few]
        shares[: len(leading)] = leading
        return shares, shares

    def drawn(self, widths: Widths, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return refitted weights of units drawn in proportion to their contributions."""

        def some(layer: Hidden, few: int) -> list[Way]:
            weight = self.census[layer.name].weight
            likely = weight + 1e-9 * (weight.sum() or 1.0)
            chosen = rng.choice(layer.units, few, replace=False, p=likely / likely.sum())
            alone = np.eye(layer.units)[np.sort(chosen)]
            return [(alone, alone)]

        return self._narrowed(widths, some)

    def _merged(self, layer: Hidden, few: int) -> list[Way]:
        """Return possible replacements of each cluster: its most typical unit, or means of weights.

        One mean is over the units themselves, which is right for copies. The other mean is over
        units scaled to responses of equal size, which is right for homogeneous φ. The replacement
        with the smallest error on the data is used. Heads are never averaged.
        """
        census = self.census[layer.name]
        label, sign = census.merges.clusters(few)
        members = label == np.arange(few)[:, None]
        weight = np.maximum(census.weight, 1e-300)
        near = np.abs((members * (sign * weight)) @ census.cosine)
        typical = np.where(members, near, -1.0).argmax(1)
        stands = members * sign * sign[typical][:, None]  # a selected unit keeps its sign
        ways = [np.eye(layer.units)[typical]]
        if layer.free:
            share = stands * weight
            of_one = share / np.where(census.size > 0, census.size, 1.0)
            ways += [each / np.abs(each).sum(1, keepdims=True) for each in (share, of_one)]
        return [(way, stands) for way in ways]

    def _narrowed(
        self, widths: Widths, shares: Callable[[Hidden, int], list[Way]], reading: Reading = "anew"
    ) -> dict[str, np.ndarray]:
        weights = dict(self.network.weights)
        if widths == self.full:
            return weights
        for layer in self.network.hidden:
            few = widths[layer.name]
            alone = np.eye(few)
            ways = [(alone, alone)] if few == layer.units else shares(layer, few)
            tried = [self._with(weights, layer, *way, reading) for way in ways]
            weights = min(tried, key=lambda each: each[0])[1]
        return weights

    def _with(
        self,
        weights: Weights,
        layer: Hidden,
        shares: np.ndarray,
        stands: np.ndarray,
        reading: Reading,
    ) -> tuple[float, dict[str, np.ndarray]]:
        r"""Return the error in the reader's sums with few units in one layer, and the weights.

        The reader's sums are $RV$ for responses R and readout V. With the responses $R'$ of the few
        units, and a constant column if the reader has a bias, the best readout is
        $V' = R'^+ R V$ for any V, where $R'^+$ is the pseudoinverse.
        """
        found = layer.combined(weights, shares)
        held = weights[
            layer.reader.name
        ]  # its other axis may be the units of the next layer, still wide
        many = self.reads[layer.name]
        wide = self.network.weights
        same = layer.block == 1 and all(weights[name] is wide[name] for name in wide)
        if same and np.array_equal(shares, np.eye(layer.units)[shares.argmax(1)]):
            few = many[:, shares.argmax(1)]  # selected units have known responses
        else:
            few = self.network.reads(found, self.fit, (layer,))[layer.name]
        bias = layer.bias if reading == "anew" else None
        if bias:
            few = np.column_stack((few, np.ones(len(few))))
        mixing = _mixing(few, many, np.kron(stands, np.eye(layer.block)), reading)
        reader = np.moveaxis(self.network.weights[layer.reader.name], layer.reader.axis, 0)
        flat = reader.reshape(many.shape[1], -1)
        sums = many @ flat - few @ (mixing @ flat)
        if bias:
            shift = np.tensordot(mixing[-1], np.moveaxis(held, layer.reader.axis, 0), 1)
            found[bias] = found[bias] + shift.reshape(len(shift), -1).sum(1)
            mixing = mixing[:-1]
        found[layer.reader.name] = layer.reader.read(held, mixing)
        return float(np.sum(sums**2)), found


def _mixing(
    few: np.ndarray, many: np.ndarray, stands: np.ndarray, reading: Reading
) -> Float[np.ndarray, "few many"]:
    """Return the coefficients that express the response of each unit by those of the few units."""
    if reading == "in sum":
        return stands
    gram, cross = few.T @ few, few.T @ many
    power = np.where(gram.diagonal() > 0, gram.diagonal(), 1.0)[:, None]
    if reading == "in proportion":
        return (stands != 0) * cross / power
    scale = 1 / np.sqrt(power)
    square, right = gram * scale * scale.T, scale * cross
    inverse = np.linalg.inv(square + _RIDGE * np.eye(len(gram)))
    found = inverse @ right
    for _ in range(_REFINED):
        found += inverse @ (right - square @ found)
    return scale * found


def _census(layer: Hidden, weights: Weights, reads: np.ndarray, weight: np.ndarray) -> Census:
    reader = np.moveaxis(weights[layer.reader.name], layer.reader.axis, 0)
    reader = reader.reshape(layer.units * layer.block, -1)
    gram = reads.T @ reads / len(reads)
    # Values of different heads have different axes, so their contributions to sums are compared.
    if layer.counted:
        gram = gram * (reader @ reader.T)
    blocks = gram.reshape(layer.units, layer.block, layer.units, layer.block)
    gram = blocks.sum((1, 3)) if layer.counted else np.einsum("iaja->ij", blocks)
    size = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    inverse = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
    cosine = gram * inverse[:, None] * inverse
    made = np.zeros(layer.units)
    for part in layer.makers:
        front = np.moveaxis(weights[part.name], part.axis, 0)
        made += np.square(front.reshape(part.outer, layer.units, -1)).sum((0, 2))
    read = np.square(reader).reshape(layer.units, -1).sum(1)
    return Census(cosine, size, weight, np.sqrt(made * read), ward(cosine, weight))


def _chosen(score: np.ndarray, few: int) -> Way:
    """Return the units with the highest scores, each as a replacement of itself."""
    alone = np.eye(len(score))[np.sort(np.argsort(-score, kind="stable")[:few])]
    return alone, alone
