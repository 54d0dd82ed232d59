"""Float64 where we compute, without touching the user's JAX configuration."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def float64(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Run a public function in double precision and leave JAX's global flag as it was.

    Leaving a saddle amplifies rounding by orders of magnitude, so single precision is no option;
    and a library that flips `jax_enable_x64` at import changes programs that it knows nothing of.
    """

    @functools.wraps(function)
    def scoped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return scoped
