"""Keep copies of weights along a run, as many as fit into a number of bytes."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..._narrowing._pytorch import torch

if TYPE_CHECKING:
    from torch import Tensor

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_LEAST = 4  # fewest useful snapshots
_EARLY = 4  # one snapshot in four covers the beginning


def bytes_of(size: str | int) -> int:
    """Return the number of bytes of a size such as '256MB', '1.5 GB', or a whole number."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", str(size).upper())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"`snapshots` must be a size such as '256MB' or '1.5GB', got {size!r}.")
    return int(float(found[1]) * _UNITS[found[2]])


class Snapshots:
    """Copies of tensors at as many steps as fit into a budget of bytes, on the same device.

    A copy is taken every `stride` steps. When the budget is spent, every second copy is dropped and
    the stride doubles, so the copies cover a run of any length evenly. A quarter of the copies is
    spread evenly over the logarithm of time instead, because plateaus become longer along a run and
    the first plateaus would be lost. The memory of dropped copies is used again.
    """

    def __init__(self, tensors: Callable[[], list["Tensor"]], budget: int) -> None:
        one = sum(each.numel() * each.element_size() for each in tensors())
        self.capacity = budget // max(one, 1)
        self.stride, self._last = 1, -1
        self._tensors = tensors  # called for each copy, because a module may replace its tensors
        self._kept = dict[int, list["Tensor"]]()
        self._spare = list[list["Tensor"]]()
        if self.capacity < _LEAST:
            raise ValueError(
                f"`snapshots` is {budget / 1e6:.4g} MB, and one copy of these weights takes "
                f"{one / 1e6:.4g} MB: expected room for {_LEAST} copies at least, "
                f"{_LEAST * one / 1e6:.4g} MB. With `snapshots=None` only losses and gradient "
                "norms are kept."
            )

    @property
    def steps(self) -> list[int]:
        return sorted(self._kept)

    @property
    def bytes(self) -> int:
        """Number of bytes of all copies, including dropped ones whose memory is used again."""
        copies = [*self._kept.values(), *self._spare]
        return sum(each.numel() * each.element_size() for copy in copies for each in copy)

    def __getitem__(self, step: int) -> list["Tensor"]:
        return self._kept[step]

    def offer(self, step: int) -> None:
        """Take a copy at this step unless there is one already from the same stride."""
        while step // self.stride > self._last // self.stride and len(self._kept) == self.capacity:
            self._thin()
        if step // self.stride <= self._last // self.stride:
            return
        now = self._tensors()
        copy = self._spare.pop() if self._spare else [torch().empty_like(each) for each in now]
        torch()._foreach_copy_(copy, now)
        self._kept[step], self._last = copy, step

    def _thin(self) -> None:
        self.stride *= 2
        steps = np.array(self.steps)
        grid = np.geomspace(1, steps[-1], max(1, self.capacity // _EARLY))
        early = set(steps[np.searchsorted(steps, np.minimum(grid, steps[-1]))].tolist())
        taken = -1
        for step in self.steps:
            if step // self.stride <= taken and step not in early:
                self._spare.append(self._kept.pop(step))
            taken = max(taken, step // self.stride)
