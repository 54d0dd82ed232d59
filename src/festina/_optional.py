"""Packages that only some functions need."""

import importlib
from typing import Any


def required(module: str, package: str, extra: str, *, what: str = "This") -> Any:
    """Return a module; raise `ValueError` with the command that installs its package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{what} needs {package}, which is not installed: pip install {extra}."
        ) from error
