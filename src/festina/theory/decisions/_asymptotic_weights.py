"""Where `heterogeneous` teaching leads: behaviour settles, weights never do."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._precision import compiled
from ..._result import Result
from ..._types import Array
from ._animals import naive_animals
from ._equations import Task, task_of, velocity
from ._learner import LINES, ContrastChoiceLearner, check_distinguishable
from ._mean_field_learning import mean_field_learning

# From here on the direction of every line moves slowly enough for Newton's method to finish.
_NEAR = 1e3
_NEWTON_STEPS = 20
_CONVERGED = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class AsymptoticWeights(Result):
    r"""Result of `asymptotic_weights`: what a deep animal approaches as $t \to \infty$.

    - `products`: $W_{ai}$, which converge.
    - `pull`: $\kappa_i$, what the own error of a line still asks for.
    - `striatum_growth`: $\sqrt{2\kappa_i p_i/\tau}$, with $\lVert u_i\rVert$ over $\sqrt t$.
    - `gain_decay`: $\sqrt{\tau p_i/2\kappa_i}$, with $v_i$ times $\sqrt t$.
    """

    products: Float[np.ndarray, "action line"]
    pull: Float[np.ndarray, " line"]
    striatum_growth: Float[np.ndarray, " line"]
    gain_decay: Float[np.ndarray, " line"]


def asymptotic_weights(model: ContrastChoiceLearner) -> AsymptoticWeights:
    r"""Return the weights at late times of a deep animal with `heterogeneous` teaching.

    There is no point at which all lines are active and rest: $\delta^{tot}$, which teaches the
    gains, and the lines' own errors, which teach the striatum, cannot all vanish. With $g$ and $g'$
    the pulls of the two on line $i$ and $W_i = p_i n_i$, $|n_i| = 1$, the weights end on

    $$g'_i = \kappa_i n_i,\qquad g_i\cdot n_i = 0,$$

    where the striatum grows along itself and the gain falls to keep the product:
    $\tau\,d\lVert u_i\rVert^2/dt = 2\kappa_i p_i$, so that

    $$\lVert u_i\rVert \simeq \sqrt{2\kappa_i p_i t/\tau},\qquad
      v_i \simeq \sqrt{p_i\tau/(2\kappa_i t)}.$$

    A stimulus loses its weight to the action that it never rewards: for the left one
    $\tau\dot u_{RL} = -h u_{RL} v_L^2$ with $h = E_c\,\pi_R x_L^2$, hence $n_L = (1, 0)$ and

    $$W_{RL} \sim t^{-\frac12 - h p_L/2\kappa_L}.$$

    So the products, and with them behaviour, approach the limit like a power of $t$. (Our
    reconstruction. That every animal ends here is observed, not proved.)

    **Arguments:**

    - `model`: deep and heterogeneous.

    **Returns:**

    The products and the two prefactors. Found by Newton's method from where an unbiased animal is
    after a long time.
    """
    if (model.architecture, model.teaching) != ("deep", "heterogeneous"):
        raise ValueError(
            "Only a deep animal with heterogeneous teaching has weights that never rest, got "
            f"{model.architecture!r} and {model.teaching!r}. The others: stationary_points(model)."
        )
    check_distinguishable(model)
    task = task_of(model)
    late = mean_field_learning(replace(model, tau=1.0), naive_animals(0.1, 0.1, 0.1), [_NEAR])
    w = late.products[0, -1]
    size = np.inf
    for _ in range(_NEWTON_STEPS):
        error, slope, _ = _conditions(w, task)
        size = np.abs(error).max()
        if not size > _CONVERGED:
            break
        w = w - np.linalg.solve(slope.reshape(w.size, w.size), error).reshape(w.shape)
    strength = np.linalg.norm(w, axis=0)
    pull = (_conditions(w, task)[2] * w).sum(axis=0) / strength
    if not size <= _CONVERGED or not (pull > 0).all():
        raise RuntimeError(
            f"No limit found at `inverse_temperature` {model.inverse_temperature:g} for contrasts "
            f"{model.contrasts}. Use `mean_field_learning` up to a late time."
        )
    return AsymptoticWeights(
        products=w,
        pull=pull,
        striatum_growth=np.sqrt(2.0 * pull * strength / model.tau),
        gain_decay=np.sqrt(strength * model.tau / (2.0 * pull)),
    )


@compiled()
def _conditions(
    w: Float[Array, "action line"], task: Task
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "action line"]]:
    """What must vanish, two numbers for each line, its derivative, and the lines' own pulls g'."""
    one = jnp.ones(len(LINES))
    own_pull = lambda w: velocity(one, w, task, "shallow", "heterogeneous")[1]

    def conditions(w: Float[Array, "action line"]) -> Float[Array, " condition"]:
        pull, own = velocity(one, w, task, "shallow", "total")[1], own_pull(w)
        across = own[0] * w[1] - own[1] * w[0]  # g' along n
        along = (pull * w).sum(axis=0)  # g · n = 0
        return jnp.concatenate([across, along])

    return conditions(w), jax.jacfwd(conditions)(w), own_pull(w)
