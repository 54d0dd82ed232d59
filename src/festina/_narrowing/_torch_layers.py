"""Find hidden layers in PyTorch: test candidates from the order in which layers are called."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from ._heads import Heads
from ._layers import Hidden, Part
from ._pytorch import Function

if TYPE_CHECKING:
    from ._torch import TorchModel

_NORMS = (nn.BatchNorm1d,)
_READERS = (nn.Linear, nn.Conv1d)
Called = list[tuple[str, nn.Module]]


def candidates(network: "TorchModel") -> Iterator[Iterator[Hidden]]:
    """Yield for each reader its candidates: units that an earlier layer makes."""
    called = order(network)
    for at, (name, module) in enumerate(called):
        if isinstance(module, _READERS):
            bias = f"{name}.bias" if module.bias is not None and not _padded(module) else None
            yield _read_by(network, called[:at], name, module.weight.shape[1], bias)


def found_in_sums(network: "TorchModel") -> Iterator[Hidden]:
    """Yield units in a module's own parameters, if the outputs sum their contributions."""
    for path, module in network.modules.items():
        arrays = {
            f"{path}.{leaf}".removeprefix("."): each
            for leaf, each in module.named_parameters(recurse=False)
        }
        sizes = [(name, size) for name, each in arrays.items() for size in each.shape]
        for name, units in reversed(sizes):
            parts = {
                each: Part(each, list(array.shape).index(units))
                for each, array in arrays.items()
                if units in array.shape
            }
            axis = parts.pop(name).axis
            if not parts:
                continue
            held = network.weights[name]
            wide = np.moveaxis(held, axis, 0)
            network.weights[name] = wide.ravel()
            network.flat[name] = axis, wide.shape[1:]
            makers, block = tuple(parts.values()), wide.size // units
            layer = Hidden(path or "units", units, makers, Part(name), None, block, summed=True)
            if _linear(network, name) and network.is_hidden(layer):
                yield layer
                return
            network.weights[name] = held
            del network.flat[name]


def _linear(network: "TorchModel", name: str) -> bool:
    """Return whether the outputs are an affine function of an array."""
    some, held = network.samples.part(slice(8)), network.weights
    none, one, two = (
        network.outputs({**held, name: factor * held[name]}, some) for factor in (0.0, 1.0, 2.0)
    )
    moves = np.abs(one - none).max()
    return bool(moves > 0 and np.abs(two - 2 * one + none).max() <= 1e-9 * moves)


def _read_by(
    network: "TorchModel", before: Called, reader: str, reads: int, bias: str | None
) -> Iterator[Hidden]:
    """Yield heads of the reader's module, then units of the layers before the reader."""
    path, read = reader.rpartition(".")[0], Part(f"{reader}.weight", 1)
    makers = _makers_of_heads(network, path, before, reads)
    for attribute, units in vars(network.modules[path]).items():
        if "head" in attribute and type(units) is int and units > 1 and reads % units == 0:
            size, counted = reads // units, (path, attribute)
            yield Hidden(path or "heads", units, makers, read, bias, size, False, counted)
    between: list[str] = []
    for name, module in reversed(before):
        if isinstance(module, _NORMS):
            leaves = ("weight", "bias", "running_mean", "running_var")
            between += [f"{name}.{leaf}" for leaf in leaves]
        elif isinstance(module, _READERS) and reads % module.weight.shape[0] == 0:
            units = module.weight.shape[0]
            parts = tuple(
                Part(each)
                for each in (f"{name}.weight", f"{name}.bias", *between)
                if each in network.weights and len(network.weights[each]) == units
            )
            yield Hidden(name, units, parts, read, bias, reads // units, free=not between)


def _makers_of_heads(
    network: "TorchModel", path: str, before: Called, reads: int
) -> tuple[Part, ...]:
    """Return the linear layers of an attention module, or PyTorch's joint array for them."""
    beside = [name for name, each in before if isinstance(each, nn.Linear)]
    leaves = [
        f"{name}.{leaf}"
        for name in beside
        for leaf in ("weight", "bias")
        if name.rpartition(".")[0] == path
    ]
    if isinstance(network.modules[path], Heads):
        leaves += [f"{path}.in_proj_{leaf}".removeprefix(".") for leaf in ("weight", "bias")]
    sizes = {leaf: len(network.weights[leaf]) for leaf in leaves if leaf in network.weights}
    return tuple(Part(leaf, 0, n // reads) for leaf, n in sizes.items() if n % reads == 0)


def order(network: "TorchModel") -> Called:
    """Return layers in the order of their calls, without layers that are called twice."""
    called: Called = []
    calls = [
        (module, lambda module, _, name=name: called.append((name, module)))
        for name, module in network.modules.items()
        if isinstance(module, _READERS + _NORMS)
    ]
    with before_calls(calls):
        network.outputs(network.weights, network.samples.part(slice(2)))
    names = [name for name, _ in called]
    return [
        (name, module)
        for name, module in called
        if names.count(name) == 1
        and getattr(module, "groups", 1) == 1
        and (f"{name}.weight" in network.weights or isinstance(module, _NORMS))
    ]


@contextmanager
def before_calls(calls: Iterable[tuple[nn.Module, Function]]) -> Iterator[None]:
    """Within the block, call a function before each of these modules, with the module's inputs."""
    hooks = [module.register_forward_pre_hook(call) for module, call in calls]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _padded(module: nn.Module) -> bool:
    """Return whether a layer pads its inputs, so that a constant response differs at the edges."""
    return isinstance(module, nn.Conv1d) and module.padding not in (0, (0,), "valid")
