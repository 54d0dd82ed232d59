"""Shared aliases. Those of arguments are called by their names in `help()`, not spelled out."""

from typing import Any, TypeAlias

import jax
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Key, UInt32
from typing_extensions import TypeAliasType

Array: TypeAlias = jax.Array | np.ndarray
"""JAX's inside a compiled program, NumPy's outside: results keep float64 whatever JAX's setting."""

Flag: TypeAlias = Bool[Array, "*lane"]
Number: TypeAlias = Float[Array, "*lane"]
Column: TypeAlias = Float[Array, "weight *lane"]
"""Of every network that a program runs: whether, how much, and a number for each weight."""

# NumPy's own alias writes numbers as `complex` and sequences as what has `__reversed__`, which no
# tuple has: checks at run time take it at its word.
ArrayLike = TypeAliasType("ArrayLike", float | int | tuple[Any, ...] | npt.ArrayLike)
"""A number, or what NumPy makes an array of."""

Keys = TypeAliasType("Keys", Key[jax.Array, "..."] | UInt32[jax.Array, "... _"])
"""One key or an array of them, of either kind; jaxtyping's `PRNGKeyArray` is a single one."""
