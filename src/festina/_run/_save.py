"""Save a run to a folder, completely or not at all."""

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._beside import hidden
from ._folder import check_target, make_folder, put_in_place
from ._manifest import write_files
from ._to_files import to_files

if TYPE_CHECKING:
    import xarray as xr

    from .._result import Result


def save(
    run: "xr.DataTree | xr.Dataset | Result",
    path: str | os.PathLike[str],
    *,
    dims: tuple[str, ...] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a run to the folder `path`, completely or not at all.

    The files are written to a hidden folder beside `path`, which is renamed once it is complete. If
    an error or Ctrl-C interrupts writing, the hidden folder is removed and an earlier run at `path`
    stays intact. A power cut may truncate files; `festina.load` then reports the damage. If the
    process is killed, a hidden folder `.festina-…` remains; the next command of festina removes it
    below `./runs`.

    Variables hold numbers, booleans or text and are restored exactly. Attributes are restored as
    plain Python values: NumPy scalars become `int`, `float` or `bool`, and arrays and tuples become
    lists. `save` adds the root attributes `format_version` and `festina_version` to the saved run.
    `save` also adds the `date` and the package `versions`, unless the run already has these
    attributes.

    **Arguments:**

    - `run`: an `xarray.DataTree`, for example with the nodes `simulation` and `theory`. A
      trajectory, another result of festina or an `xarray.Dataset` is saved as the node
      `simulation`.
    - `path`: folder to create, for example `runs/figure-1g/run.zarr`; missing parents are created.
    - `dims`: names for the axes of a batch of networks, passed to `to_dataset` of a trajectory.
      `dims` is not allowed for trees and data sets, whose axes already have names.
    - `overwrite`: if True, replace an existing run. Other files and folders are never replaced.

    **Returns:**

    `path`.

    **Example:**

    >>> import pathlib, tempfile, festina, xarray as xr
    >>> data = xr.Dataset({"loss": ("time", [1.0, 0.5, 0.1])}, coords={"time": [0, 1, 2]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = festina.save(data, pathlib.Path(folder, "run.zarr"))
    ...     sorted(file.name for file in path.iterdir())
    ['festina.json', 'simulation', 'zarr.json']
    """
    target = Path(path).resolve()  # a symbolic link to a run stays a link
    check_target(target, overwrite)
    with hidden(target, make_folder) as partial:  # raises early if the path is not writable
        write_files(to_files(_to_tree(run, dims)), partial)
        check_target(target, overwrite)  # another process may have saved a run meanwhile
        put_in_place(partial, target, overwrite)
    return Path(path)


def _to_tree(run: Any, dims: tuple[str, ...] | None) -> "xr.DataTree":
    import xarray as xr

    if dims is not None and not _takes_dims(run):
        raise ValueError(
            "`dims` names the axes of a batch of networks, but `run` is a "
            f"{type(run).__name__}. Leave out `dims`."
        )
    if isinstance(run, xr.DataTree):
        return run
    named = {} if dims is None else {"dims": dims}
    dataset = run.to_dataset(**named) if hasattr(run, "to_dataset") else run
    if not isinstance(dataset, xr.Dataset):
        raise TypeError(
            "`run` must be an xarray.DataTree, an xarray.Dataset or a result of festina, got "
            f"{type(run).__name__}. Convert arrays with xr.Dataset({{'loss': ('time', loss)}}, "
            "coords={'time': time})."
        )
    return xr.DataTree.from_dict({"simulation": dataset})


def _takes_dims(run: Any) -> bool:
    return hasattr(run, "to_dataset") and "dims" in inspect.signature(run.to_dataset).parameters
