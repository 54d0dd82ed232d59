"""What the sources claim: a package per source, a module per figure, table or theorem."""

from typing import TYPE_CHECKING, Any

from ._claim import Claim as Claim
from ._claim import compare as compare
from ._references import bibtex as bibtex
from ._registry import Entry as Entry
from ._registry import Experiment as Experiment
from ._registry import Progress as Progress
from ._registry import find as find
from ._registry import load as load
from ._registry import names as names
from ._registry import sources as sources
from ._registry import unknown as unknown

if TYPE_CHECKING:
    from ._animation import save_animation as save_animation
    from ._parameters import Parameters as Parameters


def __getattr__(name: str) -> Any:
    # Pydantic costs more than everything else that `festina list` needs, so it comes when asked.
    if name == "Parameters":
        from ._parameters import Parameters

        return Parameters
    if name == "save_animation":
        from ._animation import save_animation

        return save_animation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
