"""Compute in float64 without changing the user's JAX configuration."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ._compiler import HASTY, QUICK
from ._lanes import accelerated

_MANY = 10_000  # numbers with which a formula runs for as long as it compiles

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def float64(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate a function so that JAX computes in float64 during the call.

    JAX's global setting is unchanged afterwards, because other code of the user depends on it.
    Single precision is not enough: leaving a saddle amplifies rounding errors by orders of
    magnitude.
    """

    @functools.wraps(function)
    def scoped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return scoped


def compiled(
    *static: str, loops: bool = False
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Compile a formula with JAX, once for each shape and each value of its `static` arguments.

    A call with numbers computes in float64 and returns NumPy arrays, which stay float64. A call
    inside `jax.jit`, `jax.grad` or `jax.vmap` becomes part of the caller's program; trace that
    program under `jax.enable_x64(True)` for float64. A formula that `loops` thousands of times runs
    for longer than it compiles.
    """

    def wrap(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        compiler = functools.partial(jax.jit, function, static_argnames=static)
        quick, thorough = (compiler(compiler_options=options) for options in (HASTY, QUICK))
        part = compiler()  # of another program

        @functools.wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            if is_traced(args, kwargs):
                args, kwargs = jax.tree.map(_view, (args, kwargs))
                return part(*args, **kwargs)
            args, kwargs = jax.tree.map(_double, (args, kwargs))
            numbers = sum(np.size(leaf) for leaf in jax.tree.leaves((args, kwargs)))
            runs_long = loops or numbers > _MANY or accelerated()
            program = thorough if runs_long else quick
            with jax.enable_x64(True):
                return jax.tree.map(np.asarray, program(*args, **kwargs))

        return call

    return wrap


def _double(leaf: Any) -> Any:
    """Convert a floating-point array to float64; JAX's own arrays are float32 by default."""
    dtype = getattr(leaf, "dtype", None)
    lower = dtype is not None and jnp.issubdtype(dtype, jnp.floating)
    return np.asarray(leaf, dtype=float) if lower and dtype != np.float64 else _view(leaf)


def _view(leaf: Any) -> Any:
    """Return a view of a NumPy array, because JAX caches the dtype by array object."""
    return leaf.view() if isinstance(leaf, np.ndarray) else leaf


def is_traced(*values: Any) -> bool:
    """Return whether any value is a JAX tracer, whose number is unknown and cannot be checked."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))
