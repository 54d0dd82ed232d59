"""The folder of a run: it appears whole, and takes the place of a run only."""

import errno
import os
import shutil
from pathlib import Path

from ._beside import hidden_beside
from ._manifest import MANIFEST


def check_target(target: Path, overwrite: bool) -> None:
    """Refuse to replace what is there, unless it is a run and `overwrite` asks for it."""
    if not target.exists():
        return
    if not overwrite:
        raise FileExistsError(
            f"'{target}' exists already. Choose another path, or replace it with `overwrite=True`."
        )
    if not (target / MANIFEST).is_file() and not _is_empty_folder(target):
        raise FileExistsError(
            f"'{target}' is not a run, so `overwrite=True` does not replace it. "
            "Choose another path, or move it away yourself."
        )


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def make_folder(folder: Path) -> None:
    """With its parents; where that is impossible, say why."""
    # Trying is the only reliable question: permission bits say nothing about read-only mounts.
    parent = folder.parent
    try:
        folder.mkdir(parents=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(
            f"No run can be saved in '{parent}': that is a file, or below one. "
            "Choose a path in a folder."
        ) from None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PermissionError(
                f"No run can be saved in '{parent}': the folder is read-only. "
                "Choose a path in a folder that you may write to."
            ) from None
        raise


def put_in_place(partial: Path, target: Path, overwrite: bool) -> None:
    """Give the complete folder the name of its target."""
    # A folder with files in it cannot be replaced in one step, so the old run steps aside. Whatever
    # interrupts this, the last lines leave exactly one of the two runs at `target`.
    aside = hidden_beside(target)
    try:
        if overwrite and target.exists():
            os.replace(target, aside)
        os.replace(partial, target)
    finally:
        if aside.exists() and not target.exists():
            os.replace(aside, target)
        shutil.rmtree(aside, ignore_errors=True)
