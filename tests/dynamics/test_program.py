"""Test the number of programs compiled for a training."""

import jax
import numpy as np
import pytest

import festina
from compiled import programs
from festina import _lanes, gradient_descent, gradient_flow
from festina._lanes import accelerated
from festina.networks import attention, deep_linear, deep_network, fully_connected
from festina.tasks import from_arrays, in_context_regression


def some_points(outputs=1):
    x = np.random.default_rng(0).normal(size=(9, 3))
    return from_arrays(x, np.sin(x[:, :outputs]))


def test_all_chunks_of_a_training_are_one_program():
    """A step must return numbers of the types that it takes, to avoid tracing again."""
    network = fully_connected(3, 2, scale=0.1, key=jax.random.key(0))
    with programs("jaxpr_trace_duration") as traced:
        # More steps than are recorded at once.
        gradient_descent(network, some_points(), 0.01, steps=1500)
    assert traced.count("advance") == 1


NETWORKS = {
    "linear": (lambda key: fully_connected(3, 4, 2, scale=1e-2, key=key), some_points(2)),
    "relu": (
        lambda key: fully_connected(3, 4, activation="relu", scale=0.1, key=key),
        some_points(),
    ),
    "attention": (
        lambda key: attention(2, 2, scale=0.05, key=key),
        in_context_regression(2, 8),
    ),
    "quadratic": (
        lambda key: fully_connected(3, 4, activation="quadratic", scale=1e-6, key=key),
        some_points(),
    ),
    "deep linear": (lambda key: deep_linear((3, 4, 4, 2), scale=0.3, key=key), some_points(2)),
    "stack": (
        lambda key: deep_network((3, 4, 4, 1), activations="tanh", scale=0.3, key=key),
        some_points(),
    ),
}


def by_flow(network, task):
    return gradient_flow(network, task, t_end=1.0)


def by_descent(network, task):
    return gradient_descent(network, task, 0.01, steps=20)


def by_mini_batches(network, task):
    key = jax.random.key(0)
    return gradient_descent(network, task, 0.01, steps=20, batch_size=3, key=key)


QUICK = [("stack", by_descent)]
WAYS = [
    *((name, train) for name in NETWORKS for train in (by_flow, by_descent)),
    ("relu", by_mini_batches),
]


@pytest.mark.parametrize(
    ("name", "train"),
    [pytest.param(*way, marks=() if way in QUICK else pytest.mark.slow) for way in WAYS],
)
def test_any_number_of_seeds_in_few_programs(name, train):
    make, task = NETWORKS[name]
    by_steps = "implicit" if name == "quadratic" else "explicit"
    solver = by_steps if train is by_flow else "descent"

    def compiled_for(seeds):
        with programs("backend_compile_duration") as compiled:
            run = train(make(festina.seeds(seeds)), task)
            run.final.predict(np.zeros((2, *task.input_shape)))
            run.to_dataset()
        assert run.solver == solver
        return compiled

    # An accelerator also cuts and packs its arrays by programs, of few distinct sizes.
    cuts = {"jit(dynamic_slice)", "jit(gather)", "jit(packed)"} if accelerated() else set[str]()
    # Networks up to 8 and from 9 on have different programs, compiled here.
    _ = compiled_for(8), compiled_for(9)
    for seeds in (7, 12, 11, 6):
        assert set(compiled_for(seeds)) <= cuts


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("relu", "stack") else pytest.param(name, marks=pytest.mark.slow)
        for name in NETWORKS
    ],
)
@pytest.mark.parametrize("train", [by_flow, by_descent])
def test_a_seed_learns_the_same_however_many_beside_it(name, train):
    make, task = NETWORKS[name]
    eight, five = (make(festina.seeds(seeds)) for seeds in (8, 5))
    for many, few in zip(eight.parts, five.parts, strict=True):
        np.testing.assert_array_equal(many[:5], few)
    many, few = train(eight, task), train(five, task)
    np.testing.assert_array_equal(many.saves[:5], few.saves)
    np.testing.assert_array_equal(many.evaluations[:5], few.evaluations)
    samples = few.loss.shape[1]
    np.testing.assert_array_equal(many.loss[:5, :samples], few.loss)
    assert len(few.endings) == 5


def test_more_lanes_than_a_program_has(monkeypatch):
    network = fully_connected(3, 2, activation="tanh", scale=0.3, key=festina.seeds(11))
    x = np.random.default_rng(0).normal(size=(5, 3))
    at_once = network.predict(x)
    monkeypatch.setattr(_lanes, "_MOST", 4)
    again = fully_connected(3, 2, activation="tanh", scale=0.3, key=festina.seeds(11))
    for part, same in zip(network.parts, again.parts, strict=True):
        np.testing.assert_array_equal(part, same)
    np.testing.assert_allclose(network.predict(x), at_once, rtol=1e-14)
