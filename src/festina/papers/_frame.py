"""What stands around the run of every experiment: precision, progress, and a key for each seed."""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import jax
import xarray as xr
from jaxtyping import PRNGKeyArray

from .._precision import float64
from ..networks import seeds
from ..networks._seeds import Keys
from ._parameters import Parameters
from ._registry import Progress

_Own = TypeVar("_Own", bound=Parameters, contravariant=True)


@runtime_checkable  # tests check types at run time
class Run(Protocol[_Own]):
    """How an experiment is called."""

    def __call__(
        self,
        parameters: _Own,
        *,
        key: PRNGKeyArray | None = None,
        progress: Progress | None = None,
    ) -> xr.DataTree: ...


def experiment(body: Callable[[_Own, PRNGKeyArray | None, Progress], xr.DataTree]) -> Run[_Own]:
    """Make the `run` of an experiment from a body that computes it and says what it is doing.

    It computes in float64, is silent unless asked for progress, and says when it is done.
    """

    def run(
        parameters: _Own,
        *,
        key: PRNGKeyArray | None = None,
        progress: Progress | None = None,
    ) -> xr.DataTree:
        say = progress or (lambda words, fraction: None)
        tree = body(parameters, key, say)
        say("done", 1.0)
        return tree

    # Not `functools.wraps`: `help(run)` is to show these arguments, with the type of the body's.
    run.__module__, run.__qualname__, run.__doc__ = body.__module__, "run", body.__doc__
    run.__annotations__["parameters"] = body.__annotations__["parameters"]
    return float64(run)


def keys_of(parameters: Parameters, key: PRNGKeyArray | None) -> Keys:
    """One key for each seed: seed 3 is the same network however many are trained with it."""
    if key is None:
        return seeds(parameters.seeds, first=parameters.seed)
    return jax.random.split(key, parameters.seeds)


def part_of(say: Progress, start: float, share: float) -> Progress:
    """Progress of a piece of work that begins at `start` and is this share of the whole."""
    return lambda words, done: say(words, start + share * done)
