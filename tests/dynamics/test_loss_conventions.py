"""Test loss conventions: a factor in the loss is a factor in time."""

import jax
import numpy as np
import pytest

import festina
from festina.dynamics import LossConvention, loss_factor, loss_formula
from festina.networks import fully_connected
from festina.tasks import from_arrays, linear_teacher
from helpers import untyped

OUTPUTS, SAMPLES = 3, 7
NAMES = LossConvention.__args__


def _data():
    draw = np.random.default_rng(5)
    x = draw.normal(size=(SAMPLES, 2))
    return from_arrays(
        x, x @ draw.normal(size=(2, OUTPUTS)) + 0.1 * draw.normal(size=(SAMPLES, OUTPUTS))
    )


DATA = _data()
NETWORK = fully_connected(2, 4, OUTPUTS, scale=0.2, key=jax.random.key(1))
FACTORS = {
    "half": 1.0,
    "mean-square": 2.0,
    "mean-over-outputs": 2.0 / OUTPUTS,
    "half-sum": float(SAMPLES),
    "sum-square": 2.0 * SAMPLES,
}


def written_out(convention: str, residual: np.ndarray) -> float:
    """Return the loss of residuals `(sample, output)` in the named convention."""
    square = residual**2
    return {
        "half": lambda: 0.5 * square.sum(axis=1).mean(),
        "mean-square": lambda: square.sum(axis=1).mean(),
        "mean-over-outputs": lambda: square.mean(),
        "half-sum": lambda: 0.5 * square.sum(),
        "sum-square": lambda: square.sum(),
    }[convention]()


def test_every_convention_is_in_the_table():
    assert set(NAMES) == set(FACTORS)


@pytest.mark.parametrize("convention", NAMES)
def test_the_loss_is_what_its_name_says(convention):
    run = festina.gradient_flow(NETWORK, DATA, np.array([0.0, 0.3]), loss=convention)
    for u, v, loss in zip(run.network.u, run.network.v, run.loss, strict=True):
        assert loss == pytest.approx(written_out(convention, DATA.x @ u.T @ v - DATA.y), rel=1e-12)
    assert loss_factor(convention, DATA) == pytest.approx(FACTORS[convention])
    assert run.convention == convention
    assert loss_formula(convention) in run.to_dataset()["loss"].attrs["long_name"]


@pytest.mark.parametrize("convention", NAMES)
def test_a_flow_is_the_same_flow_on_another_clock(convention):
    times = np.linspace(0.0, 4.0, 9)
    half = festina.gradient_flow(NETWORK, DATA, times, rtol=1e-10)
    factor = FACTORS[convention]
    other = festina.gradient_flow(NETWORK, DATA, times / factor, loss=convention, rtol=1e-10)
    np.testing.assert_allclose(other.network.u, half.network.u, atol=1e-8)
    np.testing.assert_allclose(other.loss, factor * half.loss, rtol=1e-7)
    np.testing.assert_allclose(
        other.squared_gradient, factor**2 * half.squared_gradient, rtol=1e-5, atol=1e-12
    )


@pytest.mark.parametrize("convention", NAMES)
def test_descent_is_the_same_descent_at_another_rate(convention):
    factor = FACTORS[convention]
    half = festina.gradient_descent(NETWORK, DATA, 0.02, 100)
    other = festina.gradient_descent(NETWORK, DATA, 0.02 / factor, 100, loss=convention)
    np.testing.assert_allclose(other.network.u[-1], half.network.u[-1], rtol=1e-11)


@pytest.mark.parametrize("convention", NAMES)
def test_convergence_does_not_depend_on_the_convention(convention):
    half = festina.gradient_flow(NETWORK, DATA)
    other = festina.gradient_flow(NETWORK, DATA, loss=convention)
    assert other.endings[0].reason == half.endings[0].reason == "converged"
    assert other.floor == pytest.approx(FACTORS[convention] * half.floor, rel=1e-12)
    assert other.time[-1] * FACTORS[convention] == pytest.approx(half.time[-1], rel=0.05)


@pytest.mark.parametrize("convention", ["half-sum", "sum-square"])
def test_a_sum_over_a_population_is_refused(convention):
    population = linear_teacher(np.ones((OUTPUTS, 2)))
    for train in (
        lambda: festina.gradient_flow(NETWORK, population, loss=convention),
        lambda: festina.gradient_descent(NETWORK, population, 0.01, 5, loss=convention),
        lambda: loss_factor(convention, population),
    ):
        with pytest.raises(ValueError, match=f"'{convention}' sums over samples"):
            train()


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_convention_lists_the_choices():
    with pytest.raises(ValueError, match="Unknown loss 'mse'") as caught:
        festina.gradient_flow(NETWORK, DATA, loss=untyped("mse"))
    for name in NAMES:
        assert f"'{name}'" in str(caught.value)
    assert "\n" not in str(caught.value)
