"""Turn pydantic's errors into sentences that name the parameter and its allowed values."""

import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ._registry import unknown

if TYPE_CHECKING:
    import pydantic
    from pydantic_core import ErrorDetails

BOUNDS = {
    "gt": "more than {:.10g}",
    "ge": "at least {:.10g}",
    "lt": "less than {:.10g}",
    "le": "at most {:.10g}",
    "multiple_of": "a multiple of {:.10g}",
    "min_length": "at least {} values",
    "max_length": "at most {} values",
}
"""Text for each constraint of pydantic."""


def invalid(
    error: "pydantic.ValidationError",
    *,
    valid: Sequence[str] = (),
    where: Callable[[str], str] = "`{}`".format,
) -> str:
    """Return a sentence for each invalid parameter that explains why it is invalid.

    **Arguments:**

    - `valid`: names of all parameters, if they are known.
    - `where`: function from the path of a parameter, such as `a.b[2]`, to the user's spelling.
    """
    return " ".join(sentences(error, valid=valid, where=where).values())


def sentences(
    error: "pydantic.ValidationError",
    *,
    valid: Sequence[str] = (),
    where: Callable[[str], str] = "`{}`".format,
) -> dict[str, str]:
    """Return the sentences of `invalid` by path; the path `""` stands for several parameters."""
    found: dict[str, str] = {}
    for details in error.errors(include_url=False):
        path = _path(details["loc"])
        found.setdefault(path, _sentence(details, path, valid, where))
    return found


def told(error: BaseException) -> str:
    """Return the message of an error; an error of pydantic becomes sentences by `invalid`."""
    if (module := sys.modules.get("pydantic")) and isinstance(error, module.ValidationError):
        return invalid(cast("pydantic.ValidationError", error))
    return str(error)


def _sentence(
    details: "ErrorDetails", path: str, valid: Sequence[str], where: Callable[[str], str]
) -> str:
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    if kind == "extra_forbidden":
        known = unknown("parameter", path, valid) if valid else "there is no such parameter."
        return f"{where(path)}: {known}"
    if kind == "value_error":  # raised by the experiment's own check
        message = str(context.get("error", details["msg"]))
        return f"{where(path)}: {message}" if path else message
    expected = _expected(kind, context)
    if expected is None:
        return f"{where(path)}: {details['msg']}, got {_shown(value)}."
    near = nearest(value, expected) if kind == "literal_error" else ""
    verb = "have" if kind in ("too_short", "too_long") else "be"
    return f"{where(path)} must {verb} {expected}, got {_shown(value)}.{near}"


def nearest(value: Any, expected: str) -> str:
    """Return a question with the quoted word in `expected` most similar to a value, or `""`."""
    near = difflib.get_close_matches(str(value), re.findall(r"'([^']*)'", expected), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _expected(kind: str, context: Mapping[str, Any]) -> str | None:
    for name, words in BOUNDS.items():
        if name in context:
            return words.format(context[name])
    if kind in ("literal_error", "enum"):
        return context["expected"]
    if kind == "finite_number":
        return "a finite number"
    kinds = {
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "string": "text",
        "tuple": "a list of values",
        "list": "a list of values",
        "missing": "given",
    }
    return kinds.get(kind.split("_")[0])


def _path(location: tuple[int | str, ...]) -> str:
    """Return the path of a parameter in the form `a.b[2]`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _shown(value: Any) -> str:
    """Return a value as text for an error message: numbers without quotes, words in quotes."""
    if value is None:
        return "'none'"
    try:
        float(value)
    except (TypeError, ValueError):
        return repr(value)
    return str(value)
