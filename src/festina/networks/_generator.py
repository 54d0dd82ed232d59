"""Random numbers of a few small arrays, for which JAX would compile a program each."""

import jax
import numpy as np

from .._types import Keys
from ._build import check_keys


def generator(key: Keys | None) -> np.random.Generator:
    """Return NumPy's generator, seeded by a random key of JAX's; without one by zero, as key 0."""
    words = 0 if key is None else np.asarray(jax.random.key_data(check_keys(key))).ravel()
    return np.random.default_rng(words)
