"""Saved runs below the folder of runs. Nothing outside that folder is read; links are refused.

A run may come from a stranger, and its folder may be damaged.
"""

import functools
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..experiments._describe import describe
from ..experiments.claims._claim import labelled
from ..report._section import verdict
from ..report._stored import stored_attributes, stored_claims

PER_PAGE = 50
_MOST_FOLDERS = 100_000  # folders that are searched for runs
_MOST_BYTES = 5_000_000  # of a claims.json, for the list
_STORE, _PICTURE = "run.zarr", "figure.png"


@dataclass(frozen=True)
class Place:
    """Where a run is: `name` is its path below the folder of runs, `made` its time in ns."""

    name: str
    folder: str
    made: int


@dataclass(frozen=True)
class Summary:
    """Summary of a run for the list; `problem` says what cannot be read."""

    name: str
    experiment: str = ""
    preset: str = ""
    date: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    picture: bool = False
    problem: str = ""

    @property
    def label(self) -> str:
        """Return the experiment and its preset, or the path if the experiment is unknown."""
        return labelled(self.experiment, self.preset) if self.experiment else self.name

    @property
    def words(self) -> str:
        """Return the text that a search looks through."""
        verdicts = " ".join(name for name, count in self.counts if count)
        return f"{self.name} {self.label} {self.date} {verdicts}".lower()


def places(runs: Path) -> tuple[list[Place], str]:
    """Return all runs, newest first, and a sentence if there are none or not all were found."""
    try:
        with os.scandir(runs):
            pass
    except FileNotFoundError:
        return [], f"There is no folder '{runs}' yet. The first run creates it."
    except NotADirectoryError:
        return [], f"'{runs}' is a file and not a folder. Start the explorer with another `--runs`."
    except OSError as error:
        return [], f"The folder '{runs}' cannot be read: {error.strerror}."
    found, remark = [], ""
    for count, (folder, folders, _) in enumerate(os.walk(runs), 1):
        if count > _MOST_FOLDERS:
            remark = f"Only {_MOST_FOLDERS} folders of '{runs}' were searched for runs."
            break
        if _STORE in folders:
            made = _made(folder)
            found += [] if made is None else [Place(_name(runs, folder), folder, made)]
            folders.clear()
        else:
            folders[:] = [name for name in folders if name[0] != "."]
    found.sort(key=lambda place: (place.made, place.name), reverse=True)
    return found, remark or ("" if found else f"There are no runs in '{runs}' yet.")


def _name(runs: Path, folder: str) -> str:
    name = Path(folder).relative_to(runs).as_posix()
    return name.encode("utf-8", "replace").decode()  # a name may hold bytes that are not text


def _made(folder: str) -> int | None:
    """Return the time of a run's store, or `None` if the store is a link or was removed."""
    try:
        status = os.lstat(os.path.join(folder, _STORE))
    except OSError:
        return None
    return status.st_mtime_ns if stat.S_ISDIR(status.st_mode) else None


def search(found: Sequence[Place], words: str) -> list[Place]:
    """Return the runs whose path, experiment, date or verdicts contain all words."""
    wanted = words.lower().split()
    return [place for place in found if all(word in summary(place).words for word in wanted)]


def summary(place: Place) -> Summary:
    """Return the summary of a run; its files are read again only if they have changed."""
    return _summary(place, *map(_changed, (f"{place.folder}/{_PICTURE}", _claims(place.folder))))


def _claims(folder: str) -> str:
    return os.path.join(folder, "claims.json")


def _changed(file: str) -> tuple[int, int]:
    """Return time and size of a regular file, zeros if there is none."""
    try:
        status = os.lstat(file)
    except OSError:
        return 0, 0
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else (0, 0)


@functools.lru_cache(50_000)
def _summary(place: Place, picture: tuple[int, int], claims: tuple[int, int]) -> Summary:
    shown = bool(picture[1])
    try:
        check(Path(place.folder))
        known = stored_attributes(Path(place.folder))
    except (OSError, ValueError) as error:
        return Summary(place.name, problem=describe(error, ""))
    counts, problem = Counter[str](), ""
    try:
        if claims[1] > _MOST_BYTES:
            raise ValueError("the file is too large")
        counts.update(verdict(claim) for claim in stored_claims(Path(place.folder)))
    except (OSError, ValueError) as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else describe(error, "")
        problem = f"claims.json cannot be read: {reason}."
    date = known.date[:16].replace("T", " ")
    counted = tuple(counts.items())
    return Summary(place.name, known.experiment, known.preset or "", date, counted, shown, problem)


def run_folder(runs: Path, name: str) -> Path:
    """Return the folder of a run by its path below the folder of runs.

    `ValueError` is raised for every other path, and for a run that contains links.
    """
    top = runs.resolve()
    unknown = ValueError(f"There is no run '{name[:200]}' in '{runs}'.")
    try:
        folder = (top / name).resolve()
        # A path that resolves to another one contains `..` or a link.
        if "\0" in name or folder != Path(os.path.normpath(top / name)):
            raise unknown
        inside = folder.is_relative_to(top) and ".." not in Path(name).parts
        if not inside or _made(str(folder)) is None:
            raise unknown
        check(folder, deep=True)
    except OSError as error:
        raise ValueError(describe(error, "")) from None
    return folder


def run_folders(runs: Path, names: Sequence[str]) -> list[Path]:
    """Return the folders of several runs, the oldest first; see `run_folder`."""
    folders = [run_folder(runs, name) for name in names]
    return sorted(folders, key=lambda folder: _made(str(folder)) or 0)


def picture(runs: Path, name: str) -> Path:
    """Return the picture of a run, if there is one; `ValueError` otherwise."""
    file = run_folder(runs, name) / _PICTURE
    if not file.is_file():
        raise ValueError(f"The run '{name}' has no picture.")
    return file


def check(folder: Path, *, deep: bool = False) -> None:
    """Raise `ValueError` if a run contains links or anything else that is not a file or a folder.

    `deep` also looks at every file of the store.
    """
    for entry in _entries(folder, deep):
        mode = entry.stat(follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ValueError(
                f"'{entry.path}' is a link or a special file, which the explorer does not open. "
                "Copy the run with its files."
            )


def _entries(folder: Path, deep: bool) -> Iterator[os.DirEntry[str]]:
    todo = [str(folder)]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                yield entry
                below = deep or entry.name == _STORE
                if below and entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
