"""The registry: a row for each function, with arguments that are good and what proves a result."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from hypothesis import strategies as st

ROWS: dict[str, "Row"] = {}


@dataclass(frozen=True)
class Row:
    """- `name`: of the function, below `festina`.
    - `arguments`: good ones, by name.
    - `check(result, given)`: raises where a result is wrong; says "right" where it was held against
      another route to the same number, "kept" where against what must be so of any result.
    - `cost`: of one input, in units of a closed form: dear functions are asked less often.
    """

    name: str
    arguments: st.SearchStrategy[dict[str, Any]]
    check: Callable[[Any, "Given"], str | None]
    cost: float = 1.0

    @property
    def function(self) -> Callable[..., Any]:
        module, _, name = self.name.rpartition(".")
        return getattr(import_module(f"festina.{module}"), name)


def row(name: str, joint: st.SearchStrategy | None = None, /, *, cost=1.0, **each):
    """Registers a check. Arguments that belong together come in one strategy, others by name."""

    def register(check):
        both = st.tuples(st.just({}) if joint is None else joint, st.fixed_dictionaries(each))
        assert name not in ROWS
        ROWS[name] = Row(name, both.map(lambda two: {**two[0], **two[1]}), check, cost)
        return check

    return register


@dataclass(frozen=True)
class Made:
    """An object, as the call that makes it: it can be printed, and its arguments be corrupted."""

    maker: Callable[..., Any]
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.maker.__qualname__}({inner})"


def made(maker: Callable[..., Any], joint: st.SearchStrategy | None = None, /, **each):
    both = st.tuples(st.just({}) if joint is None else joint, st.fixed_dictionaries(each))
    return both.map(lambda two: Made(maker, {**two[0], **two[1]}))


def build(value: Any) -> Any:
    """What an expression stands for; arrays are copied, so that changes of them are seen."""
    if isinstance(value, Made):
        return value.maker(**build(value.arguments))
    if type(value) in (list, tuple):
        return type(value)(map(build, value))
    if type(value) is dict:
        return {name: build(each) for name, each in value.items()}
    return value.copy() if type(value) is np.ndarray and value.flags.owndata else value


class Given(dict):
    """Arguments as attributes, numbers in float64 whatever they came as; None if not given."""

    def __getattr__(self, name: str) -> Any:
        return plain(self.get(name))


def plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple) or hasattr(value, "dtype"):
        try:
            array = np.asarray(value)
            return array.astype(float) if array.dtype.kind in "biufO" else value
        except (ValueError, TypeError):  # matrices of different shapes, objects
            return [plain(each) for each in value] if isinstance(value, list | tuple) else value
    return value
