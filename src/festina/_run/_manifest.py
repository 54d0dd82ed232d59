"""The manifest: a list of all files of a run with sizes and checksums, written last, read first."""

import json
import zlib
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from ._error import RunError

FORMAT_VERSION = 1
"""Version of the format. It increases only if an older festina would misread a run. New
attributes, nodes, variables or keys of the manifest leave the version unchanged, because an older
festina ignores them."""

MANIFEST = "festina.json"
_AGAIN = "Copy the run again from where it was saved, or run the experiment again."


def stamp() -> dict[str, Any]:
    """Return the format version and festina's version, which each run records."""
    from festina import __version__  # imported late, because `festina` imports this module

    return {"format_version": FORMAT_VERSION, "festina_version": __version__}


def write_files(files: Mapping[str, memoryview], folder: Path) -> None:
    """Write all files, and last the manifest that marks the run as complete."""
    listed: dict[str, dict[str, Any]] = {}
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:  # x raises if W and w collide on this file system
            stream.write(content)
        listed[name] = {"bytes": content.nbytes, "crc32": _checksum(content)}
    manifest = stamp() | {"files": listed}
    # Without a final newline, every truncated manifest is invalid JSON and will be noticed.
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run, if its format can be read; raise `RunError` otherwise."""
    if not folder.exists():
        raise RunError(f"There is no run at '{folder}': the path does not exist.")
    if not folder.is_dir():
        raise RunError(f"'{folder}' is not a run: this path is a file, and a run is a folder.")
    if not (folder / MANIFEST).is_file():
        inside = sorted(folder.glob(f"*/{MANIFEST}"))
        hint = f"Did you mean '{inside[0].parent}'?" if inside else "Is the copy complete?"
        if (folder / "status" / "zarr.json").is_file():
            hint = "This folder is the store of a sweep; read it with `xarray.open_zarr`."
        raise RunError(
            f"'{folder}' is not a run: it contains no `{MANIFEST}`, which festina writes last. "
            f"{hint}"
        )
    damaged = f"The run at '{folder}' is damaged: `{MANIFEST}`"
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (ValueError, RecursionError):
        raise RunError(f"{damaged} is truncated or altered. {_AGAIN}") from None
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if type(version) is not int or version < 1:
        raise RunError(f"{damaged} has no valid `format_version`. {_AGAIN}")
    if version > FORMAT_VERSION:
        raise RunError(
            f"The run at '{folder}' was written by festina {manifest.get('festina_version')} in "
            f"format {version}, but this festina reads only formats up to {FORMAT_VERSION}. "
            "Upgrade with `pip install --upgrade festina`."
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or "zarr.json" not in files:
        raise RunError(f"{damaged} has no list of files. {_AGAIN}")
    return manifest


def files_of(folder: Path) -> set[str]:
    """Return the names of all files below a folder."""
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def read_files(
    folder: Path, listed: Mapping[str, Any], here: Container[str] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each listed file, after checking its size and checksum.

    `here` contains the names of the files in the folder, if they are known.
    """
    # Reading only files that are both listed and present ignores .DS_Store and names like ../x.
    here = files_of(folder) if here is None else here
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
                raise RunError(f"{damaged} has no checksum in `{MANIFEST}`. {_AGAIN}")


def _checksum(content: bytes | memoryview) -> str:
    return f"{zlib.crc32(content):08x}"
