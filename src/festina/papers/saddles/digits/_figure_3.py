"""Figure 3: wide networks learn to tell two handwritten digits apart, in two drops.

Linear and ReLU networks of width 1000, mini-batches of 64. The loss falls in two drops, and with
each of them one more singular value of the first layer grows. For linear networks when each of them
grows follows from the initial weights and the singular values of Σ_yx.

After the second drop the units of the ReLU network lie in a fan, not on two rays: Eq. (6) alone
would need more units, but two units that are optimised from there compute the same.
"""

import itertools
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from ....networks import fully_connected
from ....tasks import Task, mnist, task
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._registry import Progress
from ._figure_3_claims import claims as claims
from ._figure_3_draw import draw as draw
from ._figure_3_measure import curves, narrowed, predicted, staircase
from ._figure_3_parameters import Parameters as Parameters
from ._lessons import teach
from ._pairs import correlations, digits

NAME = "saddles/figure-3"
NETWORKS = ("linear", "relu")
_NOTED_EVERY = 0.1
"""Time between two notes of a network's state, ηn."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"pairs": ("3/5",), "width": 200, "steps": 1500, "judged": 1000}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train every network, find its drops, and reduce it on the plateau and after."""
    keys = keys_of(parameters, key)
    whole = parameters.seeds * len(parameters.pairs) * len(NETWORKS)
    tables: dict[str, list[xr.Dataset]] = {"simulation": [], "reduction": [], "theory": []}
    for p, pair in enumerate(parameters.pairs):
        say(f"reading {pair}", p / len(parameters.pairs))
        train, test = mnist(digits(pair)), mnist(digits(pair), split="test")
        judged = _some(train, parameters)
        sigma_yx, _ = correlations(train)
        for seed, kind in itertools.product(range(parameters.seeds), NETWORKS):
            weights, shuffling = jax.random.split(jax.random.fold_in(keys[seed], p))
            network = fully_connected(
                784, parameters.width, 2, activation=kind, scale=parameters.scale, key=weights
            )
            done = len(tables["simulation"]) / whole
            lesson = teach(
                network,
                train,
                judged,
                learning_rate=parameters.learning_rate,
                batch_size=parameters.batch_size,
                steps=parameters.steps,
                every=max(1, round(_NOTED_EVERY / parameters.learning_rate)),
                key=shuffling,
                progress=lambda f, done=done, words=f"{pair}, {kind}": say(words, done + f / whole),
            )
            steps = staircase(lesson, parameters.learning_rate)
            tables["simulation"].append(curves(lesson).merge(steps))
            tables["reduction"].append(narrowed(lesson, steps, judged, test))
            tables["theory"].append(predicted(network, sigma_yx, parameters.learning_rate))
    shape = (len(parameters.pairs), parameters.seeds, len(NETWORKS))
    labels = {
        "pair": list(parameters.pairs),
        "seed": parameters.seed + np.arange(parameters.seeds),
        "network": list(NETWORKS),
    }
    return run_tree(
        NAME,
        parameters,
        **{name: _together(each, shape, labels) for name, each in tables.items()},
    )


def _some(train: Task, parameters: Parameters) -> Task:
    """The images by which training is judged, the same for every network."""
    chosen = np.random.default_rng(parameters.seed).permutation(len(train.x))[: parameters.judged]
    return task(train.x[chosen], train.y[chosen])


def _together(
    tables: list[xr.Dataset], shape: tuple[int, int, int], labels: dict[str, Any]
) -> xr.Dataset:
    """One table of all networks, with axes `seed`, `pair` and `network` in front."""
    stacked = xr.concat(tables, "one")
    which = {
        name: ("one", index.ravel()) for name, index in zip(labels, np.indices(shape), strict=True)
    }
    each = stacked.assign_coords(which).set_index(one=list(labels)).unstack("one")
    return each.assign_coords(labels).transpose("seed", "pair", "network", ...)
