"""Import the names of a package at first use, so that `--help` need not import JAX."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def attach(
    package: str, homes: Mapping[str, str], packages: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package with lazy imports.

    `homes` maps each public name to the module that defines it. `packages` lists the subpackages.
    """

    def get(name: str) -> Any:
        if name in packages:
            return importlib.import_module(f".{name}", package)
        if name in homes:
            return getattr(importlib.import_module(homes[name], package), name)
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get, lambda: sorted((*homes, *packages))
