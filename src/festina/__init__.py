"""festina predicts how a neural network learns, trains it, and shows where the two agree.

Names are imported when first used: the command line's help does not pay for JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import diagnose as diagnose
    from . import dynamics as dynamics
    from . import networks as networks
    from . import own as own
    from . import papers as papers
    from . import tasks as tasks
    from . import theory as theory
    from ._cache import compilation_cache as compilation_cache
    from ._run import RunError as RunError
    from ._run import load as load
    from ._run import save as save
    from ._sweep._sweep import sweep as sweep
    from .dynamics import gradient_descent as gradient_descent
    from .dynamics import gradient_flow as gradient_flow
    from .networks import seeds as seeds
    from .own import forecast as forecast
    from .own import shrink as shrink
    from .own import watch as watch

__version__ = "0.1.0"

_PACKAGES = ("diagnose", "dynamics", "networks", "own", "papers", "tasks", "theory")
_HOMES = {
    "compilation_cache": "._cache",
    "forecast": ".own",
    "gradient_descent": ".dynamics",
    "gradient_flow": ".dynamics",
    "load": "._run",
    "RunError": "._run",
    "save": "._run",
    "seeds": ".networks",
    "shrink": ".own",
    "sweep": "._sweep._sweep",
    "watch": ".own",
}

__all__ = [*_HOMES, *_PACKAGES, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module 'festina' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
