"""The random keys of a run."""

from typing import TypeAlias

import jax
from jaxtyping import PRNGKeyArray

from .._types import Keys
from ..networks import seeds
from ._parameters import Parameters

Key: TypeAlias = PRNGKeyArray | None
"""Where randomness comes from; without a key, from the seeds of the parameters."""


def keys_from_parameters(parameters: Parameters, key: Key) -> Keys:
    """Return one key for each seed: seed 3 is the same network however many are trained with it."""
    if key is None:
        return seeds(parameters.seeds, first=parameters.seed)
    return jax.random.split(key, parameters.seeds)
