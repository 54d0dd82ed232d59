"""Convert a tree to the files of a Zarr store, in memory."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ._attributes import encode_attribute
from ._code import origin
from ._error import RunError
from ._manifest import MANIFEST, stamp
from ._values import as_bytes, encode_values, layout

if TYPE_CHECKING:
    import xarray as xr


def to_files(run: "xr.DataTree") -> dict[str, memoryview]:
    """Return the contents of all files by name, in the format of Zarr 3."""
    # `DataTree.to_zarr` would interpret attributes such as `units`, `dtype` and `scale_factor`.
    # xarray can nevertheless open the result.
    files: dict[str, memoryview] = {}
    for path, node in run.subtree_with_keys:
        prefix = "" if path == "." else f"{path}/"
        for part in path.split("/") if prefix else ():
            _check_name(part, prefix)
        # As in xarray, a node of a larger tree includes the coordinates that it inherits.
        dataset = node.to_dataset(inherit=node is run)
        attributes = _encode_node(dataset, prefix)
        attributes = attributes if prefix else origin() | attributes | stamp()
        files[f"{prefix}zarr.json"] = _metadata(node_type="group", attributes=attributes)
        for name, variable in dataset.variables.items():
            _check_name(name, prefix)
            where = f"'{prefix}{name}'"
            values = encode_values(np.asarray(variable.values), where)
            files[f"{prefix}{name}/zarr.json"] = _metadata(
                node_type="array",
                **layout(values),
                dimension_names=[_check_name(dim, prefix) for dim in variable.dims],
                attributes=encode_attribute(variable.attrs, where),
            )
            if values.size:
                chunk = "/".join(("c", *"0" * values.ndim))
                files[f"{prefix}{name}/{chunk}"] = as_bytes(values)
    return files


def _metadata(**entries: Any) -> memoryview:
    text = json.dumps({"zarr_format": 3, **entries}, indent=2, allow_nan=False)
    return memoryview(text.encode())


def _check_name(name: Any, prefix: str) -> str:
    # Zarr reads a backslash as a slash, so that the variable would silently be lost.
    taken = ("", ".", "..", "zarr.json", MANIFEST)
    if not isinstance(name, str) or name in taken or "/" in name or "\\" in name:
        raise RunError(
            f"{name!r} in node '/{prefix}' cannot be a name in a run: each name becomes a folder "
            "on disk, so it must be a string without slashes. Rename it."
        )
    return name


def _encode_node(dataset: "xr.Dataset", prefix: str) -> dict[str, Any]:
    """Return the attributes of a node, with xarray's list of non-index coordinates."""
    where = f"node '/{prefix}'"
    attributes = encode_attribute(dataset.attrs, where)
    if "coordinates" in attributes:
        raise RunError(f"xarray reserves the attribute 'coordinates' of {where}: rename it.")
    names = [str(name) for name in dataset.coords if name not in dataset.dims]
    if odd := [name for name in names if name.split() != [name]]:
        raise RunError(f"The coordinate '{odd[0]}' of {where} has a space in its name: rename it.")
    return attributes | ({"coordinates": " ".join(names)} if names else {})
