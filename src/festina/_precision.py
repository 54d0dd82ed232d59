"""Float64 where we compute, without touching the user's JAX configuration."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

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


def compiled(
    *static: str,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Compile a formula, once for each shape and each value of its `static` arguments.

    Called with numbers it computes in float64 and gives NumPy arrays, which keep their precision
    outside. Called while JAX traces (`jit`, `grad`, `vmap`) it is part of the caller's program; for
    double precision there, trace under `jax.enable_x64(True)`.
    """

    def wrap(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        program = jax.jit(function, static_argnames=static)

        @functools.wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            if is_traced(args, kwargs):
                args, kwargs = jax.tree.map(_view, (args, kwargs))
                return program(*args, **kwargs)
            args, kwargs = jax.tree.map(_double, (args, kwargs))
            with jax.enable_x64(True):
                return jax.tree.map(np.asarray, program(*args, **kwargs))

        return call

    return wrap


def _double(leaf: Any) -> Any:
    """JAX's own arrays are float32 by default, and a program computes in what it is given."""
    dtype = getattr(leaf, "dtype", None)
    lower = dtype is not None and jnp.issubdtype(dtype, jnp.floating)
    return np.asarray(leaf, dtype=float) if lower and dtype != np.float64 else _view(leaf)


def _view(leaf: Any) -> Any:
    """JAX knows a NumPy array by its object: one met in float32 is taken for float32 ever after."""
    return leaf.view() if isinstance(leaf, np.ndarray) else leaf


def is_traced(*values: Any) -> bool:
    """Whether any of these stands for a value that is not known yet and cannot be checked."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))
