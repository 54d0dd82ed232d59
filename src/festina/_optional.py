"""Import optional packages, which only some functions need."""

import importlib
from typing import Any


def required(module: str, package: str, extra: str, *, what: str = "This") -> Any:
    """Return an optional module; if it is missing, raise `ValueError` with the install command."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{what} needs {package}, which is not installed: pip install {extra}."
        ) from error
