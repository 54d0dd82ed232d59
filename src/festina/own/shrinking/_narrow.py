"""The search for the narrowest network that computes the same, all hidden layers at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ...dynamics._worker import Progress
from ._descent import descend
from ._layers import AbstractModel, Sloped, Weights
from ._merge import Merging, Widths

_HELD = 5  # every so manieth input is held out
_PATIENCE = 3  # looks at what was held out without a gain, after which tuning ends


class Narrow(NamedTuple):
    """A narrow network and its error on the inputs held out, as a fraction of the scale."""

    widths: dict[str, int]
    weights: Weights
    error: float


class Narrowest:
    """Narrow networks of every width that is asked for; errors are those of held-out inputs.

    Layers are merged in the order of what that costs at the outputs, whichever they are in. Targets
    of the samples are the outputs of the wide network.
    """

    def __init__(
        self,
        network: AbstractModel,
        *,
        scale: float | None = None,
        steps: int = 300,
        progress: Progress | None = None,
    ):
        outputs = network.outputs(network.weights, network.samples)
        both = replace(network.samples, y=outputs)
        held = np.arange(len(both)) % _HELD == 0
        parts = (both.part(np.flatnonzero(each)) for each in (~held, held))
        self.fit, self.held = (both, both) if len(both) < 2 * _HELD else parts
        self.network, self.steps = network, steps
        self.merging = Merging(network, self.fit)
        self.scale = (spread(outputs) if scale is None else scale) or 1.0
        self._order = self.merging.costs()
        self._starts: dict[tuple[int, ...], tuple[Narrow, Narrow]] = {}
        self._tuned: dict[tuple[int, ...], Narrow] = {}
        self._progress = progress or (lambda words, done: None)
        bits = [units.bit_length() for units in (len(self._order), *self.merging.full.values())]
        self._asked, self._all = 0, 1 + sum(bits)

    def error(self, weights: Weights) -> float:
        return rms(self.network.outputs(weights, self.held) - self.held.y) / self.scale

    def starts(self, widths: Widths) -> tuple[Narrow, Narrow]:
        """Before tuning: by merging, and by magnitude pruning with the same refit."""
        key = tuple(widths.values())
        if key not in self._starts:
            merged, pruned = self.merging.merged(widths), self.merging.pruned(widths)
            named = lambda weights: Narrow(dict(widths), weights, self.error(weights))
            self._starts[key] = named(merged), named(pruned)
        return self._starts[key]

    def start(self, widths: Widths) -> Narrow:
        """The better of both."""
        return min(self.starts(widths), key=_error)

    def tuned(self, widths: Widths, goal: float) -> Narrow:
        """After tuning to the wide network's outputs, until the error is `goal`."""
        key = tuple(widths.values())
        if key not in self._tuned:
            self._say(widths)
            start = self.start(widths)
            self._tuned[key] = start if start.error <= goal else self._tune(start, goal)
        return self._tuned[key]

    def best(self, widths: Widths) -> Narrow:
        """Tuned from both starts, as far as that goes."""
        self._say(widths)
        done = self._tuned.get(tuple(widths.values()), self.start(widths))
        return min(done, *map(self._tune, self.starts(widths)), key=_error)

    def _say(self, widths: Widths) -> None:
        """How many of the widths that may be asked for have been."""
        self._asked += 1
        self._progress(f"widths {'–'.join(map(str, widths.values()))}", self._asked / self._all)

    def path(self, merges: int) -> dict[str, int]:
        """How wide layers are after so many merges, the cheapest first."""
        widths = dict(self.merging.full)
        for _, name in self._order[:merges]:
            widths[name] -= 1
        return widths

    def search(self, tolerance: float, *, tune: bool = True) -> Narrow:
        """The narrowest within the tolerance that is found; the network itself if none is."""
        whole = Narrow(self.merging.full, self.network.weights, 0.0)
        hard = lambda widths: self.tuned(widths, 0.9 * tolerance) if tune else self.start(widths)
        most = len(self._order)
        merges, found = _furthest(lambda k: self.start(self.path(k)), 0, most, whole, tolerance)
        if tune:
            found = _furthest(lambda k: hard(self.path(k)), merges, most, found, tolerance)[1]
        names = list(found.widths)
        for name in sorted(names, key=lambda each: -found.widths[each]) * (len(names) > 1):
            here = found.widths
            less = lambda k, name=name, here=here: hard({**here, name: here[name] - k})
            found = _furthest(less, 0, here[name] - 1, found, tolerance)[1]
        return found

    def _tune(self, start: Narrow, goal: float = 0.0) -> Narrow:
        best, since, unit = start, 0, self.scale**2

        def slope(weights: Weights) -> Sloped:
            value, slopes = self.network.slope(weights, self.fit)
            return value / unit, {name: each / unit for name, each in slopes.items()}

        def look(weights: Weights) -> bool:
            nonlocal best, since
            error = self.error(weights)
            since = 0 if error < 0.99 * best.error else since + 1
            if error < best.error:
                best = Narrow(start.widths, weights, error)
            return best.error > goal and since < _PATIENCE

        end = descend(slope, start.weights, self.network.trained, steps=self.steps, look=look)
        return min(best, Narrow(start.widths, end, self.error(end)), key=_error)


def rms(difference: Float[np.ndarray, "sample number"]) -> float:
    """Root of the mean square over samples, summed over outputs."""
    return float(np.sqrt(np.sum(difference**2) / len(difference)))


def spread(outputs: Float[np.ndarray, "sample number"]) -> float:
    """About their mean: a constant is for a bias, and no unit's work."""
    return rms(outputs - outputs.mean(0))


def _furthest(
    at: Callable[[int], Narrow], fine: int, most: int, found: Narrow, tolerance: float
) -> tuple[int, Narrow]:
    """The largest k up to `most` within the tolerance, by bisection, from one that is."""
    bad = most + 1
    while bad - fine > 1:
        middle = (fine + bad) // 2
        one = at(middle)
        if one.error <= tolerance:
            fine, found = middle, one
        else:
            bad = middle
    return fine, found


def _error(one: Narrow) -> float:
    return one.error if np.isfinite(one.error) else np.inf
