"""Test kernels against closed forms, finite differences and gradients of PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina.diagnose import (
    alignment_between_kernels,
    distance_between_kernels,
    neural_tangent_kernel,
    representational_similarity,
    tangent_kernel_alignment,
    tangent_kernel_distance,
)
from festina.networks import (
    DeepLinear,
    convolutional_1d,
    deep_linear,
    deep_linear_from,
    fully_connected,
)
from festina.tasks import linear_teacher
from helpers import untyped

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))


def flat(kernel):
    *batch, outputs, samples, _, _ = kernel.shape
    return kernel.reshape(*batch, outputs * samples, outputs * samples)


def test_two_linear_layers_have_the_kernel_in_closed_form():
    network = deep_linear((3, 4, 2), scale=0.7, key=festina.seeds(2))
    kernels = flat(neural_tangent_kernel(network, X))
    x = X.T
    for lane in range(2):
        w1, w2 = (weight[lane] for weight in network.weights)
        expected = np.kron(np.eye(2), x.T @ w1.T @ w1 @ x) + np.kron(w2 @ w2.T, x.T @ x)
        np.testing.assert_allclose(kernels[lane], expected, rtol=1e-12, atol=1e-13)
    layer = network.to_layer()
    np.testing.assert_allclose(flat(neural_tangent_kernel(layer, X)), kernels, rtol=1e-12)


@pytest.mark.parametrize(
    "network",
    [
        deep_linear((3, 4, 3, 2), scale=0.7, key=jax.random.key(0)),
        fully_connected(3, 4, 2, activation="tanh", scale=0.7, key=jax.random.key(0)),
        convolutional_1d(3, 4, 2, activation="quadratic", scale=0.7, key=jax.random.key(0)),
    ],
    ids=["deep", "tanh", "convolutional"],
)
def test_kernel_by_finite_differences(network):
    structure, h = network.structure, 1e-5
    column = structure.columns(*network.parts)
    steps = np.concatenate([h * np.eye(len(column)), -h * np.eye(len(column))], axis=1)
    moved = network.with_parts(*structure.arrays(column + steps))
    up, down = np.split(moved.predict(X), 2)
    slopes = (up - down) / (2 * h)
    expected = np.einsum("wso,wtp->ospt", slopes, slopes)
    np.testing.assert_allclose(neural_tangent_kernel(network, X), expected, rtol=1e-7, atol=1e-8)


def test_kernel_by_torch():
    torch = pytest.importorskip("torch")
    network = deep_linear((3, 4, 3, 2), scale=0.7, key=jax.random.key(0))
    weights = [torch.tensor(np.array(weight), requires_grad=True) for weight in network.weights]
    activity = torch.tensor(X.T.copy())
    for weight in weights:
        activity = weight @ activity
    rows = [
        torch.cat([g.ravel() for g in torch.autograd.grad(f, weights, retain_graph=True)])
        for f in activity.ravel()
    ]
    expected = (torch.stack(rows) @ torch.stack(rows).T).numpy()
    np.testing.assert_allclose(flat(neural_tangent_kernel(network, X)), expected, rtol=1e-12)


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize(
    ("balance", "distance"), [(-5, 0.01652710), (0, 0.10968354), (1, 0.01863306), (5, 0.00054534)]
)
def test_distance_along_a_flow(balance, distance):
    """Compare with the exact solution of a linear network of widths 3-2-2 at time 1.5."""
    small = np.array([0.3, 0.2])
    big = np.sqrt(small**2 + abs(balance))
    p, q = (small, big) if balance >= 0 else (big, small)
    network = deep_linear_from([np.diag(p) @ np.eye(2, 3), rotation(1.1) @ np.diag(q)])
    task = linear_teacher(np.array([[1.2, 0.4, 0.5], [-0.3, 0.8, -0.6]]))
    flow = festina.gradient_flow(network, task, np.array([0.0, 1.5]), rtol=1e-10)
    found = tangent_kernel_distance(flow, np.eye(3))
    assert found[0] < 1e-30  # the square of a rounding error
    assert found[1] == pytest.approx(distance, abs=2e-8)


def test_distance_over_a_batch_is_the_distance_of_its_kernels():
    saves = deep_linear((3, 2, 2), scale=0.5, key=festina.seeds(6).reshape(2, 3))
    flow = festina.gradient_flow(
        jax.tree.map(lambda weight: weight[:, 0], saves),
        linear_teacher(np.ones((2, 3))),
        np.array([0.0, 0.5, 1.0]),
    )
    kernels = neural_tangent_kernel(flow, X)
    np.testing.assert_array_equal(kernels, neural_tangent_kernel(flow.network, X))
    expected = distance_between_kernels(kernels[:, :1], kernels)
    np.testing.assert_allclose(tangent_kernel_distance(flow, X), expected, atol=1e-14)
    np.testing.assert_array_equal(
        representational_similarity(flow, X), representational_similarity(flow.network, X)
    )


@pytest.mark.parametrize("repeats", [(1, 1, 1, 1, 1), (3, 1, 2, 1, 1)])
def test_examples_of_a_task_count_by_their_weights(repeats):
    """An example of weight k counts like k copies of it."""
    y = np.random.default_rng(1).normal(size=(5, 2))
    weighted = festina.tasks.from_arrays(X, y, weight=np.array(repeats) / sum(repeats))
    x, targets = (np.repeat(each, repeats, axis=0) for each in (X, y))
    network = deep_linear((3, 2, 2), scale=0.5, key=festina.seeds(2))
    flow = festina.gradient_flow(network, weighted, np.array([0.0, 1.0, 5.0]))
    np.testing.assert_allclose(
        tangent_kernel_distance(flow, weighted), tangent_kernel_distance(flow, x), atol=1e-14
    )
    expected = alignment_between_kernels(
        neural_tangent_kernel(flow, x), np.einsum("so,tp->ospt", targets, targets)
    )
    found = tangent_kernel_alignment(flow, weighted)
    assert found.shape == (2, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(
        tangent_kernel_alignment(network, weighted), expected[:, 0], rtol=1e-6
    )


def test_the_kernel_of_what_learns_the_task_alone_is_that_of_the_targets():
    """A network with one weight has K = xxᵀ, which is proportional to yyᵀ for y = 3x."""
    task = festina.tasks.from_arrays(X[:, :1], 3 * X[:, :1])
    assert tangent_kernel_alignment(deep_linear_from([np.ones((1, 1))]), task) == pytest.approx(1.0)


def test_alignment_and_distance():
    a, b = np.diag([1.0, 0.0]), np.diag([1.0, 1.0])
    assert alignment_between_kernels(a, b, axes=2) == pytest.approx(np.sqrt(0.5), rel=1e-14)
    assert distance_between_kernels(a, 7 * a, axes=2) == 0.0
    # A turn by ε has the distance ½ε², which computing one minus a cosine would round to zero.
    turned = a + 1e-9 * np.array([[0.0, 0.0], [0.0, 1.0]])
    assert distance_between_kernels(a, turned, axes=2) == pytest.approx(0.5e-18, rel=1e-6)
    with jax.enable_x64(True):
        slope = jax.grad(lambda s: distance_between_kernels(a, a + s * b, axes=2))(0.5)
    expected = lambda s: 1 - (1 + s) / np.hypot(1 + s, s)
    assert slope == pytest.approx((expected(0.5 + 1e-6) - expected(0.5 - 1e-6)) / 2e-6, rel=1e-6)


def test_similarity_of_every_hidden_layer():
    network = deep_linear((3, 4, 5, 2), scale=0.7, key=festina.seeds(2))
    first = X @ network.weights[0].swapaxes(-1, -2)
    second = first @ network.weights[1].swapaxes(-1, -2)
    for centred in (False, True):
        found = representational_similarity(network, X, centred=centred)
        assert found.shape == (2, 2, 5, 5)
        for layer, h in enumerate((first, second)):
            h = h - centred * h.mean(axis=1, keepdims=True)
            np.testing.assert_allclose(found[:, layer], h @ h.swapaxes(-1, -2), atol=1e-13)
    correlations = representational_similarity(network, X, centred=True, cosine=True)
    h = first[1] - first[1].mean(axis=0)
    h = h / np.linalg.norm(h, axis=1, keepdims=True)
    np.testing.assert_allclose(correlations[1, 0], h @ h.T, atol=1e-13)


def test_similarity_of_units_of_a_layer():
    relu = fully_connected(3, 6, 2, activation="relu", scale=0.7, key=jax.random.key(0))
    h = np.maximum(X @ relu.u.T, 0)
    np.testing.assert_allclose(representational_similarity(relu, X)[0], h @ h.T, atol=1e-13)
    silent = representational_similarity(relu, np.zeros((2, 3)), cosine=True)
    np.testing.assert_array_equal(silent, 0.0)


def test_under_the_users_own_transformations():
    network = deep_linear((3, 4, 2), scale=0.7, key=jax.random.key(0))
    with jax.enable_x64(True):
        compiled = jax.jit(neural_tangent_kernel)(network, jnp.asarray(X))
        trace = lambda w: jnp.trace(flat(neural_tangent_kernel(DeepLinear((w,)), X)))
        np.testing.assert_array_equal(jax.grad(trace)(jnp.ones((2, 3))), 0.0)
    np.testing.assert_allclose(compiled, neural_tangent_kernel(network, X), rtol=1e-12)


@pytest.mark.usefixtures("as_a_user")
def test_bad_input():
    network = deep_linear((3, 2), scale=1.0, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"examples, \(sample, …\)"):
        neural_tangent_kernel(network, np.ones(3))
    with pytest.raises(ValueError, match=r"takes inputs of shape \(3,\), got \(4,\)"):
        neural_tangent_kernel(network, np.ones((2, 4)))
    with pytest.raises(ValueError, match="`x` must be finite, 6 values are not"):
        neural_tangent_kernel(network, np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match="axes=2"):
        distance_between_kernels(np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="kernel `b` is zero"):
        alignment_between_kernels(np.eye(2), np.zeros((2, 2)), axes=2)


def test_what_is_no_network_is_said(as_a_user):
    network = fully_connected(2, 3, 1, scale=0.1, key=festina.seeds(1)[0])
    with pytest.raises(ValueError, match=r"`network` must be a network.*got int"):
        neural_tangent_kernel(untyped(3), np.eye(2))
    with pytest.raises(ValueError, match="`trajectory` must be a trajectory"):
        tangent_kernel_distance(untyped(network), np.eye(2))
    with pytest.raises(ValueError, match="InContextPopulation does not have"):
        neural_tangent_kernel(network, festina.tasks.in_context_regression(2, 32))
