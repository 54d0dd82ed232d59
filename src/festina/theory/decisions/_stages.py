"""Stages of learning: when an animal uses each stimulus, and which saddles it visits."""

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
    r"""Return the time at which each stimulus starts to influence the choices of each animal.

    A stimulus is used from the first recorded time at which its full contrast changes the
    probability of its own side by more than the threshold θ:

    $$P(R\mid 0) - P(R\mid -c_{max}) > \theta,\qquad P(R\mid c_{max}) - P(R\mid 0) > \theta.$$

    The fraction of correct choices would be misleading: an animal that has learned only the left
    stimulus chooses right without it, and is correct on the right without using the right stimulus.
    (Our definition.)

    With the default model and `naive_animals(0.1, 0.001)`, the left stimulus is used from t = 13.5
    and the right stimulus from t = 115 (t = 12.5 and 57 with `heterogeneous` teaching). With
    `naive_animals(0.01, 0.01)` both stimuli are used from t = 36.5 (35 with `heterogeneous`
    teaching). A shallow animal uses both stimuli from t = 1.5.

    **Arguments:**

    - `learning`: result of `mean_field_learning` or `simulate_learning`.
    - `threshold`: threshold θ, between 0 and 1.

    **Returns:**

    Times of shape `(animal, side)`, left then right; infinite for a stimulus that is never used.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.decisions import ContrastChoiceLearner, mean_field_learning
    >>> from festina.theory.decisions import naive_animals, stimulus_use_times
    >>> animals, times = naive_animals([0.1, 0.01], 0.01), np.arange(0, 100, 0.5)
    >>> stimulus_use_times(mean_field_learning(ContrastChoiceLearner(), animals, times))
    array([[13.5, 68. ],
           [36.5, 36.5]])
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
    r"""Result of `visited_saddles`: the stationary point nearest to each animal over time.

    - `points`: stationary points.
    - `nearest`: index of the nearest of `points`, shape `(animal, time)`.
    - `distance`: distance $\lVert W - W^*\rVert$ to each point W*, shape `(animal, time, point)`.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.decisions import ContrastChoiceLearner, mean_field_learning
    >>> from festina.theory.decisions import naive_animals, stationary_points, visited_saddles
    >>> model, times = ContrastChoiceLearner(), np.linspace(0, 400, 401)
    >>> learning = mean_field_learning(model, naive_animals(0.1, 0.001, 0.05), times)
    >>> visits = visited_saddles(learning, stationary_points(model))
    >>> visits.nearest[0, [0, 20, 400]]
    array([0, 3, 7])
    """

    points: tuple[StationaryPoint, ...]
    nearest: Int[np.ndarray, "animal time"]
    distance: Float[np.ndarray, "animal time point"]

    def path(self, animal: int) -> tuple[tuple[str, ...], ...]:
        """Return the active lines of each point that one animal visits, in temporal order."""
        visited = self.nearest[animal]
        entered = np.concatenate([[True], np.diff(visited) != 0])
        return tuple(self.points[point].active for point in visited[entered])


def visited_saddles(learning: DecisionLearning, points: Sequence[StationaryPoint]) -> SaddleVisits:
    r"""Return the path of each animal through the hierarchy of stationary points.

    Distances compare the products $W_{ai}$, on which behaviour depends. The nearest point may still
    be far away. If an animal lingers at a point, its distance to this point has a minimum over
    time.

    **Arguments:**

    - `learning`: result of `mean_field_learning` or `simulate_learning`.
    - `points`: result of `stationary_points(learning.model)`.

    **Returns:**

    The nearest point at each time, and the distances to all points.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.decisions import ContrastChoiceLearner, mean_field_learning
    >>> from festina.theory.decisions import naive_animals, stationary_points, visited_saddles
    >>> model, times = ContrastChoiceLearner(), np.linspace(0, 400, 401)
    >>> learning = mean_field_learning(model, naive_animals(0.1, 0.001, 0.05), times)
    >>> visited_saddles(learning, stationary_points(model)).path(0)
    ((), ('constant',), ('left', 'constant'), ('left', 'right', 'constant'))
    """
    if not points:
        raise ValueError("`points` is empty: give stationary_points(learning.model).")
    away = learning.products[:, :, None] - np.stack([point.products for point in points])
    distance = np.sqrt((away**2).sum(axis=(-2, -1)))
    return SaddleVisits(tuple(points), distance.argmin(axis=-1), distance)


def _right(values: np.ndarray, beta: float) -> np.ndarray:
    """Return P(R) for values with actions on the last axis; tanh does not overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * beta * (values[..., 1] - values[..., 0])))
