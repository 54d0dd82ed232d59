"""Identify the running code by a checksum, because a version would not reveal a changed line."""

import datetime
import functools
import hashlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any


@functools.cache
def code(file: str) -> str:
    """Return a checksum of festina's code and of the file of a user's experiment, if any."""
    digest = hashlib.sha256()
    for path in (*sorted(Path(__file__).parents[1].rglob("*.py")), *filter(None, [file])):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a result may depend on."""
    names = ("jax", "jaxlib", "numpy", "scipy", "xarray")
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python} | {name: importlib.metadata.version(name) for name in names}


def origin() -> dict[str, Any]:
    """Return the attributes with the present date and the versions of packages."""
    now = datetime.datetime.now(datetime.UTC)
    return {"date": now.isoformat(timespec="seconds"), "versions": versions()}
