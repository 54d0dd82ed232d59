"""Shared aliases."""

from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Key, UInt32

Array: TypeAlias = jax.Array | np.ndarray
"""JAX's inside a compiled program, NumPy's outside: results keep float64 whatever JAX's setting."""

Keys: TypeAlias = Key[jax.Array, "..."] | UInt32[jax.Array, "... _"]
"""One key or an array of them, of either kind; jaxtyping's `PRNGKeyArray` is a single one."""
