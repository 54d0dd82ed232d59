"""How few units suffice, on networks for which that is known although no kind merges them."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.diagnose import confirm, effective_width, fitted_width, plateau_widths
from festina.diagnose._fitted import fewest
from festina.dynamics import gradient_descent
from festina.networks import LinearAttentionHead, Neuron, attention, layer_from, seeds
from festina.tasks import in_context_regression

X = np.random.default_rng(0).normal(size=(40, 3))
TOKENS = np.random.default_rng(1).normal(size=(60, 3, 6))
HEAD = LinearAttentionHead(residual=False)


def by_hand(u, v, x):
    """Σ v_iᵀ S k_i q_iᵀ x of heads of rank one, S the second moment of the context."""
    moment = np.einsum("sat,sbt->sab", x, x) / (x.shape[2] - 1)
    return np.einsum("ia,sab,ib,ic,sc->s", v[:, 0], moment, u[:, 0, 0], u[:, 1, 0], x[:, :, -1])


def heads(matrix, query):
    """One head for each eigenvalue of a symmetric matrix, all with this query or its multiples."""
    values, vectors = np.linalg.eigh(matrix)
    counts = np.abs(values) > 1e-9 * np.abs(values).max()
    factor = np.array([0.5, -2.0, 1.5])[: counts.sum()]
    keys, queries = vectors.T[counts], factor[:, None] * query
    return np.stack((keys, queries), axis=1)[:, :, None], (values[counts] / factor)[
        :, None, None
    ] * (keys[:, None])


def test_kinds_of_fewer_units_than_are_fitted_are_passed_over():
    """Four tanh in pairs whose difference counts: merged there are two, and they do not do."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(2, 3))
    u, v = np.concatenate((u, u + 0.05 * rng.normal(size=u.shape))), np.repeat([10.0, -10.0], 2)
    found = effective_width(u, X, v=v, activation="tanh")
    assert found.widths["equal"] is None
    assert fitted_width(found, X, max_steps=20).width <= found.width == 4


def test_two_heads_that_share_their_query_do_what_one_does():
    """The symmetric part of v kᵀ has one eigenvalue of each sign: a head for each."""
    rng = np.random.default_rng(2)
    for _ in range(3):
        v, k, q = rng.normal(size=(3, 3))
        u, values = heads((np.outer(v, k) + np.outer(k, v)) / 2, q)
        assert len(u) == 2
        found = effective_width(u, TOKENS, v=values, activation=HEAD, tolerance=0.01)
        assert (found.width, found.kind) == (2, None)
        fitted = fitted_width(found, TOKENS)
        assert (fitted.width, fitted.fewer, fitted.complete) == (1, True, True)
        assert fitted.error < 1e-6
        alone = by_hand(np.stack((k, q))[None, :, None], v[None, None], TOKENS)
        one = fitted.reduced
        np.testing.assert_allclose(by_hand(u, values, TOKENS), alone, atol=1e-12)
        np.testing.assert_allclose(by_hand(one.u, one.v, TOKENS), alone, atol=1e-5)
        assert "1 unit fitted" in str(fitted)
        assert "for 2 merged" in str(fitted)


def test_heads_of_one_sign_or_of_other_queries_are_two():
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    same_sign = heads(basis[:2].T @ basis[:2], basis[2])
    other = np.stack((basis[:2], basis[1:]), axis=1)[:, :, None], basis[:2, None]
    for u, v in (same_sign, other):
        fitted = fitted_width(effective_width(u, TOKENS, v=v, activation=HEAD), TOKENS)
        assert (fitted.width, fitted.fewer, fitted.complete) == (2, False, True)
        assert fitted.short > 0.15
        assert fitted.short == fitted.tried[1]
        assert "fits find no fewer; with one less the error is" in str(fitted)


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 2))
def test_quadratic_units_are_as_many_as_their_matrix_has_eigenvalues(seed, rank):
    rng = np.random.default_rng(seed)
    mix, basis = np.linalg.qr(rng.normal(size=(2, 3, 3)))[0]
    u = mix[:, :rank] @ (rng.uniform(0.7, 1.3, rank)[:, None] * basis[:rank])
    found = effective_width(u, X, v=np.ones(3), activation="quadratic", tolerance=0.01)
    fitted = fitted_width(found, X)
    assert fitted.width == rank <= found.width
    assert fitted.short > 0.05
    if fitted.fewer:
        assert fitted.error < 1e-6
        np.testing.assert_allclose(fitted.reduced.predict(X)[:, 0], np.sum((X @ u.T) ** 2, 1), 1e-4)


@pytest.mark.slow
def test_other_tolerances_fit_nothing_twice():
    rng = np.random.default_rng(5)
    u, v = rng.normal(size=(3, 2)), np.array([1.0, -1.0, 0.5])
    plane = X[:, :2]  # on which three quadratic units are two
    found = effective_width(u, plane, v=v, activation="quadratic", tolerance=1e-3)
    fitted = fitted_width(found, plane)
    before = fitted.fits(1, 1e-3)
    widths = [fitted.at(tolerance).width for tolerance in (2.0, 0.9, 0.3, 1e-3)]
    assert widths == sorted(widths)
    assert (widths[0], widths[-1]) == (0, 2)
    assert fitted.at(0.3).fits(1, 1e-3) is before
    wide = layer_from(Neuron("quadratic"), u, v)
    same = fitted_width(effective_width(wide, plane, tolerance=1e-3), plane.tolist())
    assert same.tried == fitted.tried


def test_where_one_unit_is_left_or_none_nothing_is_fitted():
    ray = np.outer([1.0, 2.0, 0.5], [1.0, -1.0, 0.5])
    for y, width in ((None, 1), (np.full(len(X), 1e3), 0)):
        found = effective_width(ray, X, v=np.ones(3), activation="relu", y=y)
        fitted = fitted_width(found, X)
        assert (fitted.width, fitted.tried, fitted.complete) == (width, {}, True)
        assert fitted.reduced is found.reduced
    two = effective_width(np.eye(3)[:2], X, v=np.ones(2), activation="relu")
    none = fitted_width(two, X, max_weights=3)
    assert (none.width, none.tried, none.complete) == (2, {}, False)
    assert np.isnan(none.short)
    assert "exceed `max_weights`" in str(none)


@pytest.mark.slow
def test_a_kind_that_merges_too_much_leaves_the_units_themselves_to_start_from():
    """Two sigmoids whose small difference is all that is read: one cannot do it."""
    u, v = np.array([[1.0, 0.0, 0.0], [1.05, 0.05, 0.0]]), np.array([50.0, -50.0])
    found = effective_width(u, X, v=v, activation="sigmoid")
    fitted = fitted_width(found, X)
    assert fitted.width == 2
    assert fitted.tried[1] > found.tolerance


@pytest.mark.slow
def test_seeds_of_figure_1f_that_end_with_three_heads_need_two():
    data = in_context_regression(2, 32)
    network = attention(2, 10, scale=5e-3, key=seeds(6, first=712))
    run = gradient_descent(network, data, 0.02, loss="mean-square")
    for seed, width in ((0, 3), (1, 2), (4, 3), (5, 3)):
        stairs = plateau_widths(run.lane(seed), data)
        np.testing.assert_array_equal(stairs.width, [0, 1, width])
        np.testing.assert_array_equal(stairs.fewest, [0, 1, 2])
        last = stairs.fitted[-1]
        assert last.error < 0.03
        assert last.tried[1] > 0.6
        if width == 3:
            assert last.error < 1e-3
            assert "      3       2   (5) (4)" in str(stairs)
        answer = confirm(stairs.found[-1].network, data, last, loss="mean-square")
        assert answer.agrees


@pytest.mark.slow
def test_a_fan_of_a_thousand_units_on_as_many_inputs_as_mnist():
    """Three rays, one of them between the others: two units come close, one does not."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 784)) / 28
    rays = rng.normal(size=(2, 784)) / 28
    rays = np.concatenate((rays, [rays[0] + 0.5 * rays[1]]))
    which = np.arange(1000) % 3
    u = rng.uniform(0.5, 1.5, 1000)[:, None] * rays[which]
    v = np.array([[0.03, 0.0], [0.0, 0.03], [0.01, 0.01]])[which]
    found = effective_width(u, x, v=v, activation="relu")
    start = time.process_time()
    fitted = fitted_width(found, x)
    assert time.process_time() - start < 40
    assert (found.width, fitted.width) == (3, 2)
    assert fitted.error < 0.05
    assert fitted.tried[1] > 0.3


def test_bad_input(as_a_user):
    found = effective_width(np.eye(3), X, v=np.ones(3), activation="relu")
    for options in ({"starts": 0}, {"max_weights": -1}, {"max_steps": 0}):
        with pytest.raises(ValueError, match="must be at least"):
            fitted_width(found, X, **options)
    with pytest.raises(ValueError, match="do not fit"):
        fitted_width(found, X[:, :2])
    with pytest.raises(ValueError, match="must be the answer of `effective_width`, got ndarray"):
        fitted_width(np.eye(3), X)


@pytest.mark.parametrize("merged", [2, 3, 17, 64, 200])
def test_the_search_takes_no_more_fits_than_it_says(merged):
    for enough in range(1, merged + 1):
        tried = []

        def suffices(width, enough=enough, tried=tried):
            tried.append(width)
            return width >= enough

        assert fewest(suffices, merged, merged) == (enough, enough - 1)
        assert len(set(tried)) == len(tried) <= max(1, 2 * np.log2(merged))
