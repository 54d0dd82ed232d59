"""Test that trees of JAX are narrowed like PyTorch modules, and returned as trees."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina._narrowing._model import model_of
from festina.diagnose import effective_width


def tree(copies=4, seed=1):
    """Return weights `(in, out)` with several copies of every unit, under unordered names."""
    r = np.random.default_rng(seed)
    few = {
        "z": {"kernel": r.normal(size=(5, 3)), "bias": r.normal(size=3)},
        "a": {"kernel": r.normal(size=(3, 2)), "bias": r.normal(size=2)},
        "last": r.normal(size=(2, 2)),
    }
    many = {
        "z": jax.tree.map(lambda each: np.tile(each, copies), few["z"]),
        "a": {
            "kernel": np.tile(few["a"]["kernel"], (copies, copies)) / copies,
            "bias": np.tile(few["a"]["bias"], copies),
        },
        "last": np.tile(few["last"], (copies, 1)) / copies,
    }
    return jax.tree.map(lambda each: jnp.asarray(each, jnp.float32), many)


def apply(weights, x):
    hidden = jax.nn.relu(x @ weights["z"]["kernel"] + weights["z"]["bias"])
    hidden = jnp.tanh(hidden @ weights["a"]["kernel"] + weights["a"]["bias"])
    return hidden @ weights["last"]


X = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)


def test_a_dict_of_weights_is_read_from_its_program():
    model = tree()
    found = festina.shrink(model, X, apply=apply, tolerance=1e-3, tune=False)
    assert list(found.widths.values()) == [3, 2]
    shapes = jax.tree.map(jnp.shape, found.model)
    assert shapes == {
        "z": {"kernel": (5, 3), "bias": (3,)},
        "a": {"kernel": (3, 2), "bias": (2,)},
        "last": (2, 2),
    }
    assert found.model["last"].dtype == jnp.float32
    assert np.allclose(apply(found.model, X), apply(model, X), atol=1e-4)
    assert "narrow: the low-rank form is for PyTorch, and was not tried" in str(found)
    with pytest.raises(ValueError, match="`form` must be 'narrow' or left out for a tree of JAX"):
        festina.shrink(model, X, apply=apply, form="low rank")


def test_contributions_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    model = tree(seed=2)
    same = torch.nn.Sequential(
        torch.nn.Linear(5, 12),
        torch.nn.ReLU(),
        torch.nn.Linear(12, 8),
        torch.nn.Tanh(),
        torch.nn.Linear(8, 2, bias=False),
    )
    arrays = [model["z"]["kernel"].T, model["z"]["bias"], model["a"]["kernel"].T]
    arrays += [model["a"]["bias"], model["last"].T]
    for weight, array in zip(same.parameters(), arrays, strict=True):
        weight.data = torch.tensor(np.asarray(array))
    ours, theirs = model_of(model, X, apply=apply), model_of(same, torch.tensor(X))
    for one, two in zip(ours.hidden, theirs.hidden, strict=True):
        a = ours.contributions(ours.samples)[one.name]
        assert np.allclose(a, theirs.contributions(theirs.samples)[two.name], rtol=1e-5)
        a = ours.reads(ours.weights, ours.samples, (one,))[one.name]
        b = theirs.reads(theirs.weights, theirs.samples, (two,))[two.name]
        assert np.allclose(a, b, atol=1e-6)


def test_equinox_is_given_back_as_equinox():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(5, 2, 8, 1, key=jax.random.key(0))
    wide = np.tile(np.eye(8), (3, 1))
    first, last = model.layers
    places = lambda m: (m.layers[0].weight, m.layers[0].bias, m.layers[1].weight)
    arrays = (wide @ first.weight, wide @ first.bias, last.weight @ wide.T / 3)
    model = eqx.tree_at(places, model, tuple(jnp.asarray(each, jnp.float32) for each in arrays))
    found = festina.shrink(model, X, tolerance=1e-4, tune=False)
    assert list(found.widths.values()) == [8]
    assert found.model.layers[0].out_features == found.model.layers[1].in_features == 8
    assert np.allclose(jax.vmap(found.model)(X), jax.vmap(model)(X), atol=1e-4)


def half(outputs, targets):
    return 0.5 * jnp.mean(jnp.sum((outputs - targets) ** 2, -1))


def test_widths_of_a_tree_are_confirmed_by_its_own_loss():
    model = tree()
    y = np.asarray(apply(model, X))
    found = effective_width(model, X, y=y + 1e-3, loss=half, apply=apply, tolerance=0.01)
    assert found.widths == (3, 2)
    assert found.slope > 1
    assert found.confirmed is False


def test_copies_of_the_best_line_are_a_fixed_point():
    """Four copies of the best linear unit rest at its least-squares minimum."""
    y = X @ np.array([[1.0], [-2.0], [0.5], [0.0], [1.0]]) + np.cos(3 * X[:, :1])
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    model = {"in": jnp.asarray(np.tile(best, 4)), "out": jnp.full((4, 1), 0.25)}
    line = lambda weights, x: x @ weights["in"] @ weights["out"]
    found = effective_width(model, X, y=y, loss=half, apply=line)
    assert found.layers == (("['in']", 4, 1),)
    assert found.kind == "equal"
    assert found.confirmed is True
    assert found.narrow_loss == pytest.approx(found.loss, rel=1e-3)


def test_a_model_is_not_kept_alive():
    network = model_of(tree(), X, X[:, :2], apply)
    network.slope(network.weights, network.samples, half)
    network.contributions(network.samples)
    seen = weakref.ref(network)
    del network
    gc.collect()
    assert seen() is None


def test_several_inputs_and_short_numbers():
    model = jax.tree.map(lambda each: each.astype(jnp.bfloat16), tree())
    two = lambda weights, x, scale: apply(weights, x) * scale
    scale = np.full((300, 1), 2.0, np.float32)
    found = festina.shrink(model, (X, scale), apply=two, tolerance=0.02, tune=False)
    assert list(found.widths.values()) == [3, 2]
    assert found.model["last"].dtype == jnp.bfloat16
