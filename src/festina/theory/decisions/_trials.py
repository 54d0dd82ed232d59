"""Learning trial by trial."""

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
    r"""Simulate animals that see one stimulus at a time, choose, and are rewarded.

    On each trial the contrast is drawn, then the action from the softmax, then the reward, and the
    weights change at once by

    $$\Delta v_i = \eta\,\delta^{tot}_a u_{ai} x_i,\qquad \Delta u_{ai} = \eta\,\delta_a v_i x_i$$

    for the action $a$ that was chosen. The mean of these changes over trials is the
    `mean_field_learning`, with $n$ trials as time $t = \eta\tau n$.

    **Arguments:**

    - `model`, `animals`: as for `mean_field_learning`. `animals.repeated(16)` has 16 runs of each.
    - `trials`: how many, a multiple of `save_every`.
    - `learning_rate`: $\eta$.
    - `save_every`: trials between two records. The first record is before the first trial.
    - `key`: randomness. Animal 3 has the same luck, however many learn beside it and for however
      many trials.

    **Returns:**

    The weights and the behaviour at times $\eta\tau n$ of the mean field.
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
            f"Learning diverged at `learning_rate` {learning_rate:g}: an error is overshot by more "
            "than its size. Use a smaller one."
        )
    clock = learning_rate * model.tau * save_every
    return DecisionLearning(
        model=model,
        time=clock * np.arange(gains.shape[1]),
        gains=np.asarray(gains),
        striatum=np.asarray(striatum),
        method="trials",
    )


@compiled("architecture", "teaching", "records", "between")
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
        reward = (chance[2] < rewards[contrast]).astype(v.dtype)  # only the chosen one is used
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
