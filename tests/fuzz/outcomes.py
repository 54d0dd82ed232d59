"""Outcomes of a call: a clear error, a warning, a correct result, or a fault."""

import inspect
import re
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from .rows import Given, Made, Row, build

SECONDS = 60
"""Limit on the processor time of a call, exceeded if a function searches for ever."""


class Fault(AssertionError):
    """Raised for a result that is wrong without warning, or an error without a clear cause."""


def outcome(row: Row, arguments: dict[str, Any], strange: bool = False) -> str:
    """Return one of `KINDS`; raise a `Fault` with the call that reproduces it otherwise.

    Invalid numbers must raise festina's own errors; objects of other types may raise any error.
    """
    try:
        with warnings.catch_warnings(record=True) as said, _limit():
            warnings.simplefilter("always")
            try:
                given = build(arguments)
                before = [a.copy() for a in _arrays(given)]
                call = inspect.BoundArguments(inspect.signature(row.function), given)
                result = row.function(*call.args, **call.kwargs)
                result = list(result) if isinstance(result, Iterator) else result
            except Exception as error:
                if _in_our_words(error, _names(Made(row.function, arguments))):
                    return "refused"
                if strange and not isinstance(error, Fault):
                    return "raised"
                raise Fault(f"raw {_said(error)}") from error
            after = zip(before, _arrays(given), strict=True)
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in after):
                raise Fault("changes what it is given")
            if any(warning.category is np.exceptions.ComplexWarning for warning in said):
                raise Fault("imaginary parts are lost")
            if said:
                return "warned"
            with np.errstate(all="ignore"):
                return row.check(result, Given(given))
    except Exception as error:
        raise Fault(f"{_said(error)}\n  {reproduction(row, arguments)}") from error


def reproduction(row: Row, arguments: dict[str, Any]) -> str:
    with np.printoptions(threshold=10_000, floatmode="unique", linewidth=10_000):
        return re.sub(r"\s+", " ", repr(Made(row.function, arguments)))


@contextmanager
def _limit() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Fault(f"takes more than {SECONDS} s")

    former = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def _in_our_words(error: Exception, names: set[str]) -> bool:
    """Return whether festina raised the error on purpose and the message names an argument."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    ours = "/festina/" in place.filename and (place.line or "").startswith("raise")
    if isinstance(error, MemoryError):  # the message gives the memory needed
        return True
    if isinstance(error, RuntimeError):  # solvers raise RuntimeError with a reason
        return ours
    words = {word.removesuffix("s") for word in re.findall(r"\w+", str(error).lower())}
    known = {name.removesuffix("s") for name in names}
    known |= {word for name, word in (("x", "input"), ("y", "target")) if name in names}
    return isinstance(error, ValueError | TypeError) and ours and bool(words & known)


def _names(value: Any) -> set[str]:
    """Return the names of all arguments, including arguments of objects in them."""
    if isinstance(value, Made):
        return set(inspect.signature(value.maker).parameters) | _names(value.arguments)
    each = value.values() if isinstance(value, dict) else value
    return set().union(*map(_names, each)) if isinstance(value, dict | list | tuple) else set()


def _said(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f" at {place.filename.split('/src/')[-1]}:{place.lineno}"
    return f"{type(error).__name__}: {error}{'' if isinstance(error, Fault) else where}"


def _arrays(given: Any) -> list[np.ndarray]:
    return [a for a in jax.tree.leaves(given) if type(a) is np.ndarray and a.dtype.kind in "biuf"]
