"""Test whether networks are found at rest, against slopes by hand and training in NumPy."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from festina._narrowing._layers import REST
from festina.diagnose import effective_width
from festina.networks import layer_from
from festina.tasks import from_arrays

PHI = {
    "relu": (lambda a: np.maximum(a, 0.0), lambda a: (a > 0).astype(float)),
    "tanh": (np.tanh, lambda a: 1.0 - np.tanh(a) ** 2),
    "linear": (lambda a: a, np.ones_like),
}


def by_hand(phi, u, v, x, y, bias: ArrayLike = 0.0):
    """Return the loss ½⟨‖f + b − y‖²⟩ and its derivatives with respect to u, v and b."""
    function, derivative = PHI[phi]
    a = x @ u.T
    error = function(a) @ v + bias - y
    count = len(x)
    by_u = ((error @ v.T) * derivative(a)).T @ x / count
    return 0.5 * np.sum(error**2) / count, by_u, function(a).T @ error / count, error.mean(axis=0)


def slope_by_hand(phi, u, v, x, y):
    loss, by_u, by_v, _ = by_hand(phi, u, v, x, y)
    size = lambda *parts: np.sqrt(sum(np.sum(part**2) for part in parts))
    loss = max(loss, 0.01 * 0.5 * np.sum(y**2) / len(x))
    return size(by_u, by_v) * size(u, v) / loss


def trained(phi, u, v, x, y, *, steps, rate=0.02, bias=False):
    """Train by plain gradient descent; return the weights, the bias and the losses of all steps."""
    b, losses = np.zeros(y.shape[1]), []
    for _ in range(steps):
        loss, by_u, by_v, by_b = by_hand(phi, u, v, x, y, b)
        losses.append(loss)
        u, v, b = u - rate * by_u, v - rate * by_v, b - bias * rate * by_b
    return u, v, b, np.array(losses)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from(["relu", "tanh"]), st.floats(0.02, 0.3))
def test_a_network_beside_its_minimum_moves(seed, phi, moved):
    """A network moves if its targets come from the same network with slightly different weights."""
    rng = np.random.default_rng(seed)
    x, u, v = rng.normal(size=(200, 5)), rng.normal(size=(12, 5)), rng.normal(size=(12, 1))
    other = [part + moved * rng.normal(size=part.shape) for part in (u, v)]
    y = PHI[phi][0](x @ other[0].T) @ other[1]
    found = effective_width(layer_from(phi, u, v), from_arrays(x, y), tune=False)
    exact = slope_by_hand(phi, u, v, x, y)
    assert found.loss == pytest.approx(by_hand(phi, u, v, x, y)[0])
    if phi == "tanh":
        assert found.slope == pytest.approx(exact)
    else:  # on the other side of the kinks of a few samples the gradient is smaller
        assert 0.5 * exact < found.slope < exact
    assert found.confirmed is found.rests is False
    assert "not confirmed: the network moves" in str(found)


def test_to_and_fro_across_kinks_is_rest_once_the_loss_falls_no_more():
    """With few samples and a finite learning rate, ReLU weights jump across kinks.

    The gradient never vanishes, so the network rests as soon as the loss stops falling.
    """
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=(12, 2)), np.ones(12)])
    y, weights = rng.normal(size=(12, 1)), (0.01 * rng.normal(size=(10, n)) for n in (3, 1))
    u, v = weights
    rests, falls = [], []
    for steps in (10_000, 8_000):
        u, v, _, losses = trained("relu", u, v, x, y, steps=steps)
        found = effective_width(layer_from("relu", u, v), from_arrays(x, y), tune=False)
        assert slope_by_hand("relu", u, v, x, y) > 10 * REST
        rests.append(found.rests)
        falls.append((losses[-500] - losses[-1]) / losses[-1])
    assert rests == [False, True]
    assert falls[0] > 1e-2 > 1e-3 > falls[1]


def test_a_trained_network_whose_last_mode_is_not_seen_is_not_of_the_width_without():
    """A third mode below a tenth of the outputs still belongs to another fixed point.

    The modes are 3, 1 and 0.2; the narrow network without the third is not confirmed.
    """
    strengths = np.array([3.0, 1.0, 0.2])
    x = np.sqrt(3.0) * np.eye(3)
    u = v = np.diag(np.sqrt(strengths))
    data = from_arrays(x, x * strengths)
    found = effective_width(layer_from("linear", u, v), data)
    assert found.width == 2
    assert found.confirmed is False
    assert found.narrow_loss == pytest.approx(0.5 * 0.2**2)
    assert "the narrow network rests at loss 0.02" in str(found)
    assert found.at(0.01).confirmed


def test_without_targets_nothing_says_whether_it_rests():
    u, x = np.tile([[1.0, 2.0]], (3, 1)), np.random.default_rng(0).normal(size=(20, 2))
    blind = effective_width(u, x, v=np.ones(3), activation="relu")
    assert blind.rests is blind.confirmed is None
    assert "not tested whether the network is at rest" in str(blind)


# Outputs that have a bias


@settings(max_examples=2)
@given(st.integers(0, 10**6), st.sampled_from([-20.0, 20.0, 60.0]))
def test_a_bias_of_the_outputs_is_given_or_warned_of(seed, constant):
    """The width is the same for every constant in the outputs, if the bias is given."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 3))
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    y = np.maximum(x @ axes[:, :2], 0.0) @ [[1.0], [-1.3]] + constant
    u, v = (0.1 * rng.normal(size=(10, n)) for n in (3, 1))
    u, v, b, losses = trained("relu", u, v, x, y, steps=4000, rate=0.03, bias=True)
    assume(losses[-1] < 1e-3)
    plain = {"v": v, "activation": "relu", "y": y}
    with pytest.warns(UserWarning, match=r"but for a constant.*`output_bias`"):
        blunt = effective_width(u, x, **plain)
    found = effective_width(u, x, output_bias=b, **plain)
    shifted = effective_width(u, x, **(plain | {"y": y - b}))
    assert found.widths == shifted.widths
    assert blunt.width < 2 <= found.width
    assert found.loss == pytest.approx(losses[-1], rel=0.05)


def test_logits_of_a_cross_entropy_are_warned_of(as_a_user):
    rng = np.random.default_rng(1)
    x, u, v = rng.normal(size=(300, 4)), *(1e-2 * rng.normal(size=(12, n)) for n in (4, 2))
    y = np.eye(2)[(x[:, 0] + np.maximum(x[:, 1], 0.0) > 0.3).astype(int)]
    for _ in range(500):
        a = x @ u.T
        f = np.maximum(a, 0.0) @ v
        error = 1.0 / (1.0 + np.exp(f[:, ::-1] - f)) - y
        by_u = ((error @ v.T) * (a > 0)).T @ x / len(x)
        u, v = u - 0.2 * by_u, v - 0.2 * np.maximum(a, 0.0).T @ error / len(x)
    plain = {"v": v, "activation": "relu", "y": y}
    with pytest.warns(UserWarning, match="may be a cross-entropy"):
        found = effective_width(u, x, **plain)
    assert found.confirmed is False


@pytest.mark.slow
def test_outputs_fitted_by_squares_are_not_warned_of():
    """Classes fitted by least squares and positive targets early in training give no warning."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(100, 3))
    classes = np.eye(2)[(x[:, 0] > 0).astype(int)]
    for y in (classes, 5.0 + x[:, :1]):
        v = np.linalg.lstsq(np.maximum(np.hstack([x, -x]), 0.0), y, rcond=None)[0]
        u = np.vstack([np.eye(3), -np.eye(3)])
        for part in (1.0, 0.0):
            effective_width(u, x, v=part * v, activation="relu", y=y)


X, U, V = np.ones((5, 3)), np.ones((4, 3)), np.ones(4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: effective_width(U, X, v=V, activation="relu", output_bias=1.0), "goes with plain"),
        (
            lambda: effective_width(
                U, X, v=V, activation="relu", y=np.ones(5), output_bias=[1.0, 2.0]
            ),
            r"must be a number or have shape \(1,\)",
        ),
    ],
)
def test_bad_input(call, words, as_a_user):
    with pytest.raises(ValueError, match=words):
        call()
