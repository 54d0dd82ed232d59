"""Packages that only sampling needs."""

import importlib
from typing import Any


def needed(module: str) -> Any:
    """The module, or in words what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Posteriors need {module.partition('.')[0]}: pip install 'festina[posterior]'."
        ) from error
