"""Test flows of deep networks against independent implementations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import festina
from festina.networks import (
    NeuronUnit,
    activation,
    deep_linear,
    deep_network,
    deep_network_from,
    linear_transformer,
    seeds,
)
from festina.tasks import in_context_regression, linear_teacher, quadratic_teacher

TEACHER = np.array([[1.5, -0.4], [0.2, 0.9]])
COVARIANCE = np.array([[1.0, 0.3], [0.3, 2.0]])
TASK = linear_teacher(TEACHER, COVARIANCE)
TIMES = np.linspace(0.0, 6.0, 7)
WIDTHS = (2, 4, 3, 2)


def test_a_stack_of_linear_layers_is_the_deep_linear_network():
    network = deep_network(WIDTHS, scale=0.3, key=seeds(2))
    deep = deep_linear(WIDTHS, scale=0.3, key=seeds(2))
    for run in (
        lambda each: festina.gradient_flow(each, TASK, TIMES, rtol=1e-9),
        lambda each: festina.gradient_descent(each, TASK, 0.02, 200),
    ):
        found, expected = run(network), run(deep)
        last = min(found.loss.shape[1], expected.loss.shape[1])
        np.testing.assert_allclose(found.time[:, :last], expected.time[:, :last], rtol=1e-12)
        for ours, theirs in zip(found.network.parts, expected.network.parts, strict=True):
            np.testing.assert_allclose(ours[:, :last], theirs[:, :last], rtol=0, atol=1e-10)
        assert found.loss[0, -1] < 0.9 * found.loss[0, 0]


@pytest.mark.parametrize(
    ("skip", "sign"), [((1, 3), 1.0), pytest.param((), 0.0, marks=pytest.mark.slow)]
)
def test_equation_18c_is_the_matrix_ode_that_was_written_by_hand(skip, sign):
    """For f = W₄(W₃W₂W₁ + W₁)x, each slope is an outer product of backward and forward factors."""
    network = deep_network(
        (2, 3, 3, 3, 2), skips=(skip,) if skip else (), scale=0.5, key=seeds(1)
    ).lane(0)
    shapes = [w.shape for w in network.parts]
    borders = np.cumsum([w.size for w in network.parts])[:-1]

    def matrices(theta):
        parts = np.split(theta, borders)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def field(_, theta):
        w1, w2, w3, w4 = matrices(theta)
        middle = w3 @ w2 + sign * np.eye(3)
        error = (TEACHER - w4 @ middle @ w1) @ COVARIANCE
        slopes = (
            (w4 @ middle).T @ error,
            (w4 @ w3).T @ error @ w1.T,
            w4.T @ error @ (w2 @ w1).T,
            error @ (middle @ w1).T,
        )
        return np.concatenate([slope.ravel() for slope in slopes])

    start = np.concatenate([w.ravel() for w in network.parts])
    exact = solve_ivp(field, (0, 6), start, "DOP853", TIMES, rtol=1e-12, atol=1e-13).y.T

    def error(rtol):
        flow = festina.gradient_flow(network, TASK, TIMES, rtol=rtol)
        flat = np.concatenate([w.reshape(len(TIMES), -1) for w in flow.network.parts], axis=1)
        return np.abs(flat - exact).max()

    coarse, fine = error(1e-5), error(1e-9)
    assert fine < 1e-7
    assert fine < 1e-2 * coarse


def plain_descent(output, weights, x, y, rate, steps):
    """Train by `jax.grad` of a forward pass on all samples, with loss ½⟨‖y − f‖²⟩."""

    def loss(weights):
        errors = y - jax.vmap(lambda x: output(weights, x))(x)
        return 0.5 * jnp.mean(jnp.sum(errors**2, axis=1))

    step = lambda _, weights: [
        w - rate * g for w, g in zip(weights, jax.grad(loss)(weights), strict=True)
    ]
    return jax.jit(lambda w: jax.lax.fori_loop(0, steps, step, w))(
        [jnp.asarray(w) for w in weights]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("double")
def test_a_transformer_on_moments_is_the_transformer_on_its_sequences():
    data = in_context_regression(2, 4, samples=40, key=jax.random.key(0))
    network = linear_transformer(2, 3, (4, 1), scale=0.4, key=jax.random.key(1))

    def output(weights, x):
        u, v, w3, w4 = weights
        gram, query = x @ x.T / 4, x[:, -1]
        heads = jnp.stack([gram @ k.T @ q @ query for k, q in u], axis=-1)
        return w4 @ w3 @ (query + jnp.einsum("oai,ai->o", v, heads))

    expected = plain_descent(output, network.parts, data.x, data.y, 0.05, 60)
    run = festina.gradient_descent(network, data, 0.05, 60)
    for found, exact in zip(run.final.parts, expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_a_rectified_stack_with_a_skip_descends_on_its_samples():
    rng = np.random.default_rng(2)
    data = festina.tasks.from_arrays(rng.normal(size=(20, 2)), rng.normal(size=(20, 1)))
    unit = NeuronUnit(activation("relu"))
    weights = [rng.normal(scale=0.6, size=shape) for shape in ((3, 2), (3, 3), (1, 3))]
    network = deep_network_from(unit, weights, activations="relu", skips=((1, 2),))

    def output(weights, x):
        first = jnp.maximum(weights[0] @ x, 0)
        return weights[2] @ (jnp.maximum(weights[1] @ first, 0) + first)

    expected = plain_descent(output, weights, data.x, data.y, 0.05, 60)
    run = festina.gradient_descent(network, data, 0.05, 60)
    for found, exact in zip(run.final.parts, expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-12)


def test_a_population_of_a_quadratic_stack_is_any_rule_that_is_exact_for_it():
    """A cubature of degree four and a far finer one give the same trajectory."""
    network = deep_network(
        (2, 3, 2, 1), activations=("quadratic", "linear"), scale=0.5, key=seeds(1)
    )
    coarse, fine = (quadratic_teacher(np.eye(2), nodes=nodes) for nodes in (None, 12))
    runs = [festina.gradient_flow(network, data, TIMES, rtol=1e-9) for data in (coarse, fine)]
    np.testing.assert_allclose(runs[0].loss, runs[1].loss, rtol=1e-9, atol=1e-14)
    assert runs[0].loss[0, 1] < 0.5 * runs[0].loss[0, 0]


@pytest.mark.slow
def test_a_kink_behind_smooth_units_is_met_with_the_steps_for_kinks():
    rng = np.random.default_rng(5)
    data = festina.tasks.from_arrays(rng.normal(size=(20, 2)), rng.normal(size=(20, 1)))
    unit = NeuronUnit(activation("tanh"))
    weights = [rng.normal(scale=0.6, size=(8, *shape)) for shape in ((3, 2), (3, 3), (1, 3))]
    network = deep_network_from(unit, weights, activations="relu")
    run = festina.gradient_flow(network, data, t_end=40.0)
    assert {ending.reason for ending in run.endings} <= {"finished", "converged"}
    assert (run.loss[:, -1] < run.loss[:, 0]).all()
    assert any("slid along kinks" in e.message for e in run.endings)


def test_a_data_set_names_every_layer():
    network = deep_network(WIDTHS, scale=0.3, key=seeds(2))
    run = festina.gradient_flow(network, TASK, TIMES, rtol=1e-9).to_dataset()
    assert run["u"].dims == ("seed", "time", "unit", "input")
    assert run["w2"].dims == ("seed", "time", "hidden_2", "unit")
    assert run["w3"].dims == ("seed", "time", "output", "hidden_2")
    np.testing.assert_array_equal(run["w2"].values[:, 0], network.parts[1])


@pytest.mark.slow
def test_minibatches_of_all_samples_are_descent():
    data = in_context_regression(2, 4, samples=40, key=jax.random.key(0))
    network = linear_transformer(2, 3, (4, 1), scale=0.4, key=jax.random.key(1))
    whole = festina.gradient_descent(network, data, 0.05, 60)
    batches = festina.gradient_descent(
        network, data, 0.05, 60, batch_size=40, key=jax.random.key(2), save_every=60
    )
    for found, exact in zip(batches.final.parts, whole.final.parts, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-11)
