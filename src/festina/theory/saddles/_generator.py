"""Random numbers of a few small arrays, for which JAX would compile a program each."""

import jax
import numpy as np

from ..._types import Keys
from ...networks._build import check_keys


def generator(key: Keys) -> np.random.Generator:
    """NumPy's generator, seeded by a random key of JAX's."""
    return np.random.default_rng(np.asarray(jax.random.key_data(check_keys(key))).ravel())
