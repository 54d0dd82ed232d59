"""Shared aliases."""

from typing import TypeAlias

import jax
import numpy as np

Array: TypeAlias = jax.Array | np.ndarray
"""JAX's inside a compiled program, NumPy's outside: results keep float64 whatever JAX's setting."""
