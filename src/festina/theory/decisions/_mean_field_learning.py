"""Mean-field learning: an ordinary differential equation for each animal."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times
from ..._precision import compiled, float64
from ..._types import Array, ArrayLike
from ._animals import AnimalWeights
from ._equations import Task, task_of, velocity
from ._learner import ACTIONS, LINES, Architecture, ContrastChoiceLearner, Teaching
from ._learning import DecisionLearning

_UNKNOWNS = len(LINES) * (1 + len(ACTIONS))

# Number of animals that share the steps of one integration. More animals spread the overhead of a
# call, until the arrays themselves dominate the cost.
_HERD = 128

_MOST_STEPS = 10_000

# Times below this count as 0: LSODA squares times, which underflows.
_NOTHING = 1e-100


@float64
def mean_field_learning(
    model: ContrastChoiceLearner,
    animals: AnimalWeights,
    times: ArrayLike,
    *,
    rtol: float = 1e-9,
    atol: float = 1e-12,
) -> DecisionLearning:
    r"""Integrate the learning of animals in the limit of small learning rates.

    The equations are those of `ContrastChoiceLearner`. An animal that learns from single trials
    with learning rate $\eta$ reaches the time $t = \eta\tau n$ after $n$ trials. The weights of
    this animal fluctuate around the mean-field solution by $O(\sqrt\eta)$.

    With `total` teaching, $v_i^2 - \sum_a u_{ai}^2$ is conserved for each line i and any policy.
    Both $v_i^2$ and $\sum_a u_{ai}^2$ change by $2\sum_a g_{ai} u_{ai} v_i/\tau$, where
    $g_{ai} = E_c\,\pi_a\delta^{tot}_a x_i$. With `heterogeneous` teaching the weights never rest
    (`asymptotic_weights`). The equations become stiffer with time, and the integrator LSODA
    switches to a stiff method.

    **Arguments:**

    - `model`: task, architecture and teaching.
    - `animals`: weights at time 0. For a shallow model `animals.merged()` is used.
    - `times`: increasing times to record, in the units of $\tau$, or a single time.
    - `rtol`, `atol`: tolerances of the integrator. Animals share the steps of the integrator, so
      the result for one animal depends on the other animals within the tolerances.

    **Returns:**

    The weights and the behaviour at `times`.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner, mean_field_learning
    >>> from festina.theory.decisions import naive_animals
    >>> model, animal = ContrastChoiceLearner(), naive_animals(0.1, 0.01)
    >>> learning = mean_field_learning(model, animal, [0, 30, 200])
    >>> learning.right_probability[0].round(3)  # psychometric curve at each time
    array([[0.488, 0.494, 0.5  , 0.5  , 0.5  ],
           [0.029, 0.264, 0.813, 0.824, 0.835],
           [0.001, 0.037, 0.516, 0.931, 0.994]])
    """
    check_times(times)
    times = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if (np.diff(times) <= 0).any():
        raise ValueError(
            "`times` must increase, got equal or decreasing times. Sort them and remove duplicates."
        )
    check_positive("rtol", rtol)
    check_positive("atol", atol)
    if model.architecture == "shallow":
        animals = animals.merged()

    start = np.concatenate([animals.gains, animals.striatum.reshape(len(animals), -1)], axis=1)
    herds = [start[first : first + _HERD] for first in range(0, len(start), _HERD)]
    columns = [_integrate(model, herd, times / model.tau, rtol, atol) for herd in herds]
    theta = np.concatenate(columns, axis=1).swapaxes(0, 1)
    return DecisionLearning(
        model=model,
        time=times,
        gains=theta[..., : len(LINES)],
        striatum=theta[..., len(LINES) :].reshape(*theta.shape[:2], len(ACTIONS), len(LINES)),
        method="mean field",
    )


def weight_velocity(model: ContrastChoiceLearner, animals: AnimalWeights) -> AnimalWeights:
    r"""Return the time derivatives of all weights in the mean field, for phase portraits.

    **Arguments:**

    - `model`, `animals`: as in `mean_field_learning`.

    **Returns:**

    The time derivatives $(\dot v, \dot u)$, as `AnimalWeights` with derivatives for weights.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner, naive_animals, weight_velocity
    >>> weight_velocity(ContrastChoiceLearner(), naive_animals(0.1, 0.01)).gains
    array([[0.00759294, 0.00075009, 0.02506278]])
    """
    if model.architecture == "shallow":
        animals = animals.merged()
    column = np.concatenate([animals.gains, animals.striatum.reshape(len(animals), -1)], axis=1)
    moves = column_velocity(column, task_of(model), model.architecture, model.teaching) / model.tau
    return AnimalWeights(
        moves[:, : len(LINES)], moves[:, len(LINES) :].reshape(animals.striatum.shape)
    )


def _integrate(
    model: ContrastChoiceLearner, start: np.ndarray, times: np.ndarray, rtol: float, atol: float
) -> np.ndarray:
    """Return the weights at `times`, shape (time, animal, unknown)."""
    from scipy.integrate import odeint

    times = np.where(times < _NOTHING, 0.0, times)
    if times[-1] == 0:
        return np.broadcast_to(start, (len(times), *start.shape))
    task = jax.tree.map(jnp.asarray, task_of(model))
    herd = start.shape

    def moves(column: np.ndarray, _: float) -> np.ndarray:
        theta = column.reshape(herd)
        return np.asarray(_moves(theta, task, model.architecture, model.teaching)).ravel()

    grid = times if times[0] == 0 else np.concatenate([[0.0], times])
    # Animals do not interact: the Jacobian is block-diagonal, and LSODA needs only a band of it.
    band = _UNKNOWNS - 1
    path, report = odeint(
        moves,
        start.ravel(),
        grid,
        ml=band,
        mu=band,
        rtol=rtol,
        atol=atol,
        mxstep=_MOST_STEPS,
        full_output=True,
    )
    if report["message"] != "Integration successful.":
        raise RuntimeError(
            f"The integrator LSODA failed: {report['message']} Try a larger `rtol` or `atol`."
        )
    return path[len(grid) - len(times) :].reshape(len(times), *herd)


def _column_velocity(
    theta: Float[Array, "animal unknown"],
    task: Task,
    architecture: Architecture,
    teaching: Teaching,
) -> Float[Array, "animal unknown"]:
    def one(column: Float[Array, " unknown"]) -> Float[Array, " unknown"]:
        v, u = column[: len(LINES)], column[len(LINES) :].reshape(len(ACTIONS), len(LINES))
        dv, du = velocity(v, u, task, architecture, teaching)
        return jnp.concatenate([dv, du.ravel()])

    return jax.vmap(one)(theta)


column_velocity = compiled("architecture", "teaching")(_column_velocity)
"""Time derivatives of weights in columns (v, u), one column for each animal."""

# The integrator calls this function thousands of times. The precision is already set.
_moves = jax.jit(_column_velocity, static_argnames=("architecture", "teaching"))
