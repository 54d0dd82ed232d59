"""Test regression tasks: targets, moments in closed form, and errors."""

import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina._objective import excess_loss, objective
from festina.networks import (
    ConvolutionUnit,
    Layer,
    LinearAttentionUnit,
    NeuronUnit,
    activation,
    attention,
    convolutional_1d,
    deep_linear_from,
    deep_network_from,
    fully_connected,
    layer_from,
    power,
)
from festina.tasks import (
    Task,
    figure_1c_teacher,
    figure_1e_points,
    from_arrays,
    in_context_regression,
    linear_teacher,
    quadratic_teacher,
    student_teacher,
    two_orthogonal_points,
)
from helpers import random_covariance, untyped

KEY = jax.random.key(0)
SIGMA_1B = [[1, 1], [1, 4]]


def initial_loss(data: Task) -> float:
    """Return ⟨‖y‖²⟩, the loss without ½ of a network with zero output."""
    return float(data.weight @ np.sum(data.y**2, axis=1))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (lambda: linear_teacher(np.eye(2), SIGMA_1B), 5.0),
        (lambda: linear_teacher([[1, 0.5], [-0.5, 0.25]], SIGMA_1B), 3.25),
        (figure_1c_teacher, 1.0),
        (two_orthogonal_points, 1.0),
        (figure_1e_points, 1.0),
        (lambda: quadratic_teacher(np.eye(2)), 8.0),
        (lambda: quadratic_teacher(np.eye(2), target_scale=1 / np.sqrt(8)), 1.0),
    ],
    ids=["1B_I", "1B_G", "1C", "1D", "1E", "1G", "1G printed"],
)
def test_initial_loss_of_figure_1(data, expected):
    np.testing.assert_allclose(initial_loss(data()), expected, rtol=1e-12)


@given(outputs=st.integers(1, 3), size=st.integers(1, 5), seed=st.integers(0))
@settings(max_examples=15)
def test_moments_of_the_linear_teacher(outputs, size, seed):
    rng = np.random.default_rng(seed)
    weights, covariance = rng.standard_normal((outputs, size)), random_covariance(rng, size)
    data = linear_teacher(weights, covariance)
    assert (data.samples, data.outputs, data.input_shape) == (None, outputs, (size,))
    mean = lambda a, b: np.einsum("p,pi,pj->ij", data.weight, a, b)
    np.testing.assert_allclose(mean(data.x, data.x), covariance, atol=1e-12)
    np.testing.assert_allclose(mean(data.y, data.x), weights @ covariance, atol=1e-12)
    np.testing.assert_allclose(mean(data.y, data.y), weights @ covariance @ weights.T, atol=1e-11)
    assert len(data.x) == 2 * size


@given(units=st.integers(1, 3), size=st.integers(1, 3), seed=st.integers(0))
@settings(max_examples=15)
def test_moments_of_the_quadratic_teacher(units, size, seed):
    """With g_jk = w_j Σ w_k, moments follow from those of the Gaussian variables w_j·x."""
    rng = np.random.default_rng(seed)
    weights, covariance = rng.standard_normal((units, size)), random_covariance(rng, size)
    data = quadratic_teacher(weights, covariance, target_scale=0.7)
    g = weights @ covariance @ weights.T
    scale = 1e-12 * max(1.0, np.trace(g)) ** 2
    assert abs(data.weight @ data.y[:, 0] - 0.7 * np.trace(g)) < scale
    assert abs(initial_loss(data) - 0.49 * (np.trace(g) ** 2 + 2 * np.sum(g**2))) < scale
    # ⟨y xxᵀ⟩ drives a quadratic network.
    found = np.einsum("p,p,pi,pj->ij", data.weight, data.y[:, 0], data.x, data.x)
    seen = weights @ covariance
    expected = 0.7 * (np.trace(g) * covariance + 2 * seen.T @ seen)
    np.testing.assert_allclose(found, expected, atol=scale * max(1.0, np.abs(covariance).max()))


def test_the_two_small_data_sets():
    two = two_orthogonal_points()
    assert two.x[0] @ two.x[1] == 0
    np.testing.assert_array_equal(two.y[:, 0], [1, -1])
    four = figure_1e_points()
    assert (np.count_nonzero(four.x, axis=1) == 1).all()
    np.testing.assert_allclose(four.x.T @ four.x / 4, np.diag([1, 1, 2, 1]), atol=1e-14)
    np.testing.assert_allclose(
        four.y[:, 0], four.x @ np.array([1, 1, -1, 1]) / np.sqrt(5), atol=1e-14
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda **how: linear_teacher([[1.0, 2.0]], SIGMA_1B, **how),
        lambda **how: quadratic_teacher(np.eye(2), SIGMA_1B, **how),
        lambda **how: student_teacher(
            layer_from(NeuronUnit(activation("tanh")), np.ones((1, 2)), np.ones(1)), SIGMA_1B, **how
        ),
    ],
    ids=["linear", "quadratic", "student-teacher"],
)
def test_finite_tasks(make):
    data = make(samples=4000, key=KEY)
    assert (data.samples, len(data.x), data.x.dtype) == (4000, 4000, np.float64)
    np.testing.assert_array_equal(data.weight, 1 / 4000)
    # ⟨xxᵀ⟩ has standard errors √((Σ_ii Σ_jj + Σ_ij²)/P).
    errors = np.sqrt((np.outer([1, 4], [1, 4]) + np.square(SIGMA_1B)) / 4000)
    assert (np.abs(data.x.T @ data.x / 4000 - SIGMA_1B) < 4 * errors).all()
    np.testing.assert_array_equal(make(samples=4000, key=KEY).x, data.x)
    assert not np.array_equal(make(samples=4000, key=jax.random.key(1)).x, data.x)
    quadrature = make(nodes=6)
    assert (quadrature.samples, len(quadrature.x), quadrature.degree) == (None, 36, None)


def test_student_and_teacher_of_the_same_kind_agree():
    """A student equal to the teacher has zero loss, also for convolutions."""
    for teacher, size in (
        (fully_connected(2, 3, 2, activation="sine", scale=1.0, key=KEY), 2),
        (convolutional_1d(3, 2, activation="quadratic", scale=1.0, key=KEY), 3),
    ):
        data = student_teacher(teacher, random_covariance(np.random.default_rng(1), size), nodes=5)
        with jax.enable_x64(True):
            outputs = np.asarray(jax.vmap(teacher)(data.x))
        np.testing.assert_allclose(outputs, data.y, rtol=1e-13, atol=1e-14)
        assert data.outputs == teacher.outputs


def _arc_cosine_slopes(u, v, covariance):
    """Return ∂/∂v_i of ½⟨|f|²⟩ for ReLU, Σ_j ⟨φ_i φ_j⟩ v_j, by the kernel of Cho & Saul (2009)."""
    gram = u @ covariance @ u.T
    sizes = np.sqrt(np.diag(gram))
    angle = np.arccos(np.clip(gram / np.outer(sizes, sizes), -1, 1))
    kernel = np.outer(sizes, sizes) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))
    return kernel @ v / (2 * np.pi)


@pytest.mark.parametrize(("size", "seed"), [(2, 0), (2, 7), (3, 6)])
def test_kinks_are_warned_of_with_the_size_of_their_error(size, seed):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(3, size)), rng.normal(size=(3, 1))
    covariance, unit = random_covariance(rng, size), NeuronUnit("relu")
    with pytest.warns(UserWarning, match=r"has a kink. The error falls only as one") as told:
        data = student_teacher(layer_from(unit, u, v), covariance, nodes=10)
    off = re.search(r"error of about ([0-9.]+)%", str(told[0].message))
    assert off is not None
    told = float(off[1]) / 100
    response = np.maximum(data.x @ u.T, 0.0)
    slope = response.T @ (data.weight[:, None] * data.y)
    by_v = _arc_cosine_slopes(u, v, covariance)
    step = lambda h: (_arc_cosine_slopes(h, v, covariance) * v).sum() / 2
    by_u = np.zeros_like(u)
    for index in np.ndindex(u.shape):
        moved = np.zeros_like(u)
        moved[index] = 1e-5
        by_u[index] = (step(u + moved) - step(u - moved)) / 2e-5
    on = (data.x @ u.T > 0) * (data.weight[:, None] * data.y @ v.T)
    errors = np.concatenate((np.ravel(on.T @ data.x - by_u), np.ravel(slope - by_v)))
    exact = np.linalg.norm(np.concatenate((np.ravel(by_u), np.ravel(by_v))))
    assert 0.5 < told / (np.linalg.norm(errors) / exact) < 2


def test_of_what_is_smooth_or_finite_nobody_is_warned():
    student_teacher(layer_from(NeuronUnit("tanh"), np.eye(2), np.ones(2)), np.eye(2), nodes=10)
    relu = layer_from(NeuronUnit("relu"), np.ones((1, 2)), np.ones(1))
    student_teacher(relu, np.eye(2), samples=50, key=KEY)
    student_teacher(relu, np.eye(2), nodes=201)


def test_a_polynomial_teacher_needs_no_nodes():
    teacher = layer_from(NeuronUnit(power(3)), [[1.0, 0.5]], [1.0])
    data = student_teacher(teacher, np.eye(2), nodes=None)
    assert data.degree == 3
    np.testing.assert_allclose(initial_loss(data), 15 * 1.25**3, rtol=1e-12)  # ⟨z⁶⟩ = 15σ⁶
    data.statistics(NeuronUnit(power(3)))


def test_a_population_serves_no_network_beyond_its_degree():
    message = r"of degree up to 1 in the input, but .* is of degree 2"
    with pytest.raises(ValueError, match=message):
        linear_teacher(np.eye(2)).statistics(NeuronUnit(power(2)))
    with pytest.raises(
        ValueError, match=r"relu.* is not a polynomial\. Make the task with `nodes=20`"
    ):
        linear_teacher(np.eye(2)).statistics(NeuronUnit(activation("relu")))
    with pytest.raises(ValueError, match=r"up to 2 .* is of degree 3"):
        quadratic_teacher(np.eye(2)).statistics(ConvolutionUnit(power(3), size=2))
    quadratic_teacher(np.eye(2)).statistics(NeuronUnit())
    linear_teacher(np.eye(2), nodes=4).statistics(NeuronUnit(activation("relu")))
    linear_teacher(np.eye(2), samples=4, key=KEY).statistics(NeuronUnit(activation("relu")))


def _student(covariance, **how):
    return student_teacher(fully_connected(2, 2, scale=1.0, key=KEY), covariance, **how)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear_teacher(np.eye(2), np.eye(3)), r"must be 2 × 2 .* got shape \(3, 3\)"),
        (lambda: linear_teacher(np.eye(2), np.ones(2)), r"must be 2 × 2 .* got shape \(2,\)"),
        (lambda: linear_teacher(np.eye(2), [[1, 2], [2, 1]]), "semi-definite.* is -1"),
        (lambda: linear_teacher(np.eye(2), [[1, 2], [0, 1]]), "must be symmetric"),
        (lambda: linear_teacher([[np.nan, 1.0]]), "`weights` .* finite .* 1 values"),
        (lambda: linear_teacher(np.ones((1, 2, 2))), r"finite matrix, got shape \(1, 2, 2\)"),
        (lambda: quadratic_teacher(np.eye(2), np.eye(3)), r"must be 2 × 2 .* \(3, 3\)"),
        (lambda: quadratic_teacher([[np.inf, 1.0]]), "`weights` .* finite"),
        (lambda: quadratic_teacher(np.eye(2), target_scale=np.nan), "`target_scale` .* nan"),
        (lambda: linear_teacher(np.eye(2), samples=5), "Give both `samples` and `key`"),
        (lambda: linear_teacher(np.eye(2), key=KEY), "Give both `samples` and `key`"),
        (lambda: linear_teacher(np.eye(2), samples=0, key=KEY), "`samples` .* got 0"),
        (lambda: linear_teacher(np.eye(2), samples=-3, key=KEY), "`samples` .* got -3"),
        (
            lambda: linear_teacher(np.eye(2), nodes=0),
            "`nodes` must be a whole number from 2 up, got 0",
        ),
        (
            lambda: linear_teacher(np.eye(2), [[1, 2], [2, 1]], samples=5, key=KEY),
            "semi-definite",
        ),
        (lambda: _student(np.eye(3)), r"does not fit inputs of dimension 3.* not \(3,\)"),
        (lambda: _student([[1, 2], [2, 1]]), "semi-definite"),
        (
            lambda: student_teacher(fully_connected(2, 2, key=jax.random.split(KEY, 3)), np.eye(2)),
            r"single network, got a batch \(3,\)",
        ),
        (
            lambda: student_teacher(attention(2, 2, key=KEY), np.eye(3)),
            r"takes tokens as columns.* got inputs \(3,\)",
        ),
        (lambda: in_context_regression(0, 3), "`dimension` must be a whole .* got 0"),
        (lambda: in_context_regression(2, 0), "`context` must be a whole .* got 0"),
        (
            lambda: in_context_regression(2, 3, token_covariance=np.eye(3)),
            r"must be 2 × 2, .* got shape \(3, 3\)",
        ),
        (
            lambda: in_context_regression(2, 3, token_covariance=-np.eye(2)),
            "`token_covariance` must be positive semi-definite",
        ),
        (
            lambda: in_context_regression(2, 3, token_covariance=[[1.0, 1.0], [0.0, 1.0]]),
            "`token_covariance` must be symmetric",
        ),
        (
            lambda: in_context_regression(2, 3, token_covariance=np.full((2, 2), np.nan)),
            "`token_covariance` holds values that are not finite",
        ),
        (lambda: in_context_regression(2, 3, samples=4), "Give both `samples` and `key`"),
        (lambda: in_context_regression(2, 3, samples=0, key=KEY), "`samples` .* got 0"),
    ],
)
def test_tasks_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear_teacher(np.eye(2), samples=untyped(2.5), key=KEY), "`samples` .* got 2.5"),
        (
            lambda: linear_teacher(np.eye(2), nodes=untyped(2.5)),
            "`nodes` must be a whole .* got 2.5",
        ),
        (lambda: in_context_regression(2, untyped(2.5)), "`context` must be a whole .* got 2.5"),
        (
            lambda: in_context_regression(2, 3, samples=untyped(2.5), key=KEY),
            "`samples` .* got 2.5",
        ),
        (lambda: linear_teacher(1j * np.eye(2)), "`weights` must be real"),
        (lambda: linear_teacher(np.eye(2), 1j * np.eye(2)), "`covariance` must be real"),
        (lambda: _student(1j * np.eye(2)), "`covariance` must be real"),
        (
            lambda: in_context_regression(2, 3, token_covariance=1j * np.eye(2)),
            "`token_covariance` must be real",
        ),
        (
            lambda: student_teacher(untyped(deep_linear_from([np.ones((1, 2))])), np.eye(2)),
            r"one layer, got DeepLinear\. .*from_arrays\(x, teacher\.predict\(x\)\)",
        ),
        (
            lambda: student_teacher(untyped(deep_network_from(NeuronUnit(), [X, Y.T])), np.eye(2)),
            "`teacher` must be a network of one layer, got DeepNetwork",
        ),
    ],
)
def test_halves_complex_numbers_and_deep_teachers(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_task_from_your_own_arrays():
    data = from_arrays([[1, 2], [3, 4], [5, 6]], [1, 2, 3], labels={"object": ["a", "b", "c"]})
    assert (data.x.dtype, data.y.shape, data.samples, data.outputs) == (np.float64, (3, 1), 3, 1)
    assert data.labels["object"].tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(data.weight, 1 / 3)
    # Tasks are immutable pytrees, so transformations of JAX apply to their arrays.
    doubled = jax.tree_util.tree_map(lambda a: a if a.dtype.kind == "U" else 2 * a, data)
    np.testing.assert_array_equal(doubled.x, 2 * data.x)
    with pytest.raises(AttributeError):
        untyped(data).x = data.y


def test_what_becomes_of_your_arrays_later_is_no_matter():
    covariance, labels = np.diag([1.0, 2.0]), np.arange(3)
    tokens = in_context_regression(2, 4, token_covariance=covariance)
    data = from_arrays(np.ones((3, 2)), np.ones(3), labels={"object": labels})
    covariance *= 3.0
    labels += 1
    found = tokens.statistics(LinearAttentionUnit()).psi
    expected = in_context_regression(2, 4, token_covariance=covariance / 3.0)
    np.testing.assert_array_equal(found, expected.statistics(LinearAttentionUnit()).psi)
    assert data.labels["object"].tolist() == [0, 1, 2]


X, Y = np.ones((5, 2)), np.ones((5, 1))


def broken(array, *rows, value=np.nan):
    array = array.copy()
    array[list(rows), 0] = value
    return array


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: from_arrays(broken(X, 3, 4), Y),
            "`x` is not finite in 2 of 5 samples, .* sample 3",
        ),
        (lambda: from_arrays(X, broken(Y, 1)), "`y` is not finite in 1 of 5 samples, .* sample 1"),
        (
            lambda: from_arrays(broken(X, 2, value=-np.inf), Y),
            "first is sample 2. Remove or replace",
        ),
        (
            lambda: from_arrays(X, Y[:3]),
            r"equally many samples, .* got shapes \(5, 2\) and \(3, 1\)",
        ),
        (lambda: from_arrays(X[:, 0], Y), r"got shapes \(5,\) and \(5, 1\)"),
        (lambda: from_arrays(X[:0], Y[:0]), r"at least one: got shapes \(0, 2\) and \(0, 1\)"),
        (lambda: from_arrays(X[:, :0], Y), r"got shapes \(5, 0\) and \(5, 1\)"),
        (lambda: from_arrays(X, Y[:, :, None]), r"got shapes \(5, 2\) and \(5, 1, 1\)"),
        (lambda: from_arrays(X, Y, weight=np.ones(4)), r"each of the 5 samples, got shape \(4,\)"),
        (lambda: from_arrays(X, Y, weight=[1, 1, -1, 1, 1]), "with 1 invalid weights"),
        (lambda: from_arrays(X, Y, weight=[1, np.nan, -1, 1, 1]), "with 2 invalid weights"),
        (lambda: from_arrays(X, Y, weight=np.zeros(5)), "`weight` is zero for every sample"),
        (lambda: from_arrays(1j * X, Y), "`x` must be real, got complex numbers"),
        (lambda: from_arrays(X, 1j * Y), "`y` must be real, got complex numbers"),
        (lambda: from_arrays(X, Y, weight=[1j] * 5), "`weight` must be real, got complex numbers"),
        (
            lambda: from_arrays(X, Y, labels={"view": [1, 2]}),
            r"Label 'view' has shape \(2,\) for 5",
        ),
    ],
)
def test_arrays_that_are_no_task(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_units_that_do_not_fit_the_inputs():
    with pytest.raises(ValueError, match=r"tokens as columns.* got inputs \(2,\)"):
        from_arrays(X, Y).statistics(LinearAttentionUnit())
    with pytest.raises(ValueError, match=r"kernel of size 3 .* got inputs \(2,\)"):
        from_arrays(X, Y).statistics(ConvolutionUnit(size=3))
    with pytest.raises(ValueError, match=r"takes vectors, got inputs \(2, 2\)"):
        from_arrays(np.ones((5, 2, 2)), Y).statistics(NeuronUnit())


@pytest.mark.usefixtures("as_a_user")
def test_networks_that_do_not_fit_the_task():
    for network, message in (
        (fully_connected(3, 4, scale=0.1, key=KEY), r"takes inputs of shape \(3,\), got \(2,\)"),
        (fully_connected(2, 4, 2, scale=0.1, key=KEY), "has 2 outputs, .* 1 outputs"),
    ):
        with pytest.raises(ValueError, match=message):
            festina.gradient_descent(network, from_arrays(X, Y), 0.1, 2)
    wrong = Layer(np.full((2, 2), np.nan), np.ones((2, 1)), NeuronUnit())
    with pytest.raises(ValueError, match="The weights `u` are not all finite"):
        festina.gradient_descent(wrong, from_arrays(X, Y), 0.1, 2)
    right = fully_connected(2, 2, scale=0.1, key=KEY)
    with pytest.raises(ValueError, match=r"Unknown loss 'mse'\. Choose one of: 'half' = ½"):
        festina.gradient_descent(right, from_arrays(X, Y), 0.1, 2, loss=untyped("mse"))
    with pytest.raises(ValueError, match="'half-sum' sums over samples, but"):
        festina.gradient_descent(right, linear_teacher([[1.0, 1.0]]), 0.1, 2, loss="half-sum")


@pytest.mark.usefixtures("double")
def test_conventions_of_the_loss():
    """Compare each convention with its definition, from samples and outputs."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 2)), rng.standard_normal((7, 3))
    network = fully_connected(2, 4, 3, activation="tanh", scale=1.0, key=KEY)
    square = (y - np.tanh(x @ network.u.T) @ network.v) ** 2
    for name, expected in {
        "half": square.sum(1).mean() / 2,
        "mean-square": square.sum(1).mean(),
        "mean-over-outputs": square.mean(),
        "half-sum": square.sum() / 2,
        "sum-square": square.sum(),
    }.items():
        structure, data, floor = objective(network, from_arrays(x, y), name)
        weights = structure.columns(network.u, network.v)[:, 0]
        found = excess_loss(structure, weights, data) + floor
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        u, v = structure.arrays(weights)
        np.testing.assert_array_equal(u, network.u)
        np.testing.assert_array_equal(v, network.v)


def test_a_batch_of_networks_as_columns_and_back():
    network = fully_connected(2, 3, 2, scale=1.0, key=festina.seeds(4))
    structure = objective(network, linear_teacher(np.eye(2)), "half").structure
    columns = structure.columns(network.u, network.v)
    assert columns.shape == (3 * 2 + 3 * 2, 4) == (structure.size, 4)
    u, v = structure.arrays(columns)
    np.testing.assert_array_equal(u, network.u)
    np.testing.assert_array_equal(v, network.v)
    again = objective(Layer(u, v, network.unit), linear_teacher(np.eye(2)), "half").structure
    assert hash(structure) == hash(again)
