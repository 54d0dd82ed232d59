"""Test codes of ReLU networks: the bulk, condensed classes, and the transition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.theory.coding import classification_code, crossover_temperature, targets_per_class

NUMBERS = {  # t₊, t₋, q, mean and deviation of a bulk readout
    0.0: (1.7034, -0.2218, 1.4691, 0.2234, 0.1867),
    -0.5: (1.4142, -0.7071, 2.0503, 0.0, 0.1742),
}


@pytest.mark.parametrize("other", NUMBERS)
def test_bulk_and_outliers_of_the_toy_task(other):
    code = classification_code([20] * 3, "relu", targets=targets_per_class(3, other=other))
    outside = code.readout_moment - sum(np.outer(a, a) for a in code.outliers(1))
    deviation = np.sqrt(outside[0, 0] - code.readout_mean[0] ** 2)
    found = [*code.dual[0, :2], code.condensed[0], code.readout_mean[0], deviation]
    np.testing.assert_allclose(found, NUMBERS[other], atol=2e-4)
    if other == 0:
        assert code.outliers(200)[0, 0] == pytest.approx(9.7, abs=0.05)
        assert np.sqrt(200 * code.condensed[0]) == pytest.approx(17.1, abs=0.05)
        assert "sparse" in str(code)


@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(20, 60), min_size=2, max_size=3),
    temperature=st.floats(0.0, 1.0),
    other=st.floats(-0.6, 0.0),
)
def test_conditions_of_the_minimum(sizes, temperature, other):
    """Y = T t + f; condensed classes are on the boundary of the constraint, others inside."""
    y = targets_per_class(len(sizes), other=other)
    code = classification_code(sizes, "relu", temperature=temperature, targets=y)
    np.testing.assert_allclose(y - code.outputs, temperature * code.dual, atol=1e-7)
    margin = 1 - code.readout_variance * code.sizes * (code.dual**2).sum(axis=1)
    assert (margin > -1e-8).all()
    assert (code.condensed >= 0).all()
    np.testing.assert_allclose(margin * code.condensed, 0, atol=1e-7)


@pytest.mark.parametrize("other", [0.0, -0.5])
def test_the_bulk_by_weighted_draws(other):
    code = classification_code([20, 30], "relu", targets=targets_per_class(2, other=other))
    rng, count, spread = np.random.default_rng(0), 400_000, 1.6
    t, variance = code.dual, code.readout_variance
    a = code.readout_mean + spread * np.sqrt(variance) * rng.normal(size=(count, 2))
    h = a @ t.T
    # ∫ e^{hφ} over z by the midpoint rule, in a table
    z = np.linspace(-9, 9, 20_000, endpoint=False) + 9 / 20_000
    nodes = np.linspace(-4, 4, 401)
    table = np.log(
        np.exp(nodes[:, None] * np.maximum(z, 0) - z**2 / 2).mean(axis=1) * 18 / np.sqrt(2 * np.pi)
    )
    g = np.interp(h, nodes, table)
    proposal = ((a - code.readout_mean) ** 2).sum(axis=1) / (2 * spread**2 * variance)
    weight = np.exp(g @ code.sizes - (a**2).sum(axis=1) / (2 * variance) + proposal)
    weight[np.abs(h).max(axis=1) > 4] = 0.0
    slope = (np.interp(h + 0.01, nodes, table) - np.interp(h - 0.01, nodes, table)) / 0.02
    outputs = np.einsum("g,gc,gr->cr", weight / weight.sum(), slope, a)
    kappa = variance * code.sizes * code.condensed
    np.testing.assert_allclose(outputs + kappa[:, None] * t, code.outputs, atol=3e-3)


@pytest.mark.slow
def test_of_unequal_classes_the_last_loses_its_outliers():
    sizes = [50, 25, 30]
    critical = crossover_temperature(sizes, "relu")
    below, above = (
        classification_code(sizes, "relu", temperature=f * critical) for f in (0.997, 1.003)
    )
    assert below.condensed.any()
    assert not below.condensed.all()
    assert not above.condensed.any()


@pytest.mark.parametrize("other", [0.0, -0.5])
def test_outliers_disappear_at_a_temperature_that_is_known_exactly(other):
    targets = targets_per_class(3, other=other)
    critical = crossover_temperature([20] * 3, "relu", targets=targets)
    if other == 0:
        assert critical == pytest.approx(0.01 + 1.4691 / 3, abs=1e-4)
    below, above = (
        classification_code([20] * 3, "relu", temperature=critical + step, targets=targets)
        for step in (-1e-3, 1e-3)
    )
    np.testing.assert_allclose(below.condensed, 3e-3, atol=1e-5)
    assert not above.condensed.any()
    cold = classification_code([20] * 3, "relu", temperature=critical / 2, targets=targets)
    assert (cold.scheme, above.scheme) == ("sparse", "none")
