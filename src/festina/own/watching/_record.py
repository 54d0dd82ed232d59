"""Record numbers along a run: they stay on their device and are fetched in bunches."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..._narrowing._pytorch import is_tensor, torch

if TYPE_CHECKING:
    from torch import Tensor

Curve = tuple[Float[np.ndarray, " sample"], Float[np.ndarray, " sample"]]
"""Steps, and a number at each step."""

_BUNCH = 256  # numbers fetched at once: each fetch waits for all pending work of an accelerator
_MOST = 2**16  # samples; if there are more, neighbours are averaged


class Record:
    """A number at each of some steps, in limited memory.

    If there are more than `most` samples, pairs of neighbours are averaged, and each later sample
    is an average over twice as many numbers. A run of any length takes the same memory, and all
    samples have the same scatter.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._waiting = list[tuple[int, "float | Tensor"]]()
        self._single = np.empty((0, 2))  # fetched numbers, too few for a sample
        self._samples = np.empty((0, 2))
        self._each = 1  # numbers in a sample

    def add(self, step: int, value: "float | Tensor") -> None:
        """Add a number, or a one-entry tensor on any device, without waiting for the device."""
        self._waiting.append((step, value))
        if len(self._waiting) >= _BUNCH:
            self._fetch()

    @property
    def curve(self) -> Curve:
        self._fetch()
        return self._samples[:, 0].copy(), self._samples[:, 1].copy()

    def _fetch(self) -> None:
        if not self._waiting:
            return
        steps, values = zip(*self._waiting, strict=True)
        self._waiting.clear()
        fresh = np.vstack([self._single, np.column_stack([steps, numbers(values)])])
        whole = len(fresh) // self._each * self._each
        self._single = fresh[whole:]
        self._samples = np.vstack([self._samples, _averaged(fresh[:whole], self._each)])
        while len(self._samples) > self._most:
            even = len(self._samples) // 2 * 2
            left = np.repeat(self._samples[even:], self._each, axis=0)
            self._single = np.vstack([left, self._single])
            self._samples = _averaged(self._samples[:even], 2)
            self._each *= 2


def _averaged(rows: Float[np.ndarray, "row 2"], each: int) -> Float[np.ndarray, "sample 2"]:
    return rows.reshape(-1, each, 2).mean(axis=1)


def numbers(values: Sequence["float | Tensor"]) -> Float[np.ndarray, " value"]:
    """Return the values of numbers and one-entry tensors, with one transfer for each device."""
    found = np.array([np.nan if is_tensor(each) else float(each) for each in values])
    places = dict[object, list[tuple[int, "Tensor"]]]()
    for index, value in enumerate(values):
        if is_tensor(value):
            places.setdefault(value.device, []).append((index, value.reshape(())))
    for each in places.values():
        indices, tensors = zip(*each, strict=True)
        found[list(indices)] = torch().stack(tensors).cpu().double().numpy()
    return found
