"""One random key for each seed."""

import jax
import numpy as np

from .._checks import whole_number
from .._types import Keys

_USUAL = "threefry2x32"


def seeds(count: int, *, first: int = 0) -> Keys:
    """Return `count` random keys, one for each of the seeds `first`, `first + 1`, ….

    Functions that draw networks take the keys as `key` and return a batch with one network for each
    seed. The network of a seed does not depend on the other seeds in the batch.

    **Example:**

    >>> from festina.networks import diagonal_linear, seeds
    >>> seeds(3).shape
    (3,)
    >>> diagonal_linear(4, scale=0.1, key=seeds(3, first=10)).labels["seed"]
    array([10, 11, 12])
    """
    count, first = whole_number("count", count), whole_number("first", first, least=0)
    if first + count > 2**32:
        raise ValueError(
            f"Seeds must be below 2³², but `count` {count} and `first` {first} lead up to "
            f"{first + count - 1}. Use a smaller `first`."
        )
    numbers = first + np.arange(count)
    if jax.config.jax_default_prng_impl != _USUAL:  # pyright: ignore[reportAttributeAccessIssue]
        return jax.vmap(jax.random.key)(numbers)
    # The data of a seed's key are two 32-bit words, 0 and the seed; no program has to be compiled.
    words = np.stack((np.zeros_like(numbers), numbers), axis=1).astype(np.uint32)
    return jax.random.wrap_key_data(jax.device_put(words), impl=_USUAL)
