"""Write parameters as they are typed on the command line."""

import shlex
from typing import Any


def flag_name(name: str) -> str:
    """Return the flag of a parameter, such as `--initial-scale`."""
    return "--" + name.replace("_", "-")


def setting(name: str, value: Any) -> str:
    """Return a parameter and its value as typed on the command line."""
    if isinstance(value, bool):
        return flag_name(name) if value else flag_name(f"no_{name}")
    return f"{flag_name(name)} {shown(value)}"


def shown(value: Any) -> str:
    """Return a value, other than `True` and `False`, as typed on the command line."""
    if isinstance(value, list | tuple):
        return " ".join(shown(entry) for entry in value)
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else repr(value)
    return "none" if value is None else shlex.quote(str(value))
