"""What is hidden in a network of PyTorch: candidates by how layers are called, tried each."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from ._heads import Heads
from ._layers import Hidden, Part

if TYPE_CHECKING:
    from ._torch import TorchModel

_NORMS = (nn.BatchNorm1d,)
_READERS = (nn.Linear, nn.Conv1d)
Called = list[tuple[str, nn.Module]]


def candidates(network: "TorchModel") -> Iterator[Iterator[Hidden]]:
    """Units that one layer makes and another reads."""
    order = _order(network)
    for at, (name, module) in enumerate(order):
        if isinstance(module, _READERS):
            bias = f"{name}.bias" if module.bias is not None and not _padded(module) else None
            yield _read_by(network, order[:at], name, module.weight.shape[1], bias)


def found_in_sums(network: "TorchModel") -> Iterator[Hidden]:
    """Units in arrays of a module's own, whose contributions are summed in the outputs."""
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
    """Whether the outputs are linear in an array, but for a constant."""
    some, held = network.samples.part(slice(8)), network.weights
    none, one, two = (
        network.outputs({**held, name: factor * held[name]}, some) for factor in (0.0, 1.0, 2.0)
    )
    moves = np.abs(one - none).max()
    return bool(moves > 0 and np.abs(two - 2 * one + none).max() <= 1e-9 * moves)


def _read_by(
    network: "TorchModel", before: Called, reader: str, reads: int, bias: str | None
) -> Iterator[Hidden]:
    read = Part(f"{reader}.weight", 1)
    yield from _heads(network, before, reader, reads, bias)
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


def _heads(
    network: "TorchModel", before: Called, reader: str, reads: int, bias: str | None
) -> Iterator[Hidden]:
    path = reader.rpartition(".")[0]
    home = network.modules[path]
    beside = [
        name
        for name, each in before
        if name.rpartition(".")[0] == path and isinstance(each, nn.Linear)
    ]
    leaves = [f"{name}.{leaf}" for name in beside for leaf in ("weight", "bias")]
    if isinstance(home, Heads):
        leaves += [f"{path}.in_proj_weight", f"{path}.in_proj_bias"]
    leaves = [leaf.removeprefix(".") for leaf in leaves]
    parts = tuple(
        Part(leaf, 0, network.weights[leaf].shape[0] // reads)
        for leaf in leaves
        if leaf in network.weights and network.weights[leaf].shape[0] % reads == 0
    )
    for attribute, units in vars(home).items():
        if "head" in attribute and type(units) is int and units > 1 and reads % units == 0:
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


def _order(network: "TorchModel") -> Called:
    """Layers in the order in which they are called; those called twice are nobody's."""
    called: Called = []
    hooks = [
        module.register_forward_pre_hook(
            lambda module, _, name=name: called.append((name, module))  # pyright: ignore
        )
        for name, module in network.modules.items()
        if isinstance(module, _READERS + _NORMS)
    ]
    try:
        network.outputs(network.weights, network.samples.part(slice(2)))
    finally:
        for hook in hooks:
            hook.remove()
    names = [name for name, _ in called]
    return [
        (name, module)
        for name, module in called
        if names.count(name) == 1
        and getattr(module, "groups", 1) == 1
        and (f"{name}.weight" in network.weights or isinstance(module, _NORMS))
    ]


def _padded(module: nn.Module) -> bool:
    """What is constant is not so at padded edges."""
    return isinstance(module, nn.Conv1d) and module.padding not in (0, (0,), "valid")
