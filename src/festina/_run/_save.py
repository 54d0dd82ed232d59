"""`save`: a run to a folder, all of it or nothing."""

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
    """Write a run to the folder `path`, all of it or nothing.

    The files are written to a hidden folder beside `path`, which takes its name when it is
    complete. If anything fails before, a full disk or Ctrl-C, the hidden folder is removed and a
    run that was at `path` is still there. Nothing waits for the disk: after a power cut a file may
    be short, and `load` says so. Only a process that is killed outright leaves `.festina-…` behind,
    which the next command clears away below `./runs`.

    Variables hold numbers, booleans or text, and come back bit for bit. Attributes come back
    as plain Python: NumPy's numbers as `int`, `float` and `bool`, arrays and tuples as lists, NaN
    and infinity as they are. The attributes `format_version` and `festina_version` of the root are
    set in the file, not in `run`. So are `date`, when the run was first saved, and `versions`, of
    Python, JAX, NumPy, SciPy and xarray then; a run that has them already keeps them.

    **Arguments:**

    - `run`: the tree, for example with the nodes `simulation` and `theory`. A trajectory, or
      anything with `to_dataset`, or a dataset becomes the node `simulation` of one.
    - `path`: the folder to make, for example `runs/figure-1g/run.zarr`, with its parents.
    - `dims`: names for the axes of a batch of networks, handed on to `to_dataset`, whose default
      names they replace. Trees and datasets have names of their own.
    - `overwrite`: replace a run that is already there. Anything else is never replaced.

    **Returns:**

    `path`.
    """
    target = Path(path).resolve()  # a link to a run goes on to be one
    check_target(target, overwrite)
    with hidden(target, make_folder) as partial:  # first: it may have nowhere to go
        write_files(to_files(_to_tree(run, dims)), partial)
        check_target(target, overwrite)  # again: another process may have been faster
        put_in_place(partial, target, overwrite)
    return Path(path)


def _to_tree(run: Any, dims: tuple[str, ...] | None) -> "xr.DataTree":
    import xarray as xr

    if dims is not None and not _takes_dims(run):
        raise ValueError(
            f"`dims` names the axes of a batch of networks, got {type(run).__name__}: leave it out."
        )
    if isinstance(run, xr.DataTree):
        return run
    named = {} if dims is None else {"dims": dims}
    dataset = run.to_dataset(**named) if hasattr(run, "to_dataset") else run
    if not isinstance(dataset, xr.Dataset):
        raise TypeError(
            f"`run` is an xarray.DataTree, a Dataset or a trajectory, got {type(run).__name__}. "
            "For arrays: xr.Dataset({'loss': ('time', loss)}, coords={'time': time})."
        )
    return xr.DataTree.from_dict({"simulation": dataset})


def _takes_dims(run: Any) -> bool:
    return hasattr(run, "to_dataset") and "dims" in inspect.signature(run.to_dataset).parameters
