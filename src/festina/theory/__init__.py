"""Theories of learning: one subpackage for each field, imported on first use."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from . import coding as coding
    from . import decisions as decisions
    from . import gated as gated
    from . import linear as linear
    from . import saddles as saddles

__all__ = ["coding", "decisions", "gated", "linear", "saddles"]

__getattr__, __dir__ = attach(__name__, {}, tuple(__all__))
