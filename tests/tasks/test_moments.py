"""Test tasks made of moments: training and theory equal those of data with these moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from festina import gradient_descent, gradient_flow, networks, tasks
from festina.theory import linear, saddles

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 4)) * [1.0, 2.0, 0.5, 1.5]
Y = X @ RNG.normal(size=(4, 3)) + 0.3 * RNG.normal(size=(40, 3))
DATA = tasks.from_arrays(X, Y)
MOMENTS = tasks.from_moments(Y.T @ X / 40, X.T @ X / 40, target_power=np.sum(Y**2) / 40)
TIMES = np.array([0.0, 0.3])
KEY = jax.random.PRNGKey(0)
SQUARES = np.einsum("si,sj->sij", X, X)
QUADRATIC = tasks.from_moments(
    np.einsum("so,sij->oij", Y, SQUARES) / 40,
    np.einsum("sij,skl->ijkl", SQUARES, SQUARES) / 40,
    target_power=np.sum(Y**2) / 40,
)
NETWORKS = {
    "layer": (networks.fully_connected(4, 5, 3, scale=0.3, key=KEY), MOMENTS),
    "deep": (networks.deep_linear((4, 6, 5, 3), scale=0.5, key=KEY), MOMENTS),
    "convolution": (
        networks.convolutional_1d(4, 3, 3, stride=1, scale=0.3, key=KEY),
        MOMENTS,
    ),
    "quadratic": (
        networks.fully_connected(4, 5, 3, activation="quadratic", scale=0.3, key=KEY),
        QUADRATIC,
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("quadratic", "deep") else pytest.param(name, marks=pytest.mark.slow)
        for name in NETWORKS
    ],
)
def test_loss_gradient_and_training_are_those_of_data_with_these_moments(name):
    network, task = NETWORKS[name]
    times = np.linspace(0.0, 0.5, 6)
    flows = [gradient_flow(network, each, times, rtol=1e-10) for each in (task, DATA)]
    for what in ("loss", "squared_gradient"):
        first, second = (getattr(flow, what) for flow in flows)
        assert first[0] == pytest.approx(second[0], rel=1e-12)
        np.testing.assert_allclose(first, second, rtol=1e-8)
    assert flows[0].loss[-1] < 0.9 * flows[0].loss[0]
    steps = [gradient_descent(network, each, learning_rate=1e-3, steps=50) for each in (task, DATA)]
    for part, other in zip(steps[0].final.parts, steps[1].final.parts, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-9, atol=1e-12)


def test_theory_is_that_of_data_with_these_moments():
    network = networks.fully_connected(4, 5, 3, scale=1e-3, key=KEY)
    for predict in (
        saddles.initial_mode_amplitudes,
        saddles.unit_growth_times,
        linear.effective_initial_strengths,
    ):
        np.testing.assert_allclose(predict(network, MOMENTS), predict(network, DATA), rtol=1e-9)
    ours, theirs = (saddles.staircase(network, task) for task in (MOMENTS, DATA))
    np.testing.assert_allclose(ours.levels, theirs.levels, rtol=1e-9)
    np.testing.assert_allclose(ours.times, theirs.times, rtol=1e-6)
    ours, theirs = (list(saddles.linear_saddles(task)) for task in (MOMENTS, DATA))
    np.testing.assert_allclose([s.loss for s in ours], [s.loss for s in theirs], rtol=1e-9)
    single = tasks.from_moments(QUADRATIC.correlation[:1], QUADRATIC.covariance)
    units = networks.fully_connected(4, 5, 1, activation="quadratic", scale=1e-3, key=KEY)
    found = (saddles.blow_up_times(units, t) for t in (single, tasks.from_arrays(X, Y[:, :1])))
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_moments_come_back_as_they_were_given():
    seen = MOMENTS.statistics(networks.NeuronUnit())
    np.testing.assert_array_equal(seen.correlation, MOMENTS.correlation)
    np.testing.assert_array_equal(seen.covariance, MOMENTS.covariance)
    assert seen.power == pytest.approx(np.sum(Y**2) / 40, rel=1e-12)
    squared = QUADRATIC.statistics(networks.NeuronUnit("quadratic"))
    np.testing.assert_allclose(squared.correlation, QUADRATIC.correlation, rtol=1e-14)
    assert repr(MOMENTS) == "MomentTask(inputs (4,), 3 outputs)"
    assert repr(QUADRATIC) == "MomentTask(inputs (4,), 3 outputs, of degree 2)"
    assert (MOMENTS.input_shape, MOMENTS.outputs, MOMENTS.samples) == ((4,), 3, None)


@pytest.mark.parametrize(
    ("unit", "degree"), [pytest.param("linear", 1, marks=pytest.mark.slow), ("quadratic", 2)]
)
def test_inputs_are_standard_normal_and_targets_without_noise_by_default(unit, degree):
    teacher = networks.fully_connected(2, 1, 1, activation=unit, scale=1.0, key=KEY)
    data = tasks.student_teacher(teacher, np.eye(2), nodes=None)
    known = data.statistics(networks.NeuronUnit(unit))
    task = tasks.from_moments(known.correlation)
    assert task.degree == degree
    seen = task.statistics(networks.NeuronUnit(unit))
    np.testing.assert_allclose(seen.covariance, known.covariance, atol=1e-12)
    assert seen.floor == 0.0
    network = networks.fully_connected(2, 3, 1, activation=unit, scale=0.5, key=KEY)
    losses = [gradient_flow(network, t, TIMES).loss for t in (task, data)]
    np.testing.assert_allclose(*losses, rtol=1e-6)


def test_theory_can_be_differentiated_by_the_correlation():
    network = networks.DeepLinear((0.5 * np.eye(2), 0.5 * np.eye(2)))

    def reached(sigma):
        return linear.balanced_flow(network, tasks.from_moments(sigma))([1.0]).map[0, 0, 0]

    with jax.enable_x64(True):
        sigma = jnp.diag(jnp.array([2.0, 1.0]))
        slope = jax.jit(jax.grad(reached))(sigma)[0, 0]
        shift = jnp.zeros((2, 2)).at[0, 0].set(1e-5)
        expected = (reached(sigma + shift) - reached(sigma - shift)) / 2e-5
    assert slope == pytest.approx(float(expected), rel=1e-7)


@pytest.mark.parametrize(
    ("unit", "task"),
    [
        ({"activation": "tanh"}, tasks.from_moments(np.eye(2))),
        ({"activation": "quadratic"}, tasks.from_moments(np.eye(2))),
        ({}, tasks.from_moments(np.ones((2, 2, 2)))),
        ({"bias": True}, tasks.from_moments(np.eye(2))),
    ],
)
def test_networks_that_need_other_moments_raise(unit, task):
    network = networks.fully_connected(2, 3, 2, **unit, scale=1.0, key=KEY)
    with pytest.raises(ValueError, match=r"moments of this task .* other moments\. Give the data"):
        gradient_flow(network, task, TIMES)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"correlation": [1.0, 2.0]}, r"`correlation` must be a matrix .* got shape \(2,\)"),
        ({"correlation": np.ones((1, 2, 3))}, r"`correlation` must be a matrix .*\(1, 2, 3\)"),
        ({"correlation": np.ones((1,) * 6)}, "degree 2 to 4"),
        ({"correlation": np.nan * np.eye(2)}, "`correlation` must be finite"),
        ({"correlation": np.zeros((0, 2))}, "`correlation` must have at least one entry"),
        ({"correlation": 1e200 * np.eye(2)}, "`correlation` must be below"),
        ({"correlation": 1j * np.eye(2)}, "`correlation` must be real"),
        ({"correlation": [[TIMES, [0.0, 0.0]]]}, "`correlation` must be symmetric"),
        ({"covariance": np.eye(3)}, r"`covariance` must have shape \(2, 2\)"),
        ({"covariance": np.triu(np.ones((2, 2)))}, "symmetric, the largest asymmetry is 1"),
        ({"covariance": np.diag([1.0, -1.0])}, "negative eigenvalues, one is -1"),
        ({"covariance": np.diag([1.0, np.inf])}, "`covariance` must be finite"),
        ({"covariance": np.diag([1.0, 0.0])}, "along inputs that do not vary"),
        ({"target_power": 1.9}, "`target_power` must be at least 2, .* got 1.9"),
        ({"target_power": np.nan}, "`target_power` must be a finite number"),
    ],
)
def test_wrong_moments_raise(given, words):
    with pytest.raises(ValueError, match=words):
        tasks.from_moments(**({"correlation": np.eye(2)} | given))


def test_a_loss_over_samples_needs_samples():
    network = networks.deep_linear((2, 2), scale=1.0, key=KEY)
    with pytest.raises(ValueError, match="sums over samples, but this task is a population"):
        gradient_flow(network, tasks.from_moments(np.eye(2)), TIMES, loss="half-sum")
