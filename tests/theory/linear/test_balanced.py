"""Test the λ-balanced solution against integrated flows, limits and reference values."""

import numpy as np
import pytest
from balanced_weights import (
    balanced_weights,
    driving_matrix,
    generic_limit,
    gram,
    integrate,
    rotation,
    tabled,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import deep_linear_from
from festina.tasks import from_moments
from festina.theory.linear import balanced_flow, balanced_gram, balanced_solution_terms

# Shape, λ, W₂W₁ at t = 1.5 by rows, tr W₁ᵀW₁, tr W₂W₂ᵀ, kernel distances at t = 1.5 and at the end
TABLE = """
square -5 1.19980716,0.39979965,-0.29973259,0.79982290 10.44353924 0.44353924 0.00021648 0.000217
square -1 1.14935755,0.37016404,-0.25081416,0.73072746 3.22711819 1.22711819 0.00722801 0.006096
square 0 0.76626960,0.30694931,-0.00761931,0.31347572 1.12463477 1.12463477 0.05957048 0.037979
square 1 1.14935755,0.37016404,-0.25081416,0.73072746 1.22711819 3.22711819 0.00722801 0.006096
square 5 1.19980716,0.39979965,-0.29973259,0.79982290 0.44353924 10.44353924 0.00021648 0.000217
funnel -5 1.24633756,0.37585170,0.17494267,-0.36681346,0.83422609,-0.13142064 \
10.48786971 0.48786971 0.01652710 0.182596
funnel -1 1.18446368,0.33425315,0.29038470,-0.30764567,0.76284001,-0.27431084 \
3.35509181 1.35509181 0.06582521 0.148817
funnel 0 0.77621746,0.23480635,0.22112699,-0.06762038,0.29976618,-0.18157328 \
1.19680485 1.19680485 0.10968354 0.101453
funnel 1 1.15965680,0.35486235,0.47302298,-0.26872148,0.73050236,-0.56088642 \
1.46261402 3.46261402 0.01863306 0.018490
funnel 5 1.19982787,0.39975233,0.49987592,-0.29976397,0.79977037,-0.59985229 \
0.55368869 10.55368869 0.00054534 0.000546
inverted -5 1.19982787,-0.29976397,0.39975233,0.79977037,0.49987592,-0.59985229 \
10.55368869 0.55368869 0.00054534 0.000546
inverted -1 1.15965680,-0.26872148,0.35486235,0.73050236,0.47302298,-0.56088642 \
3.46261402 1.46261402 0.01863306 0.018490
inverted 0 0.77621746,-0.06762038,0.23480635,0.29976618,0.22112699,-0.18157328 \
1.19680485 1.19680485 0.10968354 0.101453
inverted 1 1.18446368,-0.30764567,0.33425315,0.76284001,0.29038470,-0.27431084 \
1.35509181 3.35509181 0.06582521 0.148817
inverted 5 1.24633756,-0.36681346,0.37585170,0.83422609,0.17494267,-0.13142064 \
0.48786971 10.48786971 0.01652710 0.182596
"""
ROWS = [line.split() for line in TABLE.replace("\\\n", "").strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}{row[1]}")
def test_reference_table(row):
    shape, lam = row[0], float(row[1])
    first, second, sigma = tabled(shape, lam)
    flow = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))
    state = flow([1.5])
    assert np.allclose(state.map[0].ravel(), [float(w) for w in row[2].split(",")], atol=1e-6)
    found = [np.trace(state.input_gram[0]), np.trace(state.output_gram[0])]
    found.append(state.kernel_distance()[0])
    assert np.allclose(found, [float(x) for x in row[3:6]], atol=1e-6)
    assert flow.limit().kernel_distance()[0] == pytest.approx(float(row[6]), abs=1e-6)
    assert np.allclose(gram(flow([4000.0]))[0], generic_limit(sigma, lam, 2), atol=1e-8)


@pytest.mark.parametrize("shape", ["square", "funnel", "inverted"])
@pytest.mark.parametrize(
    "lam", [-5.0, *(pytest.param(lam, marks=pytest.mark.slow) for lam in (-1.0, 0.0, 1.0, 5.0))]
)
def test_equation_15_needs_its_correction_where_sides_differ(shape, lam):
    first, second, sigma = tabled(shape, lam)
    times = [0.0, 0.7, 1.5]
    ours = gram(balanced_flow(deep_linear_from([first, second]), from_moments(sigma))(times))
    corrected = balanced_gram(times, first, second, sigma, balance=lam)
    printed = balanced_gram(times, first, second, sigma, balance=lam, as_printed=True)
    assert np.allclose(corrected, ours, atol=1e-12)
    off = np.abs(printed - ours).max()
    if shape == "square" or lam == 0:
        assert off < 1e-12
    else:
        assert off > 1e-6


# ---- against the integrated flow ----------------------------------------------------------------

SHAPES = [(1, 1, 1), (3, 3, 3), (5, 3, 2), (2, 4, 6), (6, 2, 4), (2, 6, 2)]
BALANCES = (0.0, 0.0, 1e-3, 0.5, 1.0, 4.0, 20.0)


@st.composite
def problems(draw):
    inputs, hidden, outputs = draw(st.sampled_from(SHAPES))
    lam = draw(st.sampled_from(BALANCES))
    signs = [s for s, room in ((1, outputs), (-1, inputs)) if hidden <= room]
    lam = draw(st.sampled_from(signs)) * lam if signs else 0.0
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rank = draw(st.integers(0, min(inputs, outputs)))
    s = np.zeros(min(inputs, outputs))
    s[:rank] = draw(st.sampled_from((0.3, 1.0, 3.0))) * rng.uniform(0.2, 1.0, rank)
    if draw(st.booleans()):
        s[:rank] = s[:1]  # equal singular values
    k = len(s)
    sigma = rotation(outputs, rng)[:, :k] * s @ rotation(inputs, rng)[:, :k].T
    scale = 10.0 ** draw(st.floats(-3.0, 0.5))
    first, second = balanced_weights(
        inputs, hidden, outputs, lam, scale * rng.uniform(0.2, 1.0, hidden), rng
    )
    last = draw(st.floats(0.1, 6.0)) / max(np.hypot(s.max(), lam / 2), 0.1)
    return first, second, sigma, lam, np.array([0.0, 0.3 * last, last])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The weights cannot reach")
@settings(max_examples=200)
@given(problem=problems())
def test_closed_form_is_the_flow(problem):
    first, second, sigma, lam, times = problem
    expected = integrate(first, second, sigma, times)
    found = gram(
        balanced_flow(deep_linear_from([first, second]), from_moments(sigma), balance=lam)(times)
    )
    assert np.abs(found - expected).max() <= 1e-8 * max(1.0, np.abs(expected).max())


@pytest.mark.slow
def test_large_balance_and_long_times_are_right():
    """In the lazy limit W − Σ falls as e^{−|λ|t}; if delayed rich, the gap s²/|λ| decides."""
    rng = np.random.default_rng(3)
    s = np.array([1.0, 0.7])
    lam = 1e3
    sigma = rotation(2, rng) * s @ rotation(3, rng)[:, :2].T
    first, second = balanced_weights(3, 2, 2, lam, [0.3, 0.2], rng)
    start = second @ first
    times = np.array([0.0, 1e-4, 1e-3, 3e-3])
    w = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))(times).map
    lazy = sigma + np.exp(-lam * times)[:, None, None] * (start - sigma)
    assert np.abs(w - lazy).max() < 2e-3  # O(s²/λ)
    # For one hidden unit, the ratio of two directions with large rates grows as e^{2 (f₁ − f₂) t}.
    s1, s2 = 1.0, 0.5
    sigma = np.diag([s1, s2])
    lam = 1e6
    first = np.array([[0.02, 0.01]])
    direction = np.array([0.6, 0.8])
    second = (np.sqrt(lam + np.sum(first**2)) * direction)[:, None]
    gap = s1**2 / (np.hypot(s1, lam / 2) + lam / 2) - s2**2 / (np.hypot(s2, lam / 2) + lam / 2)
    times = np.array([1.0, 2.0, 10.0]) / gap
    out = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))(times).output_gram
    growth = out[:, 0, 0] / out[:, 1, 1]
    expected = (0.6 / 0.8) ** 2 * np.exp(2 * gap * times)
    assert np.allclose(growth, expected, rtol=1e-6)  # the weights of `first` change it by O(1/√λ)²


@pytest.mark.slow
@pytest.mark.parametrize("lam", [0.0, 1e-3, -2.0, 1e3, -1e3])
@pytest.mark.parametrize("shape", [(4, 3, 4), (5, 3, 3), (3, 3, 5)])
def test_two_halves_make_a_whole_and_all_times_are_finite(shape, lam):
    rng = np.random.default_rng(7)
    inputs, hidden, outputs = shape
    sigma = rng.standard_normal((outputs, inputs))
    first, second = balanced_weights(inputs, hidden, outputs, lam, rng.uniform(0.1, 1, hidden), rng)
    flow = balanced_flow(deep_linear_from([first, second]), from_moments(sigma), balance=lam)
    times = np.array([0.0, 1e-3, 0.1, 1.0, 5.0, 30.0])
    whole = gram(flow(np.concatenate([2 * times, [1e6, 1e12, 1e300]])))
    assert np.isfinite(whole).all()
    assert np.array_equal(whole[-1], gram(flow.limit())[0])
    limit = generic_limit(sigma, lam, hidden)
    assert np.allclose(whole[-3:], limit, rtol=0, atol=1e-8 * max(1.0, abs(lam)))
    scale = np.abs(whole).max()
    # The number of times does not change, so the program is compiled once
    state = flow(np.concatenate([times, [1.0, 1.0, 1.0]]))
    for index, time in enumerate(times):
        half = state.inward[..., index].T, state.outward[..., index]
        again = balanced_flow(deep_linear_from(half), from_moments(sigma), balance=lam)(
            np.full(9, time)
        )
        assert np.abs(gram(again)[0] - whole[index]).max() < 1e-10 * scale
    # The balance is conserved: W₂ᵀW₂ − W₁W₁ᵀ = λI for the rotated units.
    up = np.einsum("out,ovt->tuv", state.outward, state.outward)
    down = np.einsum("iut,ivt->tuv", state.inward, state.inward)
    assert np.abs(up - down - lam * np.eye(hidden)).max() < 1e-10 * scale


def test_weights_from_tiny_to_huge():
    rng = np.random.default_rng(0)
    first, second = balanced_weights(3, 3, 3, 0.0, [1.0, 0.7, 0.4], rng)
    # With this sign the solution is not obstructed
    sigma = np.diag([3.0, 2.0, np.sign(np.linalg.det(second @ first))])
    for scale in (1e-150, 1e-30, 1e-3, 1e3, 1e6):
        flow = balanced_flow(deep_linear_from([scale * first, scale * second]), from_moments(sigma))
        assert not flow.obstructed
        assert np.allclose(flow([1e4]).map[0], sigma, atol=1e-9)
        start = scale**2 * second @ first
        assert np.allclose(flow([0.0]).map[0], start, rtol=1e-12, atol=1e-14 * scale**2)


def test_rate_of_escape_is_exact_for_tiny_weights():
    """Small strengths grow as a(t) = a₀ e^{2st}, over 180 powers of ten."""
    tiny = 1e-100
    flow = balanced_flow(deep_linear_from([[[tiny]], [[tiny]]]), from_moments([[2.0]]))
    time = np.log(1e90) / 2.0
    assert flow([time]).map[0, 0, 0] == pytest.approx(tiny**2 * 1e180, rel=1e-10)


# ---- other known solutions ----------------------------------------------------------------------


def test_square_networks_know_only_the_size_of_the_balance():
    rng = np.random.default_rng(5)
    w = rng.standard_normal((3, 3))
    u, s, vt = np.linalg.svd(w)
    sigma = rng.standard_normal((3, 3))
    times = np.array([0.1, 1.0, 4.0])
    maps = []
    for lam in (2.0, -2.0):
        large = np.sqrt((np.hypot(lam, 2 * s) + lam) / 2)
        flow = balanced_flow(
            deep_linear_from([(s / large)[:, None] * vt, u * large]), from_moments(sigma)
        )
        assert flow.balance == pytest.approx(lam)
        maps.append(flow(times).map)
    assert np.allclose(maps[0], maps[1], atol=1e-12)

    def root(m):  # the symmetric root √(m + λ²/4)
        f, v = np.linalg.eigh(m + np.eye(3))
        return v * np.sqrt(f) @ v.T

    h = 1e-5
    around = flow([1.0 - h, 1.0, 1.0 + h]).map
    w = around[1]
    expected = root(w @ w.T) @ (sigma - w) + (sigma - w) @ root(w.T @ w)
    assert np.allclose((around[2] - around[0]) / (2 * h), expected, atol=1e-8)


@pytest.mark.parametrize("lam", [0.0, 1.5, -1.5, 1e4, -1e4])
def test_closed_limits(lam):
    """For N_h = min, W₁ᵀW₁ → V(S_λ − λ/2)Vᵀ and W₂W₂ᵀ → U(S_λ + λ/2)Uᵀ."""
    rng = np.random.default_rng(2)
    sigma = rng.standard_normal((3, 5))
    u, s, vt = np.linalg.svd(sigma, full_matrices=False)
    first, second = balanced_weights(5, 3, 3, lam, [0.5, 0.4, 0.3], rng)
    limit = balanced_flow(
        deep_linear_from([first, second]), from_moments(sigma), balance=lam
    ).limit()
    root = np.hypot(s, lam / 2)
    scale = max(1.0, abs(lam))
    assert np.allclose(limit.map[0], sigma, atol=1e-10)
    assert np.allclose(limit.input_gram[0], vt.T * (root - lam / 2) @ vt, atol=1e-11 * scale)
    assert np.allclose(limit.output_gram[0], u * (root + lam / 2) @ u.T, atol=1e-11 * scale)
    if lam == 1e4:
        assert np.allclose(limit.input_gram[0], sigma.T @ sigma / lam, rtol=1e-6, atol=1e-9)
        assert np.allclose(limit.output_gram[0], lam * np.eye(3), atol=1e-2)
    if lam == -1e4:
        assert np.allclose(limit.output_gram[0], sigma @ sigma.T / -lam, rtol=1e-6, atol=1e-9)


def test_coinciding_singular_values_share_what_there_is():
    """With one unit and two equal modes, the map ends along its initial direction."""
    direction = np.array([0.6, 0.8])
    q = 0.1 * np.concatenate([direction, direction])
    rng = np.random.default_rng(0)
    u, v = rotation(2, rng), rotation(2, rng)
    first, second = (v @ q[:2])[None, :], (u @ q[2:])[:, None]
    limit = balanced_flow(deep_linear_from([first, second]), from_moments(1.7 * u @ v.T)).limit()
    expected = 1.7 * np.outer(u @ direction, v @ direction)
    assert np.allclose(limit.map[0], expected, atol=1e-12)


def obstructed_problem():
    rng = np.random.default_rng(0)
    s = np.linspace(2.0, 0.7, 4)
    sigma = rotation(4, rng) * s @ rotation(4, rng).T
    for seed in range(20):
        first, second = balanced_weights(4, 4, 4, 0.0, 0.1, np.random.default_rng(seed))
        if np.linalg.det(second @ first) * np.linalg.det(sigma) < 0:
            return first, second, sigma
    raise AssertionError


@pytest.mark.filterwarnings("ignore:The weights cannot reach")
def test_a_determinant_of_the_wrong_sign_leaves_the_weakest_mode_unlearned():
    first, second, sigma = obstructed_problem()
    flow = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))
    assert flow.obstructed
    assert flow([25.0]).loss()[0] == pytest.approx(0.245, abs=1e-3)
    assert flow.limit().loss()[0] == pytest.approx(0.7**2 / 2, abs=1e-9)
    # Rounding does not remove the obstruction
    assert np.allclose(flow([1e6]).loss(), 0.7**2 / 2, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The weights cannot reach")
def test_half_of_random_square_networks_are_obstructed_and_by_their_determinants():
    rng = np.random.default_rng(11)
    sigma = rng.standard_normal((3, 3))
    found, expected = [], []
    for _ in range(40):
        first, second = balanced_weights(3, 3, 3, 0.0, rng.uniform(0.01, 1.0, 3), rng)
        found.append(
            bool(balanced_flow(deep_linear_from([first, second]), from_moments(sigma)).obstructed)
        )
        expected.append(np.linalg.det(second @ first) * np.linalg.det(sigma) < 0)
    assert found == expected
    assert 5 < sum(found) < 35
    first, second = balanced_weights(3, 3, 3, 0.3, 0.5, rng)
    assert not balanced_flow(deep_linear_from([first, second]), from_moments(sigma)).obstructed
    assert balanced_flow(deep_linear_from([0 * first, 0 * second]), from_moments(sigma)).obstructed
    assert np.all(
        balanced_flow(deep_linear_from([0 * first, 0 * second]), from_moments(sigma))(
            [0.0, 5.0]
        ).map
        == 0
    )


@pytest.mark.slow
def test_many_hidden_units_and_many_modes():
    """Test more units than inputs and outputs, and a larger network."""
    rng = np.random.default_rng(9)
    times = np.array([0.0, 0.4, 1.5])
    for inputs, hidden, outputs, lam in ((3, 20, 4, 0.0), (12, 11, 14, 0.7)):
        sigma = rng.standard_normal((outputs, inputs)) / 2
        first, second = balanced_weights(inputs, hidden, outputs, lam, 0.4, rng)
        expected = integrate(first, second, sigma, times)
        assert np.allclose(
            gram(balanced_flow(deep_linear_from([first, second]), from_moments(sigma))(times)),
            expected,
            atol=1e-9,
        )


def test_many_times_are_as_good_as_few_and_come_in_the_order_given():
    first, second, sigma = tabled("funnel", -1.0)
    flow = balanced_flow(deep_linear_from([first, second]), from_moments(sigma), tau=2.5)
    times = np.linspace(10.0, 0.0, 301)
    state = flow(times)
    assert state.map.shape == (301, 2, 3)
    assert state.factor.shape == (301, 5, 2)
    assert np.allclose(state.map[::-1][7], flow(times[::-1][7:8]).map[0], atol=1e-14)
    assert np.allclose(
        flow(times).map,
        balanced_flow(deep_linear_from([first, second]), from_moments(sigma))(times / 2.5).map,
    )
    assert np.allclose(state.map[-1], second @ first, atol=1e-14)


@pytest.mark.parametrize("shape", ["square", "funnel", "inverted"])
@pytest.mark.parametrize("lam", [-2.0, 0.0, 2.0])
def test_the_matrices_of_the_printed_equations(shape, lam):
    """B, C and D are the weights in the basis of F, where the growing rates are S_λ."""
    first, second, sigma = tabled(shape, lam)
    found = balanced_solution_terms(first, second, sigma, balance=lam)
    rates, vectors = np.linalg.eigh(driving_matrix(sigma, lam))
    q = np.concatenate([first.T, second])
    parts = ((found.b, found.s_lambda, 0.5), (found.c, -found.s_lambda, 0.5))
    for part, speed, factor in parts:
        for column, f in zip(part.T, speed, strict=True):
            near = vectors[:, np.abs(rates - f) < 1e-9]
            assert factor * column @ column == pytest.approx(np.sum((near.T @ q) ** 2), rel=1e-9)
    assert found.d.shape == (2, abs(len(sigma) - len(sigma.T)))
    total = 0.5 * np.sum(found.b**2 + found.c**2) + np.sum(found.d**2)
    assert total == pytest.approx(np.sum(q**2), rel=1e-12)
    rest = np.sort([*found.s_lambda, *-found.s_lambda, *[found.lambda_perp] * found.d.shape[1]])
    assert np.allclose(rest, rates, atol=1e-12)
    one = balanced_gram(1.5, first, second, sigma, balance=lam)
    assert np.array_equal(one, balanced_gram([1.5], first, second, sigma, balance=lam)[0])


def test_bad_matrices():
    with pytest.raises(ValueError, match=r"\(2, 2\), \(2, 2\) and \(3, 2\)"):
        balanced_solution_terms(np.eye(2), np.eye(2), np.ones((3, 2)), balance=0.0)
