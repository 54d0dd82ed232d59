"""Test points and weights that average over a Gaussian, for polynomials and smooth functions."""

import itertools

import numpy as np
import pytest
import scipy.integrate
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import NeuronUnit, activation, layer_from
from festina.tasks import gaussian_cubature_points, student_teacher
from festina.tasks._in_context import gaussian_moment
from helpers import half_loss, isserlis, random_covariance


@given(
    size=st.integers(1, 3), degree=st.integers(0, 8), rank=st.integers(0, 3), seed=st.integers(0)
)
@settings(max_examples=25)
def test_polynomials_up_to_the_promised_degree(size, degree, rank, seed):
    """Compare every monomial with Isserlis' theorem, for covariances of any rank."""
    covariance = random_covariance(np.random.default_rng(seed), size, min(rank, size))
    points, weights = gaussian_cubature_points(covariance, degree=degree)
    assert (weights > 0).all()
    for order in range(degree + 1):
        scale = max(1.0, np.abs(covariance).max()) ** (order / 2) * 100
        for indices in itertools.combinations_with_replacement(range(size), order):
            average = weights @ np.prod(points[:, indices], axis=1)
            assert abs(average - isserlis(covariance, indices)) < 1e-12 * scale


def test_so_few_points_for_low_degrees():
    for size in (1, 4, 30):
        points, weights = gaussian_cubature_points(np.eye(size), degree=3)
        assert len(points) == len(weights) == 2 * size
    # These points are not exact for degree four: ⟨x⁴⟩ is d instead of 3.
    assert np.isclose(weights @ points[:, 0] ** 4, 30)


@given(nodes=st.integers(2, 12), seed=st.integers(0))
@settings(max_examples=10)
def test_so_many_nodes_are_exact_to_twice_their_number(nodes, seed):
    covariance = random_covariance(np.random.default_rng(seed), 2)
    points, weights = gaussian_cubature_points(covariance, nodes=nodes)
    assert len(points) == nodes**2
    direction = np.random.default_rng(seed).standard_normal(2)
    z, variance = points @ direction, direction @ covariance @ direction
    for order in range(2 * nodes):
        exact = 0.0 if order % 2 else variance ** (order / 2) * np.prod(np.arange(1, order, 2.0))
        largest = variance ** (order / 2) * np.prod(np.arange(1, order + 1, 2.0))
        assert abs(weights @ z**order - exact) < 1e-11 * largest


@given(size=st.integers(1, 3), seed=st.integers(0))
@settings(max_examples=8)
def test_moment_tensors_are_those_of_isserlis(size, seed):
    covariance = random_covariance(np.random.default_rng(seed), size)
    for order in (2, 4, 6):
        tensor = gaussian_moment(covariance, order)
        assert tensor.shape == (size,) * order
        for indices in np.ndindex(tensor.shape):
            assert np.isclose(tensor[indices], isserlis(covariance, indices), rtol=1e-12)


def arcsine_kernel(a, b, covariance):
    """Return ⟨g(a·x) g(b·x)⟩ for g(z) = erf(z/√2), of Saad & Solla (1995) after Williams (1997)."""
    cross = a @ covariance @ b.T
    sizes = [1 + np.einsum("id,de,ie->i", w, covariance, w) for w in (a, b)]
    return 2 / np.pi * np.arcsin(cross / np.sqrt(np.outer(*sizes)))


@pytest.mark.slow
@pytest.mark.usefixtures("double")
def test_student_and_teacher_with_erf_have_the_loss_of_saad_and_solla():
    """The closed form does not use quadrature; the error of quadrature falls with the nodes."""
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.4], [0.4, 2.0]])
    unit = NeuronUnit(activation("erf"))
    taught_u, taught_v = 0.6 * rng.standard_normal((2, 2)), rng.standard_normal((2, 1))
    u, v = 0.6 * rng.standard_normal((3, 2)), rng.standard_normal((3, 1))
    both = np.concatenate((u, taught_u))
    signed = np.concatenate((v, -taught_v))
    exact = 0.5 * (signed.T @ arcsine_kernel(both, both, covariance) @ signed).item()

    teacher, student = layer_from(unit, taught_u, taught_v), layer_from(unit, u, v)

    def error(nodes):
        data = student_teacher(teacher, covariance, nodes=nodes)
        return abs(float(half_loss(student, data.statistics(unit))) - exact) / exact

    errors = np.array([error(nodes) for nodes in (4, 8, 16, 48)])
    assert (errors[1:] < errors[:-1] / 5).all()
    assert errors[-1] < 1e-10


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["tanh", "sine", "sigmoid"])
def test_error_of_quadrature_falls_with_the_nodes(name):
    """SciPy integrates the loss of one unit over one variable.

    With each doubling of the nodes, the error falls by a larger factor.
    """
    unit = NeuronUnit(activation(name))
    u = np.array([[0.8, -0.5]])
    covariance = np.array([[1.0, 0.4], [0.4, 2.0]])
    size = np.sqrt((u @ covariance @ u.T).item())
    plain = {
        "tanh": np.tanh,
        "sine": np.sin,
        "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    }[name]
    density = lambda z: np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    exact = sum(
        scipy.integrate.quad(
            lambda z: 0.5 * plain(size * z) ** 2 * density(z), *ends, epsabs=1e-14, epsrel=1e-13
        )[0]
        for ends in ((-12, 0), (0, 12))
    )
    silent = layer_from(unit, u, np.zeros((1, 1)))

    def error(nodes):
        data = student_teacher(layer_from(unit, u, np.ones((1, 1))), covariance, nodes=nodes)
        return abs(float(half_loss(silent, data.statistics(unit))) / exact - 1)

    few, some, many = error(5), error(10), error(20)
    assert some < few / 50
    assert many < max(some / 300, 1e-13)


def test_kinked_units_need_more_nodes():
    """Compare with ⟨ReLU(a·x) ReLU(b·x)⟩, the arc-cosine kernel of Cho & Saul (2009)."""
    a, b = np.array([1.0, 0.0]), np.array([0.6, 0.8])
    angle = np.arccos(a @ b)
    exact = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)

    def error(nodes):
        points, weights = gaussian_cubature_points(np.eye(2), nodes=nodes)
        return abs(weights @ (np.maximum(points @ a, 0) * np.maximum(points @ b, 0)) / exact - 1)

    errors = np.array([np.mean([error(n + k) for k in range(4)]) for n in (10, 40, 160)])
    assert errors[1] < 0.01
    # The error falls roughly as 1/nodes, much more slowly than for smooth units.
    assert ((errors[:-1] / errors[1:] > 2) & (errors[:-1] / errors[1:] < 16)).all()


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (np.ones((2, 3)), r"`covariance` must be a square matrix, got shape \(2, 3\)"),
        (np.ones(2), r"`covariance` must be a square matrix, got shape \(2,\)"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "values that are not finite"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "must be symmetric, the largest asymmetry is 0.3"),
        (
            np.array([[1.0, 2.0], [2.0, 1.0]]),
            "must be positive semi-definite, its smallest eigenvalue is -1",
        ),
        (-np.eye(2), "positive semi-definite"),
        # A negative eigenvalue is an error at every scale of the covariance.
        (1e-12 * np.array([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue is -1e-12"),
    ],
)
def test_matrices_that_are_no_covariance(covariance, message):
    with pytest.raises(ValueError, match=message):
        gaussian_cubature_points(covariance)


def test_a_covariance_may_be_off_by_rounding():
    nearly = np.array([[1.0, 1.0 + 1e-15], [1.0, 1.0]])  # the smallest eigenvalue is about −1e-15
    points, weights = gaussian_cubature_points(nearly)
    np.testing.assert_allclose((weights * points.T) @ points, nearly, rtol=1e-12)


def test_rules_that_are_too_large_or_none():
    with pytest.raises(ValueError, match=r"40 nodes in each of 4 dimensions has 2\.6e\+06 points"):
        gaussian_cubature_points(np.eye(4), nodes=40)
    for nodes in (0, -2):
        with pytest.raises(ValueError, match=f"`nodes` must be a whole .* got {nodes}"):
            gaussian_cubature_points(np.eye(2), nodes=nodes)
