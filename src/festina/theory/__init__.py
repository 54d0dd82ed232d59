"""What mathematics predicts: a package for each field, imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import coding as coding
    from . import decisions as decisions
    from . import gated as gated
    from . import linear as linear
    from . import saddles as saddles

__all__ = ["coding", "decisions", "gated", "linear", "saddles"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'festina.theory' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
