"""Base class of the parameters of experiments, with checks and the format of their file."""

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
"""Flags of the command line, which cannot be names of parameters."""


class Parameters(BaseModel):
    """Base class of the parameters of an experiment: frozen pydantic models.

    Each run stores its parameters in `parameters.toml`. The docstring below a field is its help
    text on the command line. For a field that may be `None`, files and flags use the word "none".

    **Example:**

    >>> from festina.experiments import Parameters
    >>> class Mine(Parameters):
    ...     width: int = 10
    >>> Mine(width=20).model_dump()
    {'seeds': 8, 'seed': 0, 'width': 20}
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )

    seeds: int = Field(default=8, ge=1)
    """Number of independent initialisations that are trained."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """First random seed, which determines all random numbers of the run."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if taken := RESERVED.intersection(cls.model_fields):
            raise TypeError(
                f"{cls.__module__}: a parameter cannot be called {', '.join(sorted(taken))}, "
                "because `festina run` has a flag of this name. Rename the parameter."
            )

    @model_validator(mode="before")
    @classmethod
    def _none(cls, values: Any) -> Any:
        """Replace "none" by `None` in fields that may be `None`, because TOML has no null."""
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
        """Raise `ValueError` if parameters are incompatible; subclasses override this method."""

    @classmethod
    @functools.cache
    def docstrings(cls) -> dict[str, str]:
        """Return the docstring below every field.

        Pydantic's `use_attribute_docstrings` does the same, but it first searches the file of every
        imported module, which takes longer than everything else.
        """
        found: dict[str, str] = {}
        for part in reversed(cls.mro()):
            if issubclass(part, Parameters):
                # A class without source, such as one defined at a prompt, has no help texts.
                with contextlib.suppress(OSError, TypeError, SyntaxError):
                    found |= _docstrings(textwrap.dedent(inspect.getsource(part)))
        return found

    @classmethod
    def _optional(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and type(None) in get_args(field.annotation)


def to_toml(parameters: Parameters, entry: ExperimentEntry) -> str:
    """Return the text of `parameters.toml`: every parameter, with its docstring as a comment."""
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
    """Return a value for TOML, which has no null: `None` becomes "none"."""
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
    """Return a pydantic annotation for tuples of at least `count` increasing numbers.

    **Arguments:**

    - `least`, `most`: bounds of the numbers.
    - `count`: smallest length of the tuple.

    **Returns:**

    A validator for annotations such as `Annotated[tuple[float, ...], check_increasing(0)]`.

    **Example:**

    >>> from typing import Annotated
    >>> from festina.experiments import Parameters, check_increasing
    >>> class Mine(Parameters):
    ...     scales: Annotated[tuple[float, ...], check_increasing(0)] = (0.1, 1.0)
    >>> try:
    ...     Mine(scales=(1.0, 0.1))
    ... except ValueError as error:
    ...     print(error.errors()[0]["msg"])
    Value error, must be 2 or more increasing numbers from 0 up, got (1.0, 0.1)
    """
    return AfterValidator(lambda given: _ordered(given, least, most, count, "increasing"))


def check_decreasing(
    most: float | int, least: float | int = -math.inf, *, count: int = 2
) -> AfterValidator:
    """Return a pydantic annotation for tuples of at least `count` decreasing numbers.

    **Arguments:**

    - `most`, `least`: bounds of the numbers.
    - `count`: smallest length of the tuple.

    **Returns:**

    A validator for annotations such as `Annotated[tuple[float, ...], check_decreasing(1)]`.

    **Example:**

    >>> from typing import Annotated
    >>> from festina.experiments import Parameters, check_decreasing
    >>> class Mine(Parameters):
    ...     scales: Annotated[tuple[float, ...], check_decreasing(1)] = (0.1, 0.01)
    >>> Mine().scales
    (0.1, 0.01)
    """
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
