"""Convert the files of a Zarr store, in memory, to a tree."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._attributes import decode_attribute
from ._error import RunError
from ._values import NUMBERS, decode_values

if TYPE_CHECKING:
    import xarray as xr

# More codecs than `save` uses, so that a later festina may compress. All of them only move bytes.
_CODECS = frozenset(("bytes", "vlen-utf8", "crc32c", "zstd", "gzip", "blosc", "transpose"))


def from_files(files: Mapping[str, bytes]) -> "xr.DataTree":
    """Return the tree that the files hold; raise `RunError` for types other than plain data."""
    _check_types(files)

    import xarray as xr
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    as_buffer = default_buffer_prototype().buffer.from_bytes
    buffers = {name: as_buffer(content) for name, content in files.items()}
    store = MemoryStore(buffers, read_only=True)
    nodes: dict[str, tuple[dict[str, Any], dict[str, xr.Variable]]] = {}
    for path, metadata in _nodes(files):
        attributes = decode_attribute(metadata.get("attributes", {}))
        if metadata["node_type"] == "group":
            nodes[path] = attributes, {}
            continue
        array = zarr.open_array(store, path=path, mode="r", zarr_format=3)
        values = decode_values(np.asarray(array[...]))
        node, _, name = path.rpartition("/")
        nodes[node][1][name] = xr.Variable(metadata.get("dimension_names", ()), values, attributes)
    datasets = {}
    for path, (attributes, variables) in nodes.items():
        marked = attributes.pop("coordinates", "").split()
        dataset = xr.Dataset(variables, attrs=attributes)  # xarray makes the indexes
        datasets[f"/{path}"] = dataset.set_coords([name for name in marked if name in variables])
    return xr.DataTree.from_dict(datasets)


def _check_types(files: Mapping[str, bytes]) -> None:
    """Raise `RunError` for any type or codec with which Zarr would do more than copy bytes."""
    for path, metadata in _nodes(files):
        if metadata["node_type"] != "array":
            continue
        kind = metadata["data_type"]
        kind = kind["name"] if isinstance(kind, dict) else kind
        if kind not in NUMBERS and kind != "string":
            raise RunError(
                f"cannot be loaded safely: '{path}' has type '{kind}', and only numbers, booleans "
                "and text are allowed."
            )
        codecs = [codec["name"] for codec in metadata["codecs"]]
        if metadata.get("storage_transformers") or not _CODECS.issuperset(codecs):
            raise RunError(
                f"cannot be loaded safely: '{path}' is stored with {', '.join(codecs)}, and only "
                f"{', '.join(sorted(_CODECS))} are allowed."
            )


def _nodes(files: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and metadata of every group and array, in the order of saving."""
    for name, content in files.items():
        path, _, file = name.rpartition("/")
        if file == "zarr.json":
            yield path, json.loads(content)
