"""Test the balanced solution for users: transformations, assumptions, kernels, regimes."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from balanced_weights import balanced_weights, gram, integrate, rotation, tabled

from festina import gradient_flow, load, save
from festina.networks import DeepLinear, NeuronUnit, deep_linear_from, layer_from
from festina.tasks import from_arrays, from_moments
from festina.theory.linear import (
    BalanceWarning,
    balanced_flow,
    in_white_coordinates,
    learning_regime,
    measured_balance,
)

# ---- jit, vmap, grad ----------------------------------------------------------------------------


def differences(function, x, h=1e-6):
    return (function(x + h) - function(x - h)) / (2 * h)


def flow_of(shape, balance):
    """Return the flow of the table's weights."""
    first, second, sigma = tabled(shape, balance)
    return balanced_flow(deep_linear_from([first, second]), from_moments(sigma))


@pytest.mark.parametrize("shape", [pytest.param("square", marks=pytest.mark.slow), "funnel"])
@pytest.mark.parametrize("lam", [pytest.param(0.0, marks=pytest.mark.slow), -1.0])
def test_gradients_with_respect_to_everything(shape, lam, double):
    first, second, sigma = tabled(shape, lam)
    rng = np.random.default_rng(0)
    d1, d2, ds = (rng.standard_normal(a.shape) for a in (first, second, sigma))

    def loss(x):
        """Return the loss for shifted weights, task, time constant and λ."""
        flow = balanced_flow(
            DeepLinear((first + x[0] * d1, second + x[1] * d2)),
            from_moments(sigma + x[2] * ds),
            tau=1 + x[3],
            balance=lam + x[4],
        )
        return jnp.sum(flow(np.array([0.7, 1.5])).loss())

    at = np.zeros(5)
    slope = jax.jit(jax.grad(loss))(at)
    value = jax.jit(loss)
    for k, direction in enumerate(np.eye(5)):
        expected = differences(lambda e, direction=direction: value(e * direction), 0.0)
        assert slope[k] == pytest.approx(float(expected), rel=1e-6, abs=1e-8)


@pytest.mark.slow
def test_time_to_half_the_loss_against_the_initial_scale(double):
    first, second, sigma = tabled("square", 0.0)

    def half_time(log_scale):
        """Return a root found by bisection, with one Newton step for an exact derivative."""
        weights = jnp.exp(log_scale) * first, jnp.exp(log_scale) * second
        loss = lambda t: balanced_flow(DeepLinear(weights), from_moments(sigma), balance=0.0)(
            t[None]
        ).loss()[0]
        excess = lambda t: loss(t) / loss(jnp.zeros(())) - 0.5

        def halve(_, bounds):
            low, high = bounds
            middle = (low + high) / 2
            above = excess(middle) > 0
            return jnp.where(above, middle, low), jnp.where(above, high, middle)

        root = jax.lax.stop_gradient(
            jax.lax.fori_loop(0, 60, halve, (jnp.zeros(()), jnp.full((), 50.0)))[0]
        )
        slope = jax.lax.stop_gradient(jax.grad(excess)(root))
        return root - excess(root) / slope

    half_time, slope_of = jax.jit(half_time), jax.jit(jax.grad(half_time))
    for log_scale in (-3.0, -6.0):
        slope = slope_of(log_scale)
        assert slope == pytest.approx(float(differences(half_time, log_scale, 1e-4)), rel=1e-6)
    s1 = np.linalg.svd(sigma, compute_uv=False)
    assert -1 / s1[1] < slope < -1 / s1[0]  # t grows as ln(1/scale)/s of a mode


@pytest.mark.slow
def test_gradient_at_an_obstruction_is_that_of_the_flow(double):
    """Weights without the second mode never learn it, but the derivative towards it exists."""
    sigma = np.diag([2.0, 1.0])
    weights = np.diag([0.3, 0.0])

    def strength(x):
        w = weights + jnp.zeros((2, 2)).at[1, 1].set(x)
        flow = balanced_flow(DeepLinear((w, w)), from_moments(sigma), balance=0.0)
        return flow(np.array([2.0])).map[0, 1, 1]

    curvature = jax.jit(jax.grad(jax.grad(strength)))(0.0)
    assert curvature == pytest.approx(2 * np.exp(2 * 2.0), rel=1e-9)  # a = x² e^{2st}


@pytest.mark.slow
def test_a_sweep_over_balance_is_a_loop(double):
    rng = np.random.default_rng(1)
    balances = np.array([-20.0, -1.0, 0.0, 0.5, 20.0])
    pairs = [balanced_weights(3, 2, 2, lam, [0.3, 0.2], rng) for lam in balances]
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    sigma = np.array([[1.2, 0.4, 0.5], [-0.3, 0.8, -0.6]])
    times = np.array([0.1, 1.0, 5.0])

    def solve(w1, w2, lam):
        return balanced_flow(DeepLinear((w1, w2)), from_moments(sigma), balance=lam)(times)

    states = jax.jit(jax.vmap(solve))(first, second, balances)
    batch = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))
    assert batch(times).map.shape == states.map.shape == (5, 3, 2, 3)
    for k, lam in enumerate(balances):
        flow = balanced_flow(
            deep_linear_from([first[k], second[k]]), from_moments(sigma), balance=lam
        )
        alone = flow(times)
        for many in (states, batch(times)):
            assert np.allclose(many.map[k], alone.map, atol=1e-12)
            assert np.allclose(many.loss()[k], alone.loss(), atol=1e-12)
            assert np.allclose(many.kernel_distance()[k], alone.kernel_distance(), atol=1e-12)
        assert np.allclose(batch.limit().map[k], flow.limit().map, atol=1e-12)
        assert batch.balance[k] == pytest.approx(lam, abs=1e-12)
        assert batch.obstructed[k] == flow.obstructed


def test_a_state_is_a_run_with_named_axes(tmp_path):
    first, second, sigma = tabled("funnel", 1.0)
    state = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))(
        np.linspace(0.0, 2.0, 5)
    )
    save(state, tmp_path / "state.zarr")
    table = load(tmp_path / "state.zarr")["simulation"].to_dataset()
    assert table["map"].dims == ("time", "output", "input")
    assert np.array_equal(table["map"], state.map)
    assert np.array_equal(table["loss"], state.loss())
    batch = balanced_flow(deep_linear_from([first[None], second[None]]), from_moments(sigma))([1.0])
    assert batch.to_dataset().sizes["network"] == 1
    with pytest.raises(ValueError, match="`dims` must name the axes"):
        batch.to_dataset(("seed", "scale"))


def test_one_network_of_a_batch_that_is_not_balanced_is_named():
    first, second, sigma = tabled("square", 1.0)
    with pytest.raises(ValueError, match=r"\(network 1\).*balance of the weights is"):
        balanced_flow(
            deep_linear_from([np.stack([first, 2 * first]), np.stack([second, second])]),
            from_moments(sigma),
            balance=1.0,
        )


# ---- assumptions --------------------------------------------------------------------------------


def test_small_random_weights_are_off_by_their_variance():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 4, 4))
    sigma = np.linalg.qr(rng.standard_normal((4, 4)))[0] * [3.0, 2.0, 1.5, 1.0]
    times = np.linspace(0.0, 4.0, 40)
    scales = np.array([0.1, 0.03, 0.01])
    errors = []
    for scale in scales:
        with pytest.warns(BalanceWarning, match="not quite balanced"):
            flow = balanced_flow(
                deep_linear_from([scale * first, scale * second]), from_moments(sigma)
            )
        exact = integrate(scale * first, scale * second, sigma, times)
        norm = np.linalg.norm(exact, axis=(1, 2))
        relative = np.linalg.norm(gram(flow(times)) - exact, axis=(1, 2)) / norm
        errors.append(relative.max())
        estimate = flow.error_estimate(times)
        assert 0.2 < relative.max() / estimate.max() < 2.0
        assert flow.balance_residual == pytest.approx(
            scale**2 * measured_balance(deep_linear_from((first, second)))[1], rel=1e-9
        )
    order = np.diff(np.log(errors)) / np.diff(np.log(scales))
    assert np.allclose(order, 2.0, atol=0.2)


def test_unbalanced_weights_are_refused_with_the_way_out():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 3, 3))
    residual = measured_balance(deep_linear_from((first, second)))[1]
    with pytest.raises(ValueError, match=f"by {residual:.3g}.*gradient_flow"):
        balanced_flow(deep_linear_from([first, second]), from_moments(np.eye(3)))
    with pytest.warns(BalanceWarning):
        balanced_flow(deep_linear_from([first, second]), from_moments(np.eye(3)), tolerance=np.inf)
    good = balanced_weights(3, 3, 3, 2.0, 0.5, rng)
    with pytest.raises(ValueError, match="balance of the weights is 2"):
        balanced_flow(deep_linear_from(good), from_moments(np.eye(3)), balance=0.0)


def test_networks_and_tasks():
    first, second, sigma = tabled("funnel", -1.0)
    white = from_arrays(np.sqrt(3) * np.eye(3), np.sqrt(3) * sigma.T)
    expected = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))([1.5]).map
    for network in (deep_linear_from((first, second)), layer_from(NeuronUnit(), first, second.T)):
        assert np.allclose(balanced_flow(network, white)([1.5]).map, expected, atol=1e-12)
        # A factor in the loss is a factor in time; one-hot items have white sums.
        items = from_arrays(np.eye(3), sigma.T)
        summed = balanced_flow(network, items, loss="half-sum")([1.5]).map
        assert np.allclose(summed, expected, atol=1e-12)
    coloured = from_arrays(np.eye(3), sigma.T)
    with pytest.raises(ValueError, match=r"differ from that by 0\.667.*whitened.*gradient_flow"):
        balanced_flow(network, coloured)
    with pytest.raises(ValueError, match="linear with two layers"):
        balanced_flow(deep_linear_from((first, second, np.eye(2))), white)


def test_whitening_keeps_the_loss():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 3)) @ np.diag([1.0, 2.0, 0.3]), rng.standard_normal((50, 2))
    covariance, correlation = x.T @ x / 50, y.T @ x / 50
    first, second = rng.standard_normal((4, 3)), rng.standard_normal((2, 4))
    network = deep_linear_from([first, second])
    for task in (from_arrays(x, y), from_moments(correlation, covariance)):
        whitened, white = in_white_coordinates(network, task)
        np.testing.assert_allclose(white.covariance, np.eye(3))
        np.testing.assert_allclose(
            gradient_flow(whitened, white, np.array([0.0])).loss,
            gradient_flow(network, task, np.array([0.0])).loss,
            rtol=1e-12,
        )
        expected = first @ covariance @ first.T
        np.testing.assert_allclose(whitened.weights[0] @ whitened.weights[0].T, expected)
    with pytest.raises(ValueError, match="cannot be whitened"):
        in_white_coordinates(network, from_moments(np.eye(2, 3), np.diag([1.0, 1.0, 0.0])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"weights": (np.full((2, 3), np.nan), np.eye(2))},
            "`first` must be finite, but 6",
        ),
        ({"weights": (np.eye(2, 3), np.full((2, 2), np.inf))}, "`second` must be finite"),
        ({"correlation": np.eye(2)}, "do not fit: the network takes inputs of shape"),
        ({"tau": 0.0}, "`tau` must be positive"),
        ({"balance": np.nan}, "`balance` must be finite"),
        ({"balance": np.array([-1.0, 1.0])}, r"one for each network.*got shape \(2,\)"),
        ({"tau": np.array([1.0, 2.0])}, "`tau` must be a single number"),
    ],
)
def test_bad_arguments(change, message):
    first, second, sigma = tabled("funnel", -1.0)
    change = {"weights": (first, second), "correlation": sigma} | change
    network, task = DeepLinear(change.pop("weights")), from_moments(change.pop("correlation"))
    with pytest.raises(ValueError, match=message):
        balanced_flow(network, task, **change)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([-1.0, 0.0], "must not be negative"),
        ([np.nan], "finite"),
        ([[1.0]], "a number or a list of"),
        ([], "list"),
        ([1j], "`times` must be real"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "without masked values, but 1 of"),
    ],
)
def test_bad_times(times, message):
    with pytest.raises(ValueError, match=message):
        flow_of("square", 1.0)(times)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_one_time_has_no_axis(batch):
    first, second, sigma = tabled("funnel", -1.0)
    weights = [np.broadcast_to(w, (*batch, *w.shape)) for w in (first, second)]
    flow = balanced_flow(deep_linear_from(weights), from_moments(sigma))
    one, many = flow(1.5), flow([1.5])
    for of in (
        lambda state: state.loss(),
        lambda state: state.alignment(),
        lambda state: state.kernel_distance(),
        lambda state: state.kernel_alignment(),
        lambda state: np.moveaxis(state.map, (-2, -1), (0, 1)),
        lambda state: np.moveaxis(state.factor, (-2, -1), (0, 1)),
        lambda state: np.moveaxis(state.input_gram, (-2, -1), (0, 1)),
        lambda state: np.moveaxis(state.output_gram, (-2, -1), (0, 1)),
        lambda state: np.moveaxis(state.neural_tangent_kernel(), (-2, -1), (0, 1)),
        lambda state: state.times,
    ):
        assert of(one).shape == of(many).shape[:-1]
        assert np.array_equal(of(one), of(many)[..., 0])
    assert "time" not in one.to_dataset().sizes
    assert np.array_equal(flow.error_estimate(1.5), flow.error_estimate([1.5])[..., 0])


# ---- kernels and regimes ------------------------------------------------------------------------


def test_kernel_is_that_of_the_network():
    rng = np.random.default_rng(0)
    first, second, sigma = tabled("inverted", -1.0)
    x = rng.standard_normal((4, 2))
    state = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))([0.0, 1.0, 5.0])
    kernels = state.neural_tangent_kernel(x)

    def outputs(w1, w2):
        return (w2 @ w1 @ x.T).ravel()

    with jax.enable_x64(True):
        parts = jax.jacobian(outputs, argnums=(0, 1))(jnp.asarray(first), jnp.asarray(second))
    jacobian = np.concatenate([np.asarray(part).reshape(12, -1) for part in parts], axis=1)
    assert np.allclose(kernels[0], jacobian @ jacobian.T, atol=1e-12)
    norm = np.linalg.norm(kernels, axis=(1, 2))
    cosine = np.einsum("tij,ij->t", kernels, kernels[0]) / (norm * norm[0])
    assert np.allclose(state.kernel_distance(x), 1 - cosine, atol=1e-13)
    with pytest.raises(ValueError, match=r"\(sample, 2\), got shape \(4, 3\)"):
        state.kernel_distance(np.ones((4, 3)))


def test_alignment_with_a_kernel():
    rng = np.random.default_rng(0)
    first, second, sigma = tabled("inverted", -1.0)
    x = rng.standard_normal((4, 2))
    state = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))([0.0, 1.0, 5.0])
    kernels = state.neural_tangent_kernel(x)
    norm = np.linalg.norm(kernels, axis=(1, 2))
    y = (sigma @ x.T).ravel()
    expected = np.einsum("i,tij,j->t", y, kernels, y) / (norm * (y @ y))
    assert np.allclose(state.kernel_alignment(x=x), expected, atol=1e-13)
    start = state.kernel_alignment(kernels[0], x)
    assert np.allclose(start, 1 - state.kernel_distance(x), atol=1e-13)
    with pytest.raises(ValueError, match=r"outputs × examples.*\(12, 12\), got shape \(4, 4\)"):
        state.kernel_alignment(np.eye(4), x)


@pytest.mark.slow
def test_regimes_of_the_three_shapes():
    lazy = {"square": (-50.0, 50.0), "funnel": (50.0,), "inverted": (-50.0,)}
    delayed = {"square": (), "funnel": (-50.0,), "inverted": (50.0,)}
    for shape in lazy:
        rich = learning_regime(flow_of(shape, 0.0))
        assert rich.kind == "rich"
        assert rich.kernel_distance > 0.03
        for lam in lazy[shape]:
            found = learning_regime(flow_of(shape, lam))
            assert found.kind == "lazy"
            assert found.kernel_distance < 1e-5
        for lam in delayed[shape]:
            found = learning_regime(flow_of(shape, lam))
            assert found.kind == "delayed rich"
            assert found.kernel_distance > 0.1
            assert found.rate_gap == pytest.approx(
                np.linalg.svd(tabled(shape, lam)[2])[1][-1] ** 2 / 50, rel=1e-2
            )
            assert found.half_loss_time is not None
            assert found.half_change_time is not None
            assert found.half_loss_time < 0.01 * found.half_change_time


def kernel_distance_of(states, inputs):
    """Return 1 − cos(K₀, K) of M = QQᵀ, from the kernels."""

    def kernel(m):
        outputs = len(m) - inputs
        first = np.kron(np.eye(outputs), m[:inputs, :inputs])
        return (first + np.kron(m[inputs:, inputs:], np.eye(inputs))).ravel()

    kernels = [kernel(m) / np.linalg.norm(kernel(m)) for m in states]
    return np.array([1 - each @ kernels[0] for each in kernels])


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 40))]
)
def test_regimes_of_any_shape_are_those_of_their_kernels(seed):
    """The kernel turns with the layer of larger weights, which rests in the lazy regime.

    In the delayed rich regime, half of the change takes as long as for the largest difference of
    rates, much longer than 1/|λ|.
    """
    rng = np.random.default_rng(seed)
    inputs, outputs = rng.integers(1, 6, 2)
    for lam in rng.uniform(40.0, 100.0, 2) * [-1.0, 1.0]:
        most = outputs if lam > 0 else inputs
        hidden = rng.integers(1, most + 1)
        s = np.sort(rng.uniform(0.7, 1.5, min(inputs, outputs)))[::-1]
        left, right = rotation(outputs, rng)[:, : len(s)], rotation(inputs, rng)[: len(s)]
        weights = balanced_weights(inputs, hidden, outputs, lam, 0.05, rng)
        found = learning_regime(
            balanced_flow(deep_linear_from(weights), from_moments((left * s) @ right))
        )
        lazy = hidden == most
        assert found.kind == ("lazy" if lazy else "delayed rich")
        # Units turn to the strongest modes; units without a mode keep their directions.
        large, modes = (weights[1], left) if lam > 0 else (weights[0].T, right.T)
        kept = np.sum((modes[:, :hidden].T @ np.linalg.qr(large)[0]) ** 2)
        turned = 1 - (kept + max(hidden - len(s), 0)) / hidden  # mean sin²
        assert (turned < 1e-12) == lazy  # one draw begins near its end, with 3e-6
        # The layer of smaller weights contributes a part (s/λ)² to the kernel.
        assert found.kernel_distance == pytest.approx(turned, abs=(2 / lam) ** 2)
        if not lazy:
            # For one difference of rates g, a small angle falls as e^(−gt), and half of sin² is
            # reached at gt = −ln(1 − √½) = 1.228. Wider angles and several rates take longer in
            # units of the largest g (by convexity for one unit, as observed for several). Finite λ
            # changes the time by (s/λ)², or by (s/λ)⁴ relative to the distance, 5 % for a distance
            # of 3e-6. `rate_gap` is the smallest g, and between two modes of equal strength it does
            # not determine the half-time.
            weakest = s[-1] if most == len(s) else 0.0
            largest = np.hypot(s[0], lam / 2) - np.hypot(weakest, lam / 2)
            assert found.half_change_time * largest > 1.1
            assert found.rate_gap <= (1 + 1e-9) * largest
            assert found.half_change_time > 10 / abs(lam)


@pytest.mark.parametrize(
    ("inputs", "hidden", "outputs", "lam", "kind"),
    [
        (4, 2, 4, 40.0, "delayed rich"),
        pytest.param(4, 2, 4, -40.0, "delayed rich", marks=pytest.mark.slow),
        (2, 4, 4, 40.0, "lazy"),
        pytest.param(7, 2, 4, 40.0, "delayed rich", marks=pytest.mark.slow),
        pytest.param(4, 2, 7, -40.0, "delayed rich", marks=pytest.mark.slow),
        pytest.param(4, 3, 4, 40.0, "delayed rich", marks=pytest.mark.slow),
    ],
)
def test_regimes_of_networks_that_were_integrated(inputs, hidden, outputs, lam, kind):
    rng = np.random.default_rng(1)
    s = np.linspace(1.5, 0.9, min(inputs, outputs))
    sigma = (rotation(outputs, rng)[:, : len(s)] * s) @ rotation(inputs, rng)[: len(s)]
    weights = balanced_weights(inputs, hidden, outputs, lam, 0.2, rng)
    found = learning_regime(balanced_flow(deep_linear_from(weights), from_moments(sigma)))
    assert found.kind == kind
    times = [0.0, found.half_loss_time, found.half_change_time, 12 / found.rate_gap]
    order = np.argsort(times)
    states = integrate(*weights, sigma, np.array(times)[order], rtol=1e-9, atol=1e-12)
    states = states[np.argsort(order)]
    moved = kernel_distance_of(states, inputs)
    loss = np.sum((states[:, inputs:, :inputs] - sigma) ** 2, axis=(1, 2))
    assert moved[2:] == pytest.approx([found.kernel_distance / 2, found.kernel_distance], rel=1e-3)
    assert loss[1] == pytest.approx(loss[0] / 2, rel=1e-5)
    assert (moved[3] < 1e-3) == (kind == "lazy")


def test_the_delay_grows_as_the_balance():
    fast, slow = (learning_regime(flow_of("funnel", lam)).half_change_time for lam in (-20, -80))
    assert fast is not None
    assert slow is not None
    assert slow / fast == pytest.approx(4.0, rel=0.01)


@pytest.mark.slow
def test_lazy_kernels_move_as_the_square_of_one_over_balance():
    moved = [flow_of("square", lam).limit().kernel_distance()[0] for lam in (1e3, 1e4)]
    assert np.log10(moved[0] / moved[1]) == pytest.approx(2.0, abs=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flow_of("square", 1e4)
