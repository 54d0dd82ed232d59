"""A network of PyTorch: read with hooks, run with weights of any width."""

import copy
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn
from torch.func import functional_call

from ._heads import Heads
from ._inputs import inputs_of
from ._layers import AbstractModel, Hidden, Part, Rows, Weights, is_hidden

_BATCH = 1024  # inputs at a time
_PROBES = 16  # directions of the outputs along which units are weighed, where there are more
_NORMS = (nn.BatchNorm1d,)
_READERS = (nn.Linear, nn.Conv1d)


class TorchModel(AbstractModel):
    """A copy of a module in evaluation mode and double precision; the module stays as it is."""

    def __init__(self, model: nn.Module, x: Any):
        self._original = model
        tensors = [*model.parameters(), *model.buffers()]
        self._device = tensors[0].device if tensors else torch.device("cpu")
        self._real = torch.float32 if self._device.type == "mps" else torch.float64
        self._module = copy.deepcopy(model).eval()
        Heads.replace(self._module)
        self._module.to(self._real).requires_grad_(False)
        self._x, self.taken = inputs_of(x, self._device, self._real)
        self.samples = len(self._x[0])
        state = {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}
        self.weights = {
            name: value.detach().cpu().numpy().astype(float)
            for name, value in state.items()
            if value.is_floating_point()
        }
        self._parameters = [name for name, _ in self._module.named_parameters()]
        self._modules = dict(self._module.named_modules())
        self.notes = tuple(_notes(model))
        self.hidden: tuple[Hidden, ...] = ()
        self._kept: dict[Any, tuple[torch.Tensor, ...]] = {}
        self._flat: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._check()
        self.hidden = tuple(self._found()) or tuple(self._found_sums())

    # What it computes.

    def outputs(self, weights: Weights, rows: Rows) -> Float[np.ndarray, "sample number"]:
        with torch.no_grad():
            return np.concatenate([_plain(y) for y in self._batches(self._tensors(weights), rows)])

    def reads(
        self, weights: Weights, rows: Rows, layers: tuple[Hidden, ...]
    ) -> dict[str, np.ndarray]:
        if layers[0].summed:
            return {layer.name: self._factors(weights, rows, layer) for layer in layers}
        found: dict[str, list[np.ndarray]] = {layer.name: [] for layer in layers}
        with torch.no_grad(), self._hooked(layers, seen=found):
            for _ in self._batches(self._tensors(weights), rows):
                pass
        return {name: np.concatenate(each) for name, each in found.items()}

    def contributions(self, rows: Rows) -> dict[str, np.ndarray]:
        """By probes of random signs along the outputs, or along each of few outputs."""
        total = {layer.name: np.zeros(layer.units) for layer in self.hidden}
        if self.hidden[0].summed:
            for layer, reads in zip(
                self.hidden, self.reads(self.weights, rows, self.hidden).values(), strict=True
            ):
                part = (reads * self.weights[layer.reader.name]).reshape(
                    -1, layer.units, layer.block
                )
                total[layer.name] = (part.sum(-1) ** 2).sum(0) / len(self._chosen(rows)[0])
            return total
        given: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        count = 0
        with torch.enable_grad(), self._hooked(self.hidden, given=given):
            for y in self._batches(self._tensors(self.weights), rows):
                count += len(y)
                nudges = [given[layer.name][0] for layer in self.hidden]
                for probe in _probes(y.shape[1]):
                    along = y @ torch.as_tensor(probe, dtype=y.dtype, device=y.device)
                    slopes = torch.autograd.grad(along.sum(), nudges, retain_graph=True)
                    for layer, slope in zip(self.hidden, slopes, strict=True):
                        part = _plain(given[layer.name][1] * slope)
                        part = part.reshape(len(part), layer.units, layer.block)
                        total[layer.name] += (part.sum(-1) ** 2).sum(0)
        return {name: each / count for name, each in total.items()}

    def slope(
        self, weights: Weights, rows: Rows, target: Any, loss: Callable[..., Any] | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        tensors = self._tensors(weights)
        moved = {name: tensors[name].requires_grad_() for name in self._parameters}
        with torch.enable_grad():
            y = _first(self._raw(tensors, self._chosen(rows)))
            if loss is None:
                goal = torch.as_tensor(target, dtype=y.dtype, device=y.device)
                value = 0.5 * (y.reshape(goal.shape) - goal).square().sum() / len(goal)
            else:
                value = loss(y, target[rows])
            slopes = torch.autograd.grad(value, list(moved.values()), allow_unused=True)
        found = zip(moved, slopes, strict=True)
        return float(value.detach()), {name: _array(s) for name, s in found if s is not None}

    def targets(self, y: Any) -> torch.Tensor:
        found = torch.as_tensor(y)
        if found.ndim == 0 or len(found) <= self.taken[-1]:
            raise ValueError(
                f"`y` must hold one target for each of the inputs, got shape {tuple(found.shape)}."
            )
        kept = found[torch.as_tensor(self.taken, device=found.device)]
        return kept.to(self._device, self._real if kept.is_floating_point() else kept.dtype)

    def built(self, weights: Weights) -> nn.Module:
        """A copy of the module as it was given, with narrower layers."""
        model = copy.deepcopy(self._original)
        narrow = {layer.name for layer in self.hidden if self._width(layer, weights) != layer.units}
        for layer in self.hidden:
            if layer.heads and layer.name in narrow:
                Heads.replace(model, only=layer.name)
        modules, old = dict(model.named_modules()), dict(model.state_dict())
        for name, array in weights.items():
            if name not in old:
                continue
            path, _, leaf = name.rpartition(".")
            home, was = modules[path], old[name]
            value = torch.as_tensor(array, dtype=was.dtype, device=was.device)
            value = self._shaped(name, value).contiguous()
            if leaf in home._parameters:
                learns = home._parameters[leaf].requires_grad  # pyright: ignore
                value = nn.Parameter(value, requires_grad=learns)
            setattr(home, leaf, value)
        for layer in self.hidden:
            if layer.counted:
                setattr(modules[layer.counted[0]], layer.counted[1], self._width(layer, weights))
        for module in modules.values():
            _sized(module)
        return model

    # How it is run.

    def _tensors(self, weights: Weights) -> dict[str, torch.Tensor]:
        return {
            name: torch.as_tensor(each, dtype=self._real, device=self._device)
            for name, each in weights.items()
        }

    def _chosen(self, rows: Rows) -> tuple[torch.Tensor, ...]:
        """Inputs, kept: a fit asks for the same ones a thousand times."""
        key = rows.tobytes() if isinstance(rows, np.ndarray) else str(rows)
        if key not in self._kept:
            index = rows if isinstance(rows, slice) else torch.as_tensor(rows, device=self._device)
            self._kept[key] = tuple(each[index] for each in self._x)
        return self._kept[key]

    def _raw(self, tensors: dict[str, torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> Any:
        shaped = {name: self._shaped(name, each) for name, each in tensors.items()}
        with self._counts(tensors):
            return functional_call(self._module, shaped, inputs)

    def _shaped(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """As the module has it, what is kept flat."""
        if name not in self._flat:
            return tensor
        axis, rest = self._flat[name]
        return tensor.reshape(-1, *rest).movedim(0, axis)

    def _batches(self, tensors: dict[str, torch.Tensor], rows: Rows) -> Iterator[torch.Tensor]:
        for batch in zip(*(each.split(_BATCH) for each in self._chosen(rows)), strict=True):
            yield _first(self._raw(tensors, batch)).reshape(len(batch[0]), -1)

    @contextmanager
    def _counts(self, tensors: dict[str, torch.Tensor]) -> Iterator[None]:
        """Attention is told how many heads it has."""
        held = [layer for layer in self.hidden if layer.counted]
        for layer in held:
            path, name = layer.counted  # pyright: ignore
            setattr(self._modules[path], name, self._width(layer, tensors))
        try:
            yield
        finally:
            for layer in held:
                path, name = layer.counted  # pyright: ignore
                setattr(self._modules[path], name, layer.units)

    def _width(self, layer: Hidden, weights: Any) -> int:
        return weights[layer.reader.name].shape[layer.reader.axis] // layer.block

    # What readers are given.

    @contextmanager
    def _hooked(
        self,
        layers: tuple[Hidden, ...],
        *,
        seen: dict[str, list[np.ndarray]] | None = None,
        given: dict[str, tuple[torch.Tensor, torch.Tensor]] | None = None,
    ) -> Iterator[None]:
        """Notes what readers are given, or gives them something that slopes are taken of."""

        def before(module: nn.Module, inputs: tuple[Any, ...], name: str) -> Any:
            read = inputs[0]
            last = read.movedim(-2, -1) if isinstance(module, nn.Conv1d) else read
            if seen is not None:
                seen[name].append(_plain(last))
            if given is not None:
                nudge = torch.zeros_like(last, requires_grad=True)
                given[name] = nudge, last.detach()
                moved = last + nudge
                return moved.movedim(-1, -2) if isinstance(module, nn.Conv1d) else moved
            return None

        readers = [self._modules[layer.reader.name.rpartition(".")[0]] for layer in layers]
        hooks = [
            reader.register_forward_pre_hook(functools.partial(before, name=layer.name))
            for reader, layer in zip(readers, layers, strict=True)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _factors(self, weights: Weights, rows: Rows, layer: Hidden) -> np.ndarray:
        """What a flat array is multiplied with in the outputs, which are linear in it."""
        name, size = layer.reader.name, weights[layer.reader.name].size
        at = lambda flat: self.outputs({**weights, name: flat}, rows).ravel()
        none = at(np.zeros(size))
        return np.column_stack([at(each) - none for each in np.eye(size)])

    # What is hidden in it.

    def _check(self) -> None:
        few = slice(64)
        try:
            here = self.outputs(self.weights, few)
        except (RuntimeError, TypeError, IndexError) as error:
            raise ValueError(
                f"`model` does not take these inputs {tuple(self._x[0].shape)}: "
                f"{str(error).splitlines()[0]}"
            ) from error
        if not np.isfinite(here).all():
            raise ValueError(
                "The outputs of `model` are not finite. Its weights or `x` hold NaN or infinity: "
                "take a checkpoint from before that."
            )
        if not np.array_equal(here, self.outputs(self.weights, few)):
            raise ValueError(
                "`model` gives other outputs when it is run again, though in evaluation mode: draw "
                "what is random in it once, or leave it out in `eval()`."
            )

    def _found(self) -> Iterator[Hidden]:
        order = self._order()
        taken: set[str] = set()
        for at, (name, module) in enumerate(order):
            if not isinstance(module, _READERS):
                continue
            reads = module.weight.shape[1]
            bias = f"{name}.bias" if module.bias is not None and not _padded(module) else None
            for layer in self._candidates(order[:at], name, reads, bias):
                if not taken & {part.name for part in layer.makers} and is_hidden(self, layer):
                    taken |= {part.name for part in layer.makers}
                    yield layer
                    break

    def _found_sums(self) -> Iterator[Hidden]:
        """Units in arrays of a module's own, whose contributions are summed in the outputs."""
        for path, module in self._modules.items():
            front = f"{path}." if path else ""
            arrays = {
                f"{front}{leaf}": each for leaf, each in module.named_parameters(recurse=False)
            }
            for name, units in reversed(
                [(n, size) for n, each in arrays.items() for size in each.shape]
            ):
                parts = {
                    each: Part(each, list(array.shape).index(units))
                    for each, array in arrays.items()
                    if units in array.shape
                }
                reader = parts.pop(name)
                if not parts:
                    continue
                wide = np.moveaxis(self.weights[name], reader.axis, 0)
                held, self.weights[name] = self.weights[name], wide.ravel()
                self._flat[name] = reader.axis, wide.shape[1:]
                block = wide.size // units
                makers = tuple(parts.values())
                layer = Hidden(path or "units", units, makers, Part(name), None, block, summed=True)
                if self._linear(name) and is_hidden(self, layer):
                    yield layer
                    return
                self.weights[name] = held
                del self._flat[name]

    def _linear(self, name: str, rows: Rows = slice(8)) -> bool:
        """Whether the outputs are linear in an array, but for a constant."""
        none, one, two = (
            self.outputs({**self.weights, name: factor * self.weights[name]}, rows)
            for factor in (0.0, 1.0, 2.0)
        )
        moves = np.abs(one - none).max()
        return bool(moves > 0 and np.abs(two - 2 * one + none).max() <= 1e-9 * moves)

    def _candidates(
        self, before: list[tuple[str, nn.Module]], reader: str, reads: int, bias: str | None
    ) -> Iterator[Hidden]:
        read = Part(f"{reader}.weight", 1)
        yield from self._heads(before, reader, reads, bias)
        norms: list[str] = []
        for name, module in reversed(before):
            if isinstance(module, _NORMS):
                norms.append(name)
            elif isinstance(module, _READERS) and reads % module.weight.shape[0] == 0:
                units = module.weight.shape[0]
                between = [
                    f"{norm}.{leaf}"
                    for norm in norms
                    for leaf in ("weight", "bias", "running_mean", "running_var")
                ]
                names = [f"{name}.weight", f"{name}.bias", *between]
                parts = tuple(
                    Part(each)
                    for each in names
                    if each in self.weights and len(self.weights[each]) == units
                )
                block = reads // units
                yield Hidden(name, units, parts, read, bias, block, free=not between)

    def _heads(
        self, before: list[tuple[str, nn.Module]], reader: str, reads: int, bias: str | None
    ) -> Iterator[Hidden]:
        path = reader.rpartition(".")[0]
        home = self._modules[path]
        for attribute, units in vars(home).items():
            if "head" not in attribute or type(units) is not int or units < 2 or reads % units:
                continue
            names = [
                name
                for name, each in before
                if name.rpartition(".")[0] == path and isinstance(each, nn.Linear)
            ]
            leaves = [f"{name}.{leaf}" for name in names for leaf in ("weight", "bias")]
            if isinstance(home, Heads):
                leaves += [f"{path}.in_proj_weight", f"{path}.in_proj_bias"]
            leaves = [leaf.removeprefix(".") for leaf in leaves]
            parts = tuple(
                Part(leaf, 0, self.weights[leaf].shape[0] // reads)
                for leaf in leaves
                if leaf in self.weights and self.weights[leaf].shape[0] % reads == 0
            )
            yield Hidden(
                path or "heads",
                units,
                parts,
                Part(f"{reader}.weight", 1),
                bias,
                reads // units,
                free=False,
                counted=(path, attribute),
            )

    def _order(self) -> list[tuple[str, nn.Module]]:
        """Layers in the order in which they are called; those called twice are nobody's."""
        called: list[tuple[str, nn.Module]] = []
        hooks = [
            module.register_forward_pre_hook(
                lambda module, _, name=name: called.append((name, module))  # pyright: ignore
            )
            for name, module in self._modules.items()
            if isinstance(module, _READERS + _NORMS)
        ]
        try:
            self.outputs(self.weights, slice(2))
        finally:
            for hook in hooks:
                hook.remove()
        names = [name for name, _ in called]
        return [
            (name, module)
            for name, module in called
            if names.count(name) == 1
            and getattr(module, "groups", 1) == 1
            and (f"{name}.weight" in self.weights or isinstance(module, _NORMS))
        ]


def _first(found: Any) -> torch.Tensor:
    """The outputs, of models that give more."""
    if isinstance(found, dict):
        found = found.get("logits", next(iter(found.values()), None))
    for name in ("logits", "last_hidden_state"):
        found = getattr(found, name, found)
    found = found[0] if isinstance(found, tuple | list) else found
    if not isinstance(found, torch.Tensor):
        raise ValueError(
            f"`model` must give a tensor, or one first of all it gives, got {type(found).__name__}."
        )
    return found


def _plain(rows: torch.Tensor) -> np.ndarray:
    return _array(rows.reshape(-1, rows.shape[-1]))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().astype(float)


def _probes(count: int) -> np.ndarray:
    if count <= _PROBES:
        return np.eye(count)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, count))
    return signs / math.sqrt(_PROBES)


def _padded(module: nn.Module) -> bool:
    """What is constant is not so at padded edges."""
    return isinstance(module, nn.Conv1d) and module.padding not in (0, (0,), "valid")


def _sized(module: nn.Module) -> None:
    """A layer says how wide it is."""
    match module:
        case nn.Linear():
            module.out_features, module.in_features = module.weight.shape
        case nn.Conv1d() if module.groups == 1:
            module.out_channels, module.in_channels = module.weight.shape[:2]
        case nn.BatchNorm1d() if module.running_mean is not None:
            module.num_features = len(module.running_mean)


def _notes(model: nn.Module) -> Iterator[str]:
    kinds = {type(module).__name__ for module in model.modules()}
    drops = any(isinstance(module, nn.modules.dropout._DropoutNd) for module in model.modules())
    norms = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    if model.training and (drops or norms):
        what = " and ".join(["dropout off"] * drops + ["batch norm with its running means"] * norms)
        yield f"judged in evaluation mode: {what}"
    if any("Norm" in kind for kind in kinds) and not norms:
        yield "units in front of a normalisation over units are left as they are"
