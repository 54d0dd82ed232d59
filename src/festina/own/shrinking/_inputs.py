"""Inputs as people have them: a tensor, an array, several of them, a dataset, a loader."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

MOST = 4096
"""So many inputs are taken, evenly from all: what is asked here needs no more."""


def inputs_of(
    x: Any, device: torch.device, real: torch.dtype
) -> tuple[tuple[torch.Tensor, ...], np.ndarray]:
    """Tensors, one for each argument of the model, and which of the samples they hold."""
    if isinstance(x, tuple):
        given = x
    elif isinstance(x, torch.Tensor | np.ndarray | list) or hasattr(x, "__array__"):
        given = (x,)
    elif isinstance(x, torch.utils.data.Dataset) and hasattr(x, "__len__"):
        rows = np.linspace(0, len(x) - 1, min(len(x), MOST)).round().astype(int)  # pyright: ignore
        given = (torch.stack([torch.as_tensor(_input(x[int(row)])) for row in rows]),)
    elif isinstance(x, Iterable):
        given = (_from_batches(x),)
    else:
        raise ValueError(
            "`x` must be inputs of the model (a tensor, an array, a tuple of them for several "
            f"arguments, a Dataset or a DataLoader), got {type(x).__name__}."
        )
    tensors = [
        torch.as_tensor(np.asarray(each) if isinstance(each, list) else each) for each in given
    ]
    if not tensors or any(each.ndim == 0 or len(each) != len(tensors[0]) for each in tensors):
        raise ValueError("`x` must have the samples as its first axis, as many in each tensor.")
    count = len(tensors[0])
    if count < 2:
        raise ValueError(f"`x` must have at least two samples, got {count}: one says nothing.")
    if any(each.is_floating_point() and not each.isfinite().all() for each in tensors):
        raise ValueError("`x` must be finite: leave out the samples that hold NaN or infinity.")
    rows = torch.linspace(0, count - 1, min(count, MOST), device="cpu").round().long()
    taken = tuple(
        each[rows.to(each.device)].to(device, real if each.is_floating_point() else each.dtype)
        for each in tensors
    )
    return taken, rows.numpy()


def _from_batches(loader: Iterable[Any]) -> torch.Tensor:
    found, count = [], 0
    for batch in loader:
        found.append(torch.as_tensor(_input(batch)))
        count += len(found[-1])
        if count >= MOST:
            break
    if not found:
        raise ValueError("`x` is empty: there is no batch in it.")
    return torch.cat(found)[:MOST]


def _input(example: Any) -> Any:
    """Of a pair of input and target, the input."""
    return example[0] if isinstance(example, tuple | list) else example
