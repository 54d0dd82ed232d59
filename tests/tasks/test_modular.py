"""Test addition modulo p: all pairs, divided between training and test."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.tasks import modular_addition

KEY = jax.random.key(0)


@given(
    modulus=st.integers(2, 12),
    fraction=st.floats(0.2, 0.8),
    seed=st.integers(0, 1000),
)
@settings(max_examples=20)
def test_every_pair_once_with_its_sum(modulus, fraction, seed):
    parts = modular_addition(modulus, fraction, key=jax.random.key(seed))
    assert parts[0].samples == round(fraction * modulus**2)
    pairs = []
    for part in parts:
        assert part.x.shape == (part.samples, 2 * modulus)
        assert part.y.shape == (part.samples, modulus)
        assert set(np.unique(part.x)) == set(np.unique(part.y)) == {0.0, 1.0}
        np.testing.assert_array_equal(part.x.sum(axis=1), 2)
        first, second = part.x[:, :modulus].argmax(1), part.x[:, modulus:].argmax(1)
        # The sum is a one-hot vector rolled by n + m places.
        for one, other, y in zip(first, second, part.y, strict=True):
            clock = np.roll(np.eye(modulus)[0], one)
            np.testing.assert_array_equal(y, np.roll(clock, other))
        np.testing.assert_array_equal(part.labels["first"], first)
        np.testing.assert_array_equal(part.labels["second"], second)
        np.testing.assert_array_equal(part.labels["sum"], part.y.argmax(1))
        pairs += list(zip(first.tolist(), second.tolist(), strict=True))
    assert sorted(pairs) == [(n, m) for n in range(modulus) for m in range(modulus)]


def test_the_key_alone_chooses_the_pairs():
    train, test = modular_addition(7, 0.5, key=KEY)
    again = modular_addition(7, 0.5, key=KEY)
    np.testing.assert_array_equal(train.x, again[0].x)
    np.testing.assert_array_equal(test.x, again[1].x)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(train.x, modular_addition(7, 0.5, key=KEY)[0].x)
    other, _ = modular_addition(7, 0.5, key=jax.random.key(1))
    assert not np.array_equal(train.x, other.x)


def test_all_pairs_are_equally_likely_to_be_shown():
    shown = np.zeros((4, 4))
    draws = 400
    for key in festina.seeds(draws):
        train, _ = modular_addition(4, 0.5, key=key)
        shown[train.labels["first"], train.labels["second"]] += 1
    # Shares are binomial with mean ½; for 400 draws, 5 standard deviations are 1/8.
    assert np.abs(shown / draws - 0.5).max() < 0.125


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("modulus", "fraction", "message"),
    [
        (1, 0.5, "`modulus` must be a whole number from 2 up, got 1"),
        (-3, 0.5, "`modulus` .* got -3"),
        (2.5, 0.5, r"`modulus` .* got 2\.5"),
        (5, 0.0, "`train_fraction` must leave at least one of the 25 pairs .* got 0.0"),
        (5, 1.0, "`train_fraction` .* got 1.0"),
        (5, 0.001, "`train_fraction` .* got 0.001"),
        (5, 0.999, "`train_fraction` .* got 0.999"),
        (5, float("nan"), "`train_fraction` .* got nan"),
    ],
)
def test_clocks_that_cannot_be(modulus, fraction, message):
    with pytest.raises(ValueError, match=message):
        modular_addition(modulus, fraction, key=KEY)
