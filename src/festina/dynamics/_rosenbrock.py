r"""One adaptive step of Rodas 4(3), an implicit method for stiff flows.

A flow with one or two units of order one and many tiny units is stiff. Curvatures of order one hold
the learned units in place, while the other units grow at a rate of the order of their weights. The
learned units limit explicit steps, so a plateau takes a number of steps proportional to its length.
Implicit steps are limited only by the growth of the tiny units. Rodas is linearly implicit: each
stage solves one linear system with the exact Hessian, without iteration. Rodas is L-stable, so
learned units stay at rest for any step size, and it is stiffly accurate.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Column
from ._adaptive import next_step, relative_error, settle
from ._implicit_solve import implicit_solve
from ._program import Controls, Field, State

# Hairer & Wanner, Solving Ordinary Differential Equations II, Section VI.4, RODAS. In terms of
# increments U = ΣγK no product with a Jacobian is needed. Row s combines the increments 0 … s to
# the next point. The last row is the solution, and the last increment estimates the error.
_GAMMA = 0.25
_FOURTH = (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950)
_POINTS = np.array(
    [
        (1.544, 0, 0, 0, 0, 0),
        (0.9466785280815826, 0.2557011698983284, 0, 0, 0, 0),
        (3.314825187068521, 2.896124015972201, 0.9986419139977817, 0, 0, 0),
        (*_FOURTH, 0, 0),
        (*_FOURTH, 1, 0),
        (*_FOURTH, 1, 1),
    ]
)
_COUPLINGS = np.array(
    [
        (0, 0, 0, 0, 0, 0),
        (-5.6688, 0, 0, 0, 0, 0),
        (-2.430093356833875, -0.2063599157091915, 0, 0, 0, 0),
        (-0.1073529058151375, -9.594562251023355, -20.47028614809616, 0, 0, 0),
        (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160, 0, 0),
        (
            *(8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136),
            *(-6.058818238834054, 0),
        ),
    ]
)
STAGES = len(_POINTS)

# A safety factor of 0.9 would reject every other step, because the error estimate has almost no
# contribution of higher order.
_SAFETY = 0.8


def rosenbrock_step(state: State, field: Field, controls: Controls) -> State:
    """Try a step; accept it if the embedded error estimate is within rtol·|θ| + atol."""
    asked, lands = next_step(state, controls)
    stays = asked == 0.0  # the requested time is the present time, for example 0
    h = jnp.where(stays, state.step_size, asked)
    solve = implicit_solve(field, state.weights, 1.0 / (_GAMMA * h))

    def stage(s: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        _, _, slope, increments = carry
        b = slope + _combine(_COUPLINGS, s, increments) / h
        increments = jax.lax.dynamic_update_index_in_dim(increments, solve(b), s, 0)
        point = state.weights + _combine(_POINTS, s, increments)
        return point, *field(point), increments

    increments = jnp.zeros((STAGES, *state.weights.shape))
    start = (state.weights, state.loss, state.velocity, increments)
    weights, loss, velocity, increments = jax.lax.fori_loop(0, STAGES, stage, start)
    error = relative_error(state, controls, weights, increments[-1], loss)
    at_rest = state.weights, state.loss, state.velocity, 0.0
    both = zip(at_rest, (weights, loss, velocity, error), strict=True)
    weights, loss, velocity, error = (jnp.where(stays, *each) for each in both)
    reached = state._replace(weights=weights, loss=loss, velocity=velocity)
    return settle(
        state, reached, controls, asked, lands, error, error <= 1.0, exponent=0.25, safety=_SAFETY
    )


def _combine(
    table: Float[np.ndarray, "stage stage"],
    s: Array,
    increments: Float[Array, "stage weight *lane"],
) -> Column:
    c = jnp.asarray(table)[s].reshape(-1, *(1,) * (increments.ndim - 1))
    return jnp.sum(c * increments, axis=0)
