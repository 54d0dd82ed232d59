"""Read the parameters of an experiment from presets, files and flags."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from festina.experiments import Experiment, unknown
from festina.experiments._describe import describe
from festina.experiments._flags import flag_name, setting

from ._complaint import Complaint

if TYPE_CHECKING:
    from festina.experiments import Parameters


def resolve(
    experiment: Experiment,
    *,
    preset: str | None = None,
    quick: bool = False,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
) -> "Parameters":
    """Return the parameters of a run.

    In order of precedence: flags, the file, the preset, the quick version, the defaults.
    """
    import pydantic

    from festina.experiments._invalid import invalid

    flags = flags or {}
    if preset is not None and preset not in experiment.presets:
        raise Complaint(unknown("preset", preset, tuple(experiment.presets)))
    chosen = dict(experiment.quick) if quick else {}
    chosen |= experiment.presets[preset] if preset is not None else {}
    stored = read(file, experiment.name) if file is not None else {}

    def where(path: str) -> str:
        name = re.split(r"[.\[]", path)[0]
        if name in flags:
            return f"`{flag_name(path)}`"
        return f"`{path}` in '{file}'" if name in stored else f"`{path}`"

    try:
        return experiment.parameters(**{**chosen, **stored, **flags})
    except pydantic.ValidationError as error:
        names = tuple(experiment.parameters.model_fields)
        raise Complaint(invalid(error, valid=names, where=where)) from error


def read(file: Path, name: str) -> dict[str, Any]:
    """Return the values in a `parameters.toml`; raise if another experiment wrote the file."""
    import tomllib

    try:
        text = file.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise Complaint(f"Cannot read `--parameters` '{file}': {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Complaint(
            f"`--parameters` '{file}' is not a text file in UTF-8: give a parameters.toml."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise Complaint(f"`--parameters` '{file}' is not valid TOML: {describe(error)}.") from error
    if not values:
        raise Complaint(
            f"`--parameters` '{file}' sets no parameter. Leave out `--parameters` for the "
            "defaults, or write lines such as `seeds = 4` into the file."
        )
    written_for = re.match(r"# (\S+), festina ", text)
    if written_for and written_for[1] != name:
        raise Complaint(
            f"`--parameters` '{file}' was written for {written_for[1]}, not for {name}. To use the "
            "file nevertheless, remove its first line."
        )
    return values


def changed(experiment: Experiment, parameters: "Parameters") -> list[str]:
    """Return the flags with values other than the defaults, without the seeds."""
    usual = experiment.parameters()
    return [
        setting(name, value)
        for name, value in parameters.model_dump(mode="json", exclude={"seeds", "seed"}).items()
        if value != usual.model_dump(mode="json")[name]
    ]
