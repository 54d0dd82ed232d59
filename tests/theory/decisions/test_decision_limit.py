"""Test heterogeneous teaching: behaviour settles, striatal weights grow and gains fall for ever."""

import numpy as np
import pytest

from festina.theory.decisions import (
    AnimalWeights,
    ContrastChoiceLearner,
    asymptotic_weights,
    mean_field_learning,
    naive_animals,
)

ANIMAL = AnimalWeights([0.3, 0.1, 0.2], [[0.15, -0.05, 0.2], [-0.15, 0.05, 0.2]])
MODEL = ContrastChoiceLearner(teaching="heterogeneous")


def test_printed_values():
    w = asymptotic_weights(MODEL).products
    # Measured at late times: 0.620 and 0.473. The last digit of 0.620 still changes.
    np.testing.assert_allclose([w[0, 0], w[1, 1]], 0.620, atol=1e-3)
    np.testing.assert_allclose(w[:, 2], 0.473, atol=5e-4)
    np.testing.assert_allclose([w[1, 0], w[0, 1]], 0.0, atol=1e-12)
    run = mean_field_learning(MODEL, ANIMAL, [1e3])
    np.testing.assert_allclose(run.products[0, 0, [0, 1], [0, 1]], 0.620, atol=5e-4)


def test_weights_follow_powers_of_time():
    times = np.geomspace(1e3, 1e6, 13)
    run = mean_field_learning(MODEL, ANIMAL, times)
    limit = asymptotic_weights(MODEL)
    size = np.linalg.norm(run.striatum[0], axis=1)
    for weights, power in ((size, 0.5), (run.gains[0], -0.5)):
        exponent = np.polyfit(np.log(times[4:]), np.log(weights[4:]), 1)[0]
        np.testing.assert_allclose(exponent, power, atol=1e-3)
    growth, decay = size / np.sqrt(times)[:, None], run.gains[0] * np.sqrt(times)[:, None]
    np.testing.assert_allclose(growth[-1], limit.striatum_growth, rtol=3e-4)
    np.testing.assert_allclose(decay[-1], limit.gain_decay, rtol=3e-4)
    # The weight of the left stimulus on the wrong action falls as t^(−1/2 − h p / 2κ).
    policy = run.right_probability[0, -1]
    h = (policy * MODEL.stimuli[:, 0] ** 2).mean()
    expected = -0.5 - h * limit.products[0, 0] / (2.0 * limit.pull[0])
    wrong = np.polyfit(np.log(times[4:]), np.log(-run.products[0, 4:, 1, 0]), 1)[0]
    assert wrong == pytest.approx(expected, abs=3e-3)
    assert expected < -0.53  # clearly different from a square root


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_other_animals_end_there_too(beta):
    model = ContrastChoiceLearner(teaching="heterogeneous", inverse_temperature=beta, tau=0.5)
    limit = asymptotic_weights(model)
    animals = naive_animals([0.3, 0.05], [0.02, 0.4])
    early, late = mean_field_learning(model, animals, [5e2, 5e4]).products.swapaxes(0, 1)
    far, near = (np.abs(w - limit.products).max() for w in (early, late))
    assert near < 1e-2
    assert near < 0.15 * far


def test_random_choices_in_closed_form():
    """For β = 0, p and q solve two linear equations, E π (1 − p x − q) x = 0 and g₀·n₀ = 0."""
    w = asymptotic_weights(
        ContrastChoiceLearner(teaching="heterogeneous", inverse_temperature=0.0)
    ).products
    # Left trials have x = 1, ½: (1 + ½) = p (1 + ¼) + q (1 + ½); constant: 5/2 = p (1 + ½) + 5 q.
    p, q = np.linalg.solve([[1.25, 1.5], [1.5, 5.0]], [1.5, 2.5])
    np.testing.assert_allclose(w, [[p, 0, q], [0, p, q]], atol=1e-12)


def test_only_deep_heterogeneous_animals_have_it():
    with pytest.raises(ValueError, match="never rest, got 'deep' and 'total'"):
        asymptotic_weights(ContrastChoiceLearner())
