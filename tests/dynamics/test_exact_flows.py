"""Test flow against closed forms, conserved quantities and invariant manifolds."""

import jax
import numpy as np
import pytest

import festina
from festina.networks import NeuronUnit, activation, attention, fully_connected, layer_from
from festina.tasks import from_arrays, in_context_regression, linear_teacher, quadratic_teacher

TIMES = np.linspace(0.0, 20.0, 41)


def scalar(u: float, v: float):
    """Return the network x ↦ v u x."""
    return layer_from(NeuronUnit(), np.array([[u]]), np.array([[v]]))


def teacher(s: float):
    return linear_teacher(np.array([[s]]))


def product(run) -> np.ndarray:
    return np.sum(run.network.v[..., 0] * run.network.u[..., 0], axis=-1)


# Closed forms


@pytest.mark.parametrize("initial_strength", [1e-2, 1e-6])
def test_balanced_modes_follow_the_logistic(initial_strength):
    """Each mode follows a(t) = s a₀ / (a₀ + (s − a₀) e^{−2st}) of Saxe et al. (2014)."""
    s = np.array([3.0, 1.5, 0.5])
    a0 = initial_strength
    exact = s * a0 / (a0 + (s - a0) * np.exp(-2 * s * TIMES[:, None]))
    network = layer_from(NeuronUnit(), np.sqrt(a0) * np.eye(3), np.sqrt(a0) * np.eye(3))

    def error(rtol: float) -> float:
        run = festina.gradient_flow(network, linear_teacher(np.diag(s)), TIMES, rtol=rtol)
        strengths = np.einsum("thi,thi->ti", run.network.v, run.network.u)
        np.testing.assert_allclose(strengths[0], exact[0], rtol=1e-15)
        return float(np.abs(strengths - exact).max())

    coarse, fine = error(1e-5), error(1e-9)
    assert fine < 1e-6
    assert fine < 1e-3 * coarse


def test_the_logistic_holds_on_the_clock_of_its_own_convention():
    s, a0 = 1.3, 1e-3
    exact = s * a0 / (a0 + (s - a0) * np.exp(-4 * s * TIMES))
    network = scalar(np.sqrt(a0), np.sqrt(a0))
    run = festina.gradient_flow(network, teacher(s), TIMES, loss="mean-square", rtol=1e-10)
    assert np.abs(product(run) - exact).max() < 1e-8
    np.testing.assert_allclose(run.loss, (s - product(run)) ** 2, rtol=1e-9, atol=1e-16)


def test_the_lazy_limit_is_a_single_exponential():
    """With v² − u² = λ, da/d(λt) = √(1 + 4a²/λ²)(s − a): the deviation falls as λ⁻²."""
    s, clock = 1.0, np.linspace(0.0, 5.0, 26)

    def deviation(balance: float) -> float:
        network = scalar(0.0, np.sqrt(balance))
        run = festina.gradient_flow(network, teacher(s), clock / balance, rtol=1e-11)
        return float(np.abs(product(run) - s * (1 - np.exp(-clock))).max())

    deviations = np.array([deviation(balance) for balance in (10.0, 100.0, 1000.0)])
    np.testing.assert_allclose(np.diff(np.log10(deviations)), -2.0, atol=0.02)


def test_weights_that_unlearn_decay_algebraically():
    """For zero targets and u = v, u̇ = −u³ gives u² = u₀²/(1 + 2u₀²t), which is not exponential."""
    data = from_arrays(np.array([[1.0]]), np.array([0.0]))
    run = festina.gradient_flow(scalar(1.5, 1.5), data, TIMES, rtol=1e-10)
    exact = 1.5**2 / (1 + 2 * 1.5**2 * TIMES)
    np.testing.assert_allclose(product(run), exact, rtol=1e-8)


def test_escape_from_the_saddle_is_exponential_while_weights_are_small():
    """Weights (v, u) grow as e^{st} along one direction, up to a deviation of the order of a."""
    s, times = 0.7, np.array([0.0, 2.0, 4.0])

    def deviation(a0: float) -> float:
        run = festina.gradient_flow(scalar(a0**0.5, a0**0.5), teacher(s), times, rtol=1e-11)
        return float(np.abs(product(run) / (a0 * np.exp(2 * s * times)) - 1).max())

    deviations = np.array([deviation(a0) for a0 in (1e-4, 1e-5, 1e-6)])
    np.testing.assert_allclose(np.diff(np.log10(deviations)), -1.0, atol=0.02)


def test_the_end_is_the_fixed_point():
    rotation = np.array([[0.6, -0.8], [0.8, 0.6]])
    data = linear_teacher(rotation, np.array([[1.0, 0.5], [0.5, 2.0]]))
    network = fully_connected(2, 6, 2, scale=1e-3, key=jax.random.key(0))
    run = festina.gradient_flow(network, data, converged=1e-14, rtol=1e-10)
    learned = np.einsum("ho,hi->oi", run.network.v[-1], run.network.u[-1])
    np.testing.assert_allclose(learned, rotation, atol=1e-6)


# Conserved quantities (network, task, quantity) of the exact flow


def linear_balance(u, v):
    """Return VVᵀ − UUᵀ for every pair of units."""
    return np.einsum("tho,tgo->thg", v, v) - np.einsum("thi,tgi->thg", u, u)


def relu_balance(u, v):
    return np.sum(v**2, axis=2) - np.sum(u**2, axis=2)


def quadratic_balance(u, v):
    return np.sum(u**2, axis=2) - 2 * v[..., 0] ** 2


def head_balance(u, v):
    """Return |v|² − |k|² and |k|² − |q|² of every head."""
    value = np.sum(v[:, :, 0] ** 2, axis=2)
    key, query = (np.sum(u[:, :, i, 0] ** 2, axis=2) for i in (0, 1))
    return np.stack((value - key, key - query))


def _points(outputs: int, *, seed: int = 2):
    draw = np.random.default_rng(seed)
    return from_arrays(draw.normal(size=(5, 2)), draw.normal(size=(5, outputs)))


def _conserving():
    key = jax.random.key(11)
    relu = fully_connected(2, 4, 2, activation="relu", scale=0.3, key=key)
    even = fully_connected(2, 4, activation="quadratic", scale=0.3, key=key)
    return {
        "linear": (fully_connected(2, 4, 2, scale=0.3, key=key), _points(2), linear_balance),
        "relu": (relu, _points(2), relu_balance),
        "quadratic": (even, quadratic_teacher(np.eye(2)), quadratic_balance),
        "attention": (attention(2, 3, scale=0.4, key=key), in_context_regression(), head_balance),
    }


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "attention",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("linear", "quadratic")),
    ],
)
def test_the_balance_of_the_layers_is_conserved(name):
    network, data, quantity = _conserving()[name]

    def drift(rtol: float) -> float:
        run = festina.gradient_flow(network, data, np.linspace(0.0, 8.0, 9), rtol=rtol)
        assert run.loss[-1] < 0.8 * run.loss[0]
        value = quantity(run.network.u, run.network.v)
        first = value[..., :1, :] if name == "attention" else value[:1]
        return float(np.abs(value - first).max())

    coarse, fine = drift(1e-5), drift(1e-9)
    assert fine < 1e-6
    assert fine < 1e-2 * coarse


# Invariant manifolds (Theorem 3 of Zhang, Saxe & Latham)


def _on_manifolds(unit: str):
    """Units 0 and 1 are equal, 2 is zero, 3 and 4 are related by the symmetry of the activation."""
    draw = np.random.default_rng(4)
    u, v = 0.4 * draw.normal(size=(5, 2)), 0.4 * draw.normal(size=(5, 2))
    u[1], v[1] = u[0], v[0]
    u[2], v[2] = 0.0, 0.0
    if unit == "quadratic":
        u[4], v[4] = -u[3], v[3]
    else:
        u[4], v[4] = 0.3 * u[3], 0.3 * v[3]
    return layer_from(NeuronUnit(activation(unit)), u, v)


@pytest.mark.parametrize(
    "unit",
    [
        "relu",
        *(pytest.param(unit, marks=pytest.mark.slow) for unit in ("linear", "quadratic", "tanh")),
    ],
)
def test_invariant_manifolds_are_mapped_to_themselves(unit):
    # For these points no ReLU unit slides along the kink of a sample.
    network, data = _on_manifolds(unit), _points(2, seed=12)
    flow = festina.gradient_flow(network, data, np.linspace(0.0, 6.0, 4))
    descent = festina.gradient_descent(network, data, 0.02, 200)
    for run in (flow, descent):
        assert not run.failed
        u, v = run.network.u, run.network.v
        assert np.abs(u[-1] - u[0]).max() > 0.05
        assert max(np.abs(w[:, 0] - w[:, 1]).max() for w in (u, v)) < 1e-12
        assert (u[:, 2] == 0).all()
        assert (v[:, 2] == 0).all()
        if unit in ("linear", "relu"):  # proportional units
            assert max(np.abs(0.3 * w[:, 3] - w[:, 4]).max() for w in (u, v)) < 1e-10
        # Mirrored units of an even φ, an invariant manifold that Theorem 3 of the paper omits
        if unit == "quadratic":
            assert np.abs(u[:, 3] + u[:, 4]).max() < 1e-12
            assert np.abs(v[:, 3] - v[:, 4]).max() < 1e-12
        if unit == "tanh":  # tanh has no such symmetry, so proportional units separate
            assert np.abs(0.3 * u[:, 3] - u[:, 4]).max() > 1e-3
