"""`load`: a run from a folder, checked before it is read."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._attributes import decode_attribute
from ._error import RunError
from ._from_files import from_files
from ._manifest import MANIFEST, read_files, read_manifest

if TYPE_CHECKING:
    import xarray as xr


def load(path: str | os.PathLike[str]) -> "xr.DataTree":
    """Read a run that `save` wrote, all of it into memory.

    Loading never executes anything: there is no pickle in the format, and arrays of Python objects
    or with an unknown codec are refused, so a run from a stranger is safe to open. The checksums
    find accidents, not forgeries.

    What a newer festina has added (attributes, nodes, variables) is loaded with the rest.

    **Arguments:**

    - `path`: the folder that was given to `save`, or one that `festina run` made, with `run.zarr`
      in it.

    **Returns:**

    The tree. No file stays open. Raises `RunError` if `path` is missing, is no run, is incomplete
    or damaged, or needs a newer festina.
    """
    folder = _store(Path(path))
    manifest = read_manifest(folder)
    files = dict(read_files(folder, manifest["files"]))
    try:
        return from_files(files)
    except RunError as error:
        raise RunError(f"The run at '{folder}' {error}") from None
    except Exception as error:  # no file is open any more: whatever fails now is in the contents
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RunError(f"The run at '{folder}' cannot be read: {reason}") from error


def attributes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The attributes of a run's root, without its data: what made it, and which festina."""
    folder = _store(Path(path))
    listed = read_manifest(folder)["files"]
    ((_, root),) = read_files(folder, {"zarr.json": listed["zarr.json"]})
    return decode_attribute(json.loads(root).get("attributes", {}))


def _store(folder: Path) -> Path:
    """The store itself, where the folder around it is named."""
    inside = folder / "run.zarr"
    return inside if not (folder / MANIFEST).is_file() and inside.is_dir() else folder
