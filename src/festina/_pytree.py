"""Register frozen dataclasses as JAX pytrees, which JAX can map, batch and differentiate."""

import dataclasses
from typing import Any, TypeVar

import jax

Kind = TypeVar("Kind")


def pytree(cls: type[Kind]) -> type[Kind]:
    """Register a frozen dataclass as a pytree; fields with `static` metadata are not leaves.

    Unflattening skips `__init__`, because JAX also unflattens placeholders that are not arrays, and
    `__init__` would reject those placeholders.
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
