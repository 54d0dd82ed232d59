"""Packages whose names are imported when first used, so that help and errors stay light."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def attach(
    package: str, homes: Mapping[str, str], packages: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    `homes` gives the module in which each name is defined; `packages` are its own packages.
    """

    def get(name: str) -> Any:
        if name in packages:
            return importlib.import_module(f".{name}", package)
        if name in homes:
            return getattr(importlib.import_module(homes[name], package), name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get, lambda: sorted((*homes, *packages))
