r"""Which of many small units is the first to escape.

With $\theta = rn$, $|n| = 1$, each unit has a clock of its own, $d\sigma = r^{\kappa-2}dt$, along
which its direction climbs the utility and its size grows at the rate $\kappa\,\mathcal U(n)$
(`_staircase_units.py`). Towards the time at which it is gone the clock runs to infinity.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ._stairs import root

if TYPE_CHECKING:
    from scipy.integrate import DOP853

RTOL, ATOL = 1e-9, 1e-12  # what is small now may be what grows later
_ALIGNED = 1e-6  # |dn/dσ| over κU at which a direction has found its maximum


class Escape(NamedTuple):
    """The first unit to leave: which of them, when, whereto, and how steeply."""

    which: int
    time: float
    direction: Float[np.ndarray, " weight"]
    utility: float


class _Standing(NamedTuple):
    """How units stand in the race."""

    growth: Float[np.ndarray, " unit"]  # κU
    aligned: Bool[np.ndarray, " unit"]  # the direction is stationary
    learned: Float[np.ndarray, " unit"]  # ln U r^κ above what makes a unit large


class Race:
    """Units in the columns of a table: n in the first rows, then ln r and t.

    Sizes are relative to the largest at the start, and times to the unit that follows from it.

    **Arguments:**

    - `pull`: ∂U/∂θ_i for units that do not see each other.
    - `weights`: of every unit, none of them zero.
    - `degree`: κ ≥ 3.
    - `large`: the gain $U r^κ$ of a unit that is no longer small.
    """

    def __init__(
        self,
        pull: Callable[[np.ndarray], np.ndarray],
        weights: Float[np.ndarray, "weight unit"],
        degree: int,
        large: float,
    ):
        size = np.linalg.norm(weights, axis=0)
        self.pull, self.degree = pull, degree
        self.large = large / size.max() ** degree
        self.unit_of_time = size.max() ** (2 - degree)
        self.start = np.vstack((weights / size, np.log(size / size.max()), np.zeros(len(size))))

    def first(self, latest: float) -> Escape | None:
        """Follow all units until the first to escape is known, or until `latest` on their clocks.

        A unit's escape is known once it has found its direction. Between directions that are nearly
        as good it turns more slowly than it grows: it leaves in the one that it has when it is
        large.
        """
        from scipy.integrate import DOP853

        flow = lambda _, flat: self._flow(self._table(flat)).ravel()
        solver = DOP853(flow, 0.0, self.start.ravel(), latest, rtol=RTOL, atol=ATOL)
        escapes: dict[int, Escape] = {}
        while True:
            table = self._table(solver.y)
            _, aligned, learned = self._standing(table)
            for unit in set(np.flatnonzero(aligned | (learned > 0.0)).tolist()) - set(escapes):
                early = aligned[unit] or solver.t_old is None
                escapes[unit] = self._escape(unit, table if early else self._grown(solver, unit))
            first = min(escapes.values(), key=lambda each: each.time, default=None)
            open_since = np.delete(table[-1], list(escapes)).min(initial=np.inf)
            known = first is not None and first.time <= open_since * self.unit_of_time
            if known or solver.status != "running":
                return first
            solver.step()

    def _table(self, flat: np.ndarray) -> Float[np.ndarray, "weight_and_two unit"]:
        return flat.reshape(self.start.shape)

    def _flow(self, table: np.ndarray) -> np.ndarray:
        n, log_r = table[:-2], table[-2]
        pull = self.pull(n)
        growth = np.sum(n * pull, axis=0)  # κU, by Euler
        pace = np.exp(np.minimum((2 - self.degree) * log_r, 200.0))
        return np.vstack((pull - growth * n, growth, pace))

    def _standing(self, table: np.ndarray) -> _Standing:
        n, log_r = table[:-2], table[-2]
        pull = self.pull(n)
        growth = np.sum(n * pull, axis=0)
        aligned = np.linalg.norm(pull - growth * n, axis=0) < _ALIGNED * growth
        with np.errstate(divide="ignore"):
            gain = np.log(np.maximum(growth, 0.0) / (self.degree * self.large))
        return _Standing(growth, aligned, self.degree * log_r + gain)

    def _escape(self, unit: int, table: np.ndarray) -> Escape:
        """Extrapolate the escape at the present rate."""
        log_r, t = table[-2:, unit]
        growth = float(self._standing(table).growth[unit])
        gone = t + np.exp((2 - self.degree) * log_r) / ((self.degree - 2) * growth)
        return Escape(unit, float(gone) * self.unit_of_time, table[:-2, unit], growth / self.degree)

    def _grown(self, solver: "DOP853", unit: int) -> np.ndarray:
        """Return the table within the last step, at which the unit became large."""
        between = solver.dense_output()
        at = lambda sigma: self._table(between(sigma))
        # A unit that does not grow at the beginning of the step is infinitely far below.
        above = lambda sigma: max(self._standing(at(sigma)).learned[unit], -1e3)
        return at(root(above, between.t_old, between.t))
