"""Test the Hessian in pieces that fit into memory, and its extreme eigenvalues."""

import jax
import numpy as np
import pytest

import festina
from festina._numerics import _hessian
from festina._numerics._hessian import hessian
from festina._objective import excess_loss, objective
from festina._precision import float64
from festina.dynamics import _curvature
from festina.dynamics._curvature import extreme_curvatures


@float64
def problem(samples):
    key = festina.seeds(1)[0]
    network = festina.networks.attention(2, 3, softmax=True, scale=1.0, key=key)
    task = festina.tasks.in_context_regression(2, 4, samples=samples, key=key)
    made = objective(network, task, "half")
    return made.structure, made.structure.columns(*network.parts).reshape(-1), made.data


@pytest.mark.slow
@float64
@pytest.mark.parametrize(("together", "samples"), [(7, 11), (100, 12)])
def test_the_hessian_is_the_same_however_many_columns_are_made_at_once(
    together, samples, monkeypatch
):
    # a size that no other test uses, because compiled programs are cached by shape
    structure, weights, data = problem(samples)
    monkeypatch.setattr(_hessian, "_AT_ONCE", together * _hessian.between(weights, data))
    whole = jax.jit(jax.hessian(excess_loss, argnums=1), static_argnums=0)(structure, weights, data)
    np.testing.assert_allclose(hessian(structure, weights, data), whole, rtol=1e-12, atol=1e-14)


@float64
def test_many_samples_are_left_to_products_which_find_the_same_ends(monkeypatch):
    structure, weights, data = problem(50)
    formed = extreme_curvatures(structure, weights, data)
    monkeypatch.setattr(_curvature, "_MANY", 0)
    monkeypatch.setattr(_curvature, "hessian", None)
    np.testing.assert_allclose(extreme_curvatures(structure, weights, data), formed, rtol=1e-5)
