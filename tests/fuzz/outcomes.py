"""What becomes of a call: refused, warned of, right, or something that must not happen."""

import inspect
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from .rows import Given, Made, Row, build

SECONDS = 60
"""That no call may take: where an input makes a function search for ever, it hangs."""


class Fault(AssertionError):
    """A result that is silently wrong, or an error that does not say what was wrong."""


def outcome(row: Row, arguments: dict[str, Any], strange: bool = False) -> str:
    """What `KINDS` name; a `Fault` with the reproduction otherwise.

    Numbers are refused in our words; what is of a strange kind may end in any error.
    """
    try:
        with warnings.catch_warnings(record=True) as said, _limit():
            warnings.simplefilter("always")
            try:
                given = build(arguments)
                before = jax.tree.map(np.array, _arrays(given))
                result = _call(row.function, given)
                result = list(result) if isinstance(result, Iterator) else result
            except Exception as error:
                if _in_our_words(error, _names(Made(row.function, arguments))):
                    return "refused"
                if strange and not isinstance(error, Fault):
                    return "raised"
                raise Fault(f"raw {_said(error)}") from error
        same = jax.tree.map(
            lambda a, b: np.array_equal(a, b, equal_nan=True), before, _arrays(given)
        )
        if not jax.tree.all(same):
            raise Fault("changes what it is given")
        for warning in said:
            if warning.category is np.exceptions.ComplexWarning:
                raise Fault(f"imaginary parts are lost: {warning.message}")
        if said:
            return "warned"
        with np.errstate(all="ignore"):
            return row.check(result, Given(given)) or "right"
    except Exception as error:
        raise Fault(f"{_said(error)}\n  {reproduction(row, arguments)}") from error


def reproduction(row: Row, arguments: dict[str, Any]) -> str:
    with np.printoptions(threshold=10_000, floatmode="unique", linewidth=10_000):
        inner = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return re.sub(r"\s+", " ", f"festina.{row.name}({inner})")


def _call(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """By name, and in order where a function takes as many as there are."""
    order = list(inspect.signature(function).parameters.values())
    many = [each.name for each in order if each.kind is each.VAR_POSITIONAL]
    if not many:
        return function(**given)
    ahead = [each.name for each in order[: order.index(next(e for e in order if e.name in many))]]
    rest = given[many[0]] if isinstance(given[many[0]], list | tuple) else [given[many[0]]]
    named = {name: value for name, value in given.items() if name not in (*ahead, *many)}
    return function(*(given[name] for name in ahead), *rest, **named)


@contextmanager
def _limit() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Fault(f"takes more than {SECONDS} s")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def _in_our_words(error: Exception, names: set[str]) -> bool:
    """Whether the error was written for whoever reads it, and says what it is about."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    ours = "/festina/" in place.filename and (place.line or "").startswith("raise")
    words = {word.removesuffix("s") for word in re.findall(r"\w+", str(error))}
    known = isinstance(error, ValueError | TypeError) and ours
    return known and bool(words & {name.removesuffix("s") for name in names})


def _names(value: Any) -> set[str]:
    """Of all arguments, those of what makes an argument included."""
    if isinstance(value, Made):
        return set(inspect.signature(value.maker).parameters) | _names(value.arguments)
    each = value.values() if isinstance(value, dict) else value
    return set().union(*map(_names, each)) if isinstance(value, dict | list | tuple) else set()


def _said(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = (
        ""
        if isinstance(error, Fault)
        else f" at {place.filename.split('/src/')[-1]}:{place.lineno}"
    )
    return f"{type(error).__name__}: {error}{where}"


def _arrays(given: Any) -> list[np.ndarray]:
    return [a for a in jax.tree.leaves(given) if type(a) is np.ndarray and a.dtype.kind in "biuf"]
