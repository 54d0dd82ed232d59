"""Give names to the leaves of JAX trees."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import jax

from .._types import Array


class Tree:
    """A JAX tree with its `leaves` by name, which can be replaced.

    Names are JAX paths such as `['layers'][0]`, or `layers.0` if `plain`.
    """

    def __init__(self, model: object, *, plain: bool = False):
        try:
            paths, self._structure = jax.tree.flatten_with_path(model)
        except (TypeError, ValueError) as error:  # keys that cannot be sorted
            raise ValueError(
                f"`model` is not a tree of arrays, expected dicts with keys of one type: {error}"
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
