"""Render a report as one HTML file."""

import datetime
import functools
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2

from .._run._beside import replacing
from ._compare import compared
from ._section import VERDICTS, Section, read_sections, verdict

TITLES = {
    "linear": "Deep linear networks",
    "race": "Gated networks and the neural race",
    "haste": "ReLU networks as gated linear ones",
    "coding": "Coding schemes",
    "saddles": "Saddle-to-saddle dynamics",
    "own experiments": "Experiments that are not part of festina",
    "unreadable runs": "Runs that cannot be read",
}
"""Titles of the groups of experiments."""

GENERATOR = '<meta name="generator" content="festina report">'
"""Line by which festina recognises a report that it may replace."""

_SHOWN = 6  # most numbers of a list in a table


def write_report(
    folders: Sequence[Path | str], target: Path | str, *, remark: str = ""
) -> list[Section]:
    """Write a page with the claims, figures and parameters of saved runs.

    The page is one file and requests no other. Nothing is trained again. If several runs of one
    experiment are given, the page compares the first of them with each of the others.

    **Arguments:**

    - `folders`: run folders, folders that contain run folders, or files of `festina pack`.
    - `target`: HTML file. An older report is replaced; any other file raises `ValueError`. Missing
      folders are made.
    - `remark`: sentence at the top of the page, for example about unfinished runs.

    **Returns:**

    The sections of the page.

    **Example:**

    >>> from festina.report import write_report
    >>> try:
    ...     write_report(["nowhere"], "report.html")
    ... except ValueError as error:
    ...     print(str(error)[:25])
    'nowhere' does not exist.
    """
    target = Path(target).expanduser()
    check_target(target)
    sections = read_sections(folders)
    text = render(sections, remark)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as path:
        # Names of files and texts of strangers may contain characters that UTF-8 lacks.
        path.write_text(text, encoding="utf-8", errors="replace")
    return sections


def check_target(target: Path) -> None:
    """Raise `ValueError` if the target exists and is not a report."""
    if target.is_dir():
        raise ValueError(f"'{target}' is a folder; give the name of an HTML file.")
    if target.exists():
        with target.open(encoding="utf-8", errors="replace") as file:
            if GENERATOR not in file.read(1000):
                raise ValueError(f"'{target}' exists and is not a report; choose another file.")


def render(sections: list[Section], remark: str = "") -> str:
    """Return the HTML of a report."""
    groups = {name: list(each) for name, each in groupby(sections, key=lambda one: one.group)}
    comparisons, uncompared = compared(sections)
    from festina import __version__  # imported late, because `festina` imports this module

    return (
        _environment()
        .get_template("report.html")
        .render(
            generator=GENERATOR,
            groups=groups,
            titles=TITLES,
            verdicts=VERDICTS,
            comparisons=comparisons,
            uncompared=uncompared,
            sections=sections,
            remark=remark,
            version=__version__,
            now=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
    )


def render_section(section: Section) -> str:
    """Return the HTML of one section of a report, without the page around it."""
    return _environment().get_template("section.html").render(one=section)


def render_style() -> str:
    """Return the style sheet of reports."""
    return _environment().get_template("report.css").render()


def render_script() -> str:
    """Return the script of reports, as it stands in the page."""
    return _environment().get_template("report.js").render()


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("festina.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"value": in_words, "verdict": verdict, "moved": _moved}
    return environment


def in_words(value: Any) -> str:
    """Return a number, a text, or the first numbers of a list, with four digits."""
    if isinstance(value, list):
        first = ", ".join(map(in_words, value[:_SHOWN]))
        return f"{first}, … ({len(value)} values)" if len(value) > _SHOWN else first
    return f"{value:.4g}" if isinstance(value, float) else "–" if value is None else str(value)


def _moved(moved: float) -> str:
    """Return the change of a value in words."""
    if moved == 0:
        return "not at all"
    return "–" if math.isnan(moved) else f"{moved:.2g} × tolerance"
