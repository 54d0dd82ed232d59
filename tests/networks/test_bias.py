"""Test biases, the weights of an input that is always 1, by hand, in training, files and theory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina import networks
from festina.networks import (
    ConvolutionUnit,
    NeuronUnit,
    deep_network,
    deep_network_from,
    fully_connected,
    gaussian_layer,
    layer_from,
)
from festina.tasks import from_arrays, linear_teacher

KEYS = festina.seeds(2)
TIMES = np.linspace(0.0, 2.0, 5)
SIGMA = {"linear": lambda a: a, "relu": lambda a: np.maximum(a, 0.0), "tanh": np.tanh}


def data(inputs=3, outputs=2, count=9, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, inputs)), rng.standard_normal((count, outputs))


def with_ones(x):
    return np.append(x, np.ones((len(x), 1)), axis=1)


def by_hand(network, x):
    """Return a_l = σ_l(W_l [a_{l−1}, 1]) at the last layer, whose output has no bias."""
    *hidden, last = network.weights
    a = x
    for weight, sigma in zip(hidden, (network.unit.activation, *network.activations), strict=True):
        a = SIGMA[sigma.name](with_ones(a) @ weight.T)
    return a @ last.T


@pytest.mark.parametrize(
    "activation",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("linear", "quadratic", "tanh")),
        "relu",
    ],
)
def test_training_is_that_of_inputs_with_a_column_of_ones(activation):
    x, y = data()
    biased = fully_connected(3, 5, 2, activation=activation, bias=True, scale=0.3, key=KEYS)
    plain = layer_from(activation, biased.u, biased.v)
    assert biased.u.shape == (2, 5, 4)
    one = festina.gradient_flow(biased, from_arrays(x, y), TIMES)
    other = festina.gradient_flow(plain, from_arrays(with_ones(x), y), TIMES)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    np.testing.assert_allclose(one.network.u, other.network.u, rtol=0, atol=1e-12)
    assert one.floor == pytest.approx(other.floor, rel=1e-12)
    bias = one.final.u[..., -1]
    assert np.abs(bias - biased.u[..., -1]).max() > 1e-3  # the bias has changed


@pytest.mark.parametrize(
    ("activations", "skips"),
    [
        pytest.param("linear", (), marks=pytest.mark.slow),
        pytest.param("linear", ((0, 3),), marks=pytest.mark.slow),
        ("tanh", ((1, 2),)),
        (("linear", "relu"), ()),
    ],
)
def test_hidden_layers_of_a_stack_have_biases_and_its_output_has_none(activations, skips):
    x, y = data(inputs=2)
    network = deep_network((2, 4, 4, 2), activations=activations, bias=True, scale=0.5, key=KEYS[0])
    assert [w.shape for w in network.weights] == [(4, 3), (4, 5), (2, 4)]
    np.testing.assert_allclose(network.predict(x), by_hand(network, x), rtol=1e-12)
    assert [a.shape for a in network.hidden(x[0])] == [(4,), (4,)]

    network = deep_network_from(
        network.unit, network.weights, activations=network.activations, skips=skips
    )
    steps = festina.gradient_descent(network, from_arrays(x, y), learning_rate=0.05, steps=20).final
    with jax.enable_x64(True):

        def loss(weights):
            outputs = jax.vmap(lambda one: forward(weights, network, one))(jnp.asarray(x))
            return 0.5 * jnp.mean(jnp.sum((y - outputs) ** 2, axis=1))

        gradient = jax.jit(jax.grad(loss))
        weights = [jnp.asarray(w) for w in network.weights]
        for _ in range(20):
            weights = [w - 0.05 * g for w, g in zip(weights, gradient(weights), strict=True)]
    for found, expected in zip(steps.weights, weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def forward(weights, network, x):
    """Return the output of a network with biases and skips for one example."""
    activities = [x]
    sigmas = (network.unit.activation, *network.activations)
    for level, (weight, sigma) in enumerate(zip(weights, sigmas, strict=False), start=1):
        a = sigma(weight[:, :-1] @ activities[-1] + weight[:, -1])
        activities.append(a + sum(activities[k] for k, end in network.skips if end == level))
    skipped = sum(activities[k] for k, end in network.skips if end == len(weights))
    return weights[-1] @ activities[-1] + skipped


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda **how: fully_connected(3, 4, 2, activation="relu", bias=True, **how),
            marks=pytest.mark.slow,
        ),
        lambda **how: gaussian_layer(ConvolutionUnit("tanh", bias=True, size=2), (3,), 4, 2, **how),
        lambda **how: deep_network((3, 4, 5, 2), activations="tanh", bias=True, **how),
    ],
    ids=["layer", "kernels", "stack"],
)
def test_biases_are_saved_and_come_back(make, tmp_path):
    network = make(scale=0.3, key=KEYS)
    x, y = data()
    run = festina.gradient_flow(network, from_arrays(x, y), np.linspace(0.0, 1.0, 3))
    festina.save(run, tmp_path / "run.zarr")
    again = networks.final_networks(tmp_path / "run.zarr")
    assert again.first_unit == network.first_unit
    assert again.first_unit.bias
    np.testing.assert_array_equal(again.predict(x), run.final.predict(x))


def test_a_bias_is_said_where_there_is_one():
    assert (
        repr(NeuronUnit(bias=True)) == "NeuronUnit(activation=Activation(name='linear'), bias=True)"
    )
    assert repr(NeuronUnit()) == "NeuronUnit(activation=Activation(name='linear'))"
    assert NeuronUnit("relu", bias=True) != NeuronUnit("relu")
    assert ConvolutionUnit("relu", bias=True, size=3).weight_shape((5,)) == (4,)
    assert NeuronUnit("relu", bias=True).input_shape((4,), ()) == (3,)


def test_averages_of_a_population_know_the_mean_of_what_is_constant():
    """For ⟨x⟩ = 0, the covariance of [x, 1] is the covariance of x with an extra 1."""
    sigma = np.array([[2.0, 0.3], [0.3, 1.0]])
    population = linear_teacher([[1.0, 2.0]], sigma)
    seen = population.statistics(NeuronUnit(bias=True))
    expected = np.block([[sigma, np.zeros((2, 1))], [np.zeros((1, 2)), np.ones((1, 1))]])
    np.testing.assert_allclose(seen.covariance, expected, atol=1e-14)
    np.testing.assert_allclose(seen.correlation, [[2.6, 2.3, 0.0]], atol=1e-14)


@pytest.mark.slow
def test_theory_of_linear_units_is_that_of_one_more_input():
    x, y = data()
    y = y + 3.0  # a mean that only biases can learn
    biased = fully_connected(3, 8, 2, bias=True, scale=1e-4, key=KEYS[0])
    plain = layer_from("linear", biased.u, biased.v)
    staircase = festina.theory.saddles.staircase
    one, other = (
        staircase(biased, from_arrays(x, y)),
        staircase(plain, from_arrays(with_ones(x), y)),
    )
    np.testing.assert_allclose(one.levels, other.levels, rtol=1e-9)
    np.testing.assert_allclose(one.times, other.times, rtol=1e-9)
    assert (
        one.levels[-1]
        < 0.9
        * staircase(fully_connected(3, 8, 2, scale=1e-4, key=KEYS[0]), from_arrays(x, y)).levels[-1]
    )


def test_linear_theories_without_a_place_for_biases_say_so():
    biased = fully_connected(2, 2, 2, bias=True, scale=0.1, key=KEYS[0])
    with pytest.raises(ValueError, match=r"no biases, got Layer.*bias=True"):
        festina.theory.linear.balanced_flow(biased, linear_teacher(np.eye(2)))
    with pytest.raises(ValueError, match="bias=True"):
        networks.DeepLinear.from_layer(biased)


def test_kernels_have_no_layers_with_biases_behind_them():
    kernel = ConvolutionUnit("relu", bias=True, size=2)
    with pytest.raises(ValueError, match="behind ConvolutionUnit"):
        networks.deep_gaussian(kernel, (4,), (3, 5, 1), scale=0.1, key=KEYS[0])
    assert networks.deep_gaussian(kernel, (4,), (3, 1), scale=0.1, key=KEYS[0]).outputs == 1


def test_weights_without_biases_do_not_fit_units_that_have_them():
    weights = deep_network((2, 4, 4, 1), scale=0.1, key=KEYS[0]).weights
    with pytest.raises(ValueError, match="one more for their biases"):
        deep_network_from(NeuronUnit(bias=True), weights)


def test_few_units_are_found_among_many_and_confirmed():
    x, _ = data(count=60)
    narrow = fully_connected(3, 2, 1, activation="tanh", bias=True, scale=1.0, key=KEYS[0])
    known = from_arrays(x, narrow.predict(x))
    wide = festina.theory.saddles.embed_units(narrow, 5, "equal", key=KEYS[1])
    found = festina.diagnose.effective_width(wide, known)
    assert found.width == 2
    assert found.confirmed
    # Units with the same directions and other biases are different units.
    shifted = layer_from(wide.unit, wide.u + np.eye(4)[3] * np.arange(5.0)[:, None], wide.v)
    assert festina.diagnose.effective_width(shifted, known).width > 2
    by_arrays = festina.diagnose.effective_width(wide.u, x, v=wide.v, activation=wide.unit)
    assert by_arrays.width == 2


def test_hidden_layers_with_biases_are_embedded_one_by_one():
    x, _ = data(inputs=2)
    narrow = deep_network((2, 2, 3, 2), activations="relu", bias=True, scale=0.7, key=KEYS[0])
    wide = festina.theory.saddles.embed_units(narrow, (4, 5), "proportional", key=KEYS[1])
    assert [w.shape for w in wide.weights] == [(4, 3), (5, 5), (2, 5)]
    np.testing.assert_allclose(wide.predict(x), narrow.predict(x), rtol=1e-12, atol=1e-13)
