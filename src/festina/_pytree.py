"""Frozen dataclasses as trees of arrays, which JAX maps, batches and differentiates."""

import dataclasses
from typing import Any, TypeVar

import jax

Kind = TypeVar("Kind")


def pytree(cls: type[Kind]) -> type[Kind]:
    """Register a frozen dataclass as a tree; fields marked `static` are part of its kind.

    JAX also makes trees of things that are no arrays, which `__init__` has every right to refuse:
    here they go past it.
    """
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    static = [field.name for field in fields if field.metadata.get("static")]
    leaves = [field.name for field in fields if field.name not in static]

    def flatten(tree: Any) -> tuple[tuple, tuple]:
        keyed = ((jax.tree_util.GetAttrKey(name), getattr(tree, name)) for name in leaves)
        return tuple(keyed), tuple(getattr(tree, name) for name in static)

    def unflatten(kind: tuple, children: Any) -> Any:
        tree = object.__new__(cls)
        values = (*children, *kind)
        for name, value in zip((*leaves, *static), values, strict=True):
            object.__setattr__(tree, name, value)
        return tree

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls
