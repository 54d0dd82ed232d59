"""Where the file of an own experiment lies, recorded in a run without a path of this machine."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def recorded(file: str) -> dict[str, str]:
    """Return the attributes of a run by which `found` recognises the file that made it.

    `file` is relative to the working folder, or only a name where the file lies elsewhere. The
    checksum is that of the absolute path, which is not stored itself.
    """
    if not file:
        return {"file": ""}
    path, here = Path(file), Path.cwd()
    below = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
    return {"file": below.as_posix(), "file_checksum": _checksum(path)}


def found(attributes: Mapping[Any, Any], run: Path) -> Path | None:
    """Return the file that made a run, if it lies below the working folder where it lay before.

    A run may come from a stranger, and the file is executed. A file that came with the run does not
    have the absolute path that is recorded, unless that path was known to the stranger.
    """
    here, name = Path.cwd(), Path(str(attributes["file"]))
    for folder in (here, *run.resolve().parents):
        path = (folder / name).resolve()
        known = name.is_absolute() or attributes.get("file_checksum") == _checksum(path)
        if known and path.is_relative_to(here) and path.is_file():
            return path
    return None


def _checksum(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:16]
