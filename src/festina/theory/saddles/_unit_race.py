r"""The race of small units: which unit escapes first.

With $\theta = rn$ and $|n| = 1$, each unit has its own clock, $d\sigma = r^{\kappa-2}dt$. On this
clock the direction $n$ climbs the utility, and the size $r$ grows at the rate
$\kappa\,\mathcal U(n)$ (see `_staircase_units.py`). As the unit approaches its escape, the clock
$\sigma$ tends to infinity.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ._stairs import root

if TYPE_CHECKING:
    from scipy.integrate import DOP853

RTOL, ATOL = 1e-9, 1e-12  # small units may grow later, so errors must stay small
_ALIGNED = 1e-6  # ratio of |dn/dσ| and κU below which a direction counts as stationary


class Escape(NamedTuple):
    """The first unit to escape: its index, time, direction, and the utility of the direction."""

    which: int
    time: float
    direction: Float[np.ndarray, " weight"]
    utility: float


class _Standing(NamedTuple):
    """The state of all units in the race."""

    growth: Float[np.ndarray, " unit"]  # κU
    aligned: Bool[np.ndarray, " unit"]  # the direction is stationary
    learned: Float[np.ndarray, " unit"]  # ln(U r^κ / large)


class Race:
    """Integrate units until the first escape: one column per unit, with the rows n, ln r and t.

    Sizes are relative to the largest unit at the start, and the unit of time follows from this
    size.

    **Arguments:**

    - `pull`: function that returns ∂U/∂θ_i for units that do not interact.
    - `weights`: weights of every unit; no unit is zero.
    - `degree`: the degree κ ≥ 3 of the utility.
    - `large`: the gain $U r^κ$ at which a unit is no longer small.
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
        """Return the first escape, or None if no unit escapes before its clock reaches `latest`.

        The escape of a unit is known once its direction is stationary. A unit between two
        directions of nearly the same utility rotates more slowly than it grows. A unit between two
        directions escapes in the direction that it has when it becomes large.
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
        """Return the escape of a unit, extrapolated at its present growth rate."""
        log_r, t = table[-2:, unit]
        growth = float(self._standing(table).growth[unit])
        gone = t + np.exp((2 - self.degree) * log_r) / ((self.degree - 2) * growth)
        return Escape(unit, float(gone) * self.unit_of_time, table[:-2, unit], growth / self.degree)

    def _grown(self, solver: "DOP853", unit: int) -> np.ndarray:
        """Return the table at the moment within the last step at which the unit became large."""
        between = solver.dense_output()
        at = lambda sigma: self._table(between(sigma))
        # A unit that does not grow at the beginning of the step has ln(U r^κ) = −∞.
        above = lambda sigma: max(self._standing(at(sigma)).learned[unit], -1e3)
        return at(root(above, between.t_old, between.t))
