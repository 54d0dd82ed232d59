"""Test minima of narrow networks against closed forms and independently found levels."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from festina._numerics._bfgs import bfgs
from festina._objective import LossConvention
from festina.networks import (
    ConvolutionUnit,
    Layer,
    LinearAttentionUnit,
    NeuronUnit,
    SoftmaxAttentionUnit,
    activation,
    layer_from,
    power,
)
from festina.tasks import (
    figure_1c_teacher,
    figure_1e_points,
    in_context_regression,
    linear_teacher,
    quadratic_teacher,
    student_teacher,
    two_orthogonal_points,
)
from festina.theory.saddles import _narrow_minima, narrow_minima
from helpers import half_loss, random_covariance

RELU = activation("relu")
SIGMA_1B = [[1, 1], [1, 4]]


def cubic_teacher():
    return student_teacher(
        layer_from(NeuronUnit(power(3)), np.eye(2), np.ones(2)), np.eye(2), nodes=None
    )


# Levels by plain descent on exact population statistics, loss without ½
WIDTH_1 = {
    "1B_I": (NeuronUnit(), lambda: linear_teacher(np.eye(2), SIGMA_1B), (5 - np.sqrt(13)) / 2),
    "1B_G": (NeuronUnit(), lambda: linear_teacher([[1, 0.5], [-0.5, 0.25]], SIGMA_1B), 0.25),
    "1C": (ConvolutionUnit(size=2, stride=2), figure_1c_teacher, 0.4),
    "1D": (NeuronUnit(RELU), two_orthogonal_points, 0.5),
    "1E": (ConvolutionUnit(RELU, size=2, stride=2), figure_1e_points, 0.4),
    "1F": (LinearAttentionUnit(), lambda: in_context_regression(2, 32), 38 / 35),
    "1F unit trace": (
        LinearAttentionUnit(),
        lambda: in_context_regression(2, 32, token_covariance=np.eye(2) / 2),
        19 / 35,
    ),
    "1G": (NeuronUnit(power(2)), lambda: quadratic_teacher(np.eye(2)), 8 / 3),
    "4G": (NeuronUnit(power(3)), cubic_teacher, 10.8),
}


@pytest.mark.parametrize("panel", WIDTH_1)
def test_width_1_minimum_of(panel):
    unit, make, expected = WIDTH_1[panel]
    found = narrow_minima(unit, make(), loss="mean-square", starts=12)
    assert abs(found.loss[0] - expected) < 1e-6
    assert (np.diff(found.loss) > 0).all()
    assert found.network.batch_shape == found.loss.shape
    np.testing.assert_allclose(found.share.sum(), 1)


def test_other_critical_levels_of_figures_1d_and_1e():
    """ReLU units that respond to one point, the other point, or none, are local minima."""
    one_d = narrow_minima(NeuronUnit(RELU), two_orthogonal_points(), loss="mean-square")
    np.testing.assert_allclose(one_d.loss, [0.5, 1.0], atol=1e-6)
    unit = ConvolutionUnit(RELU, size=2, stride=2)
    one_e = narrow_minima(unit, figure_1e_points(), loss="mean-square")
    for level in (0.4, 0.6, 1.0):
        assert np.abs(one_e.loss - level).min() < 1e-6


@pytest.mark.parametrize("width", [1, 2])
def test_linear_levels_follow_from_the_eigenvalues(width):
    """Lemma 6: ⟨‖y‖²⟩ − Σ_{k ≤ h} μ_k, with the eigenvalues μ of Σ_yx Σ_xx⁻¹ Σ_xy."""
    rng = np.random.default_rng(width)
    weights = rng.standard_normal((3, 4))
    covariance = random_covariance(rng, 4) + 0.3 * np.eye(4)
    mu = np.sort(np.linalg.eigvalsh(weights @ covariance @ weights.T))[::-1]
    data = linear_teacher(weights, covariance)
    found = narrow_minima(NeuronUnit(), data, width=width, loss="half", starts=2)
    np.testing.assert_allclose(found.loss[0], 0.5 * mu[width:].sum(), rtol=1e-8)


@pytest.mark.parametrize(("rank", "width"), [(1, 1), (1, 2), (2, 1)])
def test_heads_learn_one_direction_for_each_rank(rank, width):
    """The loss is that of learning exactly the directions A that reduce the loss most."""
    lam, context = np.array([1.2, 0.5]), 6
    removed = np.sort(lam / (1 + (1 + lam.sum() / lam) / context))[::-1]
    data = in_context_regression(2, context, token_covariance=np.diag(lam))
    found = narrow_minima(
        LinearAttentionUnit(rank=rank), data, width=width, loss="mean-square", starts=6
    )
    expected = lam.sum() - removed[: rank * width].sum()
    np.testing.assert_allclose(found.loss[0], expected, rtol=1e-7)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("panel", ["1D", "1F"])
def test_a_narrow_minimum_is_a_fixed_point_of_a_wider_network(panel):
    """By Theorem 1, Eq. (5), silent units change neither the loss nor the gradient."""
    unit, make, expected = WIDTH_1[panel]
    data = make()
    found = narrow_minima(unit, data, starts=6)
    u, v = (np.asarray(part)[0] for part in (found.network.u, found.network.v))
    wide = Layer(
        jnp.asarray(np.concatenate((u, np.zeros((2, *u.shape[1:]))))),
        jnp.asarray(np.concatenate((v, np.zeros((2, *v.shape[1:]))))),
        unit,
    )
    statistics = data.statistics(unit)
    program = jax.jit(jax.value_and_grad(lambda network: half_loss(network, statistics)))
    loss, gradient = program(wide)
    np.testing.assert_allclose(loss, found.loss[0], rtol=1e-12)
    np.testing.assert_allclose(2 * loss, expected, rtol=1e-7)
    assert max(np.abs(part).max() for part in (gradient.u, gradient.v)) < 1e-7


def test_a_network_as_wide_as_its_teacher_leaves_nothing():
    found = narrow_minima(
        NeuronUnit(power(2)), quadratic_teacher(np.eye(2)), width=2, loss="mean-square", starts=6
    )
    assert found.loss[0] < 1e-10


def test_conventions_and_seeds():
    data = linear_teacher(np.eye(2), SIGMA_1B)
    how: dict[LossConvention, float] = {"half": 0.5, "mean-square": 1.0}
    for each, factor in how.items():
        again = narrow_minima(NeuronUnit(), data, loss=each, starts=3)
        np.testing.assert_allclose(again.loss[0], factor * (5 - np.sqrt(13)) / 2, rtol=1e-9)
    loss: LossConvention = "mean-over-outputs"
    found = narrow_minima(NeuronUnit(), data, loss=loss, starts=3)
    np.testing.assert_allclose(found.loss[0], 0.5 * (5 - np.sqrt(13)) / 2, rtol=1e-9)
    again = narrow_minima(NeuronUnit(), data, loss=loss, starts=3)
    np.testing.assert_array_equal(again.network.u, found.network.u)
    other = narrow_minima(NeuronUnit(), data, loss=loss, starts=3, key=jax.random.key(1))
    np.testing.assert_allclose(other.loss[0], found.loss[0], rtol=1e-9)
    assert not np.array_equal(other.network.u, found.network.u)


def test_searches_that_cannot_be():
    data = linear_teacher(np.eye(2))
    with pytest.raises(ValueError, match="`width` must be a whole number from 1 up, got 0"):
        narrow_minima(NeuronUnit(), data, width=0)
    with pytest.raises(ValueError, match="`starts` must be a whole number from 1 up, got -1"):
        narrow_minima(NeuronUnit(), data, starts=-1)
    with pytest.raises(ValueError, match="linear attention only"):
        narrow_minima(SoftmaxAttentionUnit(), in_context_regression(2, 3))
    with pytest.raises(ValueError, match="is not a polynomial"):
        narrow_minima(NeuronUnit(RELU), data)


def test_an_end_with_a_gradient_is_no_minimum(monkeypatch):
    """Starts that are stopped early have a loss, but it is not reported as a level."""
    descend = _narrow_minima.bfgs
    stopped = itertools.cycle((200, 3))
    monkeypatch.setattr(
        _narrow_minima, "bfgs", lambda *args, max_steps: descend(*args, max_steps=next(stopped))
    )
    data = linear_teacher(np.eye(2), SIGMA_1B)
    found = narrow_minima(NeuronUnit(), data, loss="mean-square", starts=8)
    np.testing.assert_allclose(found.loss, [(5 - np.sqrt(13)) / 2], rtol=1e-9)
    np.testing.assert_allclose(found.share, [0.5])
    assert str(found).startswith("1 minimum, loss (share of starts): ")
    assert str(found).endswith(" (50%)")
    monkeypatch.setattr(
        _narrow_minima, "bfgs", lambda *args, max_steps: descend(*args, max_steps=3)
    )
    with pytest.raises(ValueError, match="None of 8 starts led to a minimum"):
        narrow_minima(NeuronUnit(), data, starts=8)


@pytest.mark.parametrize("size", [2, 7])
def test_the_optimiser_in_narrow_valleys(size):
    """Test Rosenbrock's valley and one with a kink along its bottom (Lewis & Overton, Sec. 1)."""

    def smooth(x):
        return scipy.optimize.rosen(x), scipy.optimize.rosen_der(x)

    def kinked(x):
        side = np.sign(x[0] ** 2 - x[1])
        value = 10 * abs(x[0] ** 2 - x[1]) + np.sum((1 - x) ** 2)
        gradient = -2 * (1 - x)
        gradient[:2] += 10 * side * np.array([2 * x[0], -1.0])
        return value, gradient

    start = np.linspace(-1.2, 1.0, size)
    never = lambda x, value, gradient: bool(np.abs(gradient).max() < 1e-10)
    x, value, gradient = bfgs(smooth, start, never, max_steps=1000)
    np.testing.assert_allclose(x, 1.0, atol=1e-9)
    assert np.abs(gradient).max() < 1e-10
    x, value, gradient = bfgs(kinked, start, never, max_steps=1000)
    np.testing.assert_allclose(x, 1.0, atol=1e-6)
    assert value < 1e-6


def test_an_activation_is_enough():
    points = two_orthogonal_points()
    by_name = narrow_minima("relu", points, starts=6)
    np.testing.assert_array_equal(
        by_name.loss, narrow_minima(NeuronUnit("relu"), points, starts=6).loss
    )
