"""The random keys of a run, one for each seed."""

from typing import TypeAlias

import jax
from jaxtyping import PRNGKeyArray

from .._types import Keys
from ..networks import seeds
from ._parameters import Parameters

Key: TypeAlias = PRNGKeyArray | None
"""Random key of a run, or None to derive the keys from the seeds of the parameters.

**Example:**

>>> import jax
>>> from festina.experiments import Parameters, keys_from_parameters
>>> keys_from_parameters(Parameters(seeds=3), jax.random.key(7)).shape
(3,)
"""


def keys_from_parameters(parameters: Parameters, key: Key) -> Keys:
    """Return one random key for each seed of an experiment.

    Without `key`, seed 3 gives the same network however many seeds are trained.

    **Arguments:**

    - `parameters`: parameters with the number of seeds and the first seed.
    - `key`: random key that is split among the seeds, or None.

    **Returns:**

    An array of JAX keys, `(seed,)`.

    **Example:**

    >>> from festina.experiments import Parameters, keys_from_parameters
    >>> keys_from_parameters(Parameters(seeds=3), None).shape
    (3,)
    """
    if key is None:
        return seeds(parameters.seeds, first=parameters.seed)
    return jax.random.split(key, parameters.seeds)
