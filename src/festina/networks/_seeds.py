"""One random key for each seed."""

import jax
import numpy as np

from .._checks import whole_number
from .._types import Keys

_USUAL = "threefry2x32"


def seeds(count: int, *, first: int = 0) -> Keys:
    """Return keys of the seeds `first`, `first + 1`, … for a batch of `count` networks.

    Seed 3 is the same network, however many others are trained beside it.
    """
    count, first = whole_number("count", count), whole_number("first", first, least=0)
    if first + count > 2**32:
        raise ValueError(f"Seeds end at 2³² − 1, got {count} of them from {first}.")
    numbers = first + np.arange(count)
    if jax.config.jax_default_prng_impl != _USUAL:  # pyright: ignore[reportAttributeAccessIssue]
        return jax.vmap(jax.random.key)(numbers)
    # The same by hand, which needs no program: the key of a seed is its number in two words.
    words = np.stack((np.zeros_like(numbers), numbers), axis=1).astype(np.uint32)
    return jax.random.wrap_key_data(jax.device_put(words), impl=_USUAL)
