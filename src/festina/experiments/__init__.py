"""Define and run experiments: parameters, a run, claims with identifiers, and a figure."""

from typing import TYPE_CHECKING

from .._lazy import attach
from ._experiment_entry import ExperimentEntry as ExperimentEntry
from ._registry import Experiment as Experiment
from ._registry import Progress as Progress
from ._registry import experiment_groups as experiment_groups
from ._registry import experiment_names as experiment_names
from ._registry import find_entry as find_entry
from ._registry import load_experiment as load_experiment
from ._registry import unknown as unknown

if TYPE_CHECKING:
    from . import claims as claims
    from . import figures as figures
    from ._frame import Tables as Tables
    from ._frame import make_run as make_run
    from ._frame import parameters_of_run as parameters_of_run
    from ._keys import Key as Key
    from ._keys import keys_from_parameters as keys_from_parameters
    from ._parameters import Parameters as Parameters
    from ._parameters import check_decreasing as check_decreasing
    from ._parameters import check_increasing as check_increasing
    from ._runner import ExperimentRun as ExperimentRun
    from ._runner import run_experiment as run_experiment
    from .claims import Claim as Claim
    from .figures import save_animation as save_animation

# NumPy, pydantic and matplotlib are imported at first use, which keeps `festina list` fast.
_PACKAGES = ("claims", "figures")
_HOMES = {
    "Claim": ".claims",
    "check_decreasing": "._parameters",
    "ExperimentRun": "._runner",
    "check_increasing": "._parameters",
    "Key": "._keys",
    "Parameters": "._parameters",
    "Tables": "._frame",
    "make_run": "._frame",
    "keys_from_parameters": "._keys",
    "parameters_of_run": "._frame",
    "run_experiment": "._runner",
    "save_animation": ".figures",
}
_LIGHT = (
    "ExperimentEntry",
    "Experiment",
    "Progress",
    "experiment_groups",
    "experiment_names",
    "find_entry",
    "load_experiment",
    "unknown",
)
__all__ = [*_HOMES, *_PACKAGES, *_LIGHT]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, _ = attach(__name__, _HOMES, _PACKAGES)


def __dir__() -> list[str]:
    return sorted(__all__)
