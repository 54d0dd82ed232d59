"""What every experiment's parameters have in common."""

import ast
import contextlib
import functools
import inspect
import itertools
import math
import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ._experiment_entry import ExperimentEntry

RESERVED = frozenset(
    {"preset", "parameters", "quick", "animation", "mp4", "out", "claims", "quiet", "json"}
    | {"debug", "help", "version"}
    | {"over", "processes", "scheduler", "retry", "changed", "yes"}
)
"""Flags that the command line keeps for itself."""


class Parameters(BaseModel):
    """Frozen, validated, and written to `parameters.toml` beside each run.

    The docstring under a field is its help text on the command line. Where a field may be `None`,
    files and flags write "none".
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )

    seeds: int = Field(default=8, ge=1)
    """How many independent initialisations are trained."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """The first random seed; everything random in the run follows from it."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if taken := RESERVED.intersection(cls.model_fields):
            raise TypeError(
                f"{cls.__module__}: no parameter can be called {', '.join(sorted(taken))}; "
                "`festina run` has a flag of that name."
            )

    @model_validator(mode="before")
    @classmethod
    def _none(cls, values: Any) -> Any:
        """TOML has no null, so 'none' stands for it in every field that can be `None`."""
        if not isinstance(values, dict):
            return values
        return {
            name: None if value == "none" and cls._optional(name) else value
            for name, value in values.items()
        }

    @model_validator(mode="after")
    def _checked(self) -> "Parameters":
        self._check()
        return self

    def _check(self) -> None:
        """Raise `ValueError` if parameters do not go together; subclasses override this."""

    @classmethod
    @functools.cache
    def docstrings(cls) -> dict[str, str]:
        """The docstring under every field.

        Pydantic would find them too (`use_attribute_docstrings`), but only after it has looked for
        the file of every module imported so far, which takes longer than all else it does.
        """
        found: dict[str, str] = {}
        for part in reversed(cls.mro()):
            if issubclass(part, Parameters):
                # A class typed into a prompt, or without source, has no help texts.
                with contextlib.suppress(OSError, TypeError, SyntaxError):
                    found |= _docstrings(textwrap.dedent(inspect.getsource(part)))
        return found

    @classmethod
    def _optional(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and type(None) in get_args(field.annotation)


def to_toml(parameters: Parameters, entry: ExperimentEntry) -> str:
    """Return the text of parameters.toml: every parameter, with its docstring as a comment."""
    import tomlkit

    import festina

    document = tomlkit.document()
    typed = shlex.quote(Path(entry.file).name if entry.file else entry.name)
    document.add(tomlkit.comment(f"{entry.name}, festina {festina.__version__}. Run it again with"))
    document.add(tomlkit.comment(f"festina run {typed} --parameters parameters.toml"))
    values = parameters.model_dump(mode="json")
    explained = parameters.docstrings()
    for key in type(parameters).model_fields:
        document.add(tomlkit.nl())
        for line in textwrap.wrap(explained.get(key, ""), 96):
            document.add(tomlkit.comment(line))
        document.add(key, tomlkit.item(_storable(values[key])))
    return tomlkit.dumps(document)


def _storable(value: Any) -> Any:
    """TOML has no null; `Parameters` reads 'none' as `None`."""
    if isinstance(value, Mapping):
        return {key: _storable(entry) for key, entry in value.items() if entry is not None}
    return "none" if value is None else value


def _power_of_two(number: int) -> int:
    if number & (number - 1):
        raise ValueError(f"must be a power of two, got {number}")
    return number


PowerOfTwo = Annotated[int, AfterValidator(_power_of_two)]


def check_increasing(
    least: float | int, most: float | int = math.inf, *, count: int = 2
) -> AfterValidator:
    """Check that a tuple has `count` numbers or more, each above the one before.

    As an annotation: `Annotated[tuple[float, ...], check_increasing(0)]`.
    """
    return AfterValidator(lambda given: _ordered(given, least, most, count, "increasing"))


def check_decreasing(
    most: float | int, least: float | int = -math.inf, *, count: int = 2
) -> AfterValidator:
    """Check that a tuple has `count` numbers or more, each below the one before."""
    return AfterValidator(lambda given: _ordered(given, least, most, count, "decreasing"))


def _ordered(given: Any, least: float | int, most: float | int, count: int, words: str) -> Any:
    ordered = sorted(set(given), reverse=words == "decreasing")
    inside = given and least <= min(given) and max(given) <= most
    if len(given) < count or list(given) != ordered or not inside:
        low, high = least > -math.inf, most < math.inf
        bounds = f" from {least:g}{'' if high else ' up'}" * low
        bounds += f"{'' if low else ' up'} to {most:g}" * high
        raise ValueError(f"must be {count} or more {words} numbers{bounds}, got {given}")
    return given


def _docstrings(source: str) -> dict[str, str]:
    """Return the docstring under each field of a class, empty for a field without one."""
    statements = (each for part in ast.parse(source).body for each in getattr(part, "body", ()))
    return {
        field.target.id: " ".join(_text(after).split())
        for field, after in itertools.pairwise((*statements, None))
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _text(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return ""
