"""Weights and behaviour of animals over time."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float

from ..._precision import compiled
from ..._result import Result
from ..._types import Array
from ._animals import AnimalWeights
from ._equations import Task, behaviour, task_of
from ._learner import ACTIONS, LINES, ContrastChoiceLearner

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class DecisionLearning(
    Result,
    also=("products", "values", "right_probability", "loss", "reward", "accuracy", "bias"),
    drawn="accuracy",
):
    r"""Result of `mean_field_learning` or `simulate_learning`: weights and behaviour over time.

    - `time`: times, in the units of the model's $\tau$.
    - `gains`, `striatum`: weights $v_i(t)$ and $u_{ai}(t)$; the gains of an animal with a
      shallow network are 1.
    - `method`: `mean field` or `trials`.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner, mean_field_learning
    >>> from festina.theory.decisions import naive_animals
    >>> model, animal = ContrastChoiceLearner(), naive_animals(0.1, 0.01)
    >>> learning = mean_field_learning(model, animal, [0, 30, 200])
    >>> learning.accuracy.round(4)
    array([[0.5047, 0.8414, 0.9717]])
    >>> learning.bias.round(4)  # only one stimulus is used at first
    array([[0.    , 0.313 , 0.0157]])
    """

    model: ContrastChoiceLearner
    time: Float[np.ndarray, " time"]
    gains: Float[np.ndarray, "animal time line"]
    striatum: Float[np.ndarray, "animal time action line"]
    method: str

    @property
    def products(self) -> Float[np.ndarray, "animal time action line"]:
        r"""Products $W_{ai} = u_{ai} v_i$ of striatal weights and gains."""
        return self.striatum * self.gains[:, :, None, :]

    @functools.cached_property
    def _behaviour(self) -> tuple[np.ndarray, ...]:
        return tuple(map(np.asarray, _behaviour(self.products, task_of(self.model))))

    @property
    def values(self) -> Float[np.ndarray, "animal time contrast action"]:
        r"""Value $Q^{tot}_a(c)$ of each action a at each contrast c."""
        return self._behaviour[0]

    @property
    def right_probability(self) -> Float[np.ndarray, "animal time contrast"]:
        r"""Psychometric curve: probability $P(R \mid c)$ to choose *right* at each contrast."""
        return self._behaviour[1][..., 1]

    @property
    def loss(self) -> Float[np.ndarray, "animal time"]:
        r"""Expected squared error $\frac12 E_c\sum_a\pi_a(\bar r_a - Q^{tot}_a)^2$."""
        return self._behaviour[2]

    @property
    def reward(self) -> Float[np.ndarray, "animal time"]:
        r"""Fraction of rewarded trials, $E_c\sum_a\pi_a\bar r_a$."""
        return self._behaviour[3]

    @property
    def accuracy(self) -> Float[np.ndarray, "animal time"]:
        """Fraction of correct choices on trials with a stimulus."""
        seen = np.asarray(self.model.contrasts) != 0
        correct = (self._behaviour[1] * self.model.rewards).sum(axis=-1)
        return correct[..., seen].mean(axis=-1)

    @property
    def bias(self) -> Float[np.ndarray, "animal time"]:
        r"""Bias $P(R) - \frac12$ without a stimulus, even if every trial has a stimulus."""
        constant = self.products[..., 2]
        preference = constant[..., 1] - constant[..., 0]
        return 0.5 * np.tanh(0.5 * self.model.inverse_temperature * preference)

    @property
    def final(self) -> AnimalWeights:
        """Animals with the weights at the last time, to continue learning."""
        return AnimalWeights(self.gains[:, -1], self.striatum[:, -1])

    def to_dataset(self) -> "xr.Dataset":
        """Return all data with the axes `animal`, `time` and `action`, `line` or `contrast`."""
        data = super().to_dataset()
        data["loss"].attrs["long_name"] = "½ E Σ π (r̄ − Q)²"
        return data.assign_coords(
            animal=np.arange(len(self.gains)),
            action=list(ACTIONS),
            line=list(LINES),
            contrast=np.asarray(self.model.contrasts, dtype=float),
        ).assign_attrs(
            {
                "model": "perceptual decisions, festina's reconstruction",
                "architecture": self.model.architecture,
                "teaching": self.model.teaching,
                "inverse_temperature": float(self.model.inverse_temperature),
                "tau": float(self.model.tau),
            }
        )


@compiled()
def _behaviour(
    w: Float[Array, "animal time action line"], task: Task
) -> tuple[Float[Array, "..."], ...]:
    return jax.vmap(jax.vmap(lambda one: behaviour(one, task)))(w)
