"""Test timescales between directions against gradient descent, exact solutions and expm."""

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from festina import gradient_descent
from festina.diagnose import plateaus
from festina.networks import fully_connected, layer_from, seeds
from festina.tasks import from_moments, linear_teacher
from festina.theory.saddles import (
    initial_mode_amplitudes,
    linear_phase,
    mode_drop_times,
    residual_exponent,
    unit_growth_times,
)
from festina.theory.saddles._koenigs import koenigs

HALF = 1.0 - 1.0 / np.sqrt(2.0)
COVARIANCE_1B = np.array([[1.0, 1.0], [1.0, 4.0]])


def rotation(size, rng):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def descend(u, v, correlation, covariance, *, step, steps):
    """Return W after 0, 1, …, `steps` steps of gradient descent on cL, with step = cη."""
    maps = np.empty((steps + 1, *u.shape[:-2], *correlation.shape))
    for n in range(steps + 1):
        maps[n] = np.swapaxes(v, -1, -2) @ u
        error = correlation - maps[n] @ covariance
        u, v = u + step * v @ error, v + step * u @ np.swapaxes(error, -1, -2)
    return maps


def crossing(curve, level, top):
    """Return the first passage of a rising sigmoid, interpolated as a logistic curve."""
    after = int(np.argmax(curve > level))
    assert after > 0
    logit = lambda a: np.log(a / (top - a))
    low, high = logit(curve[after - 1]), logit(curve[after])
    return after - 1 + (logit(level) - low) / (high - low)


def simulated_drops(maps, q, r, target):
    strength = np.einsum("ak,nab,bk->nk", q, maps, r)
    return np.array([crossing(strength[:, k], HALF * a, a) for k, a in enumerate(target)])


# ---- drop times ---------------------------------------------------------------------------------


@pytest.mark.parametrize("teacher", ["identity", "white outputs"])
def test_figure_1B_drops_follow_from_the_initial_weights(teacher):
    """The paper does not print W*; drops are predicted for the identity and for white outputs."""
    rng = np.random.default_rng(3)
    if teacher == "identity":
        w, loss, factor, means = np.eye(2), "mean-square", 2.0, (142.8, 851.0)
    else:
        w = rotation(2, rng) @ scipy.linalg.inv(np.real(scipy.linalg.sqrtm(COVARIANCE_1B)))
        loss, factor, means = "half", 1.0, None
    correlation = w @ COVARIANCE_1B
    u, v = 1e-6 * rng.standard_normal((2, 8, 50, 2))
    predicted = mode_drop_times(
        layer_from("linear", u, v),
        from_moments(correlation, COVARIANCE_1B),
        learning_rate=0.01,
        loss=loss,
    )
    maps = descend(u, v, correlation, COVARIANCE_1B, step=0.01 * factor, steps=1700)
    error = w - maps
    loss = np.einsum("nsab,bc,nsac->ns", error, COVARIANCE_1B, error)
    _, s, rt = np.linalg.svd(correlation)
    share = s**2 / np.diag(rt @ COVARIANCE_1B @ rt.T)  # what each mode removes from the loss
    levels = (share.sum() - share[0] / 2, share[1] / 2)  # the middles of the two drops
    for seed in range(8):
        for k, level in enumerate(levels):
            after = int(np.argmax(loss[:, seed] < level))
            low, high = loss[after - 1, seed], loss[after, seed]
            measured = after - (level - high) / (low - high)
            assert (
                abs(predicted[seed, k] - measured) < 0.02
            )  # of a step, far less than 0.5 % of the time
    if means is not None:
        assert np.allclose(predicted.mean(axis=0), means, rtol=0.02)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.integers(2, 40),
    outputs=st.integers(2, 4),
    ratio=st.floats(0.3, 0.65),
    logscale=st.floats(-8.0, -3.0),
    rate=st.floats(0.03, 0.4),
    factor=st.sampled_from((1.0, 2.0)),
)
def test_drops_of_other_tasks_within_half_a_percent(
    seed, width, outputs, ratio, logscale, rate, factor
):
    rng = np.random.default_rng(seed)
    inputs = 2 + seed % 2
    q, r = rotation(outputs, rng)[:, :2], rotation(inputs, rng)
    s = 10.0 ** rng.uniform(-1, 1) * np.array([1.0, ratio])
    lam = s[0] * 10.0 ** rng.uniform(-0.5, 0.5, inputs)
    correlation, covariance = q * s @ r[:, :2].T, r * lam @ r.T
    u = 10.0**logscale * rng.standard_normal((width, inputs))
    v = 10.0**logscale * rng.standard_normal((width, outputs))
    eta = rate / (factor * max(s[0], lam.max()))  # Steps must also resolve Σ_zz.
    predicted = mode_drop_times(
        layer_from("linear", u, v),
        from_moments(correlation, covariance),
        learning_rate=eta,
        loss="half" if factor == 1.0 else "mean-square",
    )
    assert np.all(np.isinf(predicted[2:]))  # the task has rank two
    predicted = predicted[:2]
    maps = descend(
        u, v, correlation, covariance, step=factor * eta, steps=int(1.05 * predicted.max()) + 20
    )
    measured = simulated_drops(maps, q, r[:, :2], s / lam[:2])
    assert np.all(np.abs(predicted / measured - 1.0) < 0.005)


def test_the_default_loss_is_that_of_gradient_descent():
    task = linear_teacher(np.eye(2), COVARIANCE_1B)
    network = fully_connected(2, 50, 2, scale=1e-6, key=seeds(1)[0])
    run = gradient_descent(network, task, 0.01)
    steps = plateaus(run).drop_time
    weights = network.u, network.v
    predicted = mode_drop_times(
        layer_from("linear", *weights),
        from_moments(COVARIANCE_1B, COVARIANCE_1B),
        learning_rate=0.01,
    )
    np.testing.assert_allclose(predicted, steps, rtol=1e-3)


def test_few_units_are_shared_by_the_modes():
    """With as many units as modes, the Gram–Schmidt correction is far larger than 0.5 %."""
    rng = np.random.default_rng(0)
    correlation = covariance = np.diag([1.0, 0.5])
    naive, ours = [], []
    for _ in range(6):
        u, v = 1e-6 * rng.standard_normal((2, 2, 2))
        predicted = mode_drop_times(
            layer_from("linear", u, v), from_moments(correlation, covariance), learning_rate=0.04
        )
        maps = descend(u, v, correlation, covariance, step=0.04, steps=int(1.1 * predicted[1]))
        measured = simulated_drops(maps, np.eye(2), np.eye(2), np.ones(2))
        a0 = initial_mode_amplitudes(layer_from("linear", u, v), from_moments(correlation))
        alone = np.log(HALF / (1 - HALF) / a0) / (2 * np.log1p(0.04 * np.array([1.0, 0.5])))
        ours.append(np.abs(predicted / measured - 1).max())
        naive.append(np.abs(alone / measured - 1).max())
    assert max(ours) < 1e-4
    assert max(naive) > 0.05


def exact_strength(gram, s, time):
    """Return the diagonal of W for white inputs: Ċ = SC + CS − 2C², C(0) = `gram`."""
    decay = np.exp(-s * time)
    inverse = decay[:, None] * np.linalg.inv(gram) * decay + np.diag((1 - decay**2) / s)
    return np.diag(np.linalg.inv(inverse))


@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.7])
def test_error_from_the_next_mode_scales_as_stated(ratio):
    """The error of 2 s₁ t₁ is O(a^{1 − s₂/s₁}) with a ∝ ε²; the second mode is exact for ε → 0."""
    rng = np.random.default_rng(5)
    s = np.array([1.0, ratio])
    c = rng.standard_normal((4, 2))  # balanced: u_i = v_i = c_i
    scales = np.array([1e-3, 1e-4, 1e-5])
    errors = []
    for scale in scales:
        times = mode_drop_times(
            layer_from("linear", scale * c, scale * c), from_moments(np.diag(s), np.eye(2))
        )
        gram = scale**2 * c.T @ c
        exact = [
            scipy.optimize.brentq(
                lambda t, k=k, gram=gram: exact_strength(gram, s, t)[k] - HALF * s[k],
                times[k] - 1.0,
                times[k] + 1.0,
                xtol=1e-13,
            )
            for k in range(2)
        ]
        errors.append(np.abs(times - exact))
    first, second = np.transpose(errors)
    order = np.diff(np.log(first)) / np.diff(np.log(scales))
    assert np.allclose(order, 2 * (1 - ratio), atol=0.05)
    assert second[-1] < 1e-3
    assert second[-1] < max(0.2 * second[0], 1e-10)


def test_error_from_decaying_components_is_quadratic_in_the_scale():
    """One unbalanced mode has the exact solution ȧ = 2(sa − λa² + λab) with ab conserved."""
    rng = np.random.default_rng(2)
    u, v = rng.standard_normal((2, 3, 1))
    s, lam = 1.3, 0.6
    scales = np.array([1e-1, 1e-2, 1e-3])
    errors = []
    for scale in scales:
        a = np.sum(((v + u) / 2) ** 2) * scale**2
        p = a * np.sum(((v - u) / 2) ** 2) * scale**2
        root = np.sqrt(s**2 + 4 * lam**2 * p)
        high, low = (s + root) / (2 * lam), (s - root) / (2 * lam)
        w = HALF * s / lam
        end = (w + np.sqrt(w**2 + 4 * p)) / 2  # a − p/a = w
        exact = np.log((end - low) / (high - end) * (high - a) / (a - low)) / (2 * root)
        errors.append(
            mode_drop_times(
                layer_from("linear", scale * u, scale * v), from_moments([[s]], [[lam]])
            )[0]
            - exact
        )
    order = np.diff(np.log(np.abs(errors))) / np.diff(np.log(scales))
    assert np.allclose(order, 2.0, atol=0.1)


def test_times_grow_as_the_logarithm_of_the_scale():
    """dt_k/d ln(1/ε) = 1/s_k is 11/6, 11/3, 11/2 for the spectrum of Figure 2 at κ = 1."""
    rng = np.random.default_rng(1)
    s = np.array([6.0, 3.0, 2.0]) / 11
    u, v = rng.standard_normal((2, 20, 3))
    small, smaller = (
        mode_drop_times(layer_from("linear", e * u, e * v), from_moments(np.diag(s), np.eye(3)))
        for e in (1e-6, 1e-6 / np.e)
    )
    assert np.allclose(smaller - small, 1 / s, rtol=1e-9)


def test_equal_singular_values_do_not_depend_on_the_choice_of_basis():
    """For s₁ = s₂ the singular values of W are learned one by one, for any basis of the SVD."""
    rng = np.random.default_rng(4)
    s = np.array([1.0, 1.0, 0.4])
    u, v = 1e-6 * rng.standard_normal((2, 5, 3))
    q, r = rotation(3, rng), rotation(3, rng)
    times = mode_drop_times(
        layer_from("linear", u, v), from_moments(np.diag(s), np.eye(3)), learning_rate=0.04
    )
    turned = mode_drop_times(
        layer_from("linear", u @ r.T, v @ q.T),
        from_moments(q * s @ r.T, np.eye(3)),
        learning_rate=0.04,
    )
    assert np.allclose(times, turned, rtol=1e-9)
    maps = descend(u, v, np.diag(s), np.eye(3), step=0.04, steps=int(1.1 * times.max()))
    strengths = np.linalg.svd(maps[:, :2, :2], compute_uv=False)
    measured = [crossing(strengths[:, k], HALF, 1.0) for k in range(2)]
    measured.append(crossing(maps[:, 2, 2], HALF * 0.4, 0.4))
    assert np.allclose(times, measured, rtol=1e-3)
    assert times[1] - times[0] > 1.0


def test_a_mode_without_a_unit_or_without_correlation_is_never_learned():
    rng = np.random.default_rng(0)
    u, v = 1e-6 * rng.standard_normal((2, 2, 4))
    times = mode_drop_times(
        layer_from("linear", u, v), from_moments(np.diag([4.0, 3.0, 2.0, 1.0]), np.eye(4))
    )
    assert np.all(np.isfinite(times) == [True, True, False, False])
    times = mode_drop_times(
        layer_from("linear", u, v),
        from_moments(np.diag([1.0, 0.0, 0.0, 0.0]), np.eye(4)),
        learning_rate=0.1,
    )
    assert np.all(np.isfinite(times) == [True, False, False, False])


def test_a_mode_past_half_of_its_loss_has_time_zero():
    u = np.array([[0.7]])
    assert mode_drop_times(layer_from("linear", u, u), from_moments([[1.0]], [[1.0]]))[0] == 0.0
    assert (
        mode_drop_times(
            layer_from("linear", 2 * u, 2 * u), from_moments([[1.0]], [[1.0]]), learning_rate=0.1
        )[0]
        == 0.0
    )


def test_batches_are_loops_and_small_steps_are_the_flow():
    rng = np.random.default_rng(8)
    u = 1e-4 * rng.standard_normal((2, 3, 6, 4))
    v = 1e-4 * rng.standard_normal((2, 3, 6, 2))
    q, r = rotation(2, rng), rotation(4, rng)
    correlation, covariance = q * [2.0, 1.0] @ r[:, :2].T, r * [1.0, 2.0, 0.0, 5.0] @ r.T
    flow = mode_drop_times(layer_from("linear", u, v), from_moments(correlation, covariance))
    assert (
        flow.shape
        == initial_mode_amplitudes(layer_from("linear", u, v), from_moments(correlation)).shape
        == (2, 3, 2)
    )
    assert np.array_equal(
        flow[1, 2],
        mode_drop_times(
            layer_from("linear", u[1, 2], v[1, 2]), from_moments(correlation, covariance)
        ),
    )
    departures = []
    for eta in (1e-3, 1e-4):
        steps = mode_drop_times(
            layer_from("linear", u, v),
            from_moments(correlation, covariance),
            learning_rate=eta,
        )
        departures.append(np.abs(eta * steps / flow - 1).max())
    assert departures[1] / departures[0] == pytest.approx(0.1, rel=0.01)  # first order in η


@pytest.mark.parametrize("h", [1e-15, 1e-9, 1e-3, 0.1, 0.5, 0.99])
def test_linearised_turns_a_step_into_a_multiplication(h):
    a = np.linspace(1e-6, 0.06, 7)
    after = a * (1 + h * (1 - a)) ** 2
    assert np.all(after <= HALF)
    step = np.array(h)
    assert np.allclose(koenigs(after, step), (1 + h) ** 2 * koenigs(a, step), rtol=1e-13)
    if h < 1e-8:
        assert np.allclose(koenigs(a, step), a / (1 - a), rtol=1e-8)


# ---- the linear phase ---------------------------------------------------------------------------


def test_linear_phase_is_the_matrix_exponential():
    rng = np.random.default_rng(0)
    correlation = rng.standard_normal((2, 3))
    u, v = rng.standard_normal((2, 4, 3)), rng.standard_normal((2, 4, 2))
    times = np.array([0.0, 0.3, 2.0])
    ut, vt = linear_phase(layer_from("linear", u, v), from_moments(correlation), times).parts
    assert ut.shape == (2, 3, 4, 3)
    assert vt.shape == (2, 3, 4, 2)
    m = np.block([[np.zeros((2, 2)), correlation], [correlation.T, np.zeros((3, 3))]])
    theta = np.concatenate([v, u], axis=-1)
    for n, t in enumerate(times):
        expected = theta @ scipy.linalg.expm(m * t)
        assert np.allclose(np.concatenate([vt, ut], axis=-1)[:, n], expected, rtol=1e-12)
    assert np.allclose(ut[:, 0], u, rtol=1e-14)


def test_linear_phase_leaves_the_flow_at_the_third_order_of_the_scale():
    rng = np.random.default_rng(1)
    correlation, covariance = rng.standard_normal((2, 3)), np.diag([1.0, 2.0, 0.5])
    u, v = rng.standard_normal((5, 3)), rng.standard_normal((5, 2))

    def departure(scale):
        def rhs(_, y):
            a, b = y[:15].reshape(5, 3), y[15:].reshape(5, 2)
            error = correlation - b.T @ a @ covariance
            return np.concatenate([(b @ error).ravel(), (a @ error.T).ravel()])

        start = scale * np.concatenate([u.ravel(), v.ravel()])
        run = scipy.integrate.solve_ivp(
            rhs, (0, 1), start, method="DOP853", rtol=1e-12, atol=1e-16 * scale
        )
        linear = linear_phase(
            layer_from("linear", scale * u, scale * v), from_moments(correlation), [1.0]
        ).parts[0][0]
        return np.abs(run.y[:15, -1].reshape(5, 3) - linear).max()

    errors = [departure(scale) for scale in (1e-2, 1e-3)]
    assert np.log10(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize(
    ("s", "exponent"),
    [
        ((1.0, 0.5, 0.2), 0.5),
        ((1.0, 0.8, 0.1), 0.2),
        ((1.0, 0.2, 0.05), 0.8),
        ((1.0, 1.0, 0.4), 0.6),
        ((1.0, 0.95, 0.5), 0.05),
    ],
)
def test_theorem_4_residual_exponent(s, exponent):
    rng = np.random.default_rng(7)
    q, r = rotation(3, rng), rotation(4, rng)[:, :3]
    correlation = q * s @ r.T
    assert residual_exponent(np.array(s)) == pytest.approx(exponent, abs=1e-12)
    u, v = rng.standard_normal((6, 4)), rng.standard_normal((6, 3))
    top = np.sum(np.array(s) == s[0])
    projector = np.block([[q[:, :top]], [r[:, :top]]])
    projector = 0.5 * projector @ projector.T
    scales = np.array([1e-7, 1e-9, 1e-11, 1e-13])
    left = []
    for scale in scales:
        times = unit_growth_times(
            layer_from("linear", scale * u, scale * v), from_moments(correlation)
        )
        row = []
        for i, time in enumerate(times):
            ut, vt = linear_phase(
                layer_from("linear", scale * u[[i]], scale * v[[i]]),
                from_moments(correlation),
                [time],
            ).parts
            theta = np.concatenate([vt[0, 0], ut[0, 0]])
            along = projector @ theta
            assert np.linalg.norm(along) == pytest.approx(1.0, rel=1e-10)
            row.append(np.linalg.norm(theta - along))
        left.append(row)
    slope = np.polyfit(np.log(scales), np.log(left), 1)[0]
    assert np.all(np.abs(slope - exponent) < 0.005)


def test_edges_of_growth_times():
    u = np.array([[1.0, 0.0], [0.0, 1.0], [4.0, 0.0]])
    times = unit_growth_times(
        layer_from("linear", u, u), from_moments(np.diag([2.0, 1.0])), size=1.5
    )
    assert times[0] == pytest.approx(np.log(1.5 / np.sqrt(2)) / 2)
    assert times[1] == np.inf
    assert times[2] == 0.0
    assert np.all(
        unit_growth_times(layer_from("linear", u, u), from_moments(np.zeros((2, 2)))) == np.inf
    )
    assert residual_exponent([2.0, 2.0]) == 1.0
    assert residual_exponent([0.0, 2.0]) == 1.0
    assert residual_exponent([0.5, 2.0]) == 0.75


# ---- errors -------------------------------------------------------------------------------------


def test_unshared_directions_are_refused_with_the_size_of_the_violation():
    rng = np.random.default_rng(0)
    u, v = 1e-6 * rng.standard_normal((2, 5, 2))
    correlation = np.array([[1.0, 0.5], [-0.5, 0.25]]) @ COVARIANCE_1B
    r = np.linalg.svd(correlation)[2][0]
    violation = np.linalg.norm(COVARIANCE_1B @ r - (r @ COVARIANCE_1B @ r) * r)
    violation /= np.linalg.norm(COVARIANCE_1B, 2)
    with pytest.raises(ValueError, match=f"is {violation:.3g} of"):
        mode_drop_times(layer_from("linear", u, v), from_moments(correlation, COVARIANCE_1B))
    assert np.all(
        mode_drop_times(
            layer_from("linear", u, v), from_moments(correlation, COVARIANCE_1B), tolerance=1.0
        )
        > 0
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariance": np.diag([0.0, 1.0, 1.0])}, "inputs that do not vary"),
        ({"learning_rate": 0.6}, "unstable"),
        ({"learning_rate": -0.1}, "`learning_rate` must be a positive"),
    ],
)
def test_bad_arguments(change, message):
    covariance = change.pop("covariance", np.eye(3))
    units = layer_from("linear", np.ones((5, 3)), np.ones((5, 2)))
    with pytest.raises(ValueError, match=message):
        mode_drop_times(units, from_moments(np.diag([2.0, 1.0, 0.0])[:2], covariance), **change)


def test_bad_arguments_of_the_others():
    u = np.ones((2, 2))
    with pytest.raises(ValueError, match="one time or a list of times"):
        linear_phase(layer_from("linear", u, u), from_moments(np.eye(2)), np.ones((1, 1)))
    one, many = (
        linear_phase(layer_from("linear", u, u), from_moments(np.eye(2)), t).parts
        for t in (1.0, [1.0])
    )
    assert all(np.array_equal(a, b[0]) for a, b in zip(one, many, strict=True))
    with pytest.raises(ValueError, match="`size` must be"):
        unit_growth_times(layer_from("linear", u, u), from_moments(np.eye(2)), size=0.0)
    for s in ([], [0.0, 0.0], [1.0, -1.0]):
        with pytest.raises(ValueError, match="`singular_values` must be"):
            residual_exponent(s)
