"""PyTorch, which is asked for only where it is needed."""

import sys
from types import ModuleType
from typing import Any


def torch() -> ModuleType:
    """The package, or one line that says how to get it."""
    try:
        import torch as found
    except ImportError as error:
        raise ValueError(
            "This needs PyTorch, which is not installed: pip install 'festina[torch]'."
        ) from error
    return found


def is_module(model: Any) -> bool:
    """Whether it is a module of PyTorch's; where that was never imported nothing is."""
    found = sys.modules.get("torch")
    return found is not None and isinstance(model, found.nn.Module)


def is_tensor(value: Any) -> bool:
    found = sys.modules.get("torch")
    return found is not None and isinstance(value, found.Tensor)


def unwrapped(model: Any) -> Any:
    """The module that a compiler or a distributor was wrapped around."""
    model = getattr(model, "_orig_mod", model)
    wrapped = type(model).__name__ in ("DistributedDataParallel", "DataParallel")
    return model.module if wrapped else model
