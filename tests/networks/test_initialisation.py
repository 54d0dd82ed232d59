"""Test initial weights: distribution, seeds and precision."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina.networks import (
    LinearAttentionUnit,
    NeuronUnit,
    activation,
    attention,
    deep_linear,
    deep_network,
    diagonal_linear,
    fully_connected,
    gaussian_layer,
    low_rank_layer,
    seeds,
)
from festina.tasks import (
    figure_1c_teacher,
    in_context_regression,
    linear_teacher,
    quadratic_teacher,
    student_teacher,
    two_orthogonal_points,
)
from festina.theory.saddles import narrow_minima
from helpers import ARCHITECTURES, each, printed, untyped

KEY = jax.random.key(0)


def theta(network):
    """Return Θ, with rows θ_i = [v_i, u_i]."""
    batch, width = network.batch_shape, network.width
    flat = [np.reshape(part, (*batch, width, -1)) for part in (network.v, network.u)]
    return np.concatenate(flat, axis=-1)


def test_gaussian_weights_have_gaussian_moments():
    network = gaussian_layer(NeuronUnit(), (3,), 50, 2, scale=0.02, key=seeds(200))
    for z in (network.u / 0.02, network.v / 0.02):
        count = z.size
        for order, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
            assert abs(np.mean(z**order) - moment) < 4 * np.sqrt(variance / count)
    # Weights are independent within a unit and between seeds.
    units = theta(network).reshape(-1, 5) / 0.02
    assert np.abs(units.T @ units / len(units) - np.eye(5)).max() < 5 * np.sqrt(2 / len(units))
    rows = theta(network).reshape(200, -1) / 0.02
    gram = rows @ rows.T / rows.shape[1] - np.eye(200)
    assert np.abs(gram).max() < 6 * np.sqrt(2 / rows.shape[1])


@each(ARCHITECTURES)
def test_shapes_and_precision(row):
    network = row.network()
    assert network.u.dtype == network.v.dtype == np.float64
    assert network.u.shape == (3, *row.unit.weight_shape(row.input_shape))
    assert network.v.shape == (3, network.outputs, *row.unit.read_shape(row.input_shape))
    # Weights are drawn in double precision, not converted from single precision.
    assert np.any(network.u != network.u.astype(np.float32))


@pytest.mark.parametrize(
    "make",
    [
        lambda **how: fully_connected(2, 4, **how),
        lambda **how: low_rank_layer(NeuronUnit(), (3,), 4, rank=2, strength=0.3, **how),
    ],
    ids=["gaussian", "low-rank"],
)
def test_a_seed_is_the_same_network_whatever_others_there_are(make):
    batch, shifted = (make(scale=1e-3, key=seeds(8, first=first)) for first in (0, 3))
    assert batch.batch_shape == (8,)
    np.testing.assert_array_equal(shifted.u[:5], batch.u[3:])
    np.testing.assert_array_equal(shifted.v[:5], batch.v[3:])


def test_a_seed_is_the_same_network_alone_and_with_any_kind_of_key():
    expected = fully_connected(2, 4, scale=1e-3, key=seeds(8))
    for key in (jax.random.key(3), jax.random.PRNGKey(3)):
        single = fully_connected(2, 4, scale=1e-3, key=key)
        assert single.batch_shape == ()
        np.testing.assert_array_equal(single.u, expected.u[3])
        np.testing.assert_array_equal(single.v, expected.v[3])
    with jax.enable_x64(True):
        wide = fully_connected(2, 4, scale=1e-3, key=seeds(8))
    np.testing.assert_array_equal(wide.u, expected.u)


def test_scales_and_keys_broadcast():
    scales = np.array([1e-6, 1e-3, 1.0])
    sweep = fully_connected(2, 4, scale=scales[:, None], key=seeds(8))
    assert sweep.batch_shape == (3, 8)
    assert (sweep.width, sweep.outputs) == (4, 1)
    one = fully_connected(2, 4, scale=1.0, key=seeds(8))
    np.testing.assert_allclose(sweep.u, scales[:, None, None, None] * one.u, rtol=1e-14)
    np.testing.assert_allclose(sweep.v, scales[:, None, None, None] * one.v, rtol=1e-14)
    paired = fully_connected(2, 4, scale=np.linspace(1, 2, 8), key=seeds(8))
    np.testing.assert_allclose(paired.u, np.linspace(1, 2, 8)[:, None, None] * one.u, rtol=1e-14)
    same_key = fully_connected(2, 4, scale=np.linspace(1, 2, 8), key=jax.random.key(2))
    assert same_key.batch_shape == (8,)
    np.testing.assert_allclose(same_key.u[0], one.u[2], rtol=1e-14)
    for scale in (1, jnp.ones(())):  # a scale may be a whole number or a JAX array
        np.testing.assert_allclose(fully_connected(2, 4, scale=scale, key=seeds(8)).u, one.u)


@pytest.mark.parametrize("rank", [1, 3])
def test_low_rank_has_so_many_large_singular_values(rank):
    width, size = 40, 6
    draw = lambda **how: theta(
        low_rank_layer(NeuronUnit(), (size - 1,), width, rank=rank, key=seeds(300), **how)
    )
    noise = 1e-7
    singular = np.linalg.svd(draw(strength=0.3, scale=noise), compute_uv=False)
    # Noise alone has singular values below ε(√H + √N), up to fluctuations.
    assert singular[:, rank:].max() < 1.5 * noise * (np.sqrt(width) + np.sqrt(size))
    assert singular[:, :rank].min() > 100 * noise
    # ⟨‖σZR/√H‖²⟩ = σ² rank N, with relative variance at most 2/(rank N) + 2/(rank H) + … per draw.
    energy = np.sum(singular**2, axis=1) / (0.3**2 * rank * size)
    assert abs(energy.mean() - 1) < 4 * energy.std() / np.sqrt(300)
    assert energy.std() < 1
    # The structured part is linear in the strength; the remainder is noise of the given size.
    np.testing.assert_allclose(
        draw(strength=0.6, scale=noise) - 2 * draw(strength=0.3, scale=noise / 2), 0, atol=1e-15
    )
    rest = draw(strength=0.3, scale=1e-2) - draw(strength=0.3, scale=noise)
    np.testing.assert_allclose(rest.std(), 1e-2, rtol=0.02)


def test_low_rank_of_an_attention_layer():
    network = low_rank_layer(
        LinearAttentionUnit(rank=2), (3, 9), 5, rank=2, strength=1.0, scale=1e-9, key=KEY
    )
    assert network.u.shape == (5, 2, 2, 3)
    assert network.v.shape == (5, 1, 3)
    assert np.sum(np.linalg.svd(theta(network), compute_uv=False) > 1e-6) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _low(rank=0), "`rank` must be a whole number from 1 up, got 0"),
        (lambda: _low(rank=5), "`rank` .* whole number between 1 and the width 4, got 5"),
        (lambda: _low(strength=float("nan")), "`strength` must be a finite number, got nan"),
        (lambda: _low(scale=0.0), "`scale` must be positive and finite, got 0.0"),
        (lambda: seeds(0), "`count` must be a whole number from 1 up, got 0"),
        (lambda: seeds(3, first=-1), "`first` must be a whole number from 0 up, got -1"),
    ],
)
def test_initial_weights_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("as_a_user")
def test_half_a_rank():
    with pytest.raises(ValueError, match=r"`rank` must be a whole number .* got 1\.5"):
        _low(rank=untyped(1.5))


def _low(*, rank=2, strength=1.0, scale=1e-3):
    return low_rank_layer(NeuronUnit(), (3,), 4, rank=rank, strength=strength, scale=scale, key=KEY)


@pytest.mark.parametrize(
    ("shape", "keys", "way_out", "index"),
    [
        ((3,), (4,), "[:, None]", np.index_exp[:, None]),
        ((3,), (2, 4), "[:, None, None]", np.index_exp[:, None, None]),
        ((2, 3), (4,), "[..., None]", np.index_exp[..., None]),
    ],
)
def test_scales_and_keys_that_do_not_broadcast(shape, keys, way_out, index):
    scale, key = np.ones(shape), seeds(math.prod(keys)).reshape(keys)
    shapes = f"`scale` of shape {shape} and `key` of shape {keys} do not broadcast: "
    for make in (
        lambda: fully_connected(2, 3, scale=scale, key=key),
        lambda: deep_linear((2, 2), scale=scale, key=key),
        lambda: diagonal_linear(2, scale=scale, key=key),
        lambda: deep_network((2, 2, 2, 1), scale=scale, key=key),
    ):
        with pytest.raises(ValueError, match=re.escape(shapes)) as caught:
            make()
        assert f"`scale{way_out}`" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert np.broadcast_shapes(scale[index].shape, keys) == (*shape, *keys)


def _unknown():
    with pytest.raises(ValueError, match="must be finite"):
        activation(jnp.log)


PUBLIC = {
    "fully_connected": lambda: fully_connected(2, 4, key=seeds(8)).u,
    "attention": lambda: attention(2, 3, key=KEY).v,
    "activation": lambda: activation(lambda a: jnp.sinh(a)) and np.ones(1),
    "an error": lambda: _unknown() or np.ones(1),
    "linear_teacher": lambda: linear_teacher(np.eye(2), samples=5, key=KEY).x,
    "quadratic_teacher": lambda: quadratic_teacher(np.eye(2)).y,
    "student_teacher": lambda: student_teacher(fully_connected(2, 3, key=KEY), np.eye(2)).y,
    "in_context": lambda: in_context_regression(2, 3, samples=4, key=KEY).x,
    "statistics": lambda: figure_1c_teacher().statistics(NeuronUnit()).psi,
    "population": lambda: in_context_regression(2, 3).statistics(LinearAttentionUnit()).y,
    "narrow_minima": lambda: (
        narrow_minima(NeuronUnit(activation("relu")), two_orthogonal_points(), starts=2).loss
    ),
    "gradient_descent": lambda: (
        festina.gradient_descent(
            fully_connected(2, 2, scale=0.1, key=KEY), linear_teacher(np.eye(2)[:1]), 0.01, 3
        ).loss
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_double_precision_is_ours_and_the_users_setting_theirs(name):
    for setting in (False, True):
        with jax.enable_x64(setting):
            assert np.asarray(PUBLIC[name]()).dtype == np.float64
            assert untyped(jax.config).jax_enable_x64 == setting
            assert jnp.ones(()).dtype == (jnp.float64 if setting else jnp.float32)


def test_importing_festina_leaves_the_configuration_of_jax_alone():
    """A new process imports every public package and compares the settings of JAX."""
    program = """
import jax
before = dict(jax.config.values)
import festina
from festina import diagnose, dynamics, networks, papers, tasks, theory
from festina.theory import saddles
assert all(hasattr(festina, name) for name in dir(festina))
changed = {k for k, v in jax.config.values.items() if k in before and before[k] != v}
print(sorted(changed), jax.config.jax_enable_x64, jax.numpy.ones(()).dtype)
"""
    found = printed(program)
    assert found.split() == ["[]", "False", "float32"], found
