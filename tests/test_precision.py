"""Tests that formulas compute in float64 for inputs of any precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from festina._precision import compiled
from festina.networks import DeepLinear, deep_linear_from
from festina.tasks import from_moments
from festina.theory.linear import (
    balanced_flow,
    chain_strength,
    learning_time,
    mode_strengths,
    modes,
    unbalanced_strength,
)
from helpers import untyped


@compiled("power")
def _root(x, *, power):
    return {"root": jnp.sum(x) ** (1 / power)}


def test_single_precision_numbers_are_computed_with_in_double():
    for given in (jnp.array([1.0, 1.0]), np.ones(2, np.float32), np.ones(2), np.ones(2, int)):
        found = _root(given, power=2)["root"]
        assert isinstance(found, np.ndarray)
        assert found == np.sqrt(2.0)  # to the last digit of a double
    assert not untyped(jax.config).jax_enable_x64


def test_in_the_users_program_the_users_precision_holds():
    found = jax.jit(lambda x: _root(x, power=2)["root"])(jnp.ones(2))
    assert found.dtype == jnp.float32
    with jax.enable_x64(True):
        assert jax.jit(lambda x: _root(x, power=2)["root"])(np.ones(2)) == np.sqrt(2.0)


def test_jax_arrays_make_the_flow_that_numpy_arrays_make():
    arrays = np.array([[[0.5, 0.25], [-0.25, 0.5]], [[0.5, -0.25], [0.25, 0.5]], np.eye(2)])
    *weights, sigma = jnp.asarray(arrays, dtype=jnp.float32)
    single = balanced_flow(DeepLinear(tuple(weights)), from_moments(sigma))
    double = balanced_flow(deep_linear_from([*arrays[:2]]), from_moments(arrays[2]))
    for times in (np.array([0.5, 40.0]), jnp.array([0.5, 40.0])):
        np.testing.assert_array_equal(single(times).map, double(np.array([0.5, 40.0])).map)
    assert np.asarray(single(times).loss())[-1] < 1e-28  # 40 τ: far below what float32 can reach


TIMES, ONES = np.array([0.0, 1.0, 2.0]), np.array([0.2, 0.1])
TWO, EYE = modes(from_moments(np.diag([2.0, 1.0]))), 0.3 * np.eye(2)


@pytest.mark.parametrize(
    "formula",
    [
        lambda a: chain_strength(TIMES, ONES, a, depth=2),
        lambda a: unbalanced_strength(TIMES, a, a, ONES),
        lambda a: learning_time(ONES + 1, a, depth=3),
        lambda a: mode_strengths(TIMES, TWO, a),
        pytest.param(
            lambda a: (
                balanced_flow(
                    DeepLinear((EYE * a, EYE)),
                    from_moments(EYE),
                    balance=0.0,
                    tolerance=np.inf,
                )(TIMES).map
            ),
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::festina.theory.linear.BalanceWarning")
def test_arrays_that_were_met_in_a_users_program_stay_doubles(formula):
    """JAX caches arrays by object with the precision of their first use; results stay the same."""
    expected = formula(ONES.copy())
    jax.jit(formula)(ONES)
    jax.jit(formula)(jnp.asarray(ONES))
    assert np.array_equal(formula(ONES), expected)
