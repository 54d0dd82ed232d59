"""What an animal goes through: when it uses which stimulus, and which saddle it is at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..._result import Result
from ._learning import DecisionLearning
from ._saddles import StationaryPoint


def stimulus_use_times(
    learning: DecisionLearning, *, threshold: float = 0.25
) -> Float[np.ndarray, "animal side"]:
    r"""Return when each stimulus starts to influence the choices of each animal.

    A stimulus is used from the first recorded time at which showing it at full contrast moves the
    choices by more than `threshold` towards its own side,

    $$P(R\mid 0) - P(R\mid -c_{max}) > \theta,\qquad P(R\mid c_{max}) - P(R\mid 0) > \theta.$$

    Not the fraction of correct choices: an animal that has learned the left stimulus alone goes
    right without one, and is correct on the right without looking. (Our definition.)

    With the default model and `naive_animals(0.1, 0.001)` the left stimulus is used from $t = 13.5$
    and the right one from 115 (12.5 and 57 with `heterogeneous` teaching), with
    `naive_animals(0.01, 0.01)` both from 36.5 (35), and by a shallow animal both from 1.5.

    **Arguments:**

    - `learning`: of `mean_field_learning` or `simulate_learning`.
    - `threshold`: $\theta$, between 0 and 1.

    **Returns:**

    The times with shape `(animal, side)`, left then right; infinity where a stimulus is not used
    by the end.
    """
    if not 0 < threshold < 1:
        raise ValueError(f"`threshold` must lie between 0 and 1, got {threshold!r}.")
    left, right, constant = np.moveaxis(learning.products, -1, 0)
    beta = learning.model.inverse_temperature
    blank = _right(constant, beta)
    shift = np.stack(
        [blank - _right(constant + left, beta), _right(constant + right, beta) - blank], axis=-1
    )
    used = shift > threshold
    first = learning.time[used.argmax(axis=1)]
    return np.where(used.any(axis=1), first, np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class SaddleVisits(Result):
    r"""Result of `visited_saddles`: the stationary point that each animal is nearest to.

    - `points`: the stationary points.
    - `nearest`: which of `points`, shape `(animal, time)`.
    - `distance`: $\lVert W - W^*\rVert$ to every one of them, shape `(animal, time, point)`.
    """

    points: tuple[StationaryPoint, ...]
    nearest: Int[np.ndarray, "animal time"]
    distance: Float[np.ndarray, "animal time point"]

    def path(self, animal: int) -> tuple[tuple[str, ...], ...]:
        """Return the active lines of the points that one animal visits, in temporal order."""
        visited = self.nearest[animal]
        entered = np.concatenate([[True], np.diff(visited) != 0])
        return tuple(self.points[point].active for point in visited[entered])


def visited_saddles(learning: DecisionLearning, points: Sequence[StationaryPoint]) -> SaddleVisits:
    r"""Return the path of each animal through the hierarchy of `stationary_points`.

    Distances are between products $W_{ai}$, which is what behaviour depends on. The nearest point
    need not be near: where animals linger, the distance has a minimum in time.

    **Arguments:**

    - `learning`: of `mean_field_learning` or `simulate_learning`.
    - `points`: of `stationary_points(learning.model)`.

    **Returns:**

    The nearest point at each time, and the distances to all.
    """
    if not points:
        raise ValueError("`points` is empty: give stationary_points(learning.model).")
    away = learning.products[:, :, None] - np.stack([point.products for point in points])
    distance = np.sqrt((away**2).sum(axis=(-2, -1)))
    return SaddleVisits(tuple(points), distance.argmin(axis=-1), distance)


def _right(values: np.ndarray, beta: float) -> np.ndarray:
    """P(R) for values with actions along the last axis; tanh does not overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * beta * (values[..., 1] - values[..., 0])))
