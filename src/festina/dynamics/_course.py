"""How a network is trained, in two nouns: the method, and the course that it takes."""

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
    """Which steps are taken."""

    name: str
    solver: TakenSolver
    step: Step
    evaluations: int  # gradients for each step
    rtol: float
    atol: float | None = None
    learning_rate: Float[np.ndarray, "*batch"] | None = None
    momentum: Float[np.ndarray, "*batch"] | None = None

    @property
    def continuous(self) -> bool:
        """Whether it follows the flow in time, and does not count steps."""
        return self.learning_rate is None


@dataclass(frozen=True)
class Course:
    """Where samples are taken, what is kept of them, and where it ends."""

    stops: Float[np.ndarray, " stop"]
    resolution: SaveResolution | None  # None: at the stops, and nowhere else
    converged: float
    max_steps: int
    observe: Observe | None = None  # None: all weights
    progress: Progress | None = None
    patience: int | None = None  # steps; see `OutOfPatience`
    spent: int = 1  # gradients for each network before the first step
    settings: Mapping[str, float | int] = field(default_factory=dict)  # as the result shows them

    @property
    def at_stops(self) -> bool:
        """Whether certain times were asked for, to the last of which training goes on."""
        return self.resolution is None
