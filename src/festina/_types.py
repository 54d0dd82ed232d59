"""Type aliases shared by several modules; `help()` shows an argument's type by the alias name."""

from typing import Any, TypeAlias

import jax
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Key, UInt32
from typing_extensions import TypeAliasType

Array: TypeAlias = jax.Array | np.ndarray
"""JAX array inside a compiled program, NumPy array outside, where results stay float64."""

Flag: TypeAlias = Bool[Array, "*lane"]
Number: TypeAlias = Float[Array, "*lane"]
Column: TypeAlias = Float[Array, "weight *lane"]
"""A truth value, a number, or a column of weights for every lane (network) of a program."""

# NumPy's own alias includes `complex` numbers, and describes sequences by `__reversed__`, which
# tuples do not have, so that type checks at run time would reject tuples.
ArrayLike = TypeAliasType("ArrayLike", float | int | tuple[Any, ...] | npt.ArrayLike)
"""A number, or anything that NumPy converts to an array."""

Keys = TypeAliasType("Keys", Key[jax.Array, "..."] | UInt32[jax.Array, "... _"])
"""A random key or an array of keys, old or new style; jaxtyping's `PRNGKeyArray` is one key."""
