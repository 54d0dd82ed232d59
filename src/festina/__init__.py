"""festina predicts how a neural network learns, trains it, and compares prediction with training.

Every name is imported at its first use, so that the command line's `--help` need not import JAX.
"""

from typing import TYPE_CHECKING

from ._lazy import attach

if TYPE_CHECKING:
    from . import diagnose as diagnose
    from . import dynamics as dynamics
    from . import experiments as experiments
    from . import networks as networks
    from . import own as own
    from . import papers as papers
    from . import sweeps as sweeps
    from . import tasks as tasks
    from . import theory as theory
    from ._cache import compilation_cache as compilation_cache
    from ._progress_bar import progress_bar as progress_bar
    from ._run import RunError as RunError
    from ._run import load as load
    from ._run import save as save
    from .diagnose import effective_width as effective_width
    from .dynamics import gradient_descent as gradient_descent
    from .dynamics import gradient_flow as gradient_flow
    from .networks import seeds as seeds
    from .own import forecast as forecast
    from .own import shrink as shrink
    from .own import watch as watch
    from .sweeps import sweep as sweep

__version__ = "0.1.0"

_PACKAGES = (
    *("diagnose", "dynamics", "experiments", "networks", "own", "papers", "sweeps", "tasks"),
    "theory",
)
_HOMES = {
    "compilation_cache": "._cache",
    "effective_width": ".diagnose",
    "forecast": ".own",
    "gradient_descent": ".dynamics",
    "gradient_flow": ".dynamics",
    "load": "._run",
    "progress_bar": "._progress_bar",
    "RunError": "._run",
    "save": "._run",
    "seeds": ".networks",
    "shrink": ".own",
    "sweep": ".sweeps",
    "watch": ".own",
}

__all__ = [*_HOMES, *_PACKAGES, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = attach(__name__, _HOMES, _PACKAGES)
