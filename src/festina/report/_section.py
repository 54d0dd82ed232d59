"""Read run folders for a report. Nothing from a folder is executed."""

import base64
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from .. import _run
from ..experiments import experiment_names, find_entry
from ..experiments.claims._claim import labelled
from ..papers import bibtex
from ._packs import with_packs
from ._svg import cleaned

VERDICTS = ("holds", "holds with a correction", "does not hold, as known", "broken", "missing")
"""Classes of claims in a report. A missing claim belongs to a run that failed or never ended."""

_LARGEST = 8_000_000
"""Bytes of the largest figure that a report embeds as SVG; a larger figure is embedded as PNG."""
_MOVING = {".gif": "image/gif", ".mp4": "video/mp4"}


@dataclass(frozen=True)
class Section:
    """Contents of a report about one run.

    - `experiment`, `preset`: name of the experiment, and name of the preset or `""`.
    - `folder`: run folder.
    - `anchor`: identifier of the section in the page, unique within a report.
    - `shows`, `source`: what the experiment shows, and where it comes from.
    - `claims`: entries of `claims.json`.
    - `figure`, `animation`: HTML elements, or `""`.
    - `parameters`: name, value and meaning of every parameter.
    - `shell`, `python`: commands that make the run again.
    - `made`: date, versions, device and duration of the run.
    - `references`: BibTeX of the sources.
    - `problem`: reason why the run, or a part of it, is missing; `""` if all is there.

    **Example:**

    >>> from pathlib import Path
    >>> from festina.report import Section
    >>> Section("race/xor", "", Path("runs/race/xor/001"), problem="The run is damaged.").label
    'race/xor'
    """

    experiment: str
    preset: str
    folder: Path
    anchor: str = ""
    shows: str = ""
    source: str = ""
    claims: tuple[dict[str, Any], ...] = ()
    figure: str = ""
    animation: str = ""
    parameters: tuple[tuple[str, str, str], ...] = ()
    shell: str = ""
    python: str = ""
    made: dict[str, str] = field(default_factory=dict)
    references: str = ""
    problem: str = ""

    @property
    def label(self) -> str:
        """Return the name of the experiment, followed by the preset in brackets if there is one."""
        return labelled(self.experiment, self.preset)

    @property
    def group(self) -> str:
        """Return the group of the experiment, such as `saddles`."""
        return self.experiment.partition("/")[0] if "/" in self.experiment else "own experiments"

    @property
    def counts(self) -> Counter[str]:
        """Return how many claims there are of each of `VERDICTS`."""
        return Counter(verdict(claim) for claim in self.claims)


def verdict(claim: dict[str, Any]) -> str:
    """Return the class of a claim in the report, one of `VERDICTS`."""
    found = claim["verdict"]
    if claim["broken"]:
        return "broken"
    if found == "does not hold":
        return "does not hold, as known"
    return found if found in VERDICTS else "missing"


def run_folders(given: Iterable[Path]) -> list[Path]:
    """Return the run folders among the given folders and below them, in order.

    `ValueError` is raised for a folder without a run.
    """
    found: list[Path] = []
    for top in given:
        home = top.parent if top.suffix == ".zarr" else top
        below = [home] if (home / "run.zarr").exists() else sorted(_below(home))
        if not below and not _unfinished(home):
            lacks = "has no finished run" if home.is_dir() else "does not exist"
            raise ValueError(
                f"'{top}' {lacks}. Give folders that `festina run` or `festina reproduce` made, "
                "such as runs/race/xor/001."
            )
        found += below
    return list(dict.fromkeys(found))


def _below(top: Path) -> Iterator[Path]:
    for place, folders, _ in os.walk(top):
        if "run.zarr" in folders:
            yield Path(place)
        folders[:] = [name for name in folders if name[0] != "." and not name.endswith(".zarr")]


@with_packs
def read_sections(folders: Sequence[Path | str]) -> list[Section]:
    """Read all runs in these folders, in the order of `festina list`.

    **Arguments:**

    - `folders`: run folders, folders that contain run folders, such as those of
      `festina reproduce`, or files of `festina pack`.

    **Returns:**

    A `Section` for each run. A run that cannot be read has a section with the reason as `problem`.

    **Example:**

    >>> from festina.report import read_sections
    >>> try:
    ...     read_sections(["nowhere"])
    ... except ValueError as error:
    ...     print(str(error)[:25])
    'nowhere' does not exist.
    """
    given = [Path(folder).expanduser() for folder in folders]
    runs = run_folders(given)
    taken = Counter[tuple[str, str]]()
    sections = []
    for number, folder in enumerate(runs):
        sections.append(_read(folder, number, taken))
    for missing in (each for home in given for each in _unfinished(home)):
        there = [k for k, section in enumerate(sections) if section.anchor == missing.anchor]
        for k in there:  # the run was saved, but its claims or its figure failed
            sections[k] = replace(sections[k], problem=missing.problem)
        sections += [] if there else [missing]
    order = {name: place for place, name in enumerate(experiment_names())}
    return sorted(sections, key=lambda one: order.get(one.experiment, len(order)))


def _unfinished(home: Path) -> list[Section]:
    """Return a section for each run that `festina reproduce` failed or did not reach."""
    try:
        entries = _claims(home) if not (home / "run.zarr").exists() else ()
    except (OSError, ValueError):
        return []
    missing = (
        entry for entry in entries if entry["verdict"] in ("failed", "interrupted", "not run")
    )
    return [
        Section(
            entry["experiment"],
            entry["preset"],
            home,
            anchor=_anchor(entry["experiment"], entry["preset"]),
            problem=f"{entry['verdict']}: {entry['note']}",
        )
        for entry in missing
    ]


def _read(folder: Path, number: int, taken: Counter[tuple[str, str]]) -> Section:
    try:
        attributes = _run.attributes(folder)
        name = attributes["experiment"]
        if not isinstance(name, str):
            raise TypeError
    except (_run.RunError, OSError) as error:
        return Section(folder.name, "", folder, _anchor(folder.name, ""), problem=str(error))
    except (LookupError, TypeError):
        problem = "The run was not made by an experiment, so it has no claims."
        return Section(folder.name, "", folder, _anchor(folder.name, ""), problem=problem)
    preset = str(attributes.get("preset") or "")
    taken[name, preset] += 1
    anchor = _anchor(name, preset, taken[name, preset])
    problems: list[str] = []
    claims: tuple[dict[str, Any], ...] = ()
    try:
        claims = _claims(folder)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problems.append(f"Its claims cannot be read ({reason}); `festina show {folder}` helps.")
    shows, source, references = _described(name)
    figure, problem = _figure(folder, name, f"f{number}-", shows or name)
    problems += [problem] * bool(problem)
    values = _values(attributes)
    typed = PurePath(str(attributes.get("file") or "")).name or name
    return Section(
        name,
        preset,
        folder,
        anchor,
        shows=shows or "an experiment of your own",
        source=source,
        claims=claims,
        figure=figure,
        animation=_animation(folder),
        parameters=tuple(_parameters(folder, values)),
        shell=_shell(typed, folder),
        python=_python(typed, values),
        made=_made(attributes),
        references=references,
        problem=" ".join(problems),
    )


def _anchor(name: str, preset: str, count: int = 1) -> str:
    """Return the identifier of a section in the page; repeated runs are numbered from 2."""
    return name + f"+{preset}" * bool(preset) + f"+{count}" * (count > 1)


def _claims(folder: Path) -> tuple[dict[str, Any], ...]:
    """Return the entries of `claims.json`, each of which has all keys."""
    entries = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    keys = {"experiment", "preset", "id", "words", "at", "verdict", "broken", "note"}
    keys |= {"predicted", "measured", "tolerance", "correction", "wrong", "instead"}
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and keys <= entry.keys() for entry in entries
    ):
        raise ValueError("this version of festina did not write claims.json")
    return tuple(entries)


def _described(name: str) -> tuple[str, str, str]:
    """Return what an experiment shows, its source and its references; empty if it is unknown."""
    if name not in experiment_names():
        return "", "", ""
    entry = find_entry(name)
    return entry.shows, entry.source, bibtex(entry.references)


def _figure(folder: Path, name: str, prefix: str, words: str) -> tuple[str, str]:
    """Return the figure as an HTML element, and the reason if there is none."""
    vector = folder / "figure.svg"
    if not vector.exists() and name in experiment_names():
        _draw(folder, name)
    if vector.exists() and vector.stat().st_size <= _LARGEST:
        try:
            return cleaned(vector.read_text(encoding="utf-8"), prefix, words), ""
        except ValueError:
            pass  # damaged; the PNG may be intact
    picture = folder / "figure.png"
    if not picture.exists():
        return "", "Its figure is missing."
    return f'<img alt="figure" src="{_data(picture, "image/png")}">', ""


def _draw(folder: Path, name: str) -> None:
    """Draw the missing SVG figure of a run of festina's own experiments, if that is possible."""
    from ..experiments import ExperimentRun, load_experiment

    try:
        run = ExperimentRun(load_experiment(name), _run.load(folder))
        run.write_figure(folder / "figure", formats=("svg",))
    except Exception:  # another version made the run, or the folder is read-only
        return


def _animation(folder: Path) -> str:
    """Return the animation of a run as an HTML element, or `""`."""
    for suffix, kind in _MOVING.items():
        file = folder / f"animation{suffix}"
        if file.exists():
            source = _data(file, kind)
            if suffix == ".mp4":
                return f'<video controls loop muted src="{source}"></video>'
            return f'<img alt="animation" loading="lazy" src="{source}">'
    return ""


def _data(file: Path, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def _values(attributes: dict[str, Any]) -> dict[str, Any]:
    stored = attributes.get("parameters") or {}
    try:
        values = json.loads(stored) if isinstance(stored, str) else stored
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _parameters(folder: Path, values: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and meaning of each parameter; `parameters.toml` holds the meanings."""
    try:
        text = (folder / "parameters.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    meanings = {
        name: " ".join(line.removeprefix("# ") for line in comment.splitlines())
        for comment, name in re.findall(r"((?:^# .*\n)*)^([a-z_]\w*) = ", text, re.MULTILINE)
    }
    for name, value in values.items():
        yield name, "none" if value is None else json.dumps(value), meanings.get(name, "")


def _shell(typed: str, folder: Path) -> str:
    words = ["festina", "run", typed]
    file = folder / "parameters.toml"
    return shlex.join([*words, "--parameters", str(file)] if file.exists() else words)


def _python(typed: str, values: dict[str, Any]) -> str:
    given = ", ".join(f"{key}={value!r}" for key, value in values.items())
    return (
        "from festina.experiments import load_experiment, run_experiment\n\n"
        f"experiment = load_experiment({typed!r})\n"
        f"run = run_experiment(experiment, experiment.parameters({given}))\n"
        "figure = experiment.draw(run.data)"
    )


def _made(attributes: dict[str, Any]) -> dict[str, str]:
    """Return date, versions, device and duration of a run, as far as they are recorded."""
    versions = attributes.get("versions")
    listed = versions.items() if isinstance(versions, dict) else ()
    packages = {"festina": attributes.get("festina_version", "?"), **dict(listed)}
    seconds = attributes.get("seconds")
    found = {
        "date": str(attributes.get("date", "")).replace("T", " ").replace("+00:00", " UTC"),
        "took": f"{seconds:.3g} s" if isinstance(seconds, float | int) else "",
        "device": str(attributes.get("device", "")),
        "versions": ", ".join(f"{name} {version}" for name, version in packages.items()),
    }
    return {name: value for name, value in found.items() if value}
