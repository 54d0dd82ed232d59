"""Access PyTorch, which is imported only if it is needed."""

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from typing_extensions import TypeIs

from .._optional import required

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

Function: TypeAlias = Callable[..., Any]
"""A function of the user: a loss, a metric, or an optimiser's closure."""


def torch() -> ModuleType:
    """Return the module `torch`; raise `ValueError` if PyTorch is not installed."""
    return required("torch", "PyTorch", "'festina[torch]'")


def is_module(model: object) -> TypeIs["Module"]:
    """Return whether the object is a PyTorch module, without importing PyTorch."""
    found = sys.modules.get("torch")
    return found is not None and isinstance(model, found.nn.Module)


def is_tensor(value: object) -> TypeGuard["Tensor"]:
    found = sys.modules.get("torch")
    return found is not None and isinstance(value, found.Tensor)


def is_optimizer(value: object) -> TypeGuard["Optimizer"]:
    """Return whether the object has groups of parameters like a PyTorch optimiser."""
    return hasattr(value, "param_groups")


def check_pairs(loss: Function, outputs: object, y: object) -> None:
    """Raise `ValueError` if a loss compares every output with every target.

    Shapes such as (n, 1) and (n,) broadcast to all pairs. A loss over all pairs does not depend on
    the order of the targets, even if the outputs equal the targets.
    """
    if not (is_tensor(outputs) and is_tensor(y) and y.is_floating_point()):
        return
    other = y.roll(1, 0)
    if y.shape == outputs.shape or y.numel() != outputs.numel() or bool((y == other).all()):
        return
    right = y.reshape(outputs.shape).to(outputs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            here, there = (float(loss(right, each)) for each in (y, other))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return
    if abs(here - there) < 1e-6 * abs(here):
        one, two = tuple(outputs.shape), tuple(y.shape)
        raise ValueError(
            f"outputs have shape {one} and targets {two}, and `loss` compares every output with "
            f"every target. Give targets of shape {one}: `y.reshape({one})`."
        )


def in_words(layer: str) -> str:
    """Return the name of a layer; a number becomes "layer 0", and an empty name "model"."""
    return f"layer {layer}" if layer.isdigit() else layer or "model"


def unwrapped(model: Any) -> Any:
    """Return the module inside the wrapper of a compiler or a distributor."""
    model = getattr(model, "_orig_mod", model)
    wrapped = type(model).__name__ in ("DistributedDataParallel", "DataParallel")
    return getattr(model, "module", model) if wrapped else model
