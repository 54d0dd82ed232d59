"""Few units for many: merged by what they respond, and read anew by least squares."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._layers import AbstractModel, Hidden, Rows, Weights
from ._ward import Merges, ward

Widths = Mapping[str, int]

_RIDGE = 1e-10
"""Of the mean square of responses: copies of a unit have no least squares of their own."""


class Census(NamedTuple):
    """What is known of the units of a layer.

    `cosine` of their responses on the data, `size` (root mean square) and `weight`, what each
    contributes to the squared outputs; `norm`, the product of the norms of its weights.
    """

    cosine: Float[np.ndarray, "unit unit"]
    size: Float[np.ndarray, " unit"]
    weight: Float[np.ndarray, " unit"]
    norm: Float[np.ndarray, " unit"]
    merges: Merges


class Merging:
    """A wide network on data, from which narrow ones are made."""

    def __init__(self, network: AbstractModel, fit: Rows):
        self.network, self.fit = network, fit
        self.reads = network.reads(network.weights, fit, network.hidden)
        weights = network.contributions(fit)
        self.census = {
            layer.name: _census(layer, network.weights, self.reads[layer.name], weights[layer.name])
            for layer in network.hidden
        }

    @property
    def full(self) -> dict[str, int]:
        return {layer.name: layer.units for layer in self.network.hidden}

    def costs(self) -> list[tuple[float, str]]:
        """What each merge costs at the outputs, and in which layer, the cheapest first."""
        found = []
        for name, census in self.census.items():
            found += [(cost, name) for cost in np.maximum.accumulate(census.merges.cost)]
        return sorted(found)

    def merged(self, widths: Widths) -> dict[str, np.ndarray]:
        """Units merged, layer after layer, each read anew."""
        return self._narrowed(widths, lambda layer, few: _representatives(layer, self, few))

    def pruned(self, widths: Widths) -> dict[str, np.ndarray]:
        """The units of the largest weights, the product of both norms, read anew."""
        return self._narrowed(
            widths, lambda layer, few: [_chosen(self.census[layer.name].norm, few)]
        )

    def _narrowed(
        self, widths: Widths, shares: Callable[[Hidden, int], list[np.ndarray]]
    ) -> dict[str, np.ndarray]:
        weights = dict(self.network.weights)
        for layer in self.network.hidden:
            few = widths[layer.name]
            ways = [np.eye(few)] if few == layer.units else shares(layer, few)
            tried = [self._read_anew(weights, layer, each) for each in ways]
            weights = min(tried, key=lambda each: each[0])[1]
        return weights

    def _read_anew(
        self, weights: Weights, layer: Hidden, shares: np.ndarray
    ) -> tuple[float, dict[str, np.ndarray]]:
        r"""Least squares of what the reader made of the many.

        The reader's sums are $RV$; with responses $R'$ of the few, and a constant where there is a
        bias to take it up, $V' = R'^+ R V$ comes nearest, whatever V is.
        """
        found = dict(weights)
        for part in layer.makers:
            found[part.name] = part.combined(found[part.name], shares)
        many = self.reads[layer.name]
        held = found[layer.reader.name]  # its rows may be units of a layer behind, still wide
        found[layer.reader.name] = layer.reader.read(held, np.kron(shares, np.eye(layer.block)))
        few = self.network.reads(found, self.fit, (layer,))[layer.name]
        if layer.bias:
            few = np.column_stack((few, np.ones(len(few))))
        gram = few.T @ few
        power = gram.diagonal()
        scale = 1 / np.sqrt(np.where(power > 0, power, 1.0))
        square = gram * scale[:, None] * scale + _RIDGE * np.eye(len(gram))
        mixing = scale[:, None] * np.linalg.solve(square, scale[:, None] * (few.T @ many))
        reader = self.network.weights[layer.reader.name]
        flat = np.moveaxis(reader, layer.reader.axis, 0).reshape(many.shape[1], -1)
        left = float(np.sum(((many - few @ mixing) @ flat) ** 2))
        if layer.bias:
            constant = np.tensordot(mixing[-1], np.moveaxis(held, layer.reader.axis, 0), 1)
            found[layer.bias] = found[layer.bias] + constant.reshape(len(constant), -1).sum(1)
            mixing = mixing[:-1]
        found[layer.reader.name] = layer.reader.read(held, mixing)
        return left, found


def _census(layer: Hidden, weights: Weights, reads: np.ndarray, weight: np.ndarray) -> Census:
    reader = weights[layer.reader.name]
    by_unit = np.moveaxis(reader, layer.reader.axis, 0).reshape(layer.units * layer.block, -1)
    gram = reads.T @ reads / len(reads)
    if layer.heads:  # values of heads have axes of their own: what they add to the sums is compared
        gram = gram * (by_unit @ by_unit.T)
    blocks = gram.reshape(layer.units, layer.block, layer.units, layer.block)
    gram = blocks.sum((1, 3)) if layer.heads else np.einsum("iaja->ij", blocks)
    size = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    inverse = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
    cosine = gram * inverse[:, None] * inverse
    squares = [
        np.square(np.moveaxis(weights[part.name], part.axis, 0))
        .reshape(part.outer, layer.units, -1)
        .sum((0, 2))
        for part in layer.makers
    ]
    read = np.square(by_unit).reshape(layer.units, -1).sum(1)
    norm = np.sqrt(np.sum(squares, 0) * read)
    return Census(cosine, size, weight, norm, ward(cosine, weight))


def _chosen(score: np.ndarray, few: int) -> np.ndarray:
    """The units of the highest scores, one for each row."""
    return np.eye(len(score))[np.sort(np.argsort(-score, kind="stable")[:few])]


def _representatives(layer: Hidden, merging: Merging, few: int) -> list[np.ndarray]:
    """What stands for each cluster: its most typical unit, or a mean of its weights.

    The mean is of units of one response each where φ is homogeneous, and of units as they are
    where copies are to be one; which of them is right the data say.
    """
    census = merging.census[layer.name]
    label, sign = census.merges.clusters(few)
    members = label == np.arange(few)[:, None]
    share = members * (sign * np.maximum(census.weight, 1e-300))
    typical = np.where(members, np.abs(share @ census.cosine), -1.0).argmax(1)
    ways = [np.eye(layer.units)[typical], _chosen(census.norm, few)]
    if layer.free:
        size = np.where(census.size > 0, census.size, 1.0)
        alike = share / np.abs(share).sum(1, keepdims=True)
        one = share / size
        one /= np.abs(one).sum(1, keepdims=True)
        ways += [alike, one]
    return ways
