"""Test flows of deep linear networks against a matrix ODE written by hand."""

import functools
from itertools import pairwise

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import festina
from festina._objective import objective
from festina.networks import DeepLinear, deep_linear, deep_linear_from, fully_connected
from festina.networks._deep_linear import layer_shapes
from festina.tasks import from_arrays, linear_teacher
from helpers import untyped

WIDTHS = {1: (3, 2), 3: (3, 4, 2, 2), 4: (3, 4, 3, 5, 2)}
TEACHER = np.array([[1.5, -0.4, 0.3], [0.2, 0.9, -0.7]])
COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.5]])
TASK = linear_teacher(TEACHER, COVARIANCE)
TIMES = np.linspace(0.0, 6.0, 7)


def product(matrices, size):
    return functools.reduce(lambda total, weight: weight @ total, matrices, np.eye(size))


def by_hand(network: DeepLinear, times: np.ndarray) -> list[np.ndarray]:
    """Integrate τ Ẇ_l = (W_D⋯W_{l+1})ᵀ (Σ^yx − WΣ^xx) (W_{l−1}⋯W_1)ᵀ for each layer l.

    Return one array `(time, out, in)` per layer.
    """
    shapes = [weight.shape for weight in network.weights]
    borders = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    split = lambda theta: [
        part.reshape(shape) for part, shape in zip(np.split(theta, borders), shapes, strict=True)
    ]

    def field(_, theta):
        w = split(theta)
        error = (TEACHER - product(w, network.widths[0])) @ COVARIANCE
        slopes = [
            product(w[layer + 1 :], network.widths[layer + 1]).T
            @ error
            @ product(w[:layer], network.widths[0]).T
            for layer in range(len(w))
        ]
        return np.concatenate([slope.ravel() for slope in slopes])

    start = np.concatenate([np.ravel(weight) for weight in network.weights])
    solution = solve_ivp(field, (0, times[-1]), start, "DOP853", times, rtol=1e-12, atol=1e-13).y.T
    return [np.stack(layer) for layer in zip(*map(split, solution), strict=True)]


@pytest.mark.parametrize(
    "depth", [3, *(pytest.param(depth, marks=pytest.mark.slow) for depth in WIDTHS if depth != 3)]
)
def test_flow_is_the_matrix_ode_ever_more_closely(depth):
    network = deep_linear(WIDTHS[depth], scale=0.5, key=jax.random.key(depth))
    expected = by_hand(network, TIMES)

    def error(rtol):
        flow = festina.gradient_flow(network, TASK, TIMES, rtol=rtol)
        return max(
            np.abs(found - exact).max()
            for found, exact in zip(flow.network.weights, expected, strict=True)
        )

    coarse, fine = error(1e-5), error(1e-9)
    assert fine < 1e-7
    assert fine < 1e-2 * coarse


def test_what_is_between_layers_is_conserved_ever_more_closely():
    """The error of the conserved W_{l+1}ᵀW_{l+1} − W_l W_lᵀ falls with the tolerance."""
    network = deep_linear(WIDTHS[4], scale=0.6, key=jax.random.key(0))

    def drift(rtol):
        w = festina.gradient_flow(network, TASK, TIMES, rtol=rtol).network.weights
        t = lambda matrix: matrix.swapaxes(-1, -2)
        differences = [t(after) @ after - before @ t(before) for before, after in pairwise(w)]
        return max(np.abs(each - each[:1]).max() for each in differences)

    coarse, fine = drift(1e-5), drift(1e-9)
    assert fine < 1e-7
    assert fine < 1e-2 * coarse


def test_a_batch_is_its_networks_one_by_one():
    networks = deep_linear(WIDTHS[3], scale=np.array([[0.3], [0.6]]), key=festina.seeds(3))
    together = festina.gradient_flow(networks, TASK, TIMES)
    assert together.network.batch_shape == (2, 3, len(TIMES))
    for lane in ((0, 0), (1, 2)):
        alone = jax.tree.map(lambda weight, lane=lane: weight[lane], networks)
        flow = festina.gradient_flow(alone, TASK, TIMES)
        np.testing.assert_allclose(together.lane(*lane).loss, flow.loss, rtol=1e-6, atol=1e-12)
        for found, exact in zip(
            together.lane(*lane).network.weights, flow.network.weights, strict=True
        ):
            np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-8)


def test_cost_does_not_depend_on_the_number_of_samples():
    """The loss uses three compressed samples for 5000, and equals the loss of all samples."""
    network = deep_linear(WIDTHS[3], scale=0.5, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 3))
    y = x @ TEACHER.T + 0.1 * rng.normal(size=(5000, 2))
    many = from_arrays(x, y)
    assert len(objective(network, many, "half").data.psi) == 3
    flow = festina.gradient_flow(network, many, TIMES)
    direct = 0.5 * np.mean(np.sum((flow.network.predict(x) - y) ** 2, axis=-1), axis=-1)
    np.testing.assert_allclose(flow.loss, direct, rtol=1e-10)


def test_depth_two_is_a_linear_layer():
    shallow = fully_connected(3, 4, 2, scale=0.3, key=festina.seeds(2))
    deep = DeepLinear.from_layer(shallow)
    ours = festina.gradient_flow(deep, TASK, TIMES, rtol=1e-10)
    theirs = festina.gradient_flow(shallow, TASK, TIMES, rtol=1e-10)
    np.testing.assert_allclose(ours.network.to_layer().u, theirs.network.u, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-7)


def test_descent_takes_the_steps_of_plain_numpy():
    network = deep_linear(WIDTHS[3], scale=0.5, key=jax.random.key(0))
    w = [np.array(weight) for weight in network.weights]
    for _ in range(20):
        error = (TEACHER - product(w, 3)) @ COVARIANCE
        slopes = [
            product(w[layer + 1 :], len(w[layer])).T @ error @ product(w[:layer], 3).T
            for layer in range(len(w))
        ]
        w = [weight + 0.05 * slope for weight, slope in zip(w, slopes, strict=True)]
    final = festina.gradient_descent(network, TASK, 0.05, 20).final
    for found, exact in zip(final.weights, w, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-13)


def test_minibatches_of_all_samples_are_full_batches():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    data = from_arrays(x, x @ TEACHER.T)
    network = deep_linear(WIDTHS[3], scale=0.4, key=festina.seeds(2))
    full = festina.gradient_descent(network, data, 0.1, 40)
    mini = festina.gradient_descent(
        network, data, 0.1, 40, batch_size=30, key=jax.random.key(0), save_every=40
    )
    np.testing.assert_allclose(mini.loss[:, -1], full.loss[:, -1], rtol=1e-9)
    few = festina.gradient_descent(network, data, 0.1, 40, batch_size=5, key=jax.random.key(0))
    assert (few.loss[:, -1] < few.loss[:, 0]).all()
    assert (np.abs(few.loss[:, -1] / full.loss[:, -1] - 1) > 1e-2).all()


def test_it_runs_to_the_end_past_the_saddles():
    network = deep_linear(WIDTHS[3], scale=0.2, key=jax.random.key(1))
    flow = festina.gradient_flow(network, TASK)
    assert flow.endings[0].reason == "converged"
    np.testing.assert_allclose(flow.final.end_to_end(), TEACHER, atol=1e-3)


def test_a_run_has_named_axes_and_comes_back_from_disk(tmp_path):
    networks = deep_linear(WIDTHS[3], scale=0.5, key=festina.seeds(6))
    flow = festina.gradient_flow(networks, TASK, TIMES)
    dataset = flow.to_dataset()
    assert dataset["w1"].dims == ("seed", "time", "hidden_1", "input")
    assert dataset["w2"].dims == ("seed", "time", "hidden_2", "hidden_1")
    assert dataset["w3"].dims == ("seed", "time", "output", "hidden_2")
    festina.save(flow, tmp_path / "run")
    again = festina.load(tmp_path / "run")["simulation"].to_dataset()
    assert again.identical(dataset)
    weights = deep_linear_from([again[name].values for name in ("w1", "w2", "w3")])
    np.testing.assert_array_equal(weights.end_to_end(), flow.network.end_to_end())


@pytest.mark.usefixtures("as_a_user")
def test_what_does_not_fit():
    with pytest.raises(ValueError, match=r"has 3 outputs, .* and 2 outputs"):
        festina.gradient_flow(deep_linear_from([np.ones((4, 3)), np.ones((3, 4))]), TASK)
    with pytest.raises(ValueError, match="do not fit"):
        festina.gradient_flow(deep_linear_from([np.ones((2, 4))]), TASK)
    broken = DeepLinear((np.full((2, 3), np.nan),))
    with pytest.raises(ValueError, match="`w1` are not all finite"):
        festina.gradient_flow(broken, TASK)
    with pytest.raises(ValueError, match="Expected a network"):
        festina.gradient_flow(untyped([np.ones((2, 3))]), TASK)


@pytest.mark.parametrize(("widths", "reason"), [((3, 4, 2), "saddle"), (WIDTHS[3], "stationary")])
def test_zero_weights_are_never_left(widths, reason):
    """A saddle of two layers is recognised; with more layers even the curvature vanishes."""
    zero = deep_linear_from([np.zeros(shape) for shape in layer_shapes(widths)])
    assert festina.gradient_flow(zero, TASK).endings[0].reason == reason
