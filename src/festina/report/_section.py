"""Read run folders for a report. Nothing from a folder is executed."""

import base64
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from .. import _run
from ..experiments import experiment_names, find_entry
from ..experiments._flags import python_code, shell_command
from ..experiments.claims._claim import labelled
from ..papers import bibtex
from ._packs import with_packs
from ._stored import Attributes, stored_attributes, stored_claims
from ._svg import cleaned

VERDICTS = {
    "holds": "Prediction and measurement agree within the tolerance.",
    "holds with a correction": "They agree if the source is corrected as the claim says.",
    "does not hold, as known": "The source is known to be wrong here. The claim says why, and "
    "gives the right statement where there is one.",
    "broken": "The claim should hold and does not, or a known error of the source does not show "
    "up as documented.",
}
"""Verdicts on claims in a report, with their meanings."""

LARGEST = 20_000_000
"""Characters of all figures and animations of a page; the rest are left out."""
_LARGEST = 6_000_000
"""Bytes of the largest figure or animation; a larger one is left out."""
_OWN, _UNREADABLE = "own experiments", "unreadable runs"


@dataclass(frozen=True)
class Section:
    """Contents of a report about one run.

    - `experiment`, `preset`: name of the experiment, and name of the preset; `""` if unknown.
    - `folder`: run folder.
    - `anchor`: identifier of the section in the page, unique within a report.
    - `shows`, `source`: what the experiment shows, and where it comes from.
    - `claims`: entries of `claims.json`.
    - `figure`, `animation`: HTML elements, or `""`.
    - `left_out`: sentences about figures and animations that are too large for the page.
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
    left_out: str = ""
    parameters: tuple[tuple[str, str, str], ...] = ()
    shell: str = ""
    python: str = ""
    made: dict[str, str] = field(default_factory=dict)
    references: str = ""
    problem: str = ""

    @property
    def label(self) -> str:
        """Return the experiment, followed by the preset in brackets; the folder if unknown."""
        return labelled(self.experiment, self.preset) if self.experiment else str(self.folder)

    @property
    def group(self) -> str:
        """Return the group of the experiment, such as `saddles`."""
        group, _, rest = self.experiment.partition("/")
        return group if rest else _OWN if group else _UNREADABLE

    @property
    def counts(self) -> Counter[str]:
        """Return how many claims there are of each of `VERDICTS`."""
        return Counter(verdict(claim) for claim in self.claims)


def verdict(claim: dict[str, Any]) -> str:
    """Return the verdict on a claim in the report, one of `VERDICTS`."""
    if claim["broken"]:
        return "broken"
    found = claim["verdict"]
    return "does not hold, as known" if found == "does not hold" else found


def run_folders(given: Iterable[Path]) -> list[Path]:
    """Return the run folders among the given folders and below them, in order.

    `ValueError` is raised for a folder without a run.
    """
    found: list[Path] = []
    for top in given:
        home = top.parent if top.suffix == ".zarr" else top
        below = [home] if (home / "run.zarr").exists() else sorted(_below(home))
        if not below and not _unfinished(home):
            lacks = "has no finished run" if home.exists() else "does not exist"
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
    given = [Path(folder) for folder in folders]
    sections: list[Section] = []
    room = LARGEST
    for number, folder in enumerate(run_folders(given)):
        section = _read(folder, f"f{number}-", room)
        room -= len(section.figure) + len(section.animation)
        sections.append(section)
    for missing in (each for home in given for each in _unfinished(home)):
        there = [k for k, one in enumerate(sections) if one.label == missing.label]
        for k in there:
            if missing.problem.startswith("failed"):  # the run was saved before it failed
                sections[k] = replace(sections[k], problem=missing.problem)
        sections += [] if there else [missing]
    return list(_with_anchors(sorted(sections, key=_place)))


def _place(section: Section) -> tuple[int, str, int]:
    """Return the place of a section in the page: groups and experiments as in `festina list`."""
    names = experiment_names()
    groups = [name.partition("/")[0] for name in names]
    late = {_OWN: len(names) + 1, _UNREADABLE: len(names) + 2}
    group = groups.index(section.group) if section.group in groups else len(names)
    own = names.index(section.experiment) if section.experiment in names else len(names)
    return late.get(section.group, group), section.group, own


def _with_anchors(sections: Iterable[Section]) -> Iterator[Section]:
    """Give each section an identifier; sections of the same name are numbered from 2."""
    taken: Counter[str] = Counter()
    for section in sections:
        name = section.experiment or str(section.folder)
        name += f"+{section.preset}" * bool(section.preset)
        taken[name] += 1
        yield replace(section, anchor=name + f"+{taken[name]}" * (taken[name] > 1))


def _unfinished(home: Path) -> list[Section]:
    """Return a section for each run that `festina reproduce` failed or did not reach."""
    try:
        entries = stored_claims(home) if not (home / "run.zarr").exists() else ()
    except (OSError, ValueError):
        return []
    return [
        Section(
            entry["experiment"],
            entry["preset"],
            home,
            problem=f"{entry['verdict']}: {entry['note']}",
        )
        for entry in entries
        if entry["verdict"] in ("failed", "interrupted", "not run")
    ]


def _read(folder: Path, prefix: str, room: int) -> Section:
    problems: list[str] = []
    attributes = Attributes(experiment="")
    claims: tuple[dict[str, Any], ...] = ()
    try:
        attributes = stored_attributes(folder)
    except (OSError, ValueError) as error:
        problems.append(_words(error))
    try:
        claims = stored_claims(folder)
    except FileNotFoundError:
        problems.append(f"claims.json is missing: `{_command('show', folder)}` writes the file.")
    except (OSError, ValueError) as error:
        problems.append(
            f"claims.json cannot be read ({_words(error)}). Remove the file: "
            f"`{_command('show', folder)}` writes it again."
        )
    known = bool(attributes.experiment)
    name, preset = attributes.experiment, attributes.preset or ""
    if not known and claims:
        name, preset = claims[0]["experiment"], claims[0]["preset"]
    shows, source, references = _described(name)
    figure, left_out = _figure(folder, name, prefix, shows or name, room)
    animation, also = _animation(folder, room - len(figure))
    if not figure and not left_out:
        problems.append("The figure is missing.")
    typed = _typed(attributes.file) or name
    return Section(
        name,
        preset,
        folder,
        shows=shows,
        source=source,
        claims=claims,
        figure=figure,
        animation=animation,
        left_out=" ".join(filter(None, (left_out, also))),
        parameters=tuple(_parameters(folder, attributes.parameters)),
        shell=shell_command(typed, preset, attributes.parameters) if known else "",
        python=python_code(typed, preset, attributes.parameters) if known else "",
        made=_made(attributes) if known else {},
        references=references,
        problem=" ".join(problems),
    )


def _words(error: OSError | ValueError) -> str:
    """Return the message of an error in one line."""
    said = f"'{error.filename}': {error.strerror}." if isinstance(error, OSError) else str(error)
    return " ".join(said.split())


def _command(verb: str, folder: Path) -> str:
    return shlex.join(["festina", verb, str(folder)])


def _described(name: str) -> tuple[str, str, str]:
    """Return what an experiment shows, its source and its references; empty if it is unknown."""
    if name not in experiment_names():
        return "", "", ""
    entry = find_entry(name)
    return entry.shows, entry.source, bibtex(entry.references)


def _figure(folder: Path, name: str, prefix: str, words: str, room: int) -> tuple[str, str]:
    """Return the figure as an HTML element, or the sentence that it is left out."""
    vector = folder / "figure.svg"
    if not vector.exists() and name in experiment_names():
        _draw(folder, name)
    if 0 < _bytes(vector) <= _LARGEST:
        try:
            clean = cleaned(vector.read_text(encoding="utf-8"), prefix, words)
        except (OSError, ValueError):
            pass  # damaged; the PNG may be intact
        else:
            too_large = _too_large(vector, len(clean), room)
            return "" if too_large else clean, too_large
    return _embedded(folder / "figure.png", "image/png", '<img alt="figure" src="{}">', room)


def _embedded(file: Path, kind: str, element: str, room: int) -> tuple[str, str]:
    """Return an element with the contents of a file, or the sentence that it is left out."""
    size = 4 * _bytes(file) // 3
    too_large = _too_large(file, size, room)
    if not size or too_large:
        return "", too_large
    content = base64.b64encode(file.read_bytes()).decode()
    return element.format(f"data:{kind};base64,{content}"), ""


def _too_large(file: Path, size: int, room: int) -> str:
    """Return the sentence that a file is left out, or `""` if the page has room for it."""
    if size > _LARGEST:
        cause = f"it needs {size / 1e6:.0f} MB, more than the {_LARGEST / 1e6:g} MB of one picture"
    elif size > room:
        cause = f"the pictures of a page have at most {LARGEST / 1e6:g} MB"
    else:
        return ""
    return f"'{file}' is left out, because {cause}."


def _bytes(file: Path) -> int:
    """Return the size of a file, or 0 if there is none."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _draw(folder: Path, name: str) -> None:
    """Draw the missing SVG figure of a run of festina's own experiments, if that is possible."""
    from ..experiments import ExperimentRun, load_experiment

    try:
        run = ExperimentRun(load_experiment(name), _run.load(folder))
        run.write_figure(folder / "figure", formats=("svg",))
    except Exception:  # another version made the run, or the folder is read-only
        return


def _animation(folder: Path, room: int) -> tuple[str, str]:
    """Return the animation of a run as an HTML element, or the sentence that it is left out."""
    gif = '<img alt="animation" loading="lazy" src="{}">'
    film = '<video controls loop muted src="{}"></video>'
    found = _embedded(folder / "animation.gif", "image/gif", gif, room)
    return found if any(found) else _embedded(folder / "animation.mp4", "video/mp4", film, room)


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
        shown = "none" if value is None else json.dumps(value, ensure_ascii=False)
        yield name, shown, meanings.get(name, "")


def _typed(file: str | None) -> str:
    """Return the user's experiment file as typed: below the working folder, or its name alone."""
    path = PurePosixPath(file or "")
    return path.name if path.is_absolute() or ".." in path.parts else str(path) * bool(file)


def _made(attributes: Attributes) -> dict[str, str]:
    """Return date, versions, device and duration of a run, as far as they are recorded."""
    packages = {"festina": attributes.festina_version, **attributes.versions}
    seconds = attributes.seconds
    found = {
        "date": attributes.date.replace("T", " ").replace("+00:00", " UTC"),
        "training took": "" if seconds is None else f"{seconds:.3g} s",
        "device": attributes.device,
        "versions": ", ".join(f"{name} {version}" for name, version in packages.items()),
    }
    return {name: value for name, value in found.items() if value}
