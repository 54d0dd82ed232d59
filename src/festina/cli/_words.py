"""Turn errors of cyclopts into one sentence that says what to do."""

from collections.abc import Sequence
from typing import get_args

import cyclopts

from festina.experiments import unknown
from festina.experiments._invalid import nearest


def usage(error: cyclopts.CycloptsError, commands: Sequence[str]) -> str:
    """Return the error message for an invalid command line of one of these commands."""
    where = (
        " of `" + " ".join(["festina", *error.command_chain]) + "`" if error.command_chain else ""
    )
    if isinstance(error, cyclopts.UnknownCommandError) and error.unused_tokens:
        hint = " `festina --help` shows all commands."
        return unknown("command", error.unused_tokens[0], commands) + hint
    if isinstance(error, cyclopts.UnknownOptionError):
        flags = [name for x in error.argument_collection if x.parse for name in x.names]
        return unknown("flag", error.token.keyword or error.token.value, [*flags, "--help"])
    if isinstance(error, cyclopts.UnusedCliTokensError) and error.unused_tokens:
        return _too_many(error) or (
            f"Unexpected '{error.unused_tokens[0]}'{where}: give values after a --flag."
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
        return f"`{error.token.keyword}` must be {one_of}{expected}, got '{value}'." + nearest(
            value, expected
        )
    error.verbose = False
    return str(error)


def _too_many(error: cyclopts.CycloptsError) -> str:
    """Return the message for a flag that has too many values; empty if there is none."""
    if error.app is None:
        return ""
    arguments = [each for each in error.app.assemble_argument_collection() if each.parse]
    if any(not each.name.startswith("-") for each in arguments):  # it may be a positional argument
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
    """Return whether an argument is a switch: a flag without values or with an opposite flag."""
    return argument.token_count()[0] == 0 or bool(argument.negatives)
