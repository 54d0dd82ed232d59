"""JAX trees, whose leaves have names."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import jax

from .._types import Array


class Tree:
    """Any tree: its `leaves` by name, and a way to replace them.

    Names are those of JAX, `['layers'][0]`, or, if they are to be `plain`, `layers.0`.
    """

    def __init__(self, model: object, *, plain: bool = False):
        try:
            paths, self._structure = jax.tree.flatten_with_path(model)
        except (TypeError, ValueError) as error:  # keys that cannot be sorted
            raise ValueError(
                f"`model` is no tree of arrays, names of one kind are expected: {error}"
            ) from error
        self.leaves = dict[str, Any]()
        for path, leaf in paths:
            name = jax.tree_util.keystr(path, simple=plain, separator="." if plain else "")
            if name in self.leaves:
                raise ValueError(f"`model` has two arrays called '{name}': rename one of them.")
            self.leaves[name] = leaf

    def replaced(self, leaves: Mapping[str, object]) -> Any:
        return self._structure.unflatten({**self.leaves, **leaves}.values())


def is_real(leaf: object) -> TypeGuard[Array]:
    """Return whether the value is an array of real numbers, of NumPy or JAX."""
    kind = getattr(leaf, "dtype", None)
    return kind is not None and bool(jax.numpy.issubdtype(kind, jax.numpy.floating))
