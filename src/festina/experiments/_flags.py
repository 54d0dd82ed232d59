"""Write parameters as they are typed on the command line and in Python."""

import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from ._invalid import BOUNDS

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


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


def bounds(field: "FieldInfo") -> str:
    """Return the bounds of a parameter in words, such as "more than 0, each at most 1"."""
    words = [*_in_words(field.metadata), *(f"each {bound}" for bound in _of_entries(field))]
    return ", ".join(words)


def _of_entries(field: "FieldInfo") -> list[str]:
    """Return the bounds of the entries of a tuple, without repetition."""
    entries = [part for part in get_args(field.annotation) if get_origin(part) is Annotated]
    return list(dict.fromkeys(bound for part in entries for bound in _in_words(part.__metadata__)))


def _in_words(constraints: Iterable[Any]) -> list[str]:
    return [
        words.format(bound)
        for constraint in constraints
        for name, words in BOUNDS.items()
        if (bound := getattr(constraint, name, None)) is not None
    ]


def shell_command(
    typed: str, preset: str, values: Mapping[str, Any], *, quick: bool = False
) -> str:
    """Return the command that runs an experiment with these parameters.

    **Arguments:**

    - `typed`: name or file of the experiment.
    - `preset`: name of a preset, or `""`. The values override the preset.
    - `values`: parameters by name.
    - `quick`: start from the quick version of the experiment.
    """
    flags = [setting(name, value) for name, value in _named(values).items()]
    base = ["festina", "run", typed, *(["--preset", preset] if preset else [])]
    return " ".join((shlex.join(base + ["--quick"] * quick), *flags))


def python_code(typed: str, preset: str, values: Mapping[str, Any]) -> str:
    """Return code that runs an experiment with these parameters and prints its claims."""
    given = "".join(f"    {name}={value!r},\n" for name, value in _named(values).items())
    given = f"\n{given}" if given else ""
    preset = f", preset={preset!r}" if preset else ""
    return (
        "from festina.experiments import load_experiment, run_experiment\n\n"
        f"experiment = load_experiment({typed!r})\n"
        f"parameters = experiment.parameters({given})\n"
        f"run = run_experiment(experiment, parameters{preset})\n"
        "for claim in run.claims:\n"
        "    print(claim.id, claim.verdict, claim.predicted, claim.measured)\n"
        "figure = experiment.draw(run.data)"
    )


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with valid names: a stranger's name could be code."""
    return {name: value for name, value in values.items() if name.isidentifier()}
