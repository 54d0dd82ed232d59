"""Test training time against depth: small weights, greedy pretraining and orthogonal layers."""

import math

import numpy as np
import pytest

from festina.theory.linear import (
    depth_scaled_time_constant,
    learning_time,
    learning_time_by_depth,
    pretrained_learning_time_by_depth,
    small_weight_law,
)


def test_small_weights_take_exponentially_long():
    depths = np.array([4, 6, 8, 10, 12])
    times = learning_time_by_depth(depths, 0.5, fraction=0.9)
    assert np.allclose(times, [9.0179, 26.4257, 88.7639, 324.3204, 1233.9599], rtol=1e-4)
    assert np.polyfit(depths, np.log(times), 1)[0] == pytest.approx(0.617, abs=1e-3)
    local = np.diff(np.log(learning_time_by_depth([60, 61, 200, 201], 0.5)))[::2]
    assert abs(local[1] - math.log(2)) < 0.2 * abs(local[0] - math.log(2))
    assert local[1] == pytest.approx(math.log(2), abs=1e-3)


def test_small_weights_take_time_in_proportion_to_one_over_the_correlation():
    s = np.array([1.0, 2.0, 4.0, 8.0])
    times = np.array([learning_time_by_depth([8], 0.5, correlation=s_k)[0] for s_k in s])
    assert np.allclose(times * s, [88.764, 87.468, 86.650, 86.140], rtol=1e-4)


@pytest.mark.parametrize("depth", [2, 3, 4, 8])
def test_small_weight_law_is_the_limit_of_the_exact_time(depth):
    """The deviation is a constant, a part b₀^(D−2) of the law for more than two layers."""
    b0 = np.array([0.04, 0.02, 0.01])
    law = small_weight_law(b0, depth=depth, correlation=1.3, tau=0.7)
    exact = learning_time(1.3, b0**depth, depth=depth, tau=0.7)
    departure = np.abs(exact / law - 1)
    assert np.all(np.diff(departure) < 0)
    if depth == 2:
        assert np.allclose(exact - law, exact[-1] - law[-1], atol=1e-3)
    else:
        order = np.diff(np.log(departure)) / np.diff(np.log(b0))
        assert np.allclose(order, depth - 2, atol=0.05)


def test_erratum_6_the_printed_law_has_the_rate_but_not_the_prefactor():
    b0, s = 0.5, 1.3
    for depth in (20, 40, 80):
        exact = learning_time_by_depth([depth], b0, correlation=s)[0]
        law = small_weight_law(
            b0, depth=depth, correlation=s, tau=depth_scaled_time_constant(depth)
        )
        assert law == pytest.approx(depth / (depth - 2) / (s * b0 ** (depth - 2)))
        assert exact == pytest.approx(law, rel=max(100 * depth * b0**depth, 1e-12))
        printed = 1 / (s * b0**depth)
        assert printed / exact == pytest.approx((depth - 2) / depth / b0**2, rel=1e-3)
        # The printed time is that of infinite depth for the same initial product.
        deep = learning_time(s, b0**depth, depth=math.inf)
        assert deep == pytest.approx(printed, rel=1e-3)


@pytest.mark.parametrize(
    ("module_depth", "expected"),
    [(2, [4.5951, 5.2920, 5.9861]), (4, [50.989, 200.993, 800.994])],
)
def test_greedy_modules(module_depth, expected):
    b0 = np.array([0.1, 0.05, 0.025])
    times = learning_time(1.0, b0**module_depth, depth=module_depth, fraction=0.99)
    assert np.allclose(times, expected, rtol=1e-4)


def test_erratum_7_greedy_training_is_linear_in_depth_and_logarithmic_in_the_weights():
    depths = np.array([4, 8, 16, 32])
    b0 = np.array([1e-2, 1e-3, 1e-4])
    two = np.array([pretrained_learning_time_by_depth(depths, b) for b in b0])
    four = np.array([pretrained_learning_time_by_depth(depths, b, module_depth=4) for b in b0])
    for times in (two, four):
        assert np.allclose(times / depths, times[:, :1] / depths[0], rtol=0.1)
    # Two layers take D ln(1/b₀); four layers take a time proportional to 1/b₀².
    assert np.allclose(np.diff(two, axis=0), depths * math.log(10.0), rtol=1e-3)
    assert np.allclose(four, depths / (2 * b0[:, None] ** 2), rtol=2e-3)
    assert np.all(two[-1] < 1e-3 * depths / b0[-1] ** 2)


def test_greedy_training_is_modules_and_tuning():
    depths = [3, 10]
    module = learning_time(1.0, 0.05**2, depth=2, fraction=0.99)
    start = np.sqrt(0.99) ** np.array(depths)
    tuning = [
        learning_time(2.0, a0, depth=d, fraction=0.9, tau=d)
        for d, a0 in zip(depths, start, strict=True)
    ]
    total = pretrained_learning_time_by_depth(depths, 0.05, correlation=2.0)
    assert np.allclose(total, np.array(depths) * module + tuning, rtol=1e-13)


def test_orthogonal_layers_take_a_bounded_time():
    depths = [2, 4, 8, 16, 64, 256, math.inf]
    times = learning_time_by_depth(depths, 1.0, correlation=2.0, fraction=0.99)
    expected = [2.2976, 1.7826, 1.5757, 1.4828, 1.4173, 1.4015, 1.3963]
    assert np.allclose(times, expected, rtol=1e-4)


def test_erratum_8_orthogonal_layers_depend_on_depth_unless_the_rate_is_scaled():
    """At a fixed learning rate the time falls as 1/D."""
    depths = np.array([64, 256, 1024])
    fixed = [learning_time(2.0, 1.0, depth=d, fraction=0.99) for d in depths]
    scaled = learning_time_by_depth(depths, 1.0, correlation=2.0, fraction=0.99)
    assert np.allclose(np.array(fixed) * depths, scaled, rtol=1e-13)
    assert np.allclose(np.diff(np.log(fixed)), -math.log(4), atol=0.02)
    assert np.ptp(scaled) / scaled[-1] < 0.02


def test_a_mode_weaker_than_the_layers_is_learned_from_above():
    time = learning_time_by_depth([4], 1.0, correlation=0.5, fraction=0.9)[0]
    assert time == pytest.approx(float(learning_time(0.5, 1.0, depth=4, strength=0.55, tau=4.0)))
    assert learning_time_by_depth([2, 9], 1.0, correlation=1.05)[0] == 0.0
    assert learning_time_by_depth([math.inf], 0.9)[0] == math.inf


@pytest.mark.parametrize("correlation", [0.5, 1.0, 1.02, 3.0])
def test_layers_at_or_above_their_target(correlation):
    """At the target the time is zero; above the target modules first come down to it."""
    assert np.array_equal(learning_time_by_depth([2, 4, 8], 1.0), [0.0, 0.0, 0.0])
    tuned = learning_time_by_depth([4], 1.0, correlation=correlation)
    assert np.array_equal(
        pretrained_learning_time_by_depth([4], 1.0, correlation=correlation), tuned
    )
    above = pretrained_learning_time_by_depth([4], 1.2, correlation=correlation)
    module = learning_time(1.0, 1.2**2, depth=2, strength=1.01)
    kept = learning_time_by_depth([4], 1.01**0.5, correlation=correlation)
    assert np.allclose(above, 4 * module + kept, rtol=1e-12)


def test_the_law_of_infinite_depth_is_the_limit_of_the_exact_time():
    a0 = np.array([1e-2, 1e-3, 1e-4])
    law = small_weight_law(depth=math.inf, initial_strength=a0, correlation=1.3, tau=0.7)
    exact = learning_time(1.3, a0, depth=math.inf, tau=0.7)
    departure = np.abs(exact / law - 1) / np.log(1 / a0)
    assert np.allclose(np.diff(np.log10(departure)), -1.0, atol=0.1)
    for depth in (2, 5):
        same = small_weight_law(0.1, depth=depth)
        assert small_weight_law(depth=depth, initial_strength=0.1**depth) == pytest.approx(same)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: learning_time_by_depth([0], 0.5), "`depth` must be the number of layers"),
        (lambda: learning_time_by_depth([4], 0.0), "`layer_strength` must be positive"),
        (
            lambda: learning_time_by_depth([3, 2000], 2.0),
            "`layer_strength` 2 to the power of the depth 2000",
        ),
        (
            lambda: learning_time_by_depth([math.inf], 1.5),
            "`layer_strength` 1.5 to the power of the depth",
        ),
        (
            lambda: learning_time_by_depth([4], 0.5, correlation=-1.0),
            "`correlation` must be positive",
        ),
        (
            lambda: learning_time_by_depth([4], 0.5, input_variance=0.0),
            "`input_variance` must be positive",
        ),
        (lambda: learning_time_by_depth([4], 0.5, fraction=1.0), "`fraction` must be between"),
        (lambda: pretrained_learning_time_by_depth([4], -0.5), "`layer_strength` must be positive"),
        (
            lambda: pretrained_learning_time_by_depth([4], 0.5, module_depth=0),
            "`depth` must be the number",
        ),
        (
            lambda: pretrained_learning_time_by_depth([4], 0.5, module_fraction=1.5),
            "`fraction` must be between",
        ),
        (lambda: small_weight_law(0.5, depth=1), "`depth` must be two or more"),
        (lambda: small_weight_law(0.5, depth=math.inf), "give `initial_strength`"),
        (lambda: small_weight_law(2.0, depth=2), "`layer_strength` must be below one, got 2"),
        (lambda: small_weight_law(0.5, depth=3, initial_strength=0.1), "Give either"),
        (lambda: small_weight_law(depth=3), "Give either"),
        (lambda: small_weight_law(0.0, depth=3), "`layer_strength` must be positive"),
    ],
)
def test_bad_arguments_of_depth(call, message):
    with pytest.raises(ValueError, match=message):
        call()
