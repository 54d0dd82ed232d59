"""Settings of a training run: the method (which steps) and the course (which samples)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from ._logbook import SaveResolution
from ._observe import Observe
from ._program import Step
from ._trajectory import TakenSolver
from ._worker import Progress


@dataclass(frozen=True)
class Method:
    """Describe the steps of a training run: solver, tolerance, learning rate and momentum."""

    name: str
    solver: TakenSolver
    step: Step
    evaluations: int  # gradient evaluations in each step
    rtol: float
    atol: float | None = None
    learning_rate: Float[np.ndarray, "*batch"] | None = None
    momentum: Float[np.ndarray, "*batch"] | None = None

    @property
    def continuous(self) -> bool:
        """Whether training is a flow in continuous time, rather than a count of steps."""
        return self.learning_rate is None


@dataclass(frozen=True)
class Course:
    """Describe when samples are taken, what is stored of each, and when training ends."""

    stops: Float[np.ndarray, " stop"]
    resolution: SaveResolution | None  # None: samples only at the stops, the requested times
    converged: float
    max_steps: int
    observe: Observe | None = None  # None: all weights are stored
    progress: Progress | None = None
    patience: int | None = None  # number of steps after which `OutOfPatience` is raised
    spent: int = 1  # gradient evaluations for each network before the first step
    settings: Mapping[str, float | int] = field(default_factory=dict)  # shown in the result

    @property
    def at_stops(self) -> bool:
        """Whether the user gave the times of the samples; training then runs to the last one."""
        return self.resolution is None
