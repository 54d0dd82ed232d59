"""The folder of all runs of a command."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from festina._run._beside import held, left_over
from festina.experiments import find_entry

from .._complaint import Complaint, complain
from .._folder import (
    WITHOUT_IDENTIFIERS,
    free,
    make,
    numbered,
    remove_empty,
    shorter,
    unwritable,
)
from ._jobs import Job

REPORT = "report.html"
_LONGEST = 50  # characters of the names of sources in the name of a folder


def place(
    sources: Sequence[str], out: Path | None, jobs: list[Job], stack: ExitStack, *, fresh: bool
) -> tuple[Path, list[Path]]:
    """Return the locked folder for all runs, and the folders made for it, innermost first.

    The folder of an earlier command is used again if it holds only requested runs.
    """
    called = [find_entry(each).name if each.endswith(".py") else each for each in sources]
    name = "-".join(called).replace("/", "-")
    if len(name) > _LONGEST:
        name = f"{called[0].replace('/', '-')}-and-{len(called) - 1}-more"
    parent = Path("runs", f"reproduce-{name}").absolute()
    made: list[Path] = []
    try:
        if out is not None:
            top = Path(os.path.abspath(out.expanduser()))
            if any(_is_old(top, jobs)):
                raise Complaint(f"{_old(top)}; choose another folder.")
            if fresh or not _begun(top, jobs):
                top = free(out)
            made = make(top)
            if stack.enter_context(held(top)) == "theirs":
                raise Complaint(
                    f"Another festina process writes to '{top}'; choose another folder."
                )
            _try(top)
            return top, made
        made = make(parent)
        earlier = numbered(parent)
        for top in () if fresh else reversed(earlier):
            if _begun(top, jobs) and stack.enter_context(held(top)) != "theirs":
                _try(top)
                return top, [top, *made]
        if earlier and any(_is_old(earlier[-1], jobs)):
            complain(f"{_old(earlier[-1])}; all experiments are trained in a new folder.")
        count = int(earlier[-1].name) if earlier else 0
        while True:
            count += 1
            top = parent / f"{count:03d}"
            if make(top) and stack.enter_context(held(top)) != "theirs":
                return top, [top, *made]
    except OSError as error:
        remove_empty(made)
        raise unwritable(out or parent, error) from error


def clear(top: Path) -> None:
    """Remove what killed processes left in the folder of all runs, and in the folders of groups."""
    for folder in (*top.glob("*/"), top):
        if list(left_over(folder)) and folder != top:
            remove_empty([folder])


def _begun(top: Path, jobs: list[Job]) -> bool:
    """Return whether a folder is empty or holds only requested runs."""
    if not top.is_dir():
        return False
    expected = {"claims.json", REPORT, *(job.folder.split("/")[0] for job in jobs)}
    if any(path.name not in expected for path in top.iterdir()):
        return False
    return all(job.is_done(top) for job in jobs if (top / job.folder).exists())


def _is_old(top: Path, jobs: list[Job]) -> Iterator[bool]:
    """Yield for a folder, then for each run in it, whether its claims have no identifiers."""
    from festina.experiments._identifiers import is_without_identifiers

    return map(is_without_identifiers, (top, *(top / job.folder for job in jobs)))


def _old(top: Path) -> str:
    return f"'{shorter(top)}' {WITHOUT_IDENTIFIERS}, and is left unchanged"


def _try(folder: Path) -> None:
    """Raise `OSError` if a folder is read-only."""
    with tempfile.TemporaryFile(dir=folder):
        pass
