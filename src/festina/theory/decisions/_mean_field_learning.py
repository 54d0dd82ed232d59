"""Learning in the mean over trials: an ordinary differential equation for each animal."""

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

# Steps are shared within a herd. The larger it is the less an animal costs, until arrays outgrow
# the overhead of a call.
_HERD = 128

_MOST_STEPS = 10_000

# LSODA squares the time it is given, and weights have not moved by then.
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

    Integrates the equations of `ContrastChoiceLearner`: a trial-by-trial learner of rate $\eta$ is
    at time $t = \eta\tau n$ after $n$ trials, and fluctuates around this by $O(\sqrt\eta)$.

    With `total` teaching $v_i^2 - \sum_a u_{ai}^2$ is conserved for each line, whatever the policy:
    both squares change by $2\sum_a g_{ai} u_{ai} v_i/\tau$, see `stationary_points` for $g$. With
    `heterogeneous` teaching the weights never come to rest, see `asymptotic_weights`, and the
    equations grow stiffer the longer they run; LSODA changes its method where they do.

    **Arguments:**

    - `model`: task, architecture and teaching.
    - `animals`: their weights at time 0. If the model is shallow, `animals.merged()` is meant.
    - `times`: when to record, rising, in the units of $\tau$; a number is a list of one.
    - `rtol`, `atol`: tolerances of the integration. Animals share its steps, so that others beside
      it change an animal within these.

    **Returns:**

    The weights and the behaviour at `times`.
    """
    check_times(times)
    times = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if (np.diff(times) <= 0).any():
        raise ValueError("`times` must rise: sort them, and give each of them once.")
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
    r"""Return $(\dot v, \dot u)$ of the mean field, for phase portraits.

    **Arguments:**

    - `model`, `animals`: as for `mean_field_learning`; a shallow model takes `animals.merged()`.

    **Returns:**

    The time derivatives, in the place of the weights.
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
    """Weights at `times`, shape (time, animal, unknown)."""
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
    # Animals do not see each other: the Jacobian is a band of blocks, and costs no more for many.
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
        raise RuntimeError(f"LSODA gave up: {report['message']} Try a larger `rtol` or `atol`.")
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
"""The same for weights in columns (v, u), one for each animal."""

# Called thousands of times by the integrator, which has set the precision already.
_moves = jax.jit(_column_velocity, static_argnames=("architecture", "teaching"))
