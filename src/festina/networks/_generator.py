"""NumPy's random numbers, for small arrays: JAX would compile a program for each shape."""

import jax
import numpy as np

from .._types import Keys
from ._build import check_keys


def generator(key: Keys | None) -> np.random.Generator:
    """Return NumPy's random generator, seeded with a JAX random key, or with 0 without a key."""
    words = 0 if key is None else np.asarray(jax.random.key_data(check_keys(key))).ravel()
    return np.random.default_rng(words)
