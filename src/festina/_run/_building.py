"""Run folders: made under a hidden name and renamed when the run is saved."""

import os
import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from .._complaint import Complaint
from .._signals import undisturbed
from ._beside import held, hidden, left_over


class Building:
    """A run folder that becomes visible only when the whole run is saved in it.

    Within the `with` block, `path` is a hidden folder beside the final folder. `finish` renames
    the hidden folder in one step. Leaving the block without `finish` removes the hidden folder and
    every folder made for it.

    **Arguments:**

    - `out`: final folder, which must be empty or not exist.
    - `numbered_in`: without `out`, the final folder is the next free number in this folder: 001,
      002, …
    """

    path: Path

    def __init__(self, out: Path | None, *, numbered_in: Path):
        self._out = None if out is None else free(out)
        self._parent = numbered_in.absolute() if self._out is None else self._out.parent
        self._made: list[Path] = []
        self._stack = ExitStack()
        self._finished = False

    def __enter__(self) -> "Building":
        try:
            self._made = make(self._parent)
            self.path = self._stack.enter_context(hidden(self._parent / "run", Path.mkdir))
        except OSError as error:
            remove_empty(self._made)
            raise unwritable(self._out or self._parent, error) from error
        return self

    def finish(self) -> Path:
        """Move the folder to its final place and return its path."""
        with undisturbed():
            if self._out is None:
                target = self._number()
            else:
                target = free(self._out)
                _move(self.path, target)
            self._finished = True
        return target

    def _number(self) -> Path:
        """Move the folder to the next free number, even while other processes take numbers."""
        count = next((int(path.name) for path in reversed(numbered(self._parent))), 0)
        while True:
            count += 1
            target = self._parent / f"{count:03d}"
            try:
                if not target.exists():
                    _move(self.path, target)
                    return target
            except OSError:
                if not target.exists():
                    raise

    def __exit__(self, *error: object) -> None:
        with undisturbed():
            self._stack.close()
            if not self._finished:
                remove_empty(self._made)


def _move(folder: Path, target: Path) -> None:
    if os.name == "nt" and target.exists():  # Windows cannot replace an empty folder
        target.rmdir()
    os.replace(folder, target)


def numbered(parent: Path) -> list[Path]:
    """Return the folders 001, 002, … in `parent`, in order."""
    found = [path for path in parent.iterdir() if re.fullmatch(r"\d{3,}", path.name)]
    return sorted(found, key=lambda path: int(path.name))


def sweep(*folders: Path) -> None:
    """Remove leftovers of killed processes below ./runs and in these folders.

    Leftovers are hidden files and folders, and numbered folders with nothing but hidden leftovers.
    """
    places = list(folders)
    for place, below, _ in os.walk(Path("runs").absolute()):
        below[:] = [name for name in below if not name.endswith(".zarr") and name[0] != "."]
        places.append(Path(place))
    emptied = {path.parent for place in places for path in left_over(place)} - set(folders)
    for place in reversed(places):  # inner folders first
        if place in emptied or re.fullmatch(r"\d{3,}", place.name):
            with held(place) as whose:
                if whose == "ours" and remove_empty([place]):
                    emptied.add(place.parent)


def free(out: Path) -> Path:
    """Return `out` as an absolute path; raise if `out` is a file or a folder that is not empty."""
    out = Path(os.path.abspath(out.expanduser()))
    if out.is_dir():
        try:
            taken = any(out.iterdir())
        except OSError as error:
            raise unwritable(out, error) from error
        if taken:
            raise Complaint(f"`--out` '{out}' exists and is not empty; choose another folder.")
        return out.resolve()
    if os.path.lexists(out):
        raise Complaint(f"`--out` '{out}' exists and is not a folder; choose another name.")
    return out


def make(folder: Path) -> list[Path]:
    """Make `folder`; return the folders that did not exist before, innermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    made: list[Path] = []
    try:
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            made.insert(0, path)
    except OSError:
        remove_empty(made)
        raise
    return made


def remove_empty(folders: Iterable[Path]) -> bool:
    """Remove folders one by one until one is not empty; return whether all were removed."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return False
    return True


def unwritable(folder: Path, error: OSError) -> Complaint:
    """Return the error message for a folder that cannot be written."""
    reason = error.strerror or str(error)
    return Complaint(f"Cannot write to '{folder}': {reason}. Choose another folder with `--out`.")
