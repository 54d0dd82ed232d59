"""What cyclopts and pydantic complain about, as one sentence that names the way out."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import cyclopts

from festina.papers import unknown

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
"""Constraints of pydantic, in words."""


def usage(error: cyclopts.CycloptsError, commands: Sequence[str]) -> str:
    """A command line that cannot be read, of one of these commands."""
    where = (
        " of `" + " ".join(["festina", *error.command_chain]) + "`" if error.command_chain else ""
    )
    if isinstance(error, cyclopts.UnknownCommandError) and error.unused_tokens:
        hint = " `festina --help` shows them all."
        return unknown("command", error.unused_tokens[0], commands) + hint
    if isinstance(error, cyclopts.UnknownOptionError):
        flags = [name for x in error.argument_collection if x.parse for name in x.names]
        return unknown("flag", error.token.keyword or error.token.value, [*flags, "--help"])
    if isinstance(error, cyclopts.UnusedCliTokensError) and error.unused_tokens:
        return _too_many(error) or (
            f"Unexpected '{error.unused_tokens[0]}'{where}; values belong to a --flag."
        )
    if isinstance(error, cyclopts.MissingArgumentError) and error.argument is not None:
        name = error.keyword or error.argument.name
        if not name.startswith("-"):
            return f"Missing {name}{where}."
        count, given = error.argument.token_count()[0], len(error.tokens_so_far)
        return (
            f"`{name}` needs {count} values, got {given}."
            if count > 1
            else (f"`{name}` needs a value.")
        )
    if isinstance(error, cyclopts.RepeatArgumentError):
        return f"`{error.token.keyword}` is given more than once."
    if isinstance(error, cyclopts.CoercionError) and error.token and error.token.keyword:
        choices = get_args(error.target_type)
        expected = ", ".join(repr(choice) for choice in choices) or "true or false"
        value = error.token.value
        one_of = "one of " if choices else ""
        return f"`{error.token.keyword}` must be {one_of}{expected}, got '{value}'." + _nearest(
            value, expected
        )
    error.verbose = False
    return str(error)


def _too_many(error: cyclopts.CycloptsError) -> str:
    """The flag that has more values behind it than it takes; nothing if there is none."""
    if error.app is None:
        return ""
    arguments = [each for each in error.app.assemble_argument_collection() if each.parse]
    if any(not each.name.startswith("-") for each in arguments):  # what is left may be meant there
        return ""
    flags = {name: each for each in arguments for name in each.names if name.startswith("--")}
    flag, values = "", list[str]()
    for token in (*(error.root_input_tokens or ()), "--"):
        if not token.startswith("--"):
            values.append(token)
            continue
        if flag in flags and values:
            argument = flags[flag]
            count, all_that_follow = argument.token_count()
            if _is_switch(argument):
                opposite = next((name for name in argument.names if name != flag), "")
                hint = f": `{opposite}` is its opposite" if opposite else ""
                return f"`{flag}` takes no value, got '{values[0]}'{hint}."
            if len(values) > count and not all_that_follow:
                return f"`{flag}` needs {count} value{'s' * (count > 1)}, got {len(values)}."
        flag, _, value = token.partition("=")
        flag = flag.replace("_", "-")
        values = [value] if value and not (flag in flags and _is_switch(flags[flag])) else []
    return ""


def _is_switch(argument: cyclopts.Argument) -> bool:
    """Whether it is true or false: nothing else has an opposite."""
    return argument.token_count()[0] == 0 or bool(argument.negatives)


def invalid(
    error: "pydantic.ValidationError", *, valid: Sequence[str], where: Callable[[str], str]
) -> str:
    """Parameters that are not valid, each once.

    **Arguments:**

    - `valid`: the names of all parameters.
    - `where`: turns the path of a parameter, `a.b[2]`, into how the user wrote it.
    """
    sentences: dict[str, str] = {}
    for details in error.errors(include_url=False):
        path = _path(details["loc"])
        sentences.setdefault(path, _sentence(details, path, valid, where))
    return " ".join(sentences.values())


def _sentence(
    details: "ErrorDetails", path: str, valid: Sequence[str], where: Callable[[str], str]
) -> str:
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    if kind == "extra_forbidden":
        return f"{where(path)}: {unknown('parameter', path, valid)}"
    if kind == "value_error":  # raised by the experiment's own check
        message = str(context.get("error", details["msg"]))
        return f"{where(path)}: {message}" if path else message
    expected = _expected(kind, context)
    if expected is None:
        return f"{where(path)}: {details['msg']}, got {_shown(value)}."
    near = _nearest(value, expected) if kind == "literal_error" else ""
    verb = "have" if kind in ("too_short", "too_long") else "be"
    return f"{where(path)} must {verb} {expected}, got {_shown(value)}.{near}"


def _nearest(value: Any, expected: str) -> str:
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
    """`a.b[2]`, as the key would be written."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _shown(value: Any) -> str:
    """A value as it was typed: quotes only where it is no number."""
    if value is None:
        return "'none'"
    try:
        float(value)
    except (TypeError, ValueError):
        return repr(value)
    return str(value)
