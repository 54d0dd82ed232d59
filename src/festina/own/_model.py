"""Whose network it is: that of PyTorch, or of JAX."""

from typing import Any

from ._layers import AbstractModel


def model_of(model: Any, x: Any) -> AbstractModel:
    """Reads a network of PyTorch, or of JAX."""
    if any(base.__module__.startswith("torch.") for base in type(model).__mro__):
        from ._torch import TorchModel

        return TorchModel(model, x)
    raise ValueError(f"`model` must be a `torch.nn.Module`, got {type(model).__name__}.")
