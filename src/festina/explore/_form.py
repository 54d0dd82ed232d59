"""The form with the parameters of an experiment, and the meaning of its values."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_origin

import pydantic

from ..experiments import Experiment, Parameters
from ..experiments._flags import bounds, flag_name, python_code, shell_command, shown
from ..experiments._invalid import sentences
from ..experiments._runner import in_force

Typed = str | bool
"""Value of a field: text as typed on the command line, or whether a box is ticked."""


@dataclass(frozen=True)
class Field:
    """A field of the form: the parameter, its help text and allowed values, and its default."""

    name: str
    words: str
    allowed: str
    default: Typed
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """Return the flag of the parameter on the command line."""
        return flag_name(self.name)

    @property
    def kind(self) -> str:
        """Return `switch`, `choice` or `text`."""
        return "switch" if isinstance(self.default, bool) else "choice" if self.choices else "text"


def fields(experiment: Experiment) -> list[Field]:
    """Return the fields of the form: the experiment's own parameters, then the seeds."""
    explained = experiment.parameters.docstrings()
    values = typed(experiment.parameters())
    found = [
        Field(name, explained.get(name, ""), _allowed(info), values[name], _choices(info))
        for name, info in experiment.parameters.model_fields.items()
    ]
    return sorted(found, key=lambda each: each.name in ("seeds", "seed"))


def starts(experiment: Experiment) -> dict[str, dict[str, Typed]]:
    """Return the values of each button: defaults, the quick version, and the presets."""
    kinds = {"defaults": {}} | ({"quick": experiment.quick} if experiment.quick else {})
    kinds |= {name: values for name, values in experiment.presets.items() if name not in kinds}
    return {name: typed(experiment.parameters(**values)) for name, values in kinds.items()}


def typed(parameters: Parameters) -> dict[str, Typed]:
    """Return the parameters as values of the form."""
    values = parameters.model_dump(mode="json")
    # Words are quoted only among other words.
    return {k: v if isinstance(v, bool | str) else shown(v) for k, v in values.items()}


def _choices(info: Any) -> tuple[str, ...]:
    return get_args(info.annotation) if get_origin(info.annotation) is Literal else ()


def _allowed(info: Any) -> str:
    """Return the allowed values in words."""
    words = [bounds(info)]
    entries = [_bare(part) for part in get_args(info.annotation)]
    if type(None) in entries:
        words.append("or none")
    for entry in entries:
        if get_origin(entry) is Literal:
            words.append("each one of " + ", ".join(shown(each) for each in get_args(entry)))
    return ", ".join(filter(None, words))


@dataclass(frozen=True)
class Checked:
    """The meaning of a form.

    - `parameters`: `None` while a value is invalid.
    - `preset`: name of the preset that is in force, or `""`.
    - `problems`: sentences by parameter; those at `""` concern several parameters.
    - `shell`, `python`: the same on the command line and in Python; empty while a value is invalid.
    """

    parameters: Parameters | None = None
    preset: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    shell: str = ""
    python: str = ""


def checked(experiment: Experiment, values: Mapping[str, Typed]) -> Checked:
    """Return the parameters of a form, or sentences about its invalid values."""
    known = experiment.parameters.model_fields
    given = {
        name: converted(known[name].annotation, value) if name in known else value
        for name, value in values.items()
    }
    try:
        parameters = experiment.parameters(**given)
    except pydantic.ValidationError as error:
        said: dict[str, str] = {}
        for path, sentence in sentences(error, valid=tuple(known)).items():
            name = path.partition(".")[0].partition("[")[0]
            place = name if name in known else ""
            said[place] = f"{said[place]} {sentence}" if place in said else sentence
        return Checked(problems=said)
    preset, shell = _shell(experiment, parameters)
    differing = _differing(experiment.parameters(), parameters)
    python = python_code(experiment.entry.typed, preset, differing)
    return Checked(parameters, preset, shell=shell, python=python)


def _shell(experiment: Experiment, parameters: Parameters) -> tuple[str, str]:
    """Return the preset in force, and the shortest command for the parameters."""
    found = [("", False, experiment.parameters())]
    for name, values in experiment.presets.items():
        if in_force(experiment, name, parameters):
            found.append((name, False, experiment.parameters(**values)))
    if experiment.quick:
        found.append(("", True, experiment.parameters(**experiment.quick)))
    flags = [_differing(start, parameters) for *_, start in found]
    best = min(range(len(found)), key=lambda k: len(flags[k]))
    preset, quick, _ = found[best]
    return preset, shell_command(experiment.entry.typed, preset, flags[best], quick=quick)


def _differing(start: Parameters, parameters: Parameters) -> dict[str, Any]:
    before = start.model_dump(mode="json")
    after = parameters.model_dump(mode="json")
    return {name: value for name, value in after.items() if value != before[name]}


def converted(annotation: Any, value: Typed) -> Any:
    """Return a value of the form as pydantic reads it: the words of a tuple become a list."""
    if isinstance(value, bool):
        return value
    if get_origin(annotation) not in (tuple, list):
        return value.strip()
    try:
        words = iter(shlex.split(value))
    except ValueError:  # a quotation mark without its partner
        words = iter(value.split())
    return list(_entries(annotation, words)) or value.strip()


def _entries(annotation: Any, words: Iterator[str]) -> Iterator[Any]:
    """Yield the entries of a tuple from the words of the command line, as far as they go."""
    parts = get_args(annotation)
    endless = get_origin(annotation) is list or parts[1:] == (...,)
    if not endless:
        for part in parts:
            yield from _entry(part, words)
        yield from words  # too many: pydantic says so
        return
    while entry := list(_entry(parts[0], words)):
        yield from entry


def _entry(annotation: Any, words: Iterator[str]) -> Iterator[Any]:
    """Yield one entry, or none if there are no more words."""
    annotation = _bare(annotation)
    for word in words:
        if get_origin(annotation) is not tuple:
            yield word
            return
        parts = get_args(annotation)
        inner = [word, *(each for _, each in zip(parts[1:], words, strict=False))]
        yield inner
        return


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
