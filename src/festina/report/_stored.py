"""Check what the files of a run folder say. A run folder may come from a stranger."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from typing_extensions import TypedDict  # pydantic needs this one on Python 3.11

from .. import _run
from ..experiments._identifiers import is_without_identifiers

Scalar: TypeAlias = bool | int | float | str | None
Values: TypeAlias = Scalar | list[Scalar | list[Scalar | list[Scalar]]]
_STRICT = pydantic.ConfigDict(strict=True)


class Judged(TypedDict):
    """Numbers of the right statement, for a claim that is known to be wrong."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]
    predicted: Values
    measured: Values
    tolerance: float | str | None
    holds: bool


class Entry(Judged):
    """Entry of `claims.json`. The last three verdicts stand for a run without claims."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]
    experiment: str
    preset: str
    id: str
    words: str
    source: str
    at: str
    verdict: Literal[
        "holds", "holds with a correction", "does not hold", "failed", "interrupted", "not run"
    ]
    broken: bool
    note: str
    correction: str
    wrong: str
    instead: Judged | None


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


class Attributes(pydantic.BaseModel):
    """Attributes of a saved run that the report shows."""

    experiment: str
    preset: str | None = ""
    parameters: Annotated[dict[str, Any], pydantic.BeforeValidator(_parsed)] = {}
    file: str | None = ""
    date: str = ""
    device: str = ""
    system: str = ""
    seconds: float | None = None
    versions: dict[str, str] = {}
    festina_version: str = "?"


_ENTRIES = pydantic.TypeAdapter(list[Entry])


def stored_claims(folder: Path) -> tuple[Any, ...]:
    """Return the entries of `claims.json`; `ValueError` explains why they cannot be read."""
    text = (folder / "claims.json").read_bytes()
    try:
        return tuple(_ENTRIES.validate_json(text))
    except pydantic.ValidationError as error:
        if is_without_identifiers(folder):
            raise ValueError("an older festina wrote the claims, without identifiers") from None
        raise ValueError(_first(error)) from None


def stored_attributes(folder: Path) -> Attributes:
    """Return the attributes of a run; `ValueError` explains why they cannot be read."""
    found = _run.attributes(folder)
    if "experiment" not in found:
        raise ValueError("The run was not made by an experiment, so it has no claims.")
    try:
        return Attributes.model_validate(found)
    except pydantic.ValidationError as error:
        raise ValueError(f"The attributes of the run cannot be read: {_first(error)}.") from None


def _first(error: pydantic.ValidationError) -> str:
    """Return the first problem of a file in a few words."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    said = " ".join(first["msg"].split())
    names = [f"`{part}`" for part in first["loc"] if isinstance(part, str)][:1]
    numbers = [f"entry {part + 1}" for part in first["loc"] if isinstance(part, int)][:1]
    return ": ".join([*numbers, *names, said[:1].lower() + said[1:]])
