"""Trees of JAX, whose leaves have names."""

from collections.abc import Mapping
from typing import Any

import jax


class Tree:
    """Any tree: its `leaves` by name, and trees alike with others in their place.

    Names are those of JAX, `['layers'][0]`, or, if they are to be `plain`, `layers.0`.
    """

    def __init__(self, model: Any, *, plain: bool = False):
        paths, self._structure = jax.tree.flatten_with_path(model)
        words = {"simple": True, "separator": "."} if plain else {}
        self.leaves = {jax.tree_util.keystr(path, **words): leaf for path, leaf in paths}

    def replaced(self, leaves: Mapping[str, Any]) -> Any:
        return self._structure.unflatten({**self.leaves, **leaves}.values())


def is_real(leaf: Any) -> bool:
    """Whether it is an array of real numbers, of NumPy or JAX."""
    return hasattr(leaf, "dtype") and bool(jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating))
