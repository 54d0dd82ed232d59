"""Test the mean field of the decision model against an independent integration and symmetries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import xarray as xr

import festina
from festina.theory.decisions import (
    AnimalWeights,
    ContrastChoiceLearner,
    draw_naive_animals,
    mean_field_learning,
    naive_animals,
    weight_velocity,
)

ANIMAL = AnimalWeights([0.3, 0.1, 0.2], [[0.15, -0.05, 0.2], [-0.15, 0.05, 0.2]])
TEACHING = ("total", "heterogeneous")

# W row by row (left, right), then P(R) for the five contrasts, at t = 25, 50, 100
TABLE = {
    "total": (
        [0.592541, -0.118052, 0.495509, -0.414479, 0.227705, 0.700959],
        [0.567618, -0.243481, 0.530632, -0.537118, 0.4514, 0.610585],
        [0.508564, -0.408539, 0.576898, -0.634241, 0.48513, 0.596012],
        [0.017848, 0.183877, 0.736382, 0.868942, 0.940253],
        [0.005917, 0.086111, 0.598631, 0.894445, 0.979651],
        [0.003617, 0.059444, 0.523874, 0.91131, 0.989686],
    ),
    "heterogeneous": (
        [0.631009, -0.021694, 0.47418, -0.044764, 0.658053, 0.479703],
        [0.625578, -0.010827, 0.474397, -0.029122, 0.624733, 0.476191],
        [0.620061, -0.006693, 0.475643, -0.019441, 0.618361, 0.476294],
        [0.033854, 0.159518, 0.506903, 0.849026, 0.968518],
        [0.036808, 0.164135, 0.502243, 0.831721, 0.960333],
        [0.039383, 0.168611, 0.500813, 0.827197, 0.958054],
    ),
}


def slopes(theta, beta, teaching, contrasts=(-0.5, -0.25, 0.0, 0.25, 0.5)):
    """Return velocities by loops over contrasts and actions."""
    v, u = theta[:3], theta[3:].reshape(2, 3)
    dv, du = np.zeros(3), np.zeros((2, 3))
    for c in contrasts:
        x = np.array([max(-c, 0) / 0.5, max(c, 0) / 0.5, 1.0])
        stim = [u[a, 0] * v[0] * x[0] + u[a, 1] * v[1] * x[1] for a in (0, 1)]
        const = [u[a, 2] * v[2] for a in (0, 1)]
        total = [stim[a] + const[a] for a in (0, 1)]
        right = 1.0 / (1.0 + np.exp(beta * (total[0] - total[1])))
        for a, p in ((0, 1.0 - right), (1, right)):
            reward = 0.5 if c == 0 else float((c > 0) == (a == 1))
            for i in range(3):
                own = {"total": total, "heterogeneous": const if i == 2 else stim}[teaching][a]
                dv[i] += p * (reward - total[a]) * u[a, i] * x[i] / len(contrasts)
                du[a, i] += p * (reward - own) * v[i] * x[i] / len(contrasts)
    return np.concatenate([dv, du.ravel()])


@pytest.mark.parametrize("teaching", TEACHING)
def test_printed_numbers(teaching):
    run = mean_field_learning(ContrastChoiceLearner(teaching=teaching), ANIMAL, [25.0, 50.0, 100.0])
    table = TABLE[teaching]
    np.testing.assert_allclose(run.products[0].reshape(3, 6), table[:3], atol=1e-6)
    np.testing.assert_allclose(run.right_probability[0], table[3:], atol=1e-6)


@pytest.mark.parametrize("teaching", TEACHING)
def test_follows_the_equations_written_out(teaching):
    times = np.array([0.0, 7.0, 30.0])
    start = np.concatenate([ANIMAL.gains[0], ANIMAL.striatum[0].ravel()])
    exact = scipy.integrate.solve_ivp(
        lambda _, theta: slopes(theta, 3.0, teaching),
        (0.0, 30.0),
        start,
        method="DOP853",
        t_eval=times,
        rtol=1e-11,
        atol=1e-13,
    ).y.T
    model = ContrastChoiceLearner(teaching=teaching, inverse_temperature=3.0)

    def error(rtol):
        run = mean_field_learning(model, ANIMAL, times, rtol=rtol, atol=1e-3 * rtol)
        theta = np.concatenate([run.gains[0], run.striatum[0].reshape(3, 6)], axis=1)
        return np.abs(theta - exact).max()

    coarse, fine = error(1e-5), error(1e-10)
    assert fine < 1e-8
    assert fine < 1e-3 * coarse


@pytest.mark.parametrize("beta", [0.0, 5.0])
def test_total_teaching_descends_the_loss_with_the_policy_held(beta, double):
    """For β = 0 learning descends the gradient of L; for β > 0, only with a fixed policy."""
    contrasts = jnp.array([-0.5, -0.25, 0.0, 0.25, 0.5])
    x = jnp.stack([jnp.maximum(-contrasts, 0) / 0.5, jnp.maximum(contrasts, 0) / 0.5], axis=1)
    target = jnp.array([[1.0, 0], [1, 0], [0.5, 0.5], [0, 1], [0, 1]])

    def loss(weights, hold):
        v, u = weights
        w = u * v
        q = x @ w[:, :2].T + w[:, 2]
        policy = jnp.exp(beta * q) / jnp.exp(beta * q).sum(axis=1, keepdims=True)
        policy = jax.lax.stop_gradient(policy) if hold else policy
        return 0.5 * jnp.mean((policy * (target - q) ** 2).sum(axis=1))

    weights = (jnp.asarray(ANIMAL.gains[0]), jnp.asarray(ANIMAL.striatum[0]))
    moves = weight_velocity(ContrastChoiceLearner(inverse_temperature=beta), ANIMAL)
    held, full = jax.grad(loss)(weights, True), jax.grad(loss)(weights, False)
    np.testing.assert_allclose(moves.gains[0], -held[0], atol=1e-14)
    np.testing.assert_allclose(moves.striatum[0], -held[1], atol=1e-14)
    assert np.allclose(moves.striatum[0], -full[1], atol=1e-12) == (beta == 0)
    run = mean_field_learning(ContrastChoiceLearner(inverse_temperature=beta), ANIMAL, [0.0])
    assert run.loss[0, 0] == pytest.approx(float(loss(weights, False)), abs=1e-14)


def test_total_teaching_conserves_the_balance_of_every_line():
    """d(v²)/dt = 2 Σ g u v = d(Σ u²)/dt for every policy, but not for heterogeneous teaching."""

    def drift(teaching):
        run = mean_field_learning(
            ContrastChoiceLearner(teaching=teaching), ANIMAL, [0.0, 10.0, 100.0]
        )
        balance = run.gains**2 - (run.striatum**2).sum(axis=2)
        return np.abs(balance - balance[:, :1]).max()

    assert drift("total") < 1e-7
    assert drift("heterogeneous") > 0.1


@pytest.mark.parametrize("teaching", TEACHING)
@pytest.mark.parametrize("architecture", ["deep", "shallow"])
def test_mirrored_animals_have_mirrored_behaviour(teaching, architecture):
    rng = np.random.default_rng(0)
    animals = AnimalWeights(rng.normal(size=(3, 3)), rng.normal(size=(3, 2, 3)))
    model = ContrastChoiceLearner(teaching=teaching, architecture=architecture)
    times = np.array([1.0, 20.0])
    run, mirror = (mean_field_learning(model, a, times) for a in (animals, animals.mirrored()))
    np.testing.assert_allclose(
        run.right_probability, 1.0 - mirror.right_probability[..., ::-1], atol=1e-7
    )
    np.testing.assert_allclose(run.bias, -mirror.bias, atol=1e-7)
    np.testing.assert_allclose(run.accuracy, mirror.accuracy, atol=1e-7)


def test_shallow_animals_with_random_choices_relax_exponentially():
    """For β = 0, W(t) = W* + e^{−Ht} (W(0) − W*) with H = ½⟨xxᵀ⟩."""
    model = ContrastChoiceLearner(architecture="shallow", inverse_temperature=0.0)
    x, r = model.stimuli, model.rewards
    h, target = 0.5 * x.T @ x / 5, 0.5 * r.T @ x / 5
    end = np.linalg.solve(h, target.T).T
    times = np.array([0.0, 2.0, 50.0])
    run = mean_field_learning(model, ANIMAL, times)
    lam, basis = np.linalg.eigh(h)
    for w, t in zip(run.products[0], times, strict=True):
        decay = basis @ np.diag(np.exp(-lam * t)) @ basis.T
        np.testing.assert_allclose(w, end + (ANIMAL.products[0] - end) @ decay, atol=1e-8)
    assert (run.gains == 1).all()


def test_time_is_in_units_of_tau():
    fast = mean_field_learning(ContrastChoiceLearner(), ANIMAL, [10.0, 20.0])
    slow = mean_field_learning(ContrastChoiceLearner(tau=4.0), ANIMAL, [40.0, 80.0])
    np.testing.assert_allclose(fast.products, slow.products, atol=1e-12)
    quick, idle = (weight_velocity(ContrastChoiceLearner(tau=tau), ANIMAL) for tau in (1.0, 4.0))
    np.testing.assert_allclose(quick.gains, 4.0 * idle.gains, atol=1e-15)


def test_animals_do_not_see_each_other():
    herd = draw_naive_animals(140, key=jax.random.key(3))  # too many animals to share time steps
    few = draw_naive_animals(3, key=jax.random.key(3))
    np.testing.assert_array_equal(few.gains, herd.gains[:3])
    times = np.array([0.0, 30.0, 60.0])
    many, alone = (
        mean_field_learning(ContrastChoiceLearner(), herd, times),
        mean_field_learning(ContrastChoiceLearner(), few, times),
    )
    assert many.gains.shape == (140, 3, 3)
    assert many.striatum.shape == (140, 3, 2, 3)
    np.testing.assert_allclose(many.products[:3], alone.products, atol=1e-7)
    np.testing.assert_array_equal(many.products[:, 0], herd.products)
    last = AnimalWeights(herd.gains[-1], herd.striatum[-1])
    np.testing.assert_allclose(
        many.products[-1],
        mean_field_learning(ContrastChoiceLearner(), last, times).products[0],
        atol=1e-7,
    )


def test_learning_goes_on_from_where_it_stopped():
    first = mean_field_learning(ContrastChoiceLearner(), ANIMAL, [20.0])
    then = mean_field_learning(ContrastChoiceLearner(), first.final, [30.0])
    np.testing.assert_allclose(
        then.products,
        mean_field_learning(ContrastChoiceLearner(), ANIMAL, [50.0]).products,
        atol=1e-7,
    )


def test_drawn_gains_are_log_uniform():
    animals = draw_naive_animals(2000, smallest=1e-4, largest=1e-1, key=jax.random.key(0))
    share = (np.log10(animals.gains[:, :2]) + 4.0) / 3.0
    assert share.min() >= 0
    assert share.max() <= 1
    # Quartiles of 2000 uniform numbers have a standard deviation below 0.012.
    np.testing.assert_allclose(
        np.quantile(share, [0.25, 0.5, 0.75], axis=0).T, [[0.25, 0.5, 0.75]] * 2, atol=0.04
    )
    assert abs(np.asarray(np.corrcoef(share.T))[0, 1]) < 0.09
    np.testing.assert_array_equal(
        naive_animals(0.2, 0.1, 0.3).striatum[0], [[0.1, -0.05, 0.3], [-0.1, 0.05, 0.3]]
    )


def test_a_data_set_with_named_axes_can_be_saved(tmp_path):
    run = mean_field_learning(
        ContrastChoiceLearner(), naive_animals([0.1, 0.2], 0.01), [0.0, 5.0, 10.0]
    )
    data = run.to_dataset()
    assert data["right_probability"].dims == ("animal", "time", "contrast")
    assert data["products"].dims == ("animal", "time", "action", "line")
    rewarded = data["values"].sel(action="right", contrast=0.5)
    x = np.array([0.0, 1.0, 1.0])
    np.testing.assert_allclose(rewarded, run.products[:, :, 1] @ x)
    # Two of five trials are on each side; one has no stimulus and a random reward.
    np.testing.assert_allclose(data["reward"], 0.8 * data["accuracy"] + 0.1)
    np.testing.assert_allclose(data["bias"], data["right_probability"].sel(contrast=0.0) - 0.5)
    loaded = festina.load(festina.save(run, tmp_path / "run.zarr"))["simulation"].to_dataset()
    xr.testing.assert_equal(loaded, data)
