"""`festina doctor`."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ._folder import shorter
from ._options import Debug

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "xarray", "zarr", "matplotlib")


def doctor(*, debug: Debug = False) -> int:
    """Report versions, devices, folders and missing extras; the exit status is 1 if a part fails.

    Send this report with a question about an installation.
    """
    versions = [
        ("festina", _version("festina") or "not installed"),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, _version(name) or "missing") for name in _PACKAGES),
    ]
    devices = _devices()
    extras = [
        (extra, f"missing {', '.join(missing)}: pip install 'festina[{extra}]'")
        if missing
        else (extra, "installed")
        for extra, missing in _extras()
    ]
    _print(Versions=versions, Devices=devices, Folders=_folders(), Extras=extras)
    return int(dict(devices).get("float64") != "works")


def _print(**parts: Iterable[tuple[str, str]]) -> None:
    """Print lists of names and values below their headings; long values wrap."""
    from rich.padding import Padding

    from ._table import console

    screen = console()
    for heading, rows in parts.items():
        screen.print(heading)
        for name, value in rows:
            screen.print(Padding(f"{name:<12} {value}", (0, 0, 0, 2), expand=False))
        screen.print()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _devices() -> list[tuple[str, str]]:
    """Return JAX's devices, and whether a small program runs on the first one in float64."""
    try:
        import jax

        found = jax.devices()
        with jax.enable_x64(True):
            third = jax.jit(lambda x: x / 3)(1.0)
        works = abs(float(third) - 1 / 3) < 1e-15
    except Exception as error:  # a missing driver, or packages that do not fit together
        return [("jax", f"fails: {' '.join(str(error).split())}")]
    kinds = sorted({each.device_kind for each in found})
    return [
        ("devices", f"{len(found)} × {', '.join(kinds)}"),
        ("CPU cores", str(os.cpu_count())),
        ("float64", "works" if works else "is computed in single precision"),
    ]


def _folders() -> Iterator[tuple[str, str]]:
    """Yield the folders that festina writes to or reads from, with their sizes."""
    from festina import compilation_cache
    from festina.tasks._mnist_files import present

    cache = compilation_cache()
    yield "programs", "off" if cache is None else f"{shorter(cache)} ({_size(cache)})"
    found = present()
    yield "MNIST", "not here; downloaded when needed" if found is None else str(shorter(found))
    runs = Path("runs")
    yield "runs", f"{shorter(runs)} ({_size(runs)})" if runs.is_dir() else "none in this folder"


def _size(folder: Path) -> str:
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{total / 1e6:,.0f} MB"


def _extras() -> Iterator[tuple[str, list[str]]]:
    """Yield every extra with the packages that it lacks."""
    wanted: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("festina") or ():
        found = re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", line)
        if found:
            wanted.setdefault(found[2], []).append(found[1])
    for extra, packages in wanted.items():
        yield extra, [package for package in packages if not _version(package)]
