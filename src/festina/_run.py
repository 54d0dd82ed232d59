"""Saving and loading a run: everything needed to redraw it without computing it again.

A run is an `xarray.DataTree`. On disk it is a Zarr v3 store with one more file, `festina.json`,
that lists every other file with its size and checksum. Zarr reads a chunk that is not there as
zeros, so without that list half a run would load as a whole one.

What we write is the simplest store there is, each array whole and uncompressed, and needs no Zarr:
a description in JSON and the bytes. Any store is read, but Zarr only ever sees memory: it gets the
files that we have read and checked. So each byte is touched once, an interrupt finds no background
thread that still writes, and what was checked is what is used.
"""

import errno
import json
import math
import os
import shutil
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from .dynamics import Trajectory

FORMAT_VERSION = 1
"""Grows when an older festina would misread a run, and not for what it can ignore: a new
attribute, node, variable or key of the manifest."""

_MANIFEST = "festina.json"
_AGAIN = "Copy it again from where it was saved, or run the experiment again."
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NUMBERS = frozenset(
    ("bool", *_INTEGERS, "float16", "float32", "float64", "complex64", "complex128")
)
# Wider than what we write, so that a later festina may compress. All of them only move bytes.
_CODECS = frozenset(("bytes", "vlen-utf8", "crc32c", "zstd", "gzip", "blosc", "transpose"))


class RunError(ValueError):
    """A run that cannot be saved or loaded; the message is one line."""


def save(
    run: "xr.DataTree | xr.Dataset | Trajectory",
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> Path:
    """Write a run to the folder `path`, all of it or nothing.

    The files are written to a hidden folder beside `path`, which takes its name when it is
    complete. If anything fails before, a full disk or Ctrl-C, the hidden folder is removed and a
    run that was at `path` is still there. Nothing waits for the disk: after a power cut a file may
    be short, and `load` says so. Only a process that is killed outright leaves `.festina-…` behind.

    Variables hold numbers, booleans or text, and come back bit for bit. Attributes come back
    as plain Python: NumPy's numbers as `int`, `float` and `bool`, arrays and tuples as lists, NaN
    and infinity as they are. The attributes `format_version` and `festina_version` of the root are
    set in the file, not in `run`.

    **Arguments:**

    - `run`: the tree, for example with the nodes `simulation` and `theory`. A trajectory, or
      anything with `to_dataset`, or a dataset becomes the node `simulation` of one.
    - `path`: the folder to make, for example `runs/figure-1g/run.zarr`, with its parents.
    - `overwrite`: replace a run that is already there. Anything else is never replaced.

    **Returns:**

    `path`.
    """
    target = Path(path).resolve()  # a link to a run goes on to be one
    _check_target(target, overwrite)
    partial = _hidden_sibling(target)
    try:
        _make_folder(partial)  # first of all: nobody waits for a run that has nowhere to go
        _write(_to_files(_to_tree(run)), partial)
        _check_target(target, overwrite)  # again: another process may have been faster
        _put_in_place(partial, target, overwrite)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Path(path)


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
    manifest = _read_manifest(folder)
    files = dict(_read_files(folder, manifest["files"]))
    try:
        _check_types(files)
        return _from_files(files)
    except RunError as error:
        raise RunError(f"The run at '{folder}' {error}") from None
    except Exception as error:  # no file is open any more: whatever fails now is in the contents
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RunError(f"The run at '{folder}' cannot be read: {reason}") from error


# The folder


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not overwrite:
        raise FileExistsError(
            f"'{target}' exists already. Choose another path, or replace it with `overwrite=True`."
        )
    if not (target / _MANIFEST).is_file() and not _is_empty_folder(target):
        raise FileExistsError(
            f"'{target}' is not a run, so `overwrite=True` does not replace it. "
            "Choose another path, or move it away yourself."
        )


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _hidden_sibling(target: Path) -> Path:
    # `tempfile.mkdtemp` would make a folder, and so a run, that nobody else on a cluster can read.
    return target.parent / f".festina-{uuid.uuid4().hex[:12]}"


def _make_folder(folder: Path) -> None:
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


def _put_in_place(partial: Path, target: Path, overwrite: bool) -> None:
    # A folder with files in it cannot be replaced in one step, so the old run steps aside. Whatever
    # interrupts this, the last lines leave exactly one of the two runs at `target`.
    aside = _hidden_sibling(target)
    try:
        if overwrite and target.exists():
            os.replace(target, aside)
        os.replace(partial, target)
    finally:
        if aside.exists() and not target.exists():
            os.replace(aside, target)
        shutil.rmtree(aside, ignore_errors=True)


# The files


def _write(files: Mapping[str, memoryview], folder: Path) -> None:
    listed: dict[str, dict[str, Any]] = {}
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:  # x: where upper and lower case are one, W and w collide
            stream.write(content)
        listed[name] = {"bytes": content.nbytes, "crc32": _checksum(content)}
    manifest = _stamp() | {"files": listed}
    # No newline at the end: every proper part of the file is then invalid JSON, hence noticed.
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _checksum(content: bytes | memoryview) -> str:
    return f"{zlib.crc32(content):08x}"


def _read_manifest(folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise RunError(f"There is no run at '{folder}': the path does not exist.")
    if not folder.is_dir():
        raise RunError(f"'{folder}' is not a run: it is a file, and a run is a folder.")
    if not (folder / _MANIFEST).is_file():
        inside = sorted(folder.glob(f"*/{_MANIFEST}"))
        hint = f"Did you mean '{inside[0].parent}'?" if inside else "Was it copied completely?"
        raise RunError(
            f"'{folder}' is not a run: it has no `{_MANIFEST}`, which festina writes last. {hint}"
        )
    damaged = f"The run at '{folder}' is damaged: `{_MANIFEST}`"
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
    except (ValueError, RecursionError):
        raise RunError(f"{damaged} is cut short or altered. {_AGAIN}") from None
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if type(version) is not int or version < 1:
        raise RunError(f"{damaged} has no valid `format_version`. {_AGAIN}")
    if version > FORMAT_VERSION:
        raise RunError(
            f"The run at '{folder}' was written by festina {manifest.get('festina_version')} in "
            f"format {version}, and this one reads formats up to {FORMAT_VERSION}. "
            "Upgrade it: `pip install --upgrade festina`."
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or "zarr.json" not in files:
        raise RunError(f"{damaged} has no list of files. {_AGAIN}")
    return manifest


def _read_files(folder: Path, listed: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    # Only what is both listed and here: neither stray files (.DS_Store) nor names like ../x count.
    here = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    for name, expected in listed.items():
        if name not in here:
            raise RunError(f"The run at '{folder}' is incomplete: '{name}' is missing. {_AGAIN}")
        damaged = f"The run at '{folder}' is damaged: '{name}'"
        size = (folder / name).stat().st_size
        match expected:
            case {"bytes": wanted, "crc32": checksum}:
                if size != wanted:
                    raise RunError(f"{damaged} has {size} bytes instead of {wanted}. {_AGAIN}")
                content = (folder / name).read_bytes()
                if _checksum(content) != checksum:
                    raise RunError(f"{damaged} was altered after saving. {_AGAIN}")
                yield name, content
            case _:
                raise RunError(f"{damaged} has no checksum in `{_MANIFEST}`. {_AGAIN}")


def _check_types(files: Mapping[str, bytes]) -> None:
    """Refuse what could make Zarr do more than copy bytes, before Zarr sees it."""
    for path, metadata in _nodes(files):
        if metadata["node_type"] != "array":
            continue
        kind = metadata["data_type"]
        kind = kind["name"] if isinstance(kind, dict) else kind
        if kind not in _NUMBERS and kind != "string":
            raise RunError(
                f"is refused: '{path}' has type '{kind}', "
                "and only numbers, booleans and text are loaded."
            )
        codecs = [codec["name"] for codec in metadata["codecs"]]
        if metadata.get("storage_transformers") or not _CODECS.issuperset(codecs):
            raise RunError(
                f"is refused: '{path}' is stored with {', '.join(codecs)}, "
                f"and only {', '.join(sorted(_CODECS))} are loaded."
            )


# The tree


def _to_tree(run: Any) -> "xr.DataTree":
    import xarray as xr

    if isinstance(run, xr.DataTree):
        return run
    dataset = run.to_dataset() if hasattr(run, "to_dataset") else run
    if not isinstance(dataset, xr.Dataset):
        raise TypeError(
            f"`run` is an xarray.DataTree, a Dataset or a trajectory, got {type(run).__name__}. "
            "For arrays: xr.Dataset({'loss': ('time', loss)}, coords={'time': time})."
        )
    return xr.DataTree.from_dict({"simulation": dataset})


def _to_files(run: "xr.DataTree") -> dict[str, memoryview]:
    # Not `DataTree.to_zarr`, which reads meaning into attributes such as `units`, `dtype` and
    # `scale_factor`. xarray opens the result all the same.
    files: dict[str, memoryview] = {}
    for path, node in run.subtree_with_keys:
        prefix = "" if path == "." else f"{path}/"
        for part in path.split("/") if prefix else ():
            _check_name(part, prefix)
        # As in xarray, a node of a larger tree takes along the coordinates that it inherits.
        dataset = node.to_dataset(inherit=node is run)
        attributes = _encode_node(dataset, prefix) | ({} if prefix else _stamp())
        files[f"{prefix}zarr.json"] = _metadata(node_type="group", attributes=attributes)
        for name, variable in dataset.variables.items():
            _check_name(name, prefix)
            where = f"'{prefix}{name}'"
            values = _encode_values(np.asarray(variable.values), where)
            files[f"{prefix}{name}/zarr.json"] = _metadata(
                node_type="array",
                **_layout(values),
                dimension_names=[_check_name(dim, prefix) for dim in variable.dims],
                attributes=_encode_attribute(variable.attrs, where),
            )
            if values.size:
                chunk = "/".join(("c", *"0" * values.ndim))
                files[f"{prefix}{name}/{chunk}"] = _bytes(values)
    return files


def _metadata(**entries: Any) -> memoryview:
    text = json.dumps({"zarr_format": 3, **entries}, indent=2, allow_nan=False)
    return memoryview(text.encode())


def _layout(values: np.ndarray) -> dict[str, Any]:
    """How an array is stored, in the words of the specification of Zarr 3: whole, in one file."""
    kind = values.dtype.kind
    codec: dict[str, Any] = {"name": "bytes"}
    if kind == "T":
        codec = {"name": "vlen-utf8", "configuration": {}}
    elif values.dtype.itemsize > 1:
        codec["configuration"] = {"endian": "little"}
    return {
        "shape": values.shape,
        "data_type": "string" if kind == "T" else values.dtype.name,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [max(1, n) for n in values.shape]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": {"T": "", "b": False, "f": 0.0, "c": [0.0, 0.0]}.get(kind, 0),
        "codecs": [codec],
    }


def _bytes(values: np.ndarray) -> memoryview:
    if values.dtype.kind == "T":  # the number of strings, then each with its length in front
        encoded = [text.encode() for text in values.flat]
        lengths = [len(text).to_bytes(4, "little") for text in encoded]
        pairs = zip(lengths, encoded, strict=True)
        return memoryview(len(encoded).to_bytes(4, "little") + b"".join(map(b"".join, pairs)))
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def _stamp() -> dict[str, Any]:
    from festina import __version__  # late, so that `festina` itself may import this module

    return {"format_version": FORMAT_VERSION, "festina_version": __version__}


def _check_name(name: Any, prefix: str) -> str:
    # Zarr takes a backslash for a slash, and the variable would be lost without a word.
    taken = ("", ".", "..", "zarr.json", _MANIFEST)
    if not isinstance(name, str) or name in taken or "/" in name or "\\" in name:
        raise RunError(
            f"{name!r} in node '/{prefix}' cannot be a name in a run: each becomes a folder on "
            "disk, so it is a string without slashes. Rename it."
        )
    return name


def _encode_node(dataset: "xr.Dataset", prefix: str) -> dict[str, Any]:
    """The attributes of a node, with xarray's own mark for coordinates that are no index."""
    where = f"node '/{prefix}'"
    attributes = _encode_attribute(dataset.attrs, where)
    if "coordinates" in attributes:
        raise RunError(f"Attribute 'coordinates' of {where} is xarray's own: rename it.")
    names = [str(name) for name in dataset.coords if name not in dataset.dims]
    if odd := [name for name in names if name.split() != [name]]:
        raise RunError(f"Coordinate '{odd[0]}' of {where} has a space in its name: rename it.")
    return attributes | ({"coordinates": " ".join(names)} if names else {})


def _from_files(files: Mapping[str, bytes]) -> "xr.DataTree":
    import xarray as xr
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    as_buffer = default_buffer_prototype().buffer.from_bytes
    buffers = {name: as_buffer(content) for name, content in files.items()}
    store = MemoryStore(buffers, read_only=True)
    nodes: dict[str, tuple[dict[str, Any], dict[str, xr.Variable]]] = {}
    for path, metadata in _nodes(files):
        attributes = _decode_attribute(metadata.get("attributes", {}))
        if metadata["node_type"] == "group":
            nodes[path] = attributes, {}
            continue
        array = zarr.open_array(store, path=path, mode="r", zarr_format=3)
        values = _decode_values(np.asarray(array[...]))
        node, _, name = path.rpartition("/")
        nodes[node][1][name] = xr.Variable(metadata.get("dimension_names", ()), values, attributes)
    datasets = {}
    for path, (attributes, variables) in nodes.items():
        marked = attributes.pop("coordinates", "").split()
        dataset = xr.Dataset(variables, attrs=attributes)  # makes the indexes itself
        datasets[f"/{path}"] = dataset.set_coords([name for name in marked if name in variables])
    return xr.DataTree.from_dict(datasets)


def _nodes(files: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and metadata of every group and array, in the order in which they were saved."""
    for name, content in files.items():
        path, _, file = name.rpartition("/")
        if file == "zarr.json":
            yield path, json.loads(content)


def _encode_values(values: np.ndarray, where: str) -> np.ndarray:
    kind = values.dtype.kind
    if kind in "UT" or (kind == "O" and all(isinstance(value, str) for value in values.flat)):
        # Zarr has no specified type for text of fixed length.
        return values.astype(np.dtypes.StringDType())
    if values.dtype.name not in _NUMBERS:
        raise RunError(
            f"Variable {where} has type {values.dtype}, "
            "and a run holds numbers, booleans and text. Convert it, or leave it out."
        )
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _decode_values(values: np.ndarray) -> np.ndarray:
    # By way of objects, because they know the width that the longest string needs.
    return values.astype(object).astype(str) if values.dtype.kind in "OT" else values


def _encode_attribute(value: Any, where: str) -> Any:
    """Plain JSON. It knows no NaN and no infinity, so these become `{"__float__": "nan"}`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.bool | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else {"__float__": str(number)}
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise RunError(f"Attributes of {where} have the key {odd[0]!r}; keys are strings.")
        return {
            key: _encode_attribute(entry, f"'{key}' of {where}") for key, entry in value.items()
        }
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return _encode_attribute(value[()], where)
    if isinstance(value, list | tuple | range | np.ndarray):
        return [_encode_attribute(entry, where) for entry in value]
    if hasattr(value, "__array__") and not isinstance(value, np.generic):  # JAX's arrays
        return _encode_attribute(np.asarray(value), where)
    raise RunError(
        f"Attribute {where} is of type {type(value).__name__}, and attributes are numbers, "
        "strings, None, and lists and dictionaries of these. "
        "Convert it, or store it as a variable."
    )


def _decode_attribute(value: Any) -> Any:
    match value:
        case {"__float__": "nan" | "inf" | "-inf" as number} if len(value) == 1:
            return float(number)
        case dict():
            return {key: _decode_attribute(entry) for key, entry in value.items()}
        case list():
            return [_decode_attribute(entry) for entry in value]
        case _:
            return value
