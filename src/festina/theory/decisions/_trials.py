"""Simulation of learning, trial by trial."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..._checks import check_positive, whole_number
from ..._precision import compiled
from ..._types import Array
from ._animals import AnimalWeights
from ._equations import Task, task_of, update
from ._learner import Architecture, ContrastChoiceLearner, Teaching
from ._learning import DecisionLearning


def simulate_learning(
    model: ContrastChoiceLearner,
    animals: AnimalWeights,
    trials: int,
    *,
    learning_rate: float,
    save_every: int = 1,
    key: PRNGKeyArray,
) -> DecisionLearning:
    r"""Simulate animals that learn from single trials: a stimulus, a choice, a reward.

    Each trial draws a contrast, an action from the softmax, and a reward. The weights change by

    $$\Delta v_i = \eta\,\delta^{tot}_a u_{ai} x_i,\qquad \Delta u_{ai} = \eta\,\delta_a v_i x_i$$

    for the chosen action $a$, where $\delta$ is the error that teaches $u$
    (`ContrastChoiceLearner`). The mean over trials is `mean_field_learning`, and $n$ trials are the
    time $t = \eta\tau n$.

    **Arguments:**

    - `model`, `animals`: as in `mean_field_learning`. `animals.repeated(16)` gives 16 runs of each
      animal.
    - `trials`: number of trials, a multiple of `save_every`.
    - `learning_rate`: learning rate $\eta$.
    - `save_every`: number of trials between two records. The first record precedes the first trial.
    - `key`: random key. The random numbers of an animal depend on its index, but not on the number
      of animals or trials.

    **Returns:**

    The weights and the behaviour at the times $\eta\tau n$.

    **Example:**

    >>> import jax
    >>> from festina.theory.decisions import ContrastChoiceLearner, naive_animals, simulate_learning
    >>> options = {"learning_rate": 0.1, "save_every": 500, "key": jax.random.key(0)}
    >>> run = simulate_learning(ContrastChoiceLearner(), naive_animals(0.1, 0.1), 1000, **options)
    >>> run.time, run.accuracy.round(4)
    (array([  0.,  50., 100.]), array([[0.5094, 0.9298, 0.9577]]))
    """
    check_positive("learning_rate", learning_rate)
    trials = whole_number("trials", trials)
    save_every = whole_number("save_every", save_every)
    if trials % save_every:
        raise ValueError(
            f"`trials` must be a multiple of `save_every`, got {trials} and {save_every}: "
            f"use {trials - trials % save_every or save_every} trials."
        )
    if model.architecture == "shallow":
        animals = animals.merged()
    gains, striatum = _run(
        animals.gains,
        animals.striatum,
        task_of(model),
        float(learning_rate),
        key,
        architecture=model.architecture,
        teaching=model.teaching,
        records=int(trials // save_every),
        between=int(save_every),
    )
    if not (np.isfinite(gains).all() and np.isfinite(striatum).all()):
        raise ValueError(
            f"Learning diverged at `learning_rate` {learning_rate:g}, because steps overshoot the "
            "target. Use a smaller learning rate."
        )
    clock = learning_rate * model.tau * save_every
    return DecisionLearning(
        model=model,
        time=clock * np.arange(gains.shape[1]),
        gains=np.asarray(gains),
        striatum=np.asarray(striatum),
        method="trials",
    )


@compiled("architecture", "teaching", "records", "between", loops=True)
def _run(
    gains: Float[Array, "animal line"],
    striatum: Float[Array, "animal action line"],
    task: Task,
    rate: float | Float[Array, ""],
    key: PRNGKeyArray,
    *,
    architecture: Architecture,
    teaching: Teaching,
    records: int,
    between: int,
) -> tuple[Float[Array, "animal save line"], Float[Array, "animal save action line"]]:
    stimuli, rewards = jnp.asarray(task.stimuli), jnp.asarray(task.rewards)

    def trial(weights, chance):
        v, u = weights
        contrast = jnp.floor(chance[0] * len(stimuli)).astype(int)
        x = stimuli[contrast]
        values = (u * v) @ x
        right = chance[1] < jax.nn.sigmoid(task.beta * (values[1] - values[0]))
        chosen = jnp.stack([~right, right]).astype(v.dtype)
        reward = (chance[2] < rewards[contrast]).astype(v.dtype)  # for the chosen action
        dv, du = update(v, u, x, chosen, reward, architecture, teaching)
        return (v + rate * dv, u + rate * du), None

    def one(v, u, key):
        def record(weights, block):
            chances = jax.random.uniform(jax.random.fold_in(key, block), (between, 3))
            weights, _ = jax.lax.scan(trial, weights, chances)
            return weights, weights

        _, later = jax.lax.scan(record, (v, u), jnp.arange(records))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), (v, u), later)

    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(len(gains)))
    return jax.vmap(one)(gains, striatum, keys)
