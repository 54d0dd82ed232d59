r"""The perceptual task, and the architecture and teaching of the animal that learns it.

**From the slides by Saxe:**

- the contrasts and the rewarded action of each contrast
- three squared errors of the chosen action: for the value of the stimulus, of the constant input,
  and of both
- the hierarchy of saddle points, the comparison of shallow and deep, and individual differences

**Our reconstruction** of what the slides do not contain:

- the encoding of a contrast, the softmax and the initial weights
- the two stages: a gain for each input line, then a weight for each action and line
- the error that teaches each weight, and every number that follows
"""

import difflib
import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from ..._checks import check_finite, check_positive, number

LINES = ("left", "right", "constant")
"""The three input lines: a left stimulus, a right stimulus, and a line that is always on."""

ACTIONS = ("left", "right")

Architecture = Literal["deep", "shallow"]
Teaching = Literal["total", "heterogeneous"]


@dataclass(frozen=True)
class ContrastChoiceLearner:
    r"""Model of an animal that learns to report the side of a stimulus. (Our reconstruction.)

    On each trial a contrast $c$ is drawn with equal probabilities. Negative contrasts are on the
    left and reward the action *left*. Positive contrasts reward *right*. Zero contrast rewards each
    action with probability ½. With $c_{max} = \max|c|$ the input is

    $$x(c) = \left(\max(-c, 0)/c_{max},\ \max(c, 0)/c_{max},\ 1\right).$$

    A `deep` animal has a gain $v_i$ for each line i and a weight $u_{ai}$ from line i to action a.
    A `shallow` animal has only the weights $W_{ai}$. The values Q and the choice probabilities π
    are

    $$Q^{stim}_a = \sum_{i=L,R} W_{ai} x_i,\quad Q^{const}_a = W_{a0},\quad
      Q^{tot} = Q^{stim} + Q^{const},\qquad W_{ai} = u_{ai} v_i,\qquad
      \pi_a \propto e^{\beta Q^{tot}_a}.$$

    The animal learns only about the chosen action, from the reward $r$ and the errors
    $\delta^\bullet_a = r_a - Q^\bullet_a$. Averaged over trials,

    $$\tau\dot v_i = E_c \sum_a \pi_a \delta^{tot}_a u_{ai} x_i,\qquad
      \tau\dot u_{ai} = E_c\,\pi_a \delta_a v_i x_i,$$

    where $\delta = \delta^{tot}$ if `teaching` is `total`. With `heterogeneous` teaching
    $\delta^{stim}$ teaches the $u$ of a stimulus and $\delta^{const}$ the $u$ of the constant line.
    A shallow animal has $\tau\dot W_{ai} = E_c\,\pi_a\delta_a x_i$.

    The slides by Saxe contain the contrasts, the rewards, the three errors of the chosen action,
    the hierarchy of saddle points and the comparison of shallow and deep. All other parts of the
    model are our reconstruction.

    **Arguments:**

    - `contrasts`: contrasts $c$, at least one below and one above zero.
    - `inverse_temperature`: $\beta \ge 0$; at 0 the animal chooses at random.
    - `architecture`: `deep` or `shallow`.
    - `teaching`: `total` or `heterogeneous`.
    - `tau`: time constant $\tau$, one over the learning rate for each trial.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner
    >>> ContrastChoiceLearner(contrasts=(-1.0, 0.0, 1.0)).stimuli  # left, right, constant
    array([[1., 0., 1.],
           [0., 0., 1.],
           [0., 1., 1.]])
    """

    contrasts: tuple[float, ...] = (-0.5, -0.25, 0.0, 0.25, 0.5)
    inverse_temperature: float = 5.0
    architecture: Architecture = "deep"
    teaching: Teaching = "total"
    tau: float = 1.0

    def __post_init__(self) -> None:
        contrasts = np.asarray(self.contrasts, dtype=float)
        check_finite("contrasts", contrasts)
        if contrasts.ndim != 1 or not ((contrasts < 0).any() and (contrasts > 0).any()):
            raise ValueError(
                "`contrasts` must be a list of numbers with at least one below zero (left) and "
                f"one above (right), got {self.contrasts!r}: an animal cannot learn about a "
                "stimulus that it never sees."
            )
        object.__setattr__(self, "contrasts", tuple(contrasts.tolist()))
        for name in ("inverse_temperature", "tau"):
            object.__setattr__(self, name, number(name, getattr(self, name)))
        if self.inverse_temperature < 0:
            raise ValueError(
                f"`inverse_temperature` must not be negative, got {self.inverse_temperature:g}: "
                "the animal would prefer actions of lower value. Use 0 for random choices."
            )
        check_positive("tau", self.tau)
        _check_choice("architecture", self.architecture, ("deep", "shallow"))
        _check_choice("teaching", self.teaching, ("total", "heterogeneous"))

    @functools.cached_property
    def stimuli(self) -> Float[np.ndarray, "contrast line"]:
        """Activity $x_i(c)$ of each line at each contrast."""
        c = np.asarray(self.contrasts, dtype=float)
        sides = np.maximum([-c, c], 0.0) / np.abs(c).max()
        return np.stack([*sides, np.ones_like(c)], axis=1)

    @functools.cached_property
    def rewards(self) -> Float[np.ndarray, "contrast action"]:
        r"""Probability $\bar r_a(c)$ that an action is rewarded at each contrast."""
        right = 0.5 * (1.0 + np.sign(self.contrasts))
        return np.stack([1.0 - right, right], axis=1)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value in choices:
        return
    near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"`{name}` must be {' or '.join(map(repr, choices))}, got {value!r}.{hint}")


def check_distinguishable(model: ContrastChoiceLearner) -> None:
    """Raise `ValueError` if the constant line is a combination of the stimuli."""
    if np.linalg.matrix_rank(model.stimuli) < len(LINES):
        raise ValueError(
            f"With the `contrasts` {model.contrasts} the constant line is a combination of the "
            "stimuli, so that stationary points are not isolated. Add a contrast, such as 0."
        )
