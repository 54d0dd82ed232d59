"""Test networks as independent chains against the matrix flow, for any depth and covariance."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from hypothesis import given
from hypothesis import strategies as st

import festina
from festina.networks import DeepLinear, deep_linear_from, layer_from
from festina.tasks import from_moments
from festina.tasks.worlds import tree
from festina.theory.linear import (
    differentiation_times,
    effective_initial_strengths,
    item_similarity,
    map_from_modes,
    measured_layer_strengths,
    mode_loss,
    mode_strengths,
    modes,
    saddle_sequence,
    unbalanced_strength,
)
from festina.theory.saddles import initial_mode_amplitudes
from helpers import untyped


def frame(rows, columns, rng):
    return np.linalg.qr(rng.standard_normal((rows, rows)))[0][:, :columns]


def matrix_flow(weights, correlation, covariance, times, *, tau=1.0):
    """Integrate τ dW^l/dt = (W^D…W^{l+1})ᵀ(Σyx − WΣxx)(W^{l−1}…W^1)ᵀ of all layers by SciPy."""
    shapes = [w.shape for w in weights]
    cuts = np.cumsum([w.size for w in weights])[:-1]
    product = lambda ws, size: functools.reduce(lambda p, w: w @ p, ws, np.eye(size))

    def unpack(y):
        return [part.reshape(shape) for part, shape in zip(np.split(y, cuts), shapes, strict=True)]

    def rhs(_, y):
        ws = unpack(y)
        error = correlation - product(ws, len(covariance)) @ covariance
        slopes = []
        for layer, w in enumerate(ws):
            below = product(ws[:layer], len(covariance))
            above = product(ws[layer + 1 :], len(w))
            slopes.append((above.T @ error @ below.T).ravel() / tau)
        return np.concatenate(slopes)

    start = np.concatenate([w.ravel() for w in weights])
    run = scipy.integrate.solve_ivp(
        rhs, (0, times[-1]), start, t_eval=times, method="DOP853", rtol=1e-11, atol=1e-13
    )
    return [unpack(column) for column in run.y.T]


def decoupled(strengths, left, right, widths, rng):
    """Return W^l = R_l diag(b_l) R_{l−1}ᵀ with random inner frames."""
    count = right.shape[1]
    frames = [right, *(frame(width, count, rng) for width in widths), left]
    return [
        (after * b) @ before.T
        for b, before, after in zip(strengths, frames[:-1], frames[1:], strict=True)
    ]


# ---- decoupled networks are exact ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("white", [True, False])
def test_decoupled_weights_are_independent_chains(depth, white):
    rng = np.random.default_rng(10 * depth + white)
    u, v = frame(3, 3, rng), frame(4, 4, rng)
    s, lam = np.array([2.0, 1.2, 0.5]), np.ones(4) if white else np.array([0.7, 1.8, 0.4, 1.1])
    correlation, covariance = (u * s) @ v[:, :3].T, (v * lam) @ v.T
    task = from_moments(correlation, covariance)
    found = modes(task)
    assert np.allclose(found.singular_values, s)
    assert np.allclose(found.input_variance, lam[:3])

    a0, tau, times = np.array([0.05, 0.2, 0.1]), 1.7, np.linspace(0.0, 9.0, 13)
    widths = (5, 4, 6)[: depth - 1]
    b = np.tile(a0 ** (1 / depth), (depth, 1))
    weights = decoupled(b, found.left, found.right, widths, rng)
    seen = measured_layer_strengths(deep_linear_from(weights), task)
    assert seen.residual < 1e-14
    assert np.allclose(seen.strengths, b, rtol=1e-13)

    run = matrix_flow(weights, correlation, covariance, times, tau=tau)
    a = mode_strengths(times, found, a0, depth=depth, tau=tau)
    maps = np.array([functools.reduce(lambda p, w: w @ p, ws) for ws in run])
    assert np.abs(map_from_modes(a, found) - maps).max() < 1e-7
    off = maps - correlation @ np.linalg.inv(covariance)
    error = 0.5 * np.einsum("toi,ij,toj->t", off, covariance, off)
    assert np.abs(mode_loss(a, found) - error).max() < 1e-7

    x = rng.standard_normal((6, 4))
    for layer in range(1, depth + 1):
        hidden = np.array([functools.reduce(lambda p, w: w @ p, ws[:layer]) for ws in run])
        gram = hidden.swapaxes(1, 2) @ hidden
        one_hot = item_similarity(a, found, layer, depth=depth)
        assert np.abs(one_hot - gram).max() < 1e-7
        seen = item_similarity(a, found, layer, depth=depth, x=x)
        assert np.abs(seen - x @ gram @ x.T).max() < 1e-6
    assert measured_layer_strengths(deep_linear_from(run[-1]), task, tolerance=1e-6).residual < 1e-6


@pytest.mark.parametrize("white", [True, False])
def test_unequal_layers_follow_the_unbalanced_chain(white):
    rng = np.random.default_rng(3)
    u, v = frame(3, 3, rng), frame(3, 3, rng)
    s, lam = np.array([2.0, 1.2, 0.5]), np.ones(3) if white else np.array([0.7, 1.8, 0.4])
    correlation, covariance = (u * s) @ v.T, (v * lam) @ v.T
    task = from_moments(correlation, covariance)
    found = modes(task)
    b = np.array([[0.5, 0.1, 0.8], [0.2, 0.9, -0.6]])
    weights = decoupled(b, found.left, found.right, (4,), rng)
    seen = measured_layer_strengths(deep_linear_from(weights), task)
    assert np.allclose(seen.strengths, b, rtol=1e-12)
    times = np.linspace(0.0, 6.0, 9)
    first, second = seen.strengths
    a = unbalanced_strength(
        times, first, second, found.singular_values, input_variance=found.input_variance
    )
    maps = np.array([ws[1] @ ws[0] for ws in matrix_flow(weights, correlation, covariance, times)])
    assert np.abs(map_from_modes(a, found) - maps).max() < 1e-7


def test_two_layers_by_the_textbook():
    found = modes(from_moments(np.diag([3.0, 1.5, 0.5])))
    times = np.linspace(0, 5, 11)[:, None]
    s, a0 = found.singular_values, 1e-3
    logistic = s * a0 / (a0 + (s - a0) * np.exp(-2 * s * times / 0.8))
    assert np.allclose(mode_strengths(times[:, 0], found, a0, tau=0.8), logistic, rtol=1e-12)
    shallow = s * (1 - np.exp(-times)) + a0 * np.exp(-times)
    assert np.allclose(mode_strengths(times[:, 0], found, a0, depth=1), shallow, rtol=1e-12)


def test_departure_is_linear_in_the_coupling():
    rng = np.random.default_rng(5)
    u, v = frame(3, 3, rng), frame(3, 3, rng)
    task = from_moments((u * [2.0, 1.2, 0.5]) @ v.T)
    found = modes(task)
    clean = decoupled(np.full((2, 3), 0.3), found.left, found.right, (3,), rng)
    noise = [rng.standard_normal(w.shape) for w in clean]
    times = np.array([0.0, 1.0])
    correlation = (u * [2.0, 1.2, 0.5]) @ v.T
    exact = map_from_modes(mode_strengths(times, found, 0.09), found)[-1]
    departures, residuals = [], []
    for size in (1e-3, 1e-4, 1e-5):
        weights = [w + size * n for w, n in zip(clean, noise, strict=True)]
        end = matrix_flow(weights, correlation, np.eye(3), times)[-1]
        departures.append(np.abs(end[1] @ end[0] - exact).max())
        residuals.append(
            measured_layer_strengths(deep_linear_from(weights), task, tolerance=1.0).residual
        )
    assert np.allclose(np.diff(np.log10(departures)), -1.0, atol=0.01)
    assert np.allclose(np.diff(np.log10(residuals)), -1.0, atol=0.01)


@pytest.mark.slow
def test_a_network_of_festina_follows(double):
    """In `gradient_flow` hidden units are rows of u, with readouts in rows of v."""
    rng = np.random.default_rng(6)
    u, v = frame(3, 3, rng), frame(4, 3, rng)
    correlation = (u * [3.0, 1.0, 0.4]) @ v.T
    found = modes(from_moments(correlation))
    w1, w2 = decoupled(np.full((2, 3), 0.05), found.left, found.right, (5,), rng)
    times = np.linspace(0.0, 8.0, 9)
    unit = festina.networks.NeuronUnit(festina.networks.activation("linear"))
    network = festina.networks.layer_from(unit, w1, w2.T)
    run = festina.gradient_flow(network, festina.tasks.linear_teacher(correlation), times)
    a = mode_strengths(times, found, 0.05**2)
    assert np.abs(run.loss - mode_loss(a, found)).max() < 1e-6
    maps = np.einsum("tho,thi->toi", run.network.v, run.network.u)
    assert np.abs(maps - map_from_modes(a, found)).max() < 1e-6


# ---- modes --------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 100))
def test_modes_put_the_data_together_again(outputs, inputs, seed):
    rng = np.random.default_rng(seed)
    count = min(outputs, inputs)
    u, v = frame(outputs, count, rng), frame(inputs, inputs, rng)
    s = rng.integers(0, 3, count).astype(float)  # some are zero or equal
    lam = rng.integers(1, 3, inputs).astype(float)
    correlation, covariance = (u * s) @ v[:, :count].T, (v * lam) @ v.T
    found = modes(from_moments(correlation, covariance))
    assert len(found) == count
    assert np.allclose(
        (found.left * found.singular_values) @ found.right.T, correlation, atol=1e-12
    )
    assert np.allclose(covariance @ found.right, found.right * found.input_variance, atol=1e-11)
    for side in (found.left, found.right):
        assert np.allclose(side.T @ side, np.eye(count), atol=1e-12)
    assert (np.diff(found.singular_values) <= 1e-12).all()


def test_equal_singular_values_with_different_variances_are_told_apart():
    rng = np.random.default_rng(0)
    u, v = frame(3, 3, rng), frame(3, 3, rng)
    covariance = (v * [1.0, 2.0, 4.0]) @ v.T
    found = modes(from_moments(1.5 * u @ v.T, covariance))
    assert np.allclose(np.sort(found.input_variance), [1.0, 2.0, 4.0])
    assert np.allclose(found.singular_values, 1.5)
    assert np.allclose(covariance @ found.right, found.right * found.input_variance)


def test_inputs_that_nothing_correlates_with_may_have_any_variance():
    rng = np.random.default_rng(1)
    v = frame(4, 4, rng)
    correlation = np.outer([0.6, 0.8], 2.0 * v[:, 0])  # rank one
    found = modes(from_moments(correlation, (v * [1.0, 5.0, 0.0, 3.0]) @ v.T))
    assert found.singular_values == pytest.approx([2.0, 0.0])
    assert found.input_variance[0] == pytest.approx(1.0)
    a = mode_strengths(np.array([0.0, 50.0]), found, 0.1)
    assert a[1] == pytest.approx([2.0, 0.1 / (1 + 2 * found.input_variance[1] * 0.1 * 50)])
    silent = modes(from_moments(np.zeros((2, 2)), np.diag([1.0, 0.0])))
    assert np.allclose(mode_loss(np.array([[0.5, 7.0]]), silent), 0.125)


def test_modes_that_mix_are_refused_with_the_size_of_the_mixing():
    covariance = np.array([[1.0, 0.2], [0.2, 1.0]])
    scale = np.linalg.norm(covariance, 2)
    with pytest.raises(ValueError, match=rf"is {0.2 / scale:.3g} of \|Σxx\|.*whiten the inputs"):
        modes(from_moments(np.diag([2.0, 1.0]), covariance))
    assert len(modes(from_moments(np.diag([2.0, 1.0]), covariance), tolerance=0.5)) == 2


# ---- strengths of weights -----------------------------------------------------------------------


def test_a_mode_that_one_layer_stops_is_still_seen():
    rng = np.random.default_rng(2)
    task = from_moments(np.diag([3.0, 2.0, 1.0]))
    found = modes(task)
    b = np.array([[0.4, 0.0, 0.2], [0.3, 0.5, 0.2], [0.7, 0.6, 0.0]])
    weights = decoupled(b, found.left, found.right, (3, 4), rng)
    seen = measured_layer_strengths(deep_linear_from(weights), task)
    assert seen.residual < 1e-14
    assert np.allclose(np.abs(seen.strengths), b, atol=1e-14)


def test_coupled_weights_are_refused_with_the_size_of_the_coupling():
    task, sheared = from_moments(np.diag([3.0, 1.0])), np.array([[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"not decoupled: a part of 0\.\d+ couples modes"):
        measured_layer_strengths(deep_linear_from([np.eye(2), sheared]), task)
    rng = np.random.default_rng(1)
    wide = deep_linear_from([np.eye(3, 2), frame(3, 3, rng)[:2]])
    assert measured_layer_strengths(wide, task, tolerance=np.inf).residual > 0.1


def test_read_outs_of_units_without_input_are_coupling_too():
    """A unit without input weights gets some from the error, so W₁ leaves its frame."""
    task = from_moments(np.diag([3.0, 1.0]))
    second = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="not decoupled"):
        measured_layer_strengths(deep_linear_from([np.eye(3, 2), second]), task)


# ---- small random weights -----------------------------------------------------------------------


def test_effective_strengths_are_those_of_the_growing_part():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((4, 6, 5)), rng.standard_normal((4, 3, 6))
    correlation = rng.standard_normal((3, 5))
    u, _, vt = np.linalg.svd(correlation, full_matrices=False)
    found = effective_initial_strengths(
        deep_linear_from([first, second]), from_moments(correlation)
    )
    expected = 0.25 * np.sum((first @ vt.T + second.swapaxes(1, 2) @ u) ** 2, axis=1)
    assert np.allclose(found, expected, rtol=1e-13)
    assert np.array_equal(
        found,
        initial_mode_amplitudes(
            layer_from("linear", first, second.swapaxes(1, 2)), from_moments(correlation)
        ),
    )


def test_effective_strengths_of_decoupled_weights_are_their_strengths():
    rng = np.random.default_rng(4)
    correlation = np.diag([2.0, 1.0, 0.5])
    found = modes(from_moments(correlation))
    weights = decoupled(np.full((2, 3), 0.1), found.left, found.right, (4,), rng)
    assert np.allclose(
        effective_initial_strengths(deep_linear_from(weights), from_moments(correlation)),
        0.01,
        rtol=1e-12,
    )


@pytest.mark.slow
def test_random_weights_rise_late_by_a_fraction_that_falls_as_one_over_the_logarithm():
    """Reference errors at std 0.1, …, 1e-4 are 0.233, 0.113, 0.074, 0.055, over five other seeds.

    These are errors of the worst mode of a seed; the mean over modes is half as large.
    """
    s = np.array([5.0, 3.0, 2.0, 1.0])
    rng = np.random.default_rng(0)
    u, v = frame(5, 4, rng), frame(5, 4, rng)
    correlation = (u * s) @ v.T
    scales = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    network = festina.networks.fully_connected(
        5, 5, 5, scale=scales[:, None], key=festina.seeds(16)
    )
    times = np.linspace(0.0, 16.0, 801)
    run = festina.gradient_flow(network, festina.tasks.linear_teacher(correlation), times)
    weights = run.network
    strength = np.einsum("oa,...ho,...hi,ia->...a", u, weights.v, weights.u, v)
    rise = lambda curve: np.interp(0.5, np.maximum.accumulate(curve), times)
    measured = np.apply_along_axis(rise, 2, strength / s)
    a0 = effective_initial_strengths(
        deep_linear_from([network.u, np.swapaxes(network.v, -1, -2)]), from_moments(correlation)
    )[..., :4]
    predicted = np.log(s / a0 - 1) / (2 * s)
    error = np.abs(measured - predicted) / measured
    logs = np.log(1 / scales)
    # Both numbers are means over seeds, 16 and five, with the scatter of single seeds.
    worst = error.max(axis=2)
    sigma = worst.std(axis=1, ddof=1) * np.sqrt(1 / 16 + 1 / 5)
    deviation = (worst.mean(axis=1) - [0.233, 0.113, 0.074, 0.055]) / sigma
    assert np.abs(deviation).max() < 3
    # The delay in units of 1/s stays constant, while the times grow as ln(1/std).
    mean = error.mean(axis=(1, 2)) * logs
    assert np.allclose(mean, mean.mean(), rtol=0.05)
    delay = (s * (measured - predicted)).mean(axis=1)
    assert np.allclose(delay[2], delay[3], atol=2e-3)
    assert (delay[3] > 0).all()
    assert delay[3, 0] < 1e-3  # the first mode is not delayed


# ---- from saddle to saddle ----------------------------------------------------------------------


def test_saddles_of_two_layers():
    s, lam = np.array([3.0, 2.0, 0.5]), np.array([1.5, 0.5, 1.0])
    found = modes(from_moments(np.diag(s), np.diag(lam)))
    sequence = saddle_sequence(found, 1e-4, tau=2.0)
    assert sequence.order.tolist() == [0, 1, 2]
    half = 2.0 / (2 * s) * np.log(s / (lam * 1e-4) - 1)
    assert np.allclose(sequence.time, half, rtol=1e-10)
    share = 0.5 * s**2 / lam
    assert np.allclose(sequence.loss, [share.sum(), share[1:].sum(), share[2], 0.0], atol=1e-15)
    assert np.allclose(sequence.escape_rate, [1.5, 1.0, 0.25, 0.0])


@pytest.mark.slow
def test_saddles_are_stationary_with_the_curvature_of_the_rate():
    """At each stage the gradient is zero, and −rate is the lowest eigenvalue of the Hessian."""
    rng = np.random.default_rng(1)
    correlation = (frame(3, 3, rng) * [3.0, 2.0, 0.5]) @ frame(3, 3, rng).T
    found = modes(from_moments(correlation))
    sequence = saddle_sequence(found, 1e-3)

    def loss(theta):
        w1, w2 = theta.reshape(2, 3, 3)
        return 0.5 * jnp.sum((correlation - w2 @ w1) ** 2)

    with jax.enable_x64(True):
        for stage in range(4):
            b = np.zeros(3)
            b[sequence.order[:stage]] = np.sqrt(found.singular_values[sequence.order[:stage]])
            theta = np.stack([(found.right * b).T, found.left * b]).ravel()
            assert loss(theta) == pytest.approx(sequence.loss[stage], abs=1e-12)
            assert np.abs(jax.grad(loss)(theta)).max() < 1e-12
            lowest = np.linalg.eigvalsh(jax.hessian(loss)(theta))[0]
            assert lowest == pytest.approx(-sequence.escape_rate[stage], abs=1e-7)


def test_plateaus_of_a_curve_are_the_stages():
    found = modes(from_moments(np.diag([4.0, 1.0, 0.25])))
    sequence = saddle_sequence(found, 1e-8)
    between = np.sqrt(sequence.time[:-1] * sequence.time[1:])
    loss = mode_loss(mode_strengths(between, found, 1e-8), found)
    assert np.allclose(loss, sequence.loss[1:-1], rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3, 5, np.inf])
def test_half_rise_is_where_the_curve_is_half_way(depth):
    found = modes(from_moments(np.diag([2.0, 1.0]), np.diag([1.0, 0.5])))
    sequence = saddle_sequence(found, 1e-2, depth=depth)
    a = mode_strengths(sequence.time, found, 1e-2, depth=depth)
    target = found.singular_values / found.input_variance
    halves = [a[k, mode] / target[mode] for k, mode in enumerate(sequence.order)]
    assert np.allclose(halves, 0.5, rtol=1e-8)
    assert (sequence.escape_rate[0] == 0) == (depth != 2)


def test_order_is_that_of_time_and_modes_without_a_start_stay():
    found = modes(from_moments(np.diag([2.0, 1.5, 1.0, 0.0])))
    sequence = saddle_sequence(found, np.array([1e-8, 1e-2, 0.0, 0.3]))
    assert sequence.order.tolist() == [1, 0]
    assert np.allclose(sequence.loss, [3.625, 2.5, 0.5])
    assert np.allclose(sequence.escape_rate, [2.0, 2.0, 1.0])
    assert saddle_sequence(found, 1.9).time[0] == 0.0


def test_levels_of_a_tree_are_learned_one_after_the_other():
    world = tree([2, 2, 2], 0.1)
    s = [10.594755, 6.718628, 5.124998, 3.394113]
    assert np.allclose(np.unique(world.singular_values(32))[::-1], s, atol=1e-6)
    times = differentiation_times(world, 32, 1e-4)
    assert np.allclose(times, [0.546057, 0.827193, 1.057996, 1.536831], rtol=0, atol=1e-6)
    found = modes(from_moments(world.exact_features(32)))
    sequence = saddle_sequence(found, 1e-4)
    assert np.allclose(sequence.time, np.repeat(times, world.multiplicities), rtol=1e-8)


def test_a_shallow_network_tells_everything_apart_at_once():
    shallow = differentiation_times(tree([2, 2, 2], 0.1), 32, 0.0, depth=1, tau=3.0)
    assert np.allclose(shallow, 3.0 * np.log(2), rtol=1e-12)


def test_distinctions_that_do_not_exist_are_never_learned():
    times = differentiation_times(tree([2, 2], [0.1, 0.0]), 8, 1e-3)
    assert np.isfinite(times).tolist() == [True, True, False]


# ---- under transformations ----------------------------------------------------------------------


def test_curves_under_jit_vmap_and_grad(double):
    found = modes(from_moments(np.diag([2.0, 1.0]), np.diag([1.0, 0.5])))
    times = np.linspace(0.0, 3.0, 5)

    def loss(a0, modes):
        return mode_loss(mode_strengths(times, modes, a0), modes)

    plain = loss(np.array([0.1, 0.2]), found)
    assert isinstance(plain, np.ndarray)
    assert np.allclose(jax.jit(loss)(jnp.array([0.1, 0.2]), found), plain, rtol=1e-12)
    batch = jax.vmap(loss, in_axes=(0, None))(jnp.array([[0.1, 0.2], [0.3, 0.4]]), found)
    assert np.allclose(batch[0], plain, rtol=1e-12)
    slope = jax.grad(lambda a0: loss(a0, found)[2])(jnp.array([0.1, 0.2]))
    for k in range(2):
        step = 1e-5 * np.eye(2)[k]
        high, low = (loss(np.array([0.1, 0.2]) + sign * step, found)[2] for sign in (1, -1))
        assert slope[k] == pytest.approx((high - low) / 2e-5, rel=1e-6)


def test_similarity_has_a_slope_where_a_mode_is_silent(double):
    found = modes(from_moments(np.diag([2.0, 1.0])))
    total = lambda a, layer: item_similarity(a, found, layer, depth=3).sum()
    for layer in (1, 2, 3):
        slope = jax.grad(total)(jnp.array([[0.0, 0.5]]), layer)
        assert np.isfinite(slope).all()
        assert slope[0, 1] == pytest.approx(2 * layer / 3 * 0.5 ** (2 * layer / 3 - 1))


def test_one_time_has_no_axis():
    found = modes(from_moments(np.diag([2.0, 1.0])))
    one, many = mode_strengths(0.7, found, 0.1), mode_strengths([0.7], found, 0.1)
    for of in (lambda a: a, lambda a: map_from_modes(a, found), lambda a: mode_loss(a, found)):
        assert np.array_equal(of(one), of(many)[0])
    same = item_similarity(many, found, 1)[0]
    assert np.array_equal(item_similarity(one, found, 1), same)


# ---- bad input ----------------------------------------------------------------------------------


TWO = modes(from_moments(np.diag([2.0, 1.0])))
CURVES = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: modes(from_moments(np.ones(3))), "`correlation` must be a matrix"),
        (lambda: modes(from_moments(np.array([[np.nan]]))), "`correlation` must be finite"),
        (
            lambda: modes(from_moments(np.eye(2), np.eye(3))),
            r"`covariance` must have shape \(2, 2\)",
        ),
        (
            lambda: modes(from_moments(np.eye(2), np.triu(np.ones((2, 2))))),
            "symmetric, the largest",
        ),
        (
            lambda: modes(from_moments(np.eye(2), np.diag([1.0, -1.0]))),
            "negative eigenvalues, one is -1",
        ),
        (lambda: modes(from_moments(np.eye(2), np.diag([1.0, 0.0]))), "do not vary"),
        (lambda: mode_strengths([1.0], TWO, np.ones(3)), "one for each of the 2 modes"),
        (lambda: mode_strengths([1.0], TWO, 0.1, depth=0), "`depth` must be"),
        (lambda: mode_strengths([-1.0], TWO, 0.1), "`times` must not be negative"),
        (lambda: map_from_modes(np.ones((1, 3, 2)), TWO), "`strengths` must be"),
        (
            lambda: mode_strengths([1.0], untyped(np.eye(2)), 0.1),
            r"must be the `Modes`.*got ndarray",
        ),
        (lambda: mode_loss(CURVES, untyped(np.eye(2))), r"must be the `Modes`.*got ndarray"),
        (
            lambda: effective_initial_strengths(
                DeepLinear((np.nan * np.eye(2), np.eye(2))), from_moments(np.eye(2))
            ),
            "are not all finite",
        ),
        (lambda: mode_loss(np.ones((3, 4)), TWO), "with 2 modes, got shape"),
        (lambda: item_similarity(CURVES, TWO, 0), "`layer` must"),
        (lambda: item_similarity(CURVES, TWO, 3), "`layer` must"),
        (lambda: item_similarity(CURVES, TWO, 1, x=np.ones((4, 3))), r"\(item, 2\)"),
        (lambda: saddle_sequence(TWO, 0.1, depth=1), "convex and has no saddles"),
        (lambda: saddle_sequence(TWO, np.ones(3)), "one for each of the 2 modes"),
        (
            lambda: measured_layer_strengths(
                deep_linear_from([np.ones((3, 2))]), from_moments(np.eye(2))
            ),
            "Network and task do not fit",
        ),
        (
            lambda: measured_layer_strengths(
                DeepLinear((np.eye(2) * np.inf,)), from_moments(np.eye(2))
            ),
            "are not all finite",
        ),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message), np.errstate(invalid="ignore"):
        call()


def test_a_network_and_a_task_are_their_weights_and_moments():
    rng = np.random.default_rng(5)
    x, y = np.diag([1.0, 2.0]), np.diag([3.0, 1.0])
    learned = festina.tasks.from_arrays(x, y)
    for loss, samples in (("half", 2.0), ("half-sum", 1.0)):
        found, same = (
            modes(learned, loss=untyped(loss)),
            modes(from_moments(y.T @ x / samples, x.T @ x / samples)),
        )
        for name in ("left", "singular_values", "right", "input_variance"):
            assert np.allclose(getattr(found, name), getattr(same, name))

    weights = decoupled(np.full((2, 2), 0.1), found.left, found.right, (3,), rng)
    network = deep_linear_from(weights)
    assert np.allclose(effective_initial_strengths(network, learned), 0.01)
    assert np.allclose(measured_layer_strengths(network, learned).strengths, 0.1)
    with pytest.raises(ValueError, match="Got DeepLinear"):
        effective_initial_strengths(deep_linear_from([*weights, np.eye(2)]), learned)
