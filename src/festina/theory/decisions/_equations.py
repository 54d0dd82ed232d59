r"""What one stimulus does to the weights of one animal, and the mean of that over stimuli.

A trial and the mean field differ only in the weight of an action, one for the action chosen or
$\pi_a$, and in the reward, drawn or expected. So `update` serves both.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..._types import Array
from ._learner import Architecture, ContrastChoiceLearner, Teaching


class Task(NamedTuple):
    """The numbers of a model, which may change without compiling anew."""

    stimuli: Float[Array, "contrast line"]
    rewards: Float[Array, "contrast action"]
    beta: float | Float[Array, ""]


def task_of(model: ContrastChoiceLearner) -> Task:
    return Task(model.stimuli, model.rewards, float(model.inverse_temperature))


def update(
    v: Float[Array, " line"],
    u: Float[Array, "action line"],
    x: Float[Array, " line"],
    weight: Float[Array, " action"],
    reward: Float[Array, " action"],
    architecture: Architecture,
    teaching: Teaching,
) -> tuple[Float[Array, " line"], Float[Array, "action line"]]:
    """Change of (v, u), for a learning rate of one, when action a counts with `weight` p_a."""
    values = u * v * x  # what each line adds to the value of each action
    q_total = values.sum(axis=1)
    error = weight * (reward - q_total)  # p_a δ^tot_a
    if teaching == "total":
        taught = error[:, None]
    else:
        q_stim, q_const = values[:, :2].sum(axis=1), values[:, 2]
        own = jnp.stack([q_stim, q_stim, q_const], axis=1)
        taught = weight[:, None] * (reward[:, None] - own)
    dv = jnp.zeros_like(v) if architecture == "shallow" else (error[:, None] * u).sum(axis=0) * x
    return dv, taught * v * x


def action_probabilities(
    w: Float[Array, "action line"], task: Task
) -> Float[Array, "contrast action"]:
    return jax.nn.softmax(task.beta * (task.stimuli @ w.T), axis=1)


def velocity(
    v: Float[Array, " line"],
    u: Float[Array, "action line"],
    task: Task,
    architecture: Architecture,
    teaching: Teaching,
) -> tuple[Float[Array, " line"], Float[Array, "action line"]]:
    """τ(dv/dt, du/dt) of the mean field."""
    policy = action_probabilities(u * v, task)
    each = jax.vmap(lambda x, p, r: update(v, u, x, p, r, architecture, teaching))
    dv, du = each(task.stimuli, policy, task.rewards)
    return dv.mean(axis=0), du.mean(axis=0)


def behaviour(
    w: Float[Array, "action line"], task: Task
) -> tuple[
    Float[Array, "contrast action"],
    Float[Array, "contrast action"],
    Float[Array, ""],
    Float[Array, ""],
]:
    """Values, policy, loss and expected reward of an animal with the products W."""
    q = task.stimuli @ w.T
    policy = action_probabilities(w, task)
    loss = 0.5 * (policy * (task.rewards - q) ** 2).sum(axis=1).mean()
    return q, policy, loss, (policy * task.rewards).sum(axis=1).mean()
