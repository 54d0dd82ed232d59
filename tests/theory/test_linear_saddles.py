"""Test the corrected Lemma 6: all fixed points of a linear network."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import root

from festina.tasks import from_moments
from festina.theory.saddles import linear_saddle, linear_saddles
from helpers import untyped

KEY = jax.random.key(2)


def statistics(seed, outputs, inputs, rank=None):
    """Return correlation, covariance and power of targets that are linear in the inputs."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(outputs, inputs))
    if rank is not None:
        target = rng.normal(size=(outputs, rank)) @ rng.normal(size=(rank, inputs))
    root_of = rng.normal(size=(inputs, inputs))
    covariance = root_of @ root_of.T / inputs + 0.3 * np.eye(inputs)
    return target @ covariance, covariance, float(np.trace(target @ covariance @ target.T))


def gradient(network, correlation, covariance):
    """Return the norm of the gradient in Eq. (9)."""
    left = correlation - network.v.T @ network.u @ covariance
    return np.linalg.norm(np.concatenate((network.u @ left.T, network.v @ left), axis=1))


shapes = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(shape=shapes, rank=st.integers(1, 4), seed=st.integers(0, 999))
@settings(max_examples=30)
def test_every_set_of_modes_is_a_fixed_point_with_its_loss(shape, rank, seed):
    """Inputs may be more or fewer than outputs, and targets may have lower rank."""
    rank = min(rank, *shape)
    correlation, covariance, power = statistics(seed, shape[0], shape[1], rank)
    target = np.linalg.solve(covariance, correlation.T).T
    saddles = list(linear_saddles(from_moments(correlation, covariance, target_power=power)))
    assert [s.modes for s in saddles] == [
        modes for r in range(rank + 1) for modes in itertools.combinations(range(rank), r)
    ]
    for saddle in saddles:
        error = target - saddle.map
        loss = 0.5 * np.trace(error @ covariance @ error.T)
        assert saddle.loss == pytest.approx(loss, rel=1e-8, abs=1e-10 * power)
        np.testing.assert_allclose(
            saddle.correlation, correlation - saddle.map @ covariance, atol=1e-9 * power
        )
        singular = np.linalg.svd(saddle.correlation, compute_uv=False)
        left = rank - len(saddle.modes)
        np.testing.assert_allclose(saddle.escape_rates, singular[:left], rtol=1e-12)
        assert singular[left:].max(initial=0) < 1e-8 * np.sqrt(power)
        network = saddle.network(rank + 2, key=KEY)
        np.testing.assert_allclose(network.v.T @ network.u, saddle.map, atol=1e-11 * power)
        assert gradient(network, correlation, covariance) < 1e-9 * (1 + power) ** 1.5


@pytest.mark.parametrize(
    ("outputs", "inputs", "rank", "side"), [(2, 4, 2, "u"), (3, 3, 2, "u"), (4, 2, 2, "v")]
)
def test_fixed_points_that_the_paper_leaves_out(outputs, inputs, rank, side):
    correlation, covariance, _ = statistics(5, outputs, inputs, rank)
    saddle = linear_saddle(from_moments(correlation, covariance), (0,))
    network = saddle.network(4, key=KEY, unread=1.0)
    assert gradient(network, correlation, covariance) < 1e-13
    np.testing.assert_allclose(network.v.T @ network.u, saddle.map, atol=1e-13)
    # Eq. (40): u lies in the span of the rows of W, v in that of its columns.
    a, _, bt = np.linalg.svd(saddle.map)
    outside_u = network.u - network.u @ np.outer(bt[0], bt[0])
    outside_v = network.v - network.v @ np.outer(a[:, 0], a[:, 0])
    sizes = {"u": np.linalg.norm(outside_u), "v": np.linalg.norm(outside_v)}
    assert sizes.pop(side) > 0.3
    assert max(sizes.values()) < 1e-13


def test_where_the_correlation_has_full_rank_the_lemma_is_complete():
    correlation, covariance, _ = statistics(5, 3, 3)
    saddle = linear_saddle(from_moments(correlation, covariance), (0,))
    with pytest.raises(ValueError, match="`unread` components do not exist here"):
        saddle.network(4, key=KEY, unread=1.0)


@pytest.mark.parametrize(("outputs", "inputs"), [(2, 3), (3, 2)])
def test_whatever_else_stands_still_computes_one_of_them(outputs, inputs):
    """Zeros of the gradient found from random weights are among the fixed points of the lemma."""
    correlation, covariance, _ = statistics(7, outputs, inputs)
    maps = np.stack([s.map for s in linear_saddles(from_moments(correlation, covariance))])
    rng, seen = np.random.default_rng(0), set()
    width = 3

    def field(theta):
        u, v = np.split(theta.reshape(width, -1), [inputs], axis=1)
        left = correlation - v.T @ u @ covariance
        return np.concatenate((v @ left, u @ left.T), axis=1).ravel()

    for _ in range(60):
        found = root(field, rng.normal(size=width * (inputs + outputs)), method="lm", tol=1e-14)
        if np.linalg.norm(found.fun) > 1e-10:
            continue
        u, v = np.split(found.x.reshape(width, -1), [inputs], axis=1)
        distance = np.abs(maps - v.T @ u).max(axis=(1, 2))
        assert distance.min() < 1e-4
        seen.add(int(distance.argmin()))
    assert len(seen) >= 3


@pytest.mark.parametrize("width", [3, 5])
def test_the_index_is_that_of_the_hessian(width):
    """Compare with the quadratic form −2 Σ δv·Σ̃δu + tr δW Σ_zz δWᵀ as a matrix."""
    correlation, covariance, _ = statistics(11, 3, 4)
    rng = np.random.default_rng(0)
    for saddle in linear_saddles(from_moments(correlation, covariance)):
        network = saddle.network(width, key=KEY)
        # Other weights with the same map, by an invertible mixture of units
        mixture = rng.normal(size=(width, width)) + 2 * np.eye(width)
        u, v = mixture @ network.u, np.linalg.inv(mixture).T @ network.v

        def form(theta, u=u, v=v, saddle=saddle):
            du, dv = np.split(theta.reshape(width, -1), [4], axis=1)
            dw = dv.T @ u + v.T @ du
            return np.trace(dw @ covariance @ dw.T) - 2 * np.trace(dv @ saddle.correlation @ du.T)

        basis = np.eye(7 * width)
        alone = np.array([form(b) for b in basis])
        both = np.array([[form(a + b) for a in basis] for b in basis])
        values = np.linalg.eigvalsh((both - alone - alone[:, None]) / 2)
        assert np.sum(values < -1e-9 * values[-1]) == saddle.index(width)


def test_equal_eigenvalues_are_said():
    correlation, covariance = 2.0 * np.eye(2), np.eye(2)
    assert [s.unique for s in linear_saddles(from_moments(correlation, covariance))] == [
        True,
        False,
        False,
        True,
    ]
    assert all(s.unique for s in linear_saddles(from_moments(np.diag([2.0, 1.0]), covariance)))
    assert linear_saddle(from_moments(np.diag([2.0, 1.0]), covariance), (1,)).index(2) == 2
    assert linear_saddle(from_moments(correlation, covariance), (1,)).index(2) == 1


def test_many_modes_are_enumerated_one_at_a_time():
    """The 2⁶⁰ fixed points are enumerated lazily."""
    strengths = np.arange(60.0, 0.0, -1.0)
    saddles = linear_saddles(from_moments(np.diag(strengths), np.eye(60)))
    first = list(itertools.islice(saddles, 62))
    assert [s.modes for s in first[:3]] == [(), (0,), (1,)]
    assert first[61].modes == (0, 1)
    assert first[0].loss == pytest.approx(0.5 * np.sum(strengths**2))
    some = next(iter(linear_saddles(from_moments(np.diag(strengths), np.eye(60)), rank=59)))
    np.testing.assert_allclose(some.escape_rates, [1.0], rtol=1e-9)


def test_inputs_that_span_less():
    """Directions without inputs do not contribute to the map."""
    correlation, covariance = np.diag([2.0, 1.0, 0.0])[:2], np.diag([1.0, 0.5, 0.0])
    saddle = linear_saddle(from_moments(correlation, covariance), (0, 1))
    np.testing.assert_allclose(saddle.map, [[2, 0, 0], [0, 2, 0]], atol=1e-12)
    assert saddle.loss == pytest.approx(0, abs=1e-12)


def test_bad_input(as_a_user):
    ok = np.eye(2)
    for call, words in (
        (
            lambda: linear_saddles(from_moments(np.ones((2, 3)), ok)),
            r"shape \(3, 3\) to fit `correlation` of shape \(2, 3\), got \(2, 2\)",
        ),
        (lambda: linear_saddles(from_moments(np.nan * ok, ok)), "must be finite"),
        (lambda: linear_saddles(from_moments(ok, np.array([[1.0, 2.0], [0.0, 1.0]]))), "symmetric"),
        (
            lambda: linear_saddles(from_moments(ok, np.diag([1.0, -1.0]))),
            "negative eigenvalues, one is -1",
        ),
        (
            lambda: linear_saddles(from_moments([[1, 1]], np.diag([1.0, 0.0]))),
            "a part of 1 along inputs that do",
        ),
        (
            lambda: linear_saddles(from_moments(ok, ok), rank=3),
            "between 0 and the number 2 of modes, got 3",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok), (0, 0)),
            r"different numbers from 0 to 1, got \(0, 0\)",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok), (2,)),
            r"different numbers from 0 to 1, got \(2,\)",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok), untyped(("1",))),
            r"`modes\[0\]` must be a whole.*got '1'",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok), (True,)),
            r"`modes\[0\]` must be a whole.*got True",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok), untyped(np.array(1))),
            "`modes` must be a list of whole",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok), (0, 1)).network(1),
            "`width` must be at least 2",
        ),
        (lambda: linear_saddle(from_moments(ok, ok), (0,)).index(0), "`width` must be at least 1"),
        (
            lambda: linear_saddle(from_moments(ok, ok), (0,)).index(untyped(2.5)),
            "`width` must be a whole number",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok, target_power=0.1), (0,)),
            "`target_power` must be at",
        ),
        (
            lambda: linear_saddle(from_moments(ok, ok, target_power=np.nan), (0,)),
            "`target_power` must be a fin",
        ),
        (lambda: linear_saddle(from_moments(ok, ok), (0,)).network(3, unread=1.0), "need a `key`"),
        (
            lambda: linear_saddles(from_moments(ok, ok), degeneracy=-1),
            "`degeneracy` must be a fraction",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
