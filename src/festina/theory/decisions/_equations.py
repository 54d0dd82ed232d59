r"""Changes of an animal's weights by one stimulus, and their mean over stimuli.

Single trials and the mean field share `update`. Trials have weight 1 for the chosen action and a
drawn reward. The mean field weights each action a by its probability $\pi_a$ and has the expected
reward.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..._types import Array
from ._learner import Architecture, ContrastChoiceLearner, Teaching


class Task(NamedTuple):
    """Numbers of a model that may change without recompilation."""

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
    """Return the change of the weights (v, u) at learning rate 1; action a has the `weight` p_a."""
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
    """Return the time derivatives τ(dv/dt, du/dt) of the weights in the mean field."""
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
    """Return values, policy, loss and expected reward of an animal with the products W = uv."""
    q = task.stimuli @ w.T
    policy = action_probabilities(w, task)
    loss = 0.5 * (policy * (task.rewards - q) ** 2).sum(axis=1).mean()
    return q, policy, loss, (policy * task.rewards).sum(axis=1).mean()
