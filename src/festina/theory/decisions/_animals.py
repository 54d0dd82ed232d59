"""Weights of simulated animals, and draws of naive animals."""

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
    r"""Weights of one or more simulated animals.

    - `gains`: $v_i$, shape `(animal, line)`, or `(line,)` for a single animal.
    - `striatum`: $u_{ai}$, shape `(animal, action, line)`, or `(action, line)`.

    The lines i are left, right, constant; the actions a are left, right. `ContrastChoiceLearner`
    defines how the weights determine choices.

    **Example:**

    >>> from festina.theory.decisions import AnimalWeights
    >>> animal = AnimalWeights(gains=[0.2, 0.1, 1.0], striatum=[[1, -1, 0], [-1, 1, 0]])
    >>> animal.products[0]
    array([[ 0.2, -0.1,  0. ],
           [-0.2,  0.1,  0. ]])
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
                "`gains` and `striatum` must have equal numbers of animals, at least one, got "
                f"{len(self.gains)} and {len(self.striatum)}."
            )

    def __len__(self) -> int:
        return len(self.gains)

    @property
    def products(self) -> Float[np.ndarray, "animal action line"]:
        r"""Products $W_{ai} = u_{ai} v_i$ of the weights, which determine all choices."""
        return self.striatum * self.gains[:, None, :]

    def merged(self) -> "AnimalWeights":
        """Return shallow animals with the same behaviour: gains 1 and striatum $W = uv$."""
        return AnimalWeights(np.ones_like(self.gains), self.products)

    def mirrored(self) -> "AnimalWeights":
        """Return the animals with left and right exchanged, both among lines and among actions."""
        swap = [1, 0, 2]
        return AnimalWeights(self.gains[:, swap], self.striatum[:, ::-1, swap])

    def repeated(self, count: int) -> "AnimalWeights":
        """Return `count` consecutive copies of each animal, for independent runs."""
        if count < 1:
            raise ValueError(f"`count` must be at least 1, got {count}.")
        return AnimalWeights(self.gains.repeat(count, axis=0), self.striatum.repeat(count, axis=0))


def naive_animals(
    left_gain: ArrayLike, right_gain: ArrayLike, constant_gain: ArrayLike = 0.05
) -> AnimalWeights:
    r"""Return naive animals, without a bias and with the given gains. (Our reconstruction.)

    Each stimulus favours the action on its own side, and the constant input (subscript 0) favours
    no action:

    $$u_{\cdot L} = \tfrac12 v_L (1, -1),\quad u_{\cdot R} = \tfrac12 v_R (-1, 1),\quad
      u_{\cdot 0} = v_0 (1, 1).$$

    The stimulus with the larger gain is learned first (`stimulus_use_times`).

    **Arguments:**

    - `left_gain`, `right_gain`: gains $v_L, v_R$ of the stimuli, a number or one for each animal.
    - `constant_gain`: gain $v_0$ of the constant line, a number or one for each animal.

    **Returns:**

    One animal for each value of the longest argument.

    **Example:**

    >>> from festina.theory.decisions import naive_animals
    >>> animals = naive_animals([0.1, 0.2], 0.1)
    >>> len(animals), animals.gains[1]
    (2, array([0.2 , 0.1 , 0.05]))
    >>> animals.striatum[1]
    array([[ 0.1 , -0.05,  0.05],
           [-0.1 ,  0.05,  0.05]])
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
    r"""Draw naive animals with random gains: $\ln v_L$, $\ln v_R$ uniform and independent.

    The logarithm of the gain counts: a silent line grows as $v e^{|g|t}$, so that the time at which
    a stimulus is first used is linear in $\ln v$. `naive_animals` defines the other weights. (Our
    reconstruction.)

    **Arguments:**

    - `count`: number of animals. The animal with a given index does not depend on `count`.
    - `smallest`, `largest`: range of the gains $v_L$ and $v_R$.
    - `constant_gain`: gain $v_0$ of the constant line, the same for all animals.
    - `key`: random key.

    **Example:**

    >>> import jax
    >>> from festina.theory.decisions import draw_naive_animals
    >>> animals = draw_naive_animals(100, key=jax.random.key(0))
    >>> animals.gains[0].round(4)
    array([0.0871, 0.0043, 0.05  ])
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
