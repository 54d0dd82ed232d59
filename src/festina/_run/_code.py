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
def _installed() -> dict[str, str]:
    names = ("jax", "jaxlib", "numpy", "scipy", "xarray")
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python} | {name: importlib.metadata.version(name) for name in names}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a result may depend on.

    Packages that not every run needs are listed if they have been imported.
    """
    imported = {name: sys.modules.get(name) for name in ("blackjax", "matplotlib", "torch")}
    told = {name: getattr(module, "__version__", None) for name, module in imported.items()}
    return _installed() | {name: str(version) for name, version in told.items() if version}


def origin() -> dict[str, Any]:
    """Return the attributes with the present date and the versions of packages."""
    now = datetime.datetime.now(datetime.UTC)
    return {"date": now.isoformat(timespec="seconds"), "versions": versions()}
