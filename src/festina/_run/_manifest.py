"""The manifest: every file of a run with its size and checksum, written last and read first."""

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ._error import RunError

FORMAT_VERSION = 1
"""Grows when an older festina would misread a run, and not for what it can ignore: a new
attribute, node, variable or key of the manifest."""

MANIFEST = "festina.json"
_AGAIN = "Copy it again from where it was saved, or run the experiment again."


def stamp() -> dict[str, Any]:
    """Who wrote a run, in which format."""
    from festina import __version__  # late, so that `festina` itself may import this module

    return {"format_version": FORMAT_VERSION, "festina_version": __version__}


def write_files(files: Mapping[str, memoryview], folder: Path) -> None:
    """All files, and at the end the manifest that makes a run of them."""
    listed: dict[str, dict[str, Any]] = {}
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:  # x: where upper and lower case are one, W and w collide
            stream.write(content)
        listed[name] = {"bytes": content.nbytes, "crc32": _checksum(content)}
    manifest = stamp() | {"files": listed}
    # No newline at the end: every proper part of the file is then invalid JSON, hence noticed.
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, of a format that we can read."""
    if not folder.exists():
        raise RunError(f"There is no run at '{folder}': the path does not exist.")
    if not folder.is_dir():
        raise RunError(f"'{folder}' is not a run: it is a file, and a run is a folder.")
    if not (folder / MANIFEST).is_file():
        inside = sorted(folder.glob(f"*/{MANIFEST}"))
        hint = f"Did you mean '{inside[0].parent}'?" if inside else "Was it copied completely?"
        if (folder / "status" / "zarr.json").is_file():
            hint = "It is the store of a sweep, which `xarray.open_zarr` reads."
        raise RunError(
            f"'{folder}' is not a run: it has no `{MANIFEST}`, which festina writes last. {hint}"
        )
    damaged = f"The run at '{folder}' is damaged: `{MANIFEST}`"
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
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


def read_files(folder: Path, listed: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Each file that is listed, whole and unaltered."""
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
                raise RunError(f"{damaged} has no checksum in `{MANIFEST}`. {_AGAIN}")


def _checksum(content: bytes | memoryview) -> str:
    return f"{zlib.crc32(content):08x}"
