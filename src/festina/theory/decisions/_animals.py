"""Animals: their weights before and during learning."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..._checks import check_finite, check_positive, check_size
from ..._precision import float64
from ..._result import Result
from ..._types import ArrayLike
from ._learner import ACTIONS, LINES

_SHAPES = {"gains": (len(LINES),), "striatum": (len(ACTIONS), len(LINES))}


@dataclass(frozen=True, eq=False, repr=False)
class AnimalWeights(Result):
    r"""The weights of one animal or more.

    - `gains`: $v_i$, shape `(animal, line)`, or `(line,)` for a single animal.
    - `striatum`: $u_{ai}$, shape `(animal, action, line)`, or `(action, line)`.

    Lines are left, right, constant; actions are left, right. What they do is told in
    `ContrastChoiceLearner`.
    """

    gains: Float[np.ndarray, "animal line"]
    striatum: Float[np.ndarray, "animal action line"]

    def __init__(self, gains: ArrayLike, striatum: ArrayLike) -> None:
        for name, value in (("gains", gains), ("striatum", striatum)):
            weights, shape = np.array(value, dtype=np.float64), _SHAPES[name]
            if weights.shape[-len(shape) :] != shape or weights.ndim > len(shape) + 1:
                raise ValueError(
                    f"`{name}` must have shape (animal, {', '.join(map(str, shape))}), or {shape} "
                    f"for one animal, got {weights.shape}."
                )
            check_finite(name, weights)
            object.__setattr__(self, name, weights.reshape(-1, *shape))
        if len(self.gains) != len(self.striatum) or not len(self.gains):
            raise ValueError(
                "`gains` and `striatum` must hold the same animals, at least one, got "
                f"{len(self.gains)} and {len(self.striatum)}."
            )

    def __len__(self) -> int:
        return len(self.gains)

    @property
    def products(self) -> Float[np.ndarray, "animal action line"]:
        r"""$W_{ai} = u_{ai} v_i$, all that behaviour depends on."""
        return self.striatum * self.gains[:, None, :]

    def merged(self) -> "AnimalWeights":
        """Return single-layer animals with the same behaviour: gains 1, $W$ in the striatum."""
        return AnimalWeights(np.ones_like(self.gains), self.products)

    def mirrored(self) -> "AnimalWeights":
        """Return the same animals with left and right exchanged, as lines and as actions."""
        swap = [1, 0, 2]
        return AnimalWeights(self.gains[:, swap], self.striatum[:, ::-1, swap])

    def repeated(self, count: int) -> "AnimalWeights":
        """Return each animal `count` times, copy after copy, for independent runs."""
        if count < 1:
            raise ValueError(f"`count` must be at least 1, got {count}.")
        return AnimalWeights(self.gains.repeat(count, axis=0), self.striatum.repeat(count, axis=0))


def naive_animals(
    left_gain: ArrayLike, right_gain: ArrayLike, constant_gain: ArrayLike = 0.05
) -> AnimalWeights:
    r"""Return animals before learning that differ in their gains. (Our reconstruction.)

    A stimulus leans towards the action on its own side by half of its gain, the constant line
    towards both alike,

    $$u_{\cdot L} = \tfrac12 v_L (1, -1),\quad u_{\cdot R} = \tfrac12 v_R (-1, 1),\quad
      u_{\cdot 0} = v_0 (1, 1),$$

    so that an animal starts without a bias. The side with the larger gain is learned first, see
    `stimulus_use_times`.

    **Arguments:**

    - `left_gain`, `right_gain`: $v_L, v_R$, a number or one for each animal.
    - `constant_gain`: $v_0$, likewise.

    **Returns:**

    The animals, as many as the longest argument has values.
    """
    named = {"left_gain": left_gain, "right_gain": right_gain, "constant_gain": constant_gain}
    for name, value in named.items():
        check_size(name, value)
    try:
        v = np.stack(np.broadcast_arrays(*(np.atleast_1d(g) for g in named.values())), axis=-1)
    except ValueError:
        v = np.empty(0)
    if v.ndim != 2 or not v.size:
        shapes = ", ".join(f"`{name}` {np.shape(value)}" for name, value in named.items())
        raise ValueError(
            f"The gains must be numbers or lists of the same length, got the shapes {shapes}."
        )
    lean = np.array([[0.5, -0.5, 1.0], [-0.5, 0.5, 1.0]])
    return AnimalWeights(v, lean * v[..., None, :])


@float64
def draw_naive_animals(
    count: int,
    *,
    smallest: float = 1e-3,
    largest: float = 0.1,
    constant_gain: float = 0.05,
    key: PRNGKeyArray,
) -> AnimalWeights:
    r"""Draw animals that differ by chance: $\ln v_L$ and $\ln v_R$ uniform and independent.

    The logarithm is what counts: a silent line grows as $v e^{|g|t}$, so the time at which it is
    used is linear in $\ln v$. (Our reconstruction; see `naive_animals` for the other weights.)

    **Arguments:**

    - `count`: how many. Animal 3 is the same, however many are drawn beside it.
    - `smallest`, `largest`: the range of $v_L$ and $v_R$.
    - `constant_gain`: $v_0$, the same for all.
    - `key`: randomness for the gains.
    """
    if count < 1:
        raise ValueError(f"`count` must be at least 1, got {count}.")
    check_positive("smallest", smallest)
    check_positive("largest", largest)
    if smallest > largest:
        raise ValueError(
            f"`smallest` must not be above `largest`, got {smallest:g} and {largest:g}."
        )
    each = jax.vmap(jax.random.fold_in, (None, 0))(key, np.arange(count))
    share = np.asarray(jax.vmap(lambda k: jax.random.uniform(k, (2,)))(each), dtype=np.float64)
    sides = smallest * (largest / smallest) ** share
    return naive_animals(sides[:, 0], sides[:, 1], constant_gain)
