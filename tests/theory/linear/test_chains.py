"""Test chains of any depth: closed forms, integration, limits, printed numbers, gradients."""

import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from festina.theory.linear import (
    _chain_clock,
    chain_strength,
    depth_scaled_time_constant,
    learning_time,
    unbalanced_strength,
    unbalanced_weights,
)
from helpers import untyped

DEPTHS = (1, 2, 3, 7, math.inf)

clock, position = jax.jit(_chain_clock.clock), jax.jit(_chain_clock.position)

STRENGTHS = [
    # depth, s, λ, a₀, t, τ, a(t); integrated at rtol 1e-10 to 1e-12
    (1, 2, 0.5, 0.05, 3, 1, 3.118635867),
    (2, 2, 0.5, 0.05, 1, 1, 1.634697786),
    (2, 0.7, 3, 0.01, 4, 2.5, 0.069083130),
    (3, 1, 1, 0.125, 1.5, 1, 0.776616346),
    (4, 2, 0.5, 0.0625, 1, 1, 2.951902132),
    (5, 1.5, 0.8, 0.03125, 2, 1, 1.750516832),
    (8, 1.0, 1.0, 0.00390625, 11.0, 1, 0.819579889),
    (16, 2, 0.5, 0.02814749767, 0.5, 1, 0.082220625),
    (math.inf, 1, 1, 0.05, 20.0, 1, 0.396281778),
    (math.inf, 1.5, 0.8, 0.05, 13.0, 1, 0.523003427),
    (math.inf, 2, 0.5, 0.001, 500.0, 1, 0.608325222),
    (math.inf, 1, 1, 0.0001, 9999.0, 1, 0.121480731),
    (math.inf, 2, 0.5, 12.0, 0.02, 1, 7.459542992),
    (math.inf, 1, 1, -0.4, 5.0, 1, -0.117669821),
]

TIMES = [
    (1, 2.87154686),
    (2, 2.47521861),
    (3, 3.06843801),
    (4, 3.50159224),
    (8, 3.68782822),
    (32, 1.7287031),
    (math.inf, 68.91183812),
]


def speed(a, depth, s, lam, tau):
    layers = 1.0 if math.isinf(depth) else depth
    return layers * np.abs(a) ** (2 - 2 / depth) * (s - lam * a) / tau


def integrated(times, depth, s, lam, a0, tau):
    run = scipy.integrate.solve_ivp(
        lambda _, a: speed(a, depth, s, lam, tau),
        (0.0, times[-1]),
        [a0],
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-14 * abs(a0),
    )
    assert run.success
    return run.y[0]


# ---- the curve ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "s", "lam", "a0", "t", "tau", "expected"), STRENGTHS)
def test_strengths_that_were_integrated_beforehand(depth, s, lam, a0, t, tau, expected):
    a = chain_strength([t], s, a0, depth=depth, input_variance=lam, tau=tau)
    assert a == pytest.approx(expected, abs=1e-9)


@hypothesis_settings(max_examples=60)
@given(
    depth=st.sampled_from((1, 2, 3, 4, 5, 8, 16, math.inf)),
    s=st.floats(0.3, 3.0),
    lam=st.floats(0.3, 3.0),
    start=st.one_of(st.floats(0.02, 0.98), st.floats(1.02, 4.0), st.floats(-2.0, -0.05)),
    tau=st.floats(0.3, 3.0),
    progress=st.floats(0.05, 6.0),
    mirror=st.booleans(),
)
def test_curves_are_those_of_the_differential_equation(depth, s, lam, start, tau, progress, mirror):
    a0 = start * s / lam
    # Long enough to contain the transition for all parameters
    t = progress * abs(a0) / abs(speed(a0, depth, s, lam, tau))
    times = np.array([0.3, 0.7, 1.0]) * t
    if mirror:
        s, a0 = -s, -a0
    a = chain_strength(times, s, a0, depth=depth, input_variance=lam, tau=tau)
    expected = integrated(times, depth, s, lam, a0, tau)
    assert np.allclose(a, expected, rtol=1e-8, atol=1e-10 * abs(a0))


@pytest.mark.parametrize("depth", DEPTHS)
def test_begins_at_the_start_and_ends_at_the_fixed_point(depth):
    s, lam = np.array([2.0, 2.0, 2.0, -2.0, 2.0]), np.full(5, 0.5)
    a0 = np.array([1e-3, 30.0, -0.7, -0.1, 4.0])
    a = chain_strength([0.0, 1e6, 1e300], s, a0, depth=depth, input_variance=lam)
    assert a.shape == (3, 5)
    assert np.allclose(a[0], a0, rtol=4e-15, atol=0)
    end = np.array([4.0, 4.0, 4.0 if depth == 1 else 0.0, -4.0, 4.0])
    assert np.allclose(a[1], end, rtol=1e-14, atol=1e-2 if depth > 1 else 0)
    assert np.allclose(a[2], end, rtol=1e-14, atol=1e-140 if depth > 1 else 0)
    assert np.all(a[:, 4] == 4.0)


@pytest.mark.parametrize("depth", [2, 3, 9, math.inf])
def test_tiny_starts_take_their_time_and_then_learn(depth):
    """Test times and strengths for initial strengths down to 1e-300."""
    for a0 in (1e-8, 1e-100, 1e-300):
        a = chain_strength([0.0, 1e-3, 1e6], 1.0, a0, depth=depth)
        assert np.isfinite(a).all()
        assert a[0] == pytest.approx(a0, rel=1e-14, abs=0)
        assert a[1] == pytest.approx(a0 * (math.exp(2e-3) if depth == 2 else 1), rel=0.1, abs=0)
        half = float(learning_time(1.0, a0, depth=depth, fraction=0.5))
        # Before the transition the strength depends on the initial strength.
        early = chain_strength([0.5 * half], 1.0, a0, depth=depth)[0]
        q = 1 - 2 / depth
        expected = a0 * (0.5**-1) ** (1 / q) if q else math.sqrt(a0)
        assert early == pytest.approx(expected, rel=1e-2 if a0 == 1e-8 else 1e-6, abs=0)


@pytest.mark.parametrize("a0", [0.05, 0.6, 1.0, 2.5, 100.0])
@pytest.mark.parametrize("s", [0.4, 1.7])
def test_infinite_depth_is_lamberts_function(a0, s):
    lam, times = 0.8, np.array([0.0, 0.1, 1.0, 5.0, 20.0])
    u = s / (lam * a0) - 1
    w = scipy.special.lambertw(u * np.exp(u - s**2 * times / lam)).real
    a = chain_strength(times, s, a0, depth=math.inf, input_variance=lam)
    assert np.allclose(a, s / lam / (1 + w), rtol=1e-12)
    # A negative strength is on the other branch of Lambert's W.
    u = -s / (lam * a0) - 1
    w = scipy.special.lambertw(u * np.exp(u - s**2 * times / lam), -1).real
    a = chain_strength(times, s, -a0, depth=math.inf, input_variance=lam)
    assert np.allclose(a, s / lam / (1 + w), rtol=1e-11)


def test_infinite_depth_where_the_literal_formula_overflows():
    a0, times = 1e-6, np.array([0.0, 5e5, 999_999.0, 1_000_010.0, 1_000_100.0])
    u = 1 / a0 - 1
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(u))
    omega = scipy.special.wrightomega(np.log(u) + u - times)
    a = chain_strength(times, 1.0, a0, depth=math.inf)
    assert np.allclose(a, 1 / (1 + omega.real), rtol=1e-8)


def test_finite_depth_tends_to_infinite_depth_at_the_rate_of_one_over_depth():
    """Depths share the clock τ/D; the difference grows with ln(1/a₀)."""
    shifts = []
    for a0 in (1e-2, 1e-4):
        limit = learning_time(1.0, a0, depth=math.inf, fraction=0.5)
        depths = np.array([1e3, 1e4, 1e5])
        times = [
            learning_time(1.0, a0, depth=d, fraction=0.5, tau=depth_scaled_time_constant(d))
            for d in depths
        ]
        shift = np.array(times) / limit - 1
        assert np.allclose(np.diff(np.log10(np.abs(shift))), -1.0, atol=0.02)
        shifts.append(shift[-1] * depths[-1] / math.log(1 / a0))
    assert shifts[1] == pytest.approx(-2.0, rel=0.15)
    assert shifts[0] == pytest.approx(shifts[1], rel=0.25)
    a = chain_strength([20.0], 1.0, 0.05, depth=10**7, tau=depth_scaled_time_constant(10**7))
    assert a == pytest.approx(0.396281778, abs=1e-6)
    assert depth_scaled_time_constant(math.inf, 3.0) == 3.0


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("a0", [0.7, -0.7])
def test_without_a_correlation_the_strength_decays(depth, a0):
    times = np.array([0.0, 0.5, 1.0, 3.0, 10.0])
    a = chain_strength(times, 0.0, a0, depth=depth, input_variance=1.3, tau=0.9)
    expected = integrated(np.append(0.0, times[1:]), depth, 0.0, 1.3, a0, 0.9)
    assert np.allclose(a, expected, rtol=1e-9)
    # The strength is continuous at s = 0, with the correct slope in s.
    near = [
        chain_strength(times, s, a0, depth=depth, input_variance=1.3, tau=0.9)
        for s in (-1e-6, 1e-6)
    ]
    with jax.enable_x64(True):
        slope = jax.jacfwd(
            lambda s: chain_strength(times, s, a0, depth=depth, input_variance=1.3, tau=0.9)
        )(0.0)
    assert np.allclose(slope, (near[1] - near[0]) / 2e-6, atol=1e-6)


@pytest.mark.parametrize("depth", DEPTHS[1:])
def test_zero_is_a_saddle_from_two_layers_on(depth):
    assert np.all(chain_strength([0.0, 1.0, 1e9], 2.0, 0.0, depth=depth) == 0.0)


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_input_that_does_not_vary_teaches_nothing(depth):
    lam = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    a = chain_strength([0.0, 5.0, 6.0], lam, np.full(5, 0.3), depth=depth, input_variance=lam)
    assert np.allclose(a[:, lam == 0], 0.3, rtol=1e-15)
    assert (a[1:, lam == 1] > 0.3).all()
    with pytest.raises(ValueError, match="correlated with nothing"):
        chain_strength([1.0], 1.0, 0.3, depth=depth, input_variance=0.0)


# ---- the integral -------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [3, 4, 5, 12, 1000])
def test_clock_is_the_hypergeometric_function(double, depth):
    q = 2 / depth - 1
    x = np.array([1e-6, 0.01, 0.499, 0.501, 0.9, 1 - 1e-8])
    f = x**q / q * scipy.special.hyp2f1(1, q, q + 1, x)
    t = clock(x, np.zeros(6, bool), jnp.array(1 / depth))
    assert np.allclose(np.diff(t), np.diff(f), rtol=2e-12 if depth < 100 else 1e-11)


@pytest.mark.parametrize("depth", [2, 3, 5, 40, math.inf])
def test_clock_is_the_quadrature_and_position_its_inverse(double, depth):
    start = np.array([0.001, 0.3, 40.0, 5.0, 30.0, 0.9])
    end = np.array([0.4, 0.9999, 1.7, 1.0001, 0.8, 0.004])
    creeping = np.array([False, False, False, False, True, True])
    p, arguments = 2 - 2 / depth, (creeping, jnp.array(1 / depth))
    time = [
        scipy.integrate.quad(
            lambda x, creeps: x**-p / (-1 - x if creeps else 1 - x),
            *each[:2],
            args=each[2:],
            epsrel=1e-13,
            limit=400,
        )[0]
        for each in zip(start, end, creeping, strict=True)
    ]
    elapsed = clock(end, *arguments) - clock(start, *arguments)
    assert np.allclose(elapsed, time, rtol=1e-11, atol=0)
    if depth > 2:
        x, distance = position(elapsed, start, *arguments)
        # The speed at the end magnifies the last digit of the time.
        slack = 1e-15 * (1 + end ** (p - 1) * start ** (1 - p))
        assert np.all(np.abs(x / end - 1) <= 20 * slack)
        gap = np.where(creeping, 1 + end, np.abs(1 - end))
        assert np.allclose(distance, np.log(gap), rtol=1e-10, atol=0)


@pytest.mark.parametrize("depth", [3, 11, math.inf])
def test_position_near_the_target_keeps_the_distance(double, depth):
    """d ln|1 − x|/dT → −1, far below the last digit of x."""
    time, start = np.tile([40.0, 400.0, 690.0], 2), np.repeat([0.3, 3.0], 3)
    x, distance = position(time, start, np.zeros(6, bool), jnp.array(1 / depth))
    assert np.all(x == 1.0)
    # The constant is also correct: the linear law is exact to rounding at the first time.
    slope = np.diff(distance.reshape(2, 3), axis=1)
    assert np.allclose(slope, -np.diff(time.reshape(2, 3), axis=1), rtol=1e-14)


# ---- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "expected"), TIMES)
def test_times_that_were_integrated_beforehand(depth, expected):
    time = learning_time(1.5, 0.01, depth=depth, fraction=0.9, input_variance=0.8)
    assert time == pytest.approx(expected, rel=1e-8)
    assert time == learning_time(1.5, 0.01, depth=depth, input_variance=0.8)


@hypothesis_settings(max_examples=60)
@given(
    depth=st.sampled_from(DEPTHS),
    s=st.floats(0.1, 5.0),
    lam=st.floats(0.1, 5.0),
    ends=st.one_of(
        st.tuples(st.floats(1e-3, 0.4), st.floats(0.5, 0.999)),
        st.tuples(st.floats(2.0, 9.0), st.floats(1.001, 1.9)),
        st.tuples(st.floats(-9.0, -1.0), st.floats(-0.9, -0.01)),
    ),
    sign=st.sampled_from((-1.0, 1.0)),
)
def test_the_curve_is_at_the_strength_at_the_time(depth, s, lam, ends, sign):
    a0, a = (sign * end * s / lam for end in ends)
    time = learning_time(sign * s, a0, depth=depth, strength=a, input_variance=lam, tau=0.7)
    curve = chain_strength([time], sign * s, a0, depth=depth, input_variance=lam, tau=0.7)
    assert curve == pytest.approx(a, rel=1e-11)


def test_closed_forms_of_the_times():
    s, lam, a0, a = 1.5, 0.8, 0.02, 1.7
    ell = math.log(a * (s - lam * a0) / (a0 * (s - lam * a)))
    closed = {
        1: math.log((s - lam * a0) / (s - lam * a)) / lam,
        2: ell / (2 * s),
        math.inf: lam / s**2 * ell + 1 / (s * a0) - 1 / (s * a),
    }
    for depth, expected in closed.items():
        time = learning_time(s, a0, depth=depth, strength=a, input_variance=lam)
        assert time == pytest.approx(expected, rel=1e-13)
    # Without a correlation |a|^−p grows linearly.
    time = learning_time(0.0, 0.5, depth=4, strength=0.1)
    assert time == pytest.approx((0.1**-1.5 - 0.5**-1.5) / (1.5 * 4), rel=1e-14)


def test_infinite_and_zero_times_in_sweeps():
    a0 = np.array([0.0, -0.1, 2.0, 0.95, 0.1])
    times = learning_time(1.0, a0, depth=3, never="infinite")
    assert np.array_equal(np.isinf(times), [True, True, True, False, False])
    assert times[3] == 0.0
    assert times[4] == learning_time(1.0, 0.1, depth=3)
    times = learning_time([1.0, 0.0], a0[:2, None], depth=1, never="infinite")
    assert np.array_equal(np.isinf(times), [[False, True], [False, True]])


@hypothesis_settings(max_examples=30, deadline=None)
@given(
    depth=st.sampled_from([1, 2, 3, 7, math.inf]),
    target=st.floats(0.1, 10.0),
    part=st.floats(-2.0, 0.99),
)
def test_a_chain_at_its_target_is_learned_from_the_start(depth, target, part):
    """A chain between its target and the requested strength has also learned from the start."""
    arguments = {"depth": depth, "never": "infinite"}
    assert learning_time(target, target, **arguments) == 0.0
    assert learning_time(-target, -target, **arguments) == 0.0
    goal = part * target
    start = target * np.array([1.0, 0.5 * (1.0 + max(part, 0.0))])
    assert np.array_equal(learning_time(target, start, strength=goal, **arguments), [0.0, 0.0])
    assert learning_time(target, target, depth=depth, strength=target) == 0.0


@pytest.mark.parametrize(
    "depth", [*(pytest.param(depth, marks=pytest.mark.slow) for depth in (1, 2, math.inf)), 3]
)
def test_one_time_has_no_axis(depth):
    for s in (1.5, [1.5, 0.5]):
        one = chain_strength(0.7, s, 0.1, depth=depth)
        assert one.shape == np.shape(s)
        assert np.allclose(one, chain_strength([0.7], s, 0.1, depth=depth)[0], rtol=1e-14)
    one = unbalanced_strength(0.7, [0.1, 0.3], 0.2, 1.0)
    assert np.allclose(one, unbalanced_strength([0.7], [0.1, 0.3], 0.2, 1.0)[0], rtol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial_strength": 0.0}, "stays there and never learns"),
        ({"initial_strength": -0.1}, "approaches the saddle at zero and never learns"),
        ({"initial_strength": 2.0}, "past the target 1: the chain shrinks"),
        ({"initial_strength": 2.0, "depth": 1}, "past the target 1: the chain shrinks"),
        ({"initial_strength": 0.95}, "learned from the start"),
        ({"correlation": 0.0}, "nothing to learn"),
        ({"correlation": [1.0, 0.0]}, "nothing to learn"),
        ({"strength": 1.2}, "never reached: the chain ends at 1"),
        ({"strength": 0.9, "initial_strength": -0.1}, "sign opposite"),
        ({"fraction": 1.0}, "`fraction` must be between 0 and 1"),
        ({"fraction": 0.5, "strength": 0.5}, "not both"),
        ({"never": "perhaps"}, "`never` must be"),
        ({"strength": math.nan}, "`strength` must be finite"),
        ({"correlation": np.ones(2), "fraction": [0.1, 0.2, 0.3]}, r"`fraction` must be.*\(3,\)"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_times_that_do_not_exist_say_why(arguments, message):
    arguments = {"correlation": 1.0, "initial_strength": 0.1, "depth": 3} | arguments
    with pytest.raises(ValueError, match=message):
        learning_time(**arguments)


# ---- two unequal layers -------------------------------------------------------------------------


def test_unbalanced_strengths_that_were_integrated_beforehand():
    a = unbalanced_strength([0.0, 1.0, 3.0], -0.5, 0.8, 1.2, input_variance=0.7)
    assert np.allclose(a, [-0.4, 0.227606667, 1.642659808], atol=1e-9)


@hypothesis_settings(max_examples=60)
@given(
    w1=st.floats(-2.0, 2.0),
    w2=st.floats(-2.0, 2.0),
    s=st.floats(-2.0, 2.0),
    lam=st.floats(0.2, 2.0),
    tau=st.floats(0.5, 2.0),
)
def test_unbalanced_weights_are_those_of_the_differential_equation(w1, w2, s, lam, tau):
    times = np.array([0.0, 0.2, 1.0, 3.0])

    def rhs(_, w):
        drive = (s - lam * w[0] * w[1]) / tau
        return [w[1] * drive, w[0] * drive]

    run = scipy.integrate.solve_ivp(
        rhs, (0, 3), [w1, w2], method="DOP853", t_eval=times, rtol=1e-12, atol=1e-14
    )
    first, second = unbalanced_weights(times, w1, w2, s, input_variance=lam, tau=tau)
    scale = np.abs(run.y).max()
    assert np.allclose([first, second], run.y, rtol=0, atol=1e-9 * max(scale, 1e-3))
    assert np.allclose(second**2 - first**2, w2**2 - w1**2, rtol=0, atol=1e-13 * scale**2)


def test_unbalanced_solution_is_that_of_the_angle():
    """In y = e^{arcsinh(2a/|c|)} the flow is (y₊ − y)/(y − y₋) ∝ e^{−κt/τ}."""
    w1, w2, s, lam = -0.5, 0.8, 1.2, 0.7
    c = w2**2 - w1**2
    kappa = math.sqrt(4 * s**2 + lam**2 * c**2)
    y = np.exp(np.arcsinh(2 * unbalanced_strength([0, 1, 2.5], w1, w2, s, input_variance=lam) / c))
    high, low = (2 * s + kappa) / (lam * c), (2 * s - kappa) / (lam * c)
    ratio = (high - y) / (y - low)
    assert np.allclose(ratio / ratio[0], np.exp(-kappa * np.array([0, 1, 2.5])), rtol=1e-12)


def test_equal_layers_are_the_balanced_chain_and_nearly_equal_ones_tend_to_it():
    times = np.linspace(0.0, 8.0, 9)
    for b, sign in ((0.1, 1.0), (2.0, 1.0), (0.6, -1.0)):
        balanced = chain_strength(times, 1.3, sign * b**2, depth=2, input_variance=0.9)
        equal = unbalanced_strength(times, sign * b, b, 1.3, input_variance=0.9)
        assert np.allclose(equal, balanced, rtol=1e-13)
        if sign > 0:
            departure = [
                np.abs(
                    unbalanced_strength(times, b - d, b + d, 1.3, input_variance=0.9) - balanced
                ).max()
                for d in (1e-2, 1e-3)
            ]
            assert math.log10(departure[0] / departure[1]) == pytest.approx(2.0, abs=0.05)


def test_unbalanced_chain_passes_zero_after_a_logarithm_of_the_imbalance():
    """For w₁ = −b, w₂ = b + ε, P = ε/2 first grows as e^{(s+λb²)t}, so t₀ is affine in ln 1/ε."""
    crossings = []
    for eps in (1e-6, 1e-8, 1e-10, 1e-12):
        low, high = 0.0, 60.0
        for _ in range(80):
            middle = 0.5 * (low + high)
            a = unbalanced_strength([middle], -0.5, 0.5 + eps, 1.0)[0]
            low, high = (middle, high) if a < 0 else (low, middle)
        crossings.append(low)
    # For small strength M = b e^{−t} and P e^{t}, so they meet later by half a logarithm.
    assert np.allclose(np.diff(crossings), 0.5 * math.log(100.0), rtol=1e-3)


def test_very_unequal_layers_learn_exponentially_and_lose_no_digits():
    w1, w2 = 1e-8, 1e8
    t = np.array([0.0, 0.5, 1.0, 5.0]) / w2**2
    a = unbalanced_strength(t, w1, w2, 3.0)
    assert np.allclose(a, 3.0 + (1.0 - 3.0) * np.exp(-t * w2**2), rtol=1e-13)
    first, second = unbalanced_weights(t, w2, w1, 3.0)
    assert np.allclose(first * second, a, rtol=1e-15)
    assert np.allclose(first, w2, rtol=1e-13)


@pytest.mark.parametrize("s", [1.0, 0.0, -1.0])
@pytest.mark.parametrize("weights", [(0.0, 0.0), (0.5, 0.0), (0.4, 0.4), (-0.4, 0.4), (3.0, -0.1)])
def test_unbalanced_edges_are_finite_with_finite_derivatives(double, weights, s):
    times = np.array([0.0, 1.0, 1e6, 1e300])
    a = unbalanced_strength(times, weights[0], weights[1], s)
    assert np.isfinite(a).all()
    stuck = weights == (0.0, 0.0) or (s * weights[0] * weights[1] < 0 and abs(weights[0]) == 0.4)
    assert a[-1] == pytest.approx(0.0 if stuck else s, abs=1e-12)
    value = lambda w1, w2, s: unbalanced_strength(times[1:2], w1, w2, s)[0]
    slopes = jax.grad(value, argnums=(0, 1, 2))(*weights, s)
    point = np.array([*weights, s])
    for k, slope in enumerate(slopes):
        step = 1e-5 * np.eye(3)[k]
        assert slope == pytest.approx(
            (value(*point + step) - value(*point - step)) / 2e-5, abs=1e-8
        )


# ---- derivatives and transformations ------------------------------------------------------------


def central(function, point, k, h):
    step = h * point[k] * np.eye(len(point))[k]
    wide = (function(*point + 2 * step) - function(*point - 2 * step)) / (4 * h * point[k])
    narrow = (function(*point + step) - function(*point - step)) / (2 * h * point[k])
    return (4 * narrow - wide) / 3


@pytest.mark.parametrize("depth", [1, 2, pytest.param(5, marks=pytest.mark.slow), math.inf])
@pytest.mark.parametrize("ends", [(0.05, 1.4), (0.9, 1.2), (6.0, 2.2), (-0.8, -0.3)])
def test_derivatives_of_times_and_curves_are_finite_differences(double, depth, ends):
    point = np.array([1.5, ends[0], 0.8, 1.3])  # s, a₀, λ, τ

    def time(s, a0, lam, tau):
        return learning_time(s, a0, depth=depth, strength=ends[1], input_variance=lam, tau=tau)

    halfway = 0.5 * float(time(*point))

    def strength(s, a0, lam, tau):
        return chain_strength([halfway], s, a0, depth=depth, input_variance=lam, tau=tau)[0]

    for function in (time, strength):
        slopes = jax.grad(function, argnums=(0, 1, 2, 3))(*point)
        for k, slope in enumerate(slopes):
            assert slope == pytest.approx(central(function, point, k, 1e-3), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3, math.inf])
def test_second_derivatives(double, depth):
    slope = jax.jit(jax.grad(lambda a0: chain_strength([0.8], 1.0, a0, depth=depth)[0]))
    curvature = jax.jit(jax.grad(slope))
    for a0 in (0.2, 2.0, -0.5):
        difference = (slope(a0 + 1e-4) - slope(a0 - 1e-4)) / 2e-4
        assert float(curvature(a0)) == pytest.approx(float(difference), rel=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3, pytest.param(7, marks=pytest.mark.slow), math.inf])
def test_derivatives_at_the_fixed_points(double, depth):
    """Deviations from the target decay at the rate D λ (s/λ)^{2−2/D}; deviations from zero grow."""
    s, lam, t = 1.5, 0.8, 0.6
    slope = jax.jit(
        jax.grad(lambda a0: chain_strength([t], s, a0, depth=depth, input_variance=lam)[0])
    )
    layers = 1 if math.isinf(depth) else depth
    target = s / lam
    decay = math.exp(-layers * lam * target ** (2 - 2 / depth) * t)
    assert slope(target) == pytest.approx(decay, rel=1e-12)
    assert slope(target * (1 + 1e-9)) == pytest.approx(decay, rel=1e-6)
    at_zero = {1: math.exp(-lam * t), 2: math.exp(2 * s * t)}.get(depth, 1.0)
    assert slope(0.0) == pytest.approx(at_zero, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 7])  # deeper chains run the same program
def test_under_jit_and_vmap(double, depth):
    times, a0 = np.array([0.1, 1.0, 3.0]), np.array([0.1, 0.5, 3.0, -0.2, 0.0])
    whole = chain_strength(times, np.full(5, 1.2), a0, depth=depth, input_variance=np.ones(5))
    curve = lambda a0: chain_strength(times, 1.2, a0, depth=depth)
    assert np.allclose(jax.jit(curve)(a0), whole, rtol=1e-13)
    assert np.allclose(jax.jit(jax.vmap(curve, out_axes=1))(a0), whole, rtol=1e-13)
    wait = lambda a0: learning_time(1.2, a0, depth=depth)
    expected = learning_time(1.2, a0, depth=depth, never="infinite")
    assert np.allclose(jax.jit(jax.vmap(wait))(a0), expected, rtol=1e-13)
    slopes = jax.jit(jax.vmap(jax.grad(wait)))(jnp.asarray(a0))
    assert np.isfinite(slopes).all()


def test_float64_whatever_the_setting_of_the_user():
    assert chain_strength([1.0], 1.0, 0.1, depth=3).dtype == np.float64
    assert learning_time(1.0, 0.1, depth=3).dtype == np.float64
    assert not untyped(jax.config).jax_enable_x64


def test_other_values_and_other_depths_compile_nothing_anew(caplog):
    times = np.linspace(0.0, 3.0, 5)

    def all_of_it(s, a0, depth):
        chain_strength(times, s, a0, depth=depth)
        learning_time(s, a0, depth=depth)
        unbalanced_strength(times[:4], a0, 0.3, s)

    all_of_it(1.0, 0.1, 3)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        all_of_it(1.7, 0.2, 3)
        all_of_it(0.4, 0.01, 9)
        all_of_it(1.1, 0.01, math.inf)
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        chain_strength(np.linspace(0.0, 1.0, 13), 1.0, 0.1, depth=3)
    assert [record for record in caplog.records if "Compiling" in record.getMessage()]


# ---- equations printed on the slides ------------------------------------------------------------


def test_erratum_1_the_shallow_rate_is_the_input_variance():
    s, lam, a0, times = 2.0, 0.5, 0.05, np.linspace(0.0, 8.0, 41)
    expected = integrated(times, 1, s, lam, a0, 1.0)
    printed = s / lam * (1 - np.exp(-times)) + a0 * np.exp(-times)
    assert np.abs(printed - expected).max() == pytest.approx(0.99, abs=0.01)
    assert np.allclose(chain_strength(times, s, a0, depth=1, input_variance=lam), expected)


def test_erratum_2_the_deep_rate_and_the_deep_clock():
    times = np.array([0.0, 7.0, 14.0, 18.0, 30.0])

    def printed(s, lam, a0, t):
        u = s / (lam * a0) - 1
        return s / lam / (1 + scipy.special.lambertw(u * np.exp(u - t)).real)

    a = chain_strength(times, 1.5, 0.05, depth=math.inf, input_variance=0.8)
    assert np.allclose(a, integrated(times, math.inf, 1.5, 0.8, 0.05, 1.0), rtol=1e-8)
    assert np.abs(printed(1.5, 0.8, 0.05, times) - a).max() > 1.0
    # The printed equation is correct for s² = λ.
    a = chain_strength(times, 0.8, 0.05, depth=math.inf, input_variance=0.64)
    assert np.allclose(printed(0.8, 0.64, 0.05, times), a, rtol=1e-10)
    # Its clock is τ/D: with τ = 1, a deep chain is already at its target.
    deep = chain_strength(times[1:2], 0.8, 0.05, depth=1000, input_variance=0.64)
    assert deep == pytest.approx(0.8 / 0.64, rel=1e-12)
    scaled = chain_strength(times, 0.8, 0.05, depth=10**6, input_variance=0.64, tau=1e6)
    assert np.allclose(scaled, a, rtol=1e-3)


# ---- bad arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 0}, "`depth` must be the number of layers"),
        ({"depth": -2}, "`depth` must be the number of layers"),
        ({"depth": -math.inf}, "`depth` must be the number of layers"),
        ({"depth": 2.5}, "`depth` must be the number of layers"),
        ({"depth": math.nan}, "`depth` must be the number of layers"),
        ({"times": [-1.0]}, "`times` must not be negative"),
        ({"times": [[1.0]]}, "`times` must be a number or a list"),
        (
            {"times": np.ma.array([1.0, 2.0], mask=[False, True])},
            "without masked values, but 1 of",
        ),
        ({"correlation": 1.0 + 1.0j}, "`correlation` must be real"),
        ({"initial_strength": np.array([0.1j])}, "`initial_strength` must be real"),
        ({"initial_strength": 5e-324}, "zero or above 2.23e-308 in size, got 4.94e-324"),
        ({"times": [math.nan]}, "`times` must be finite"),
        ({"correlation": math.nan}, "`correlation` must be finite"),
        ({"initial_strength": [0.1, math.inf]}, "`initial_strength` must be finite"),
        ({"input_variance": -1.0}, "`input_variance` must not be negative"),
        ({"input_variance": 0.0}, "correlated with nothing"),
        ({"initial_strength": 1e200}, "`initial_strength` must be below 1e\\+100"),
        ({"tau": 0.0}, "`tau` must be positive"),
        ({"tau": -1.0}, "`tau` must be positive"),
        ({"correlation": [1.0, 2.0], "initial_strength": [0.1] * 3}, "one value for each mode"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_bad_arguments(change, message):
    arguments = {
        "times": [1.0],
        "correlation": 1.0,
        "initial_strength": 0.1,
        "depth": 3,
    } | change
    with pytest.raises(ValueError, match=message):
        chain_strength(**arguments)
    if "times" not in change:
        del arguments["times"]
        with pytest.raises(ValueError, match=message):
            learning_time(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": math.nan}, "`first` must be finite"),
        ({"second": math.inf}, "`second` must be finite"),
        ({"correlation": math.nan}, "`correlation` must be finite"),
        ({"times": [-1.0]}, "`times` must not be negative"),
        ({"input_variance": 0.0}, "correlated with nothing"),
        ({"tau": 0.0}, "`tau` must be positive"),
        ({"first": 1e155}, r"`first` must be below 1e\+100 in size, got 1e\+155"),
        ({"first": np.ones(2), "second": np.ones(3)}, r"one value for each mode.*\(2,\), \(3,\)"),
    ],
)
def test_bad_arguments_of_unequal_layers(change, message):
    arguments = {"times": [1.0], "first": 0.1, "second": 0.2, "correlation": 1.0} | change
    with pytest.raises(ValueError, match=message):
        unbalanced_strength(**arguments)
