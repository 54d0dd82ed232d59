"""`load`: a run from a folder, checked before it is read."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ._error import RunError
from ._from_files import from_files
from ._manifest import read_files, read_manifest

if TYPE_CHECKING:
    import xarray as xr


def load(path: str | os.PathLike[str]) -> "xr.DataTree":
    """Read a run that `save` wrote, all of it into memory.

    Loading never executes anything: there is no pickle in the format, and arrays of Python objects
    or with an unknown codec are refused, so a run from a stranger is safe to open. The checksums
    find accidents, not forgeries.

    What a newer festina has added (attributes, nodes, variables) is loaded with the rest.

    **Arguments:**

    - `path`: the folder that was given to `save`.

    **Returns:**

    The tree. No file stays open. Raises `RunError` if `path` is missing, is no run, is incomplete
    or damaged, or needs a newer festina.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    files = dict(read_files(folder, manifest["files"]))
    try:
        return from_files(files)
    except RunError as error:
        raise RunError(f"The run at '{folder}' {error}") from None
    except Exception as error:  # no file is open any more: whatever fails now is in the contents
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RunError(f"The run at '{folder}' cannot be read: {reason}") from error
