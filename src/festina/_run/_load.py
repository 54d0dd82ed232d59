"""Load a run from a folder, after checking its files."""

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

    Opening a run from a stranger is safe, because loading never executes code. The format contains
    no pickle, and arrays of Python objects or with unknown codecs raise `RunError`. Checksums
    detect accidental damage, but not forgery. Attributes, nodes and variables that a newer festina
    has added are loaded as well.

    **Arguments:**

    - `path`: folder that was passed to `festina.save`, or a folder that `festina run` made, which
      contains `run.zarr`.

    **Returns:**

    The run as an `xarray.DataTree`; no file stays open. Raises `festina.RunError` if `path` is
    missing, is not a run, is incomplete or damaged, or needs a newer festina.

    **Example:**

    >>> import tempfile, festina, xarray as xr
    >>> data = xr.Dataset({"loss": ("time", [1.0, 0.5, 0.1])}, coords={"time": [0, 1, 2]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = festina.load(festina.save(data, folder + "/run.zarr"))
    >>> run["simulation/loss"].values
    array([1. , 0.5, 0.1])
    """
    folder = _store(Path(path))
    manifest = read_manifest(folder)
    files = dict(read_files(folder, manifest["files"]))
    try:
        return from_files(files)
    except RunError as error:
        raise RunError(f"The run at '{folder}' {error}") from None
    except Exception as error:  # all files have been read, so the cause is in their contents
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RunError(f"The run at '{folder}' cannot be read: {reason}") from error


def attributes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the attributes of a run's root without reading its data."""
    folder = _store(Path(path))
    listed = read_manifest(folder)["files"]
    name = "zarr.json"
    here = {name} if (folder / name).is_file() else set[str]()
    ((_, root),) = read_files(folder, {name: listed[name]}, here)
    try:
        return dict(decode_attribute(json.loads(root).get("attributes", {})))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise RunError(f"The run at '{folder}' has no attributes that can be read.") from None


def _store(folder: Path) -> Path:
    """Return the store `run.zarr` in an experiment's run folder; return other folders unchanged."""
    inside = folder / "run.zarr"
    return inside if not (folder / MANIFEST).is_file() and inside.is_dir() else folder
