"""Find the smallest network that computes the same outputs, over all hidden layers at once."""

import functools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..dynamics._worker import Progress
from ._descent import LOOK, descend
from ._layers import AbstractModel, Sloped, Weights, rms
from ._merge import Merging, Widths

_HELD = 5  # one input in five is held out
_PATIENCE = 3  # checks of the held-out error without a gain after which tuning ends
_GAIN = 3.0  # low-rank networks with a larger error, in tolerances, are not tuned
_ENOUGH = 0.9  # tuning ends at this fraction of the goal
_DUEL = 2 * LOOK  # steps from each start before the better one is tuned further
_FINER = 0.25  # if the error falls by this factor, tuning continues in more accurate coordinates
_CHEAP = 2048  # networks with fewer weights are tuned from several starts
_OTHERS = 3  # number of these starts, besides the best
_NUDGE = 0.1  # relative size of the random change of weights at these starts
_CONSTANT = 1e-6  # outputs with a smaller relative spread are constant
_SILENT = 2.0  # seconds before the first progress message


class Narrow(NamedTuple):
    """A smaller network and its error on the held-out inputs, as a fraction of the scale.

    For the low-rank form `network` is the model with layers of low rank, and `widths` are the full
    widths. For the narrow form `network` is None.
    """

    widths: dict[str, int]
    weights: Weights
    error: float
    network: AbstractModel | None = None

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(each.size for each in self.weights.values())


class Narrowest:
    """Search for smaller networks. Errors are measured on held-out inputs.

    Units of all layers are merged in the order of their effect on the outputs. The targets are the
    outputs of the wide network.
    """

    def __init__(
        self,
        network: AbstractModel,
        *,
        steps: int = 300,
        progress: Progress | None = None,
    ):
        outputs = network.outputs(network.weights, network.samples)
        both = replace(network.samples, y=outputs)
        held = np.arange(len(both)) % _HELD == 0
        parts = (both.part(np.flatnonzero(each)) for each in (~held, held))
        whole = network.exact or len(both) < 2 * _HELD
        self.fit, self.held = (both, both) if whole else parts
        self.network, self.steps = network, steps
        self.merging = Merging(network, self.fit)
        measure = rms if network.hidden[-1].bias is None else _spread
        size = _scale(network.samples.y, outputs, measure)
        self.size_of_targets = network.size_of_targets or size
        self.scale = self.size_of_targets or 1.0
        self.silence = measure(outputs) / self.scale
        self._order = self.merging.costs()
        self._starts: dict[tuple[int, ...], tuple[Narrow, Narrow]] = {}
        self._tuned: dict[tuple[int, ...], tuple[Narrow, float]] = {}
        self._low_starts: dict[int, Narrow] = {}
        self._progress = _Said(progress)
        bits = [units.bit_length() for units in (len(self._order), *self.merging.full.values())]
        self._asked, self._all = 0, 1 + sum(bits)

    @property
    def whole(self) -> Narrow:
        return Narrow(self.merging.full, self.network.weights, 0.0)

    def error(self, weights: Weights, network: AbstractModel | None = None) -> float:
        outputs = (network or self.network).outputs(weights, self.held)
        return rms(outputs - self.held.y) / self.scale

    def size(self, widths: Widths) -> int:
        """Return the number of weights of a narrow network."""
        shapes = {name: list(each.shape) for name, each in self.network.weights.items()}
        for layer in self.network.hidden:
            for part in (*layer.makers, layer.reader):
                sizes = shapes[part.name]
                sizes[part.axis] = sizes[part.axis] // layer.units * widths[layer.name]
        return sum(map(math.prod, shapes.values()))

    def starts(self, widths: Widths) -> tuple[Narrow, Narrow]:
        """Return networks before tuning: by merging, and by magnitude pruning, both refitted."""
        key = tuple(widths.values())
        if key not in self._starts:
            merged, pruned = self.merging.merged(widths), self.merging.pruned(widths)
            named = lambda weights: Narrow(dict(widths), weights, self.error(weights))
            self._starts[key] = named(merged), named(pruned)
        return self._starts[key]

    def start(self, widths: Widths) -> Narrow:
        """Return the better network before tuning: the merged or the pruned one."""
        return min(self.starts(widths), key=_error)

    def tuned(self, widths: Widths, goal: float) -> Narrow:
        """Return the network after tuning until its error is within `goal`, if possible."""
        key = tuple(widths.values())
        found, before = self._tuned.get(key, (self.start(widths), math.inf))
        if goal < found.error <= before:
            self._say(f"widths {'–'.join(map(str, key))}")
            found = self.tune(found, goal)
            for other in self._others(found):
                if found.error > goal:
                    found = min(found, self.tune(other), key=_error)
        self._tuned[key] = found, min(goal, before)
        return found

    def _others(self, found: Narrow) -> Iterator[Narrow]:
        """Yield further networks to tune, if small; random changes let them leave saddles."""
        if found.size > _CHEAP:
            return
        rng = np.random.default_rng(0)
        drawn = [self.merging.drawn(found.widths, rng) for _ in range(2 * _OTHERS)]
        named = [found._replace(weights=each, error=self.error(each)) for each in drawn]
        near = sorted([*self.starts(found.widths), *named], key=_error)
        for start in near[:_OTHERS]:
            weights = {
                name: each + _NUDGE * rms(each.ravel()) * rng.normal(size=each.shape)
                for name, each in start.weights.items()
            }
            yield start._replace(weights=weights, error=self.error(weights))

    def known(self, widths: Widths) -> float:
        """Return the smallest error so far of a network with these widths."""
        tuned, _ = self._tuned.get(tuple(widths.values()), (None, 0.0))
        return tuned.error if tuned else self.start(widths).error

    def best(self, widths: Widths) -> Narrow:
        """Tune the merged and the pruned network for a few steps, and the better one fully."""
        self._say(f"widths {'–'.join(map(str, widths.values()))}")
        tried = [self.tune(each, steps=_DUEL) for each in self.starts(widths)]
        return self.tune(min(tried, key=_error))

    def polished(self, found: Narrow, goal: float) -> Narrow:
        """Return the network after further tuning, if tuning ended because it reached the goal."""
        return self.tune(found) if found.error <= _ENOUGH * goal else found

    def _say(self, words: str) -> None:
        """Report a message and the fraction of all possible requests that were made."""
        self._asked += 1
        self._progress(words, min(self._asked / self._all, 1.0))

    def error_at(self, units: int) -> float:
        """Return the smallest error so far of a network with so many units in all layers."""
        total = sum(self.merging.full.values())
        few = units < len(self.merging.full)
        return self.silence if few else self.known(self.path(total - units))

    def path(self, merges: int) -> dict[str, int]:
        """Return the widths of layers after this number of merges, smallest effects first."""
        widths = dict(self.merging.full)
        for _, name in self._order[:merges]:
            widths[name] -= 1
        return widths

    def merges_to(self, size: int) -> int:
        """Return the smallest number of merges that leave at most `size` weights, or else all."""
        most = len(self._order)
        return next((k for k in range(most) if self.size(self.path(k)) <= size), most)

    def search(self, tolerance: float, *, tune: bool = True) -> Narrow:
        """Return the narrowest network found within the tolerance, or the network itself."""
        hard = lambda widths: self.tuned(widths, tolerance) if tune else self.start(widths)
        most = len(self._order)
        easy = lambda k: self.start(self.path(k))
        merges, found = _furthest(easy, 0, most, self.whole, tolerance)
        if tune:
            tried = lambda k: hard(self.path(k))
            found = _furthest(tried, merges, most, found, tolerance, near=True)[1]
        names = list(found.widths)
        for name in sorted(names, key=lambda each: -found.widths[each]) * (len(names) > 1):
            here = found.widths
            less = lambda k, name=name, here=here: hard({**here, name: here[name] - k})
            found = _furthest(less, 0, here[name] - 1, found, tolerance, near=True)[1]
        return found

    def low_rank(
        self, tolerance: float, *, tune: bool = True, size: int | None = None
    ) -> Narrow | None:
        """Return the smallest network of low rank within the tolerance; None if there is none.

        With `size`, only networks with fewer weights count.
        """
        last = len(self._low) - 1
        at, found = _furthest(self._low_start, -1, last, self.whole, tolerance)
        if tune:
            hard = lambda k: self._low_tuned(k, tolerance)
            if size is not None and found.size >= size:
                few = (k for k in range(at + 1, last + 1) if self._low_start(k).size < size)
                at = next(few, last)
                found = hard(at) if last >= 0 else self.whole
                if found.error > tolerance or found.size >= size:
                    return None
            most, _ = _furthest(self._low_start, at, last, found, _GAIN * tolerance)
            found = _furthest(hard, at, most, found, tolerance, near=True)[1]
        return None if found.network is None else found

    def low_rank_of(self, size: int, *, tune: bool = True) -> Narrow | None:
        """Return the largest network of low rank with no more weights than `size`."""
        fits = (k for k in range(len(self._low)) if self._low_start(k).size <= size)
        first = next(fits, None)
        if first is None:
            return None
        return self.tune(self._low_start(first)) if tune else self._low_start(first)

    @functools.cached_property
    def _low(self) -> Sequence[Callable[[], AbstractModel]]:
        return self.network.low_ranks(self.fit)

    def _low_start(self, k: int) -> Narrow:
        if k not in self._low_starts:
            other = self._low[k]()
            error = self.error(other.weights, other)
            self._low_starts[k] = Narrow(self.merging.full, other.weights, error, other)
        return self._low_starts[k]

    def _low_tuned(self, k: int, goal: float) -> Narrow:
        one = self._low_start(k)
        assert one.network is not None
        self._say(f"ranks {'–'.join(map(str, one.network.ranks.values()))}")
        near = goal < one.error <= _GAIN * goal
        return self.tune(one, goal) if near else one

    def tune(self, start: Narrow, goal: float = 0.0, *, steps: int | None = None) -> Narrow:
        """Return the network tuned to the wide network's outputs.

        Tuning ends if the error is within `goal` or no longer falls.
        """
        left = steps or self.steps
        while True:
            found, used = self._descended(start, goal, left)
            left -= used
            enough = found.error <= _ENOUGH * goal
            if left <= 0 or enough or not found.error < _FINER * start.error:
                return found
            start = found

    def _descended(self, start: Narrow, goal: float, steps: int) -> tuple[Narrow, int]:
        best, since, hopeless, looks, before = start, 0, 0, 0, start.error
        network, unit = start.network or self.network, self.scale**2
        tuning = network.tuning(self.fit, error=start.error * self.scale)

        def slope(weights: Weights) -> Sloped:
            value, slopes = tuning.slope(weights)
            return value / unit, {name: each / unit for name, each in slopes.items()}

        def look(weights: Weights) -> bool:
            nonlocal best, since, hopeless, looks, before
            weights = tuning.outward(weights)
            error = self.error(weights, network)
            since = 0 if error < 0.99 * best.error else since + 1
            looks += 1
            # Extrapolated error if each further check gains as much as the last one.
            end = error * (error / before) ** max(0.0, steps / LOOK - looks)
            hopeless, before = (hopeless + 1 if end > goal > 0 else 0), error
            if error < best.error:
                best = start._replace(weights=weights, error=error)
            return best.error > _ENOUGH * goal and since < _PATIENCE and hopeless < 2

        inside = tuning.inward(start.weights)
        end = tuning.outward(descend(slope, inside, network.trained, steps=steps, look=look))
        last = start._replace(weights=end, error=self.error(end, network))
        return min(best, last, key=_error), max(looks, 1) * LOOK


class _Said:
    """Report progress to a callback, or on standard error after two seconds."""

    def __init__(self, progress: Progress | None):
        self._progress = progress
        self._began, self._next = time.monotonic(), _SILENT

    def __call__(self, words: str, done: float) -> None:
        taken = time.monotonic() - self._began
        if self._progress is not None:
            self._progress(words, done)
        elif taken >= self._next:
            self._next = 2.0 * taken
            left = taken * (1.0 / done - 1.0)
            print(f"festina: {words}, at most {left:.0f} s left", file=sys.stderr, flush=True)


def _scale(y: Any, outputs: np.ndarray, measure: Callable[[np.ndarray], float]) -> float:
    """Return `measure` of the targets, or of the outputs if there are no numerical targets."""
    if y is None or isinstance(y, tuple | dict):
        return measure(outputs)
    targets = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    if targets.size == outputs.size and targets.dtype.kind == "f":
        return measure(targets.reshape(outputs.shape).astype(float)) or measure(outputs)
    return max(measure(outputs), 1.0)


def _spread(outputs: Float[np.ndarray, "sample number"]) -> float:
    """Return the spread of the outputs around their mean, because a bias can add any constant."""
    found = rms(outputs - outputs.mean(0))
    return found if found > _CONSTANT * rms(outputs) else 0.0


def _furthest(
    at: Callable[[int], Narrow],
    fine: int,
    most: int,
    found: Narrow,
    tolerance: float,
    *,
    near: bool = False,
) -> tuple[int, Narrow]:
    """Return the largest k up to `most` whose network is within the tolerance, by bisection.

    The search starts at `fine`, which is within the tolerance. With `near`, the search first takes
    steps of 1, 2, 4, … until a network fails, because successful tuning is cheap.
    """
    bad, step = most + 1, 1 if near else most + 1
    while bad - fine > 1:
        middle = min(fine + step, (fine + bad) // 2)
        one = at(middle)
        if one.error <= tolerance:
            fine, found, step = middle, one, 2 * step
        else:
            bad, step = middle, bad
    return fine, found


def _error(one: Narrow) -> float:
    return one.error if np.isfinite(one.error) else np.inf
