"""Run folders: built out of sight, moved into place when complete."""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from festina._beside import hidden_beside

from ._complaint import Complaint
from ._signals import undisturbed


class Building:
    """A folder that appears complete or not at all.

    Within the `with` block `path` is a hidden folder beside the final one, so that moving it there
    is one step. Leaving the block without `finish` removes it and every folder made for it.

    **Arguments:**

    - `out`: the folder wanted. It must not exist, or be empty.
    - `numbered_in`: without `out`, the next free number in here is taken: 001, 002, …
    """

    path: Path

    def __init__(self, out: Path | None, *, numbered_in: Path):
        self._out = None if out is None else free(out)
        self._parent = numbered_in.absolute() if self._out is None else self._out.parent
        self._made: list[Path] = []
        self._finished = False

    def __enter__(self) -> "Building":
        try:
            self._made = make(self._parent)
            self.path = hidden_beside(self._parent / "run")
            self.path.mkdir()
        except OSError as error:
            remove_empty(self._made)
            raise unwritable(self._out or self._parent, error) from error
        return self

    def finish(self) -> Path:
        """Move the folder to its final place, and say where that is."""
        with undisturbed():
            if self._out is None:
                target = number(self._parent)
            else:
                target = free(self._out)
                target.mkdir(exist_ok=True)
            if os.name == "nt":  # where an empty folder cannot be replaced
                target.rmdir()
            os.replace(self.path, target)
            self._finished = True
        return target

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._finished:
            with undisturbed():
                shutil.rmtree(self.path, ignore_errors=True)
                remove_empty(self._made)


def free(out: Path) -> Path:
    """`out` as an absolute path, if something can be put there."""
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
        raise Complaint(f"`--out` '{out}' exists and is no folder; choose another.")
    return out


def number(parent: Path) -> Path:
    """Claim the next free number in `parent` as an empty folder."""
    taken = [int(p.name) for p in parent.iterdir() if re.fullmatch(r"\d{3,}", p.name)]
    count = max(taken, default=0)
    while True:
        count += 1
        try:
            (parent / f"{count:03d}").mkdir()
        except FileExistsError:  # another process was quicker
            continue
        return parent / f"{count:03d}"


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


def remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def unwritable(folder: Path, error: OSError) -> Complaint:
    reason = error.strerror or str(error)
    return Complaint(f"Cannot write to '{folder}': {reason}. Choose another folder with `--out`.")
