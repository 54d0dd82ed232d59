"""Import packages that only sampling needs."""

import importlib
from typing import Any


def needed(module: str) -> Any:
    """Return a module, or raise `ImportError` with the command that installs its package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Sampling posteriors needs the package {module.partition('.')[0]}: pip install "
            "'festina[posterior]'."
        ) from error
