"""Late times of `heterogeneous` teaching: behaviour converges, but weights do not."""

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

# Time after which the directions of all lines are close enough for Newton's method to converge.
_NEAR = 1e3
_NEWTON_STEPS = 20
_CONVERGED = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class AsymptoticWeights(Result):
    r"""Result of `asymptotic_weights`: limits for a deep animal as $t \to \infty$.

    - `products`: limit of the products $W_{ai} = u_{ai} v_i$.
    - `pull`: limit $\kappa_i$ of the drive of line i by the error that teaches this line.
    - `striatum_growth`: limit of $\lVert u_i\rVert/\sqrt t$, which is $\sqrt{2\kappa_i p_i/\tau}$.
    - `gain_decay`: limit of $v_i \sqrt t$, which is $\sqrt{\tau p_i/2\kappa_i}$.

    Here $p_i$ is the norm of the products of line i.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner, asymptotic_weights
    >>> late = asymptotic_weights(ContrastChoiceLearner(teaching="heterogeneous"))
    >>> late.products[0, [0, 2]]  # on the action left: left stimulus, constant line
    array([0.62059837, 0.47287442])
    """

    products: Float[np.ndarray, "action line"]
    pull: Float[np.ndarray, " line"]
    striatum_growth: Float[np.ndarray, " line"]
    gain_decay: Float[np.ndarray, " line"]


def asymptotic_weights(model: ContrastChoiceLearner) -> AsymptoticWeights:
    r"""Return the asymptotic weights of a deep animal with `heterogeneous` teaching.

    The gains learn from $\delta^{tot}$ and the striatum from the lines' own errors. If all lines
    are active these errors cannot vanish together, and the weights never rest. Let
    $g_{ai} = E_c\,\pi_a\delta^{tot}_a x_i$, let $g'_{ai}$ be the same average with the error that
    teaches line $i$, and $W_i = p_i n_i$ with $|n_i| = 1$. At late times

    $$g'_i = \kappa_i n_i,\qquad g_i\cdot n_i = 0.$$

    The striatal weights grow along their own direction,
    $\tau\,d\lVert u_i\rVert^2/dt = 2\kappa_i p_i$, and the gain falls so that the product stays
    constant:

    $$\lVert u_i\rVert \simeq \sqrt{2\kappa_i p_i t/\tau},\qquad
      v_i \simeq \sqrt{p_i\tau/(2\kappa_i t)}.$$

    The weight of a stimulus on the action that it never rewards decays. For the left stimulus
    $\tau\dot u_{RL} = -h u_{RL} v_L^2$ with $h = E_c\,\pi_R x_L^2$, hence $n_L = (1, 0)$ and

    $$W_{RL} \sim t^{-\frac12 - h p_L/2\kappa_L}.$$

    The products and the behaviour therefore converge like a power of $t$. (Our reconstruction. The
    convergence of every animal to this limit is observed, not proved.)

    **Arguments:**

    - `model`: model with a deep architecture and heterogeneous teaching.

    **Returns:**

    The limits of the products, and the prefactors of growth and decay, from Newton's method. The
    method starts at the weights of an unbiased animal after a long time.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner, asymptotic_weights
    >>> late = asymptotic_weights(ContrastChoiceLearner(teaching="heterogeneous"))
    >>> late.striatum_growth, late.gain_decay
    (array([0.401, 0.401, 0.567]), array([1.548, 1.548, 1.179]))
    """
    if (model.architecture, model.teaching) != ("deep", "heterogeneous"):
        raise ValueError(
            "`model` must have a deep architecture and heterogeneous teaching, whose weights never "
            f"rest, got {model.architecture!r} and {model.teaching!r}. For other models use "
            "`stationary_points`."
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
            "Newton's method found no limit for `inverse_temperature` "
            f"{model.inverse_temperature:g} and contrasts {model.contrasts}. "
            "Use `mean_field_learning` up to a late time."
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
    """Return two conditions for each line, which must vanish, their derivatives, and g'."""
    one = jnp.ones(len(LINES))
    own_pull = lambda w: velocity(one, w, task, "shallow", "heterogeneous")[1]

    def conditions(w: Float[Array, "action line"]) -> Float[Array, " condition"]:
        pull, own = velocity(one, w, task, "shallow", "total")[1], own_pull(w)
        across = own[0] * w[1] - own[1] * w[0]  # g' along n
        along = (pull * w).sum(axis=0)  # g · n = 0
        return jnp.concatenate([across, along])

    return conditions(w), jax.jacfwd(conditions)(w), own_pull(w)
