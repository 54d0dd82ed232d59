"""The folder of a run, which appears complete and replaces only another run."""

import errno
import os
import shutil
from pathlib import Path

from ._beside import hidden_beside
from ._manifest import MANIFEST


def check_target(target: Path, overwrite: bool) -> None:
    """Raise `FileExistsError` if the target exists, unless it is a run and `overwrite` is True."""
    if not target.exists():
        return
    if not overwrite:
        raise FileExistsError(
            f"'{target}' exists already. Choose another path, or replace it with `overwrite=True`."
        )
    if not (target / MANIFEST).is_file() and not _is_empty_folder(target):
        raise FileExistsError(
            f"'{target}' exists and is not a run, so `overwrite=True` does not replace it. Choose "
            "another path, or move this file or folder away."
        )


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; raise an error with the reason if this is impossible."""
    # Only trying is reliable: permission bits do not show read-only mounts.
    parent = folder.parent
    try:
        folder.mkdir(parents=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(
            f"No run can be saved in '{parent}': this path is a file, or lies below a file. Choose "
            "a path in a folder."
        ) from None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PermissionError(
                f"No run can be saved in '{parent}': the folder is read-only. "
                "Choose a path in a folder that you may write to."
            ) from None
        raise


def put_in_place(partial: Path, target: Path, overwrite: bool) -> None:
    """Rename the complete folder to its target."""
    # A non-empty folder cannot be replaced in one step, so the old run is first renamed. After any
    # interrupt, the last lines leave exactly one of the two runs at `target`.
    aside = hidden_beside(target)
    try:
        if overwrite and target.exists():
            os.replace(target, aside)
        os.replace(partial, target)
    finally:
        if aside.exists() and not target.exists():
            os.replace(aside, target)
        shutil.rmtree(aside, ignore_errors=True)
