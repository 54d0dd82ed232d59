"""Take samples from arrays, tuples and dicts of arrays, datasets and loaders."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader

Data: TypeAlias = Any
"""An array of any library, or a tuple or dict of arrays, one for each argument of a model."""

MOST = 4096
"""Default for the largest number of samples that are used."""

TARGETS = ("labels", "label", "targets", "target", "y")
"""Names of targets in a dict of samples, the likeliest first."""


@dataclass(frozen=True)
class Samples:
    """Some of the user's samples, in a random order that is always the same.

    - `x`: an array, or a tuple or dict of arrays, one for each argument of a model.
    - `y`: targets of the samples; None without targets.
    - `batch`: batch size of the user's loader.
    - `notes`: a note if not all samples are used.
    """

    x: Data
    y: Data = None
    batch: int | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return length(self.x)

    def part(self, which: slice | np.ndarray) -> "Samples":
        x, y = (mapped(each, lambda a: a[which]) for each in (self.x, self.y))
        return replace(self, x=x, y=y)


def arrays(
    x: Data, y: Data = None, *, most: int = MOST, place: Callable[[Data], Data] = np.asarray
) -> Samples:
    """Return samples of arrays; `place` moves the selected samples to their device."""
    names = list(x) if isinstance(x, dict) and isinstance(y, dict) and x.keys() == y.keys() else []
    if set(names) & set(TARGETS):
        raise ValueError(
            f"Expected inputs and targets, got two dicts with the same names {names}: they look "
            "like two batches. Join the batches to one dict of arrays, or give a Dataset or "
            "DataLoader."
        )
    n, *others = map(len, leaves(x))
    if any(other != n for other in others):
        counts = ", ".join(map(str, (n, *others)))
        raise ValueError(
            f"The inputs of the data have {counts} samples, expected the same number in each."
        )
    if y is not None and length(y) != n:
        raise ValueError(
            f"There are {n} inputs and {length(y)} targets in the data, expected one target for "
            "each input."
        )
    order, notes = _some(n, most)
    take = lambda data: mapped(data, lambda a: place(a[order]))
    return Samples(take(x), take(y), None, notes)


def torch_samples(
    x: Data,
    y: Data = None,
    *,
    most: int = MOST,
    device: "torch.device | None" = None,
    real: "torch.dtype | None" = None,
) -> Samples:
    """Return samples of tensors, a PyTorch Dataset or a DataLoader, in one real precision."""
    from torch.utils import data as torch_data

    place = lambda a: a.to(device, real if a.is_floating_point() else a.dtype)
    if not isinstance(x, torch_data.Dataset | torch_data.DataLoader):
        return arrays(mapped(x, _tensor), mapped(y, _tensor), most=most, place=place)
    if y is not None:
        raise ValueError(
            f"A {type(x).__name__} has its own targets, in its own order: leave `y` out."
        )
    loader = x if isinstance(x, torch_data.DataLoader) else torch_data.DataLoader(x, 64)
    with _untouched(loader):
        pairs, notes = _indexed(loader, most) if _plain(loader) else _streamed(loader, most)
    xs, ys = zip(*(pair(each) for each in pairs), strict=True)
    joined = lambda parts: mapped(_joined(parts), place)
    batch = x.batch_size if isinstance(x, torch_data.DataLoader) else None
    return Samples(joined(xs), joined(ys), batch, notes)


def length(data: Data) -> int:
    """Return the number of samples."""
    return len(leaves(data)[0])


def mapped(data: Data, what: Callable[[Data], Data]) -> Data:
    """Return `what` applied to each array, in the same tuples and dicts; None for None."""
    if data is None:
        return None
    if isinstance(data, dict):
        return {key: mapped(value, what) for key, value in data.items()}
    if isinstance(data, tuple):
        return tuple(mapped(value, what) for value in data)
    return what(data)


def called(model: Callable[..., Data], x: Data) -> Data:
    """Return the model's outputs for the samples; entries of a tuple or a dict are arguments."""
    if isinstance(x, dict):
        return model(**x)
    return model(*x) if isinstance(x, tuple) else model(x)


def _tensor(array: Data) -> "torch.Tensor":
    import torch

    try:
        found = torch.as_tensor(np.array(array) if hasattr(array, "to_numpy") else array)
    except (TypeError, ValueError, RuntimeError):
        found = None
    if found is None or not found.ndim:
        raise ValueError(
            "Inputs and targets in the data must be arrays with one row for each sample (tuples or "
            f"dicts of arrays), a Dataset or a DataLoader; got {type(array).__name__}."
        )
    return found


def leaves(data: Data) -> list[Data]:
    """Return all arrays in nested tuples and dicts; raise `ValueError` if there is none."""
    parts = tuple(data.values()) if isinstance(data, dict) else data
    if isinstance(parts, tuple) and parts:
        return [leaf for part in parts for leaf in leaves(part)]
    if not getattr(data, "shape", ()):
        kind = type(data).__name__
        raise ValueError(
            f"Inputs and targets in the data must be arrays, one row for each sample, got {kind}."
        )
    return [data]


def _some(count: int, most: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the indices of the selected samples, and a note if some are left out."""
    order = np.random.default_rng(0).permutation(count)[:most]
    return order, (f"{most} of {count} samples were used",) * (most < count)


def _plain(loader: "DataLoader") -> bool:
    """Return whether the loader returns each sample of the dataset equally often."""
    from torch.utils import data

    plain = isinstance(loader.sampler, data.SequentialSampler) or (
        isinstance(loader.sampler, data.RandomSampler) and not loader.sampler.replacement
    )
    return plain and type(loader.batch_sampler) is data.BatchSampler


def _indexed(loader: "DataLoader", most: int) -> tuple[list[Data], tuple[str, ...]]:
    dataset: Data = loader.dataset
    order, notes = _some(len(dataset), most)
    if not order.size:
        raise ValueError("The dataset is empty, expected at least one sample.")
    return [loader.collate_fn([dataset[int(k)] for k in order])], notes


def _streamed(loader: "DataLoader", most: int) -> tuple[list[Data], tuple[str, ...]]:
    batches, count = [], 0
    for batch in loader:
        batches.append(batch)
        count += length(pair(batch)[0])
        if count >= most:
            return batches, (f"the first {count} samples of the loader were used",)
    if not batches:
        raise ValueError("The loader is empty, expected at least one batch.")
    return batches, ()


def pair(batch: Data) -> tuple[Data, Data]:
    """Return inputs and targets; targets are the last entry of a tuple, or named in a dict."""
    if isinstance(batch, dict):
        name = next((name for name in TARGETS if name in batch), None)
        return {key: each for key, each in batch.items() if key != name}, batch.get(name)
    if not isinstance(batch, tuple | list):
        return batch, None
    *x, y = batch
    if not x:
        return y, None
    return x[0] if len(x) == 1 else tuple(x), y


def _joined(parts: tuple[Data, ...]) -> Data:
    import torch

    if parts[0] is None:
        return None
    if isinstance(parts[0], dict):
        return {key: _joined(tuple(part[key] for part in parts)) for key in parts[0]}
    if isinstance(parts[0], tuple | list):
        return tuple(_joined(each) for each in zip(*parts, strict=True))
    return torch.cat([torch.as_tensor(part) for part in parts])


@contextmanager
def _untouched(loader: "DataLoader") -> Iterator[None]:
    """Restore the user's random number generators at the end of the block."""
    import torch

    owners = (loader, loader.sampler)
    own = [found for each in owners if (found := getattr(each, "generator", None)) is not None]
    states = [generator.get_state() for generator in own]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for generator, state in zip(own, states, strict=True):
                generator.set_state(state)
