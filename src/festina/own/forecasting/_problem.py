"""A loss of somebody's weights on somebody's data: value and gradient, and how many were asked."""

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ._vectors import Array, Vector

Evaluate = Callable[[tuple[Array, ...], Any, Any], tuple[float, tuple[Array, ...]]]
"""Loss and its gradient by the parts of the weights, on inputs and targets."""


class Exhausted(Exception):
    """As many gradients as were allowed have been spent."""


@dataclass
class Problem:
    """Loss and gradient of weights on some of the samples.

    - `start`: the weights as they are.
    - `samples`: how many.
    - `spent`: gradients so far, in passes through all samples; shared by the halves. After `most`
      of them it is `Exhausted`, also in the middle of a step.
    - `restore`: somebody's model again, with other weights in it.
    - `array`: numbers as an array like one that is given.
    - `names`: of the parts of the weights, in the words of their owner.
    - `notes`: what is assumed and was not asked for.
    """

    evaluate: Evaluate
    start: Vector
    x: Any
    y: Any
    restore: Callable[[Vector], Any]
    names: tuple[str, ...]
    array: Callable[[np.ndarray, Array], Array]
    batch: int | None = None
    notes: list[str] = field(default_factory=list)
    spent: list[float] = field(default_factory=lambda: [0.0])
    most: float = math.inf
    share: float = 1.0

    @property
    def samples(self) -> int:
        return length(self.y)

    def __call__(self, w: Vector) -> tuple[float, Vector]:
        if self.spent[0] > self.most:
            raise Exhausted
        self.spent[0] += self.share
        loss, parts = self.evaluate(w.parts, self.x, self.y)
        return loss, Vector(parts)

    def pieces(self, count: int) -> Iterator["Problem"]:
        """The samples in that many shares, nearly equal."""
        bounds = np.linspace(0, self.samples, min(count, self.samples) + 1).astype(int)
        for a, b in itertools.pairwise(bounds):
            x, y = rows(self.x, slice(a, b)), rows(self.y, slice(a, b))
            yield replace(self, x=x, y=y, share=self.share * (b - a) / self.samples)

    def scale(self) -> float:
        """The loss when all weights are zero, to measure others by; zero if it is not finite."""
        loss, _ = self(self.start * 0.0)
        return abs(loss) if math.isfinite(loss) else 0.0

    def random(self) -> Vector:
        """A direction, the same each time, on the device where the weights are."""
        rng = np.random.default_rng(0)
        draw = lambda w: self.array(rng.normal(size=tuple(w.shape)).astype(np.float32), w)
        return Vector(tuple(draw(w) for w in self.start.parts))

    def check(self) -> float:
        """The loss as it is, if it is one that can be looked ahead of."""
        (first, g), (again, _) = self(self.start), self(self.start)
        if not (math.isfinite(first) and math.isfinite(g.square)):
            bad = [
                n
                for n, p in zip(self.names, g.parts, strict=True)
                if not np.isfinite(float(p.sum()))
            ]
            what = f"the gradient by {bad[0]}" if math.isfinite(first) and bad else f"{first}"
            raise ValueError(
                f"The loss at these weights is {first}, its gradient of squared length "
                f"{g.square:.3g} ({what}): there is nothing to look ahead of. Give weights from "
                "before training diverged."
            )
        if abs(first - again) > 1e-4 * max(abs(first), abs(again)):
            raise ValueError(
                f"The loss of the same weights on the same samples was {first:.6g} and then "
                f"{again:.6g}: `loss` or the model draws at random, and what is looked ahead of "
                "would be another loss at every step. Switch the noise off (`model.eval()`), or "
                "draw it once and keep it with the data."
            )
        if self.samples >= 2 and first:
            halves = [half(self.start)[0] for half in self.pieces(2)]
            if abs(sum(halves) - first) < 1e-3 * abs(first) < abs(first - sum(halves) / 2):
                raise ValueError(
                    f"`loss` sums over samples: {first:.4g} on all, {halves[0]:.4g} and "
                    f"{halves[1]:.4g} on the halves, so that the learning rate would mean "
                    "something else in a batch. Give the mean over samples."
                )
        return first


def length(data: Any) -> int:
    """Number of samples, of an array or of arrays in a tuple or dict."""
    while isinstance(data, (tuple, list, dict)):
        data = next(iter(data.values())) if isinstance(data, dict) else data[0]
    return int(data.shape[0])


def rows(data: Any, which: Any) -> Any:
    if isinstance(data, dict):
        return {key: rows(value, which) for key, value in data.items()}
    if isinstance(data, (tuple, list)):
        return tuple(rows(value, which) for value in data)
    return data[which]


def shuffled(x: Any, y: Any, most: int) -> tuple[np.ndarray, str | None]:
    """Which samples stand for all, in random order (always the same), and a word if not all do."""
    n = length(y)
    if length(x) != n:
        raise ValueError(f"`data` has {length(x)} inputs and {n} targets: as many were expected.")
    order = np.random.default_rng(0).permutation(n)[:most]
    return order, f"{most} of {n} samples stand for all" if n > most else None


def is_torch(model: Any) -> bool:
    """Whether it is a module of PyTorch, without importing that for those who have it not."""
    return any(c.__module__.startswith("torch.nn") for c in type(model).__mro__)


def torch_problem(
    model: Any, loss: Callable, data: Any, trained: set[int], *, most: int, batch: int | None
) -> Problem:
    """`loss(model(x), y)` of a module; only what is in `trained` (ids of parameters) moves."""
    import torch

    notes: list[str] = []
    moving = [(n, p) for n, p in model.named_parameters() if p.requires_grad and id(p) in trained]
    if not moving:
        raise ValueError(
            "No parameter of `model` is trained by `optimizer`: all are frozen, or it holds those "
            "of another model. Make it of `model.parameters()`."
        )
    names = tuple(name for name, _ in moving)
    frozen = [n for n, _ in model.named_parameters() if n not in names]
    if frozen:
        notes.append(f"{len(frozen)} parameters are frozen and stay ({', '.join(frozen[:3])} …)")
    device = moving[0][1].device
    x, y, batch = _torch_samples(data, most, batch, device, notes)
    twin = copy.deepcopy(model)
    _still(twin, notes)
    parameters = dict(twin.named_parameters())
    own = [parameters[name] for name in names]

    def put(parts: tuple[Array, ...]) -> None:
        with torch.no_grad():
            for parameter, part in zip(own, parts, strict=True):
                parameter.copy_(part)

    def evaluate(parts: tuple[Array, ...], x: Any, y: Any) -> tuple[float, tuple[Array, ...]]:
        put(parts)
        with torch.enable_grad():
            value = loss(_called(twin, x), y)
            if value.dim():
                raise ValueError(
                    f"`loss` gave {tuple(value.shape)} numbers, expected one: take the mean."
                )
            g = torch.autograd.grad(value, own, allow_unused=True)
        zero = (torch.zeros_like(p) if d is None else d for d, p in zip(g, own, strict=True))
        return value.item(), tuple(zero)

    def restore(w: Vector) -> Any:
        put(w.parts)
        return twin

    start = Vector(tuple(p.detach().clone() for _, p in moving))
    array = lambda a, like: torch.as_tensor(a).to(like)
    return Problem(evaluate, start, x, y, restore, names, array, batch, notes)


def _called(model: Any, x: Any) -> Any:
    if isinstance(x, dict):
        return model(**x)
    return model(*x) if isinstance(x, tuple) else model(x)


def _still(model: Any, notes: list[str]) -> None:
    """Dropout off, and a word on what depends on the mode of training."""
    kinds = {name: [] for name in ("Dropout", "BatchNorm")}
    for module in model.modules():
        for kind, found in kinds.items():
            if kind in type(module).__name__:
                found.append(module)
    if not any(kinds.values()):
        return
    if not model.training:
        notes.append("the model is in eval mode, and is looked ahead of as if trained in it")
        return
    for module in kinds["Dropout"]:
        module.eval()
    if kinds["Dropout"]:
        notes.append("dropout is off while looking ahead")
    if kinds["BatchNorm"]:
        notes.append("batch normalisation is by the statistics of all samples, not of a batch")


def _torch_samples(
    data: Any, most: int, batch: int | None, device: Any, notes: list[str]
) -> tuple[Any, Any, int | None]:
    """Inputs, targets and the size of a batch, from tensors, a dataset or a loader."""
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

    put = lambda d: _mapped(d, lambda a: torch.as_tensor(a).to(device))
    source: Any  # PyTorch's datasets need not say how many samples they have, but most do
    if isinstance(data, DataLoader):
        batch = data.batch_size if batch is None else batch
        source, collate = data.dataset, data.collate_fn
    elif isinstance(data, Dataset):
        source, collate = data, default_collate
    elif isinstance(data, (tuple, list)) and len(data) == 2:
        order, word = shuffled(data[0], data[1], most)
        notes += [word] if word else []
        x, y = (_mapped(d, lambda a: torch.as_tensor(a)[order]) for d in data)
        return put(x), put(y), batch
    else:
        raise ValueError(
            f"`data` is a {type(data).__name__}, expected inputs and targets `(x, y)`, a Dataset "
            "or a DataLoader."
        )
    with torch.random.fork_rng(devices=[]):  # the run's own numbers are left alone
        if isinstance(source, IterableDataset):
            loader = data if isinstance(data, DataLoader) else DataLoader(source, batch_size=64)
            pairs, n = [], 0
            for pair in loader:
                pairs.append(pair)
                n += length(pair[1])
                if n >= most:
                    break
            notes.append(f"the first {n} samples of a stream stand for all")
            x, y = (_joined([pair[k] for pair in pairs]) for k in (0, 1))
        else:
            count = len(source)
            order = np.random.default_rng(0).permutation(count)[:most]
            if len(order) < count:
                notes.append(f"{len(order)} of {count} samples stand for all")
            x, y = collate([source[int(k)] for k in order])
    return put(x), put(y), batch


def _mapped(data: Any, what: Callable) -> Any:
    if isinstance(data, dict):
        return {key: _mapped(value, what) for key, value in data.items()}
    if isinstance(data, (tuple, list)):
        return tuple(_mapped(value, what) for value in data)
    return what(data)


def _joined(parts: list) -> Any:
    import torch

    if isinstance(parts[0], dict):
        return {key: _joined([part[key] for part in parts]) for key in parts[0]}
    if isinstance(parts[0], (tuple, list)):
        return tuple(_joined(list(each)) for each in zip(*parts, strict=True))
    return torch.cat(parts)


def tree_problem(model: Any, loss: Callable, data: Any, *, most: int, batch: int | None) -> Problem:
    """`loss(model, x, y)` of any tree with arrays of real numbers among its leaves."""
    import jax
    import jax.numpy as jnp

    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise ValueError(f"`data` is a {type(data).__name__}, expected inputs and targets (x, y).")
    order, word = shuffled(data[0], data[1], most)
    x, y = (_mapped(d, lambda a: jnp.asarray(np.asarray(a)[order])) for d in data)
    leaves, tree = jax.tree.flatten(model)
    named = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    real = [hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]
    if not any(real):
        raise ValueError(
            f"`model` is a {type(model).__name__} without arrays of real numbers: expected a "
            "module of PyTorch, or a tree (dict, Equinox, Flax) with the weights as its leaves."
        )

    def whole(parts: Any) -> Any:
        moving = iter(parts)
        return tree.unflatten(
            next(moving) if r else leaf for leaf, r in zip(leaves, real, strict=True)
        )

    graded = jax.jit(jax.value_and_grad(lambda parts, x, y: loss(whole(parts), x, y)))

    def evaluate(parts: tuple[Array, ...], x: Any, y: Any) -> tuple[float, tuple[Array, ...]]:
        value, g = graded(parts, x, y)
        return float(value), tuple(g)

    return Problem(
        evaluate,
        Vector(tuple(jnp.asarray(leaf) for leaf, r in zip(leaves, real, strict=True) if r)),
        x,
        y,
        lambda w: whole(w.parts),
        tuple(name for name, r in zip(named, real, strict=True) if r),
        lambda a, like: jnp.asarray(a, like.dtype),
        batch,
        [word] if word else [],
    )
