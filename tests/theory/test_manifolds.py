"""Test invariant manifolds (Theorem 3): subspaces of weights that gradient flow does not leave."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.dynamics import gradient_descent
from festina.networks import attention, convolutional_1d, deep_network, fully_connected
from festina.tasks import from_arrays
from festina.theory.saddles import (
    ManifoldConstraint,
    embed_units,
    escape_rate,
    flow_keeps_constraint,
    gamma_v_on_manifold,
    is_on_manifold,
    manifold_distance,
    max_manifold_distance,
    project_on_manifold,
)
from helpers import spoilt, untyped

EQUAL = ManifoldConstraint("equal", 1, (0,))
ZERO = ManifoldConstraint("zero", 3)
AHEAD = ManifoldConstraint("proportional", 1, (0,), (1.7,))
BACK = ManifoldConstraint("proportional", 1, (0,), (-0.8,))
OPPOSITE = ManifoldConstraint("proportional", 1, (0,), (-1.0,))
LINEAR = ManifoldConstraint("linear", 2, (0, 1, 3), (0.5, -1.2, 0.3))
MIRRORED = ManifoldConstraint("mirrored", 1, (0,))
COPY = ManifoldConstraint("proportional", 1, (0,), (1.0,))
SILENT = ManifoldConstraint("proportional", 1, (0,), (0.0,))
ALL = (EQUAL, ZERO, AHEAD, BACK, LINEAR, MIRRORED, COPY, SILENT)

# Constraints that Theorem 3 keeps, and one for even φ that it does not list
KEPT = {
    "linear": {EQUAL, COPY, ZERO, SILENT, AHEAD, BACK, LINEAR},
    "relu": {EQUAL, COPY, ZERO, SILENT, AHEAD},
    "tanh": {EQUAL, COPY, ZERO, SILENT},
    "quadratic": {EQUAL, COPY, ZERO, SILENT, MIRRORED},
    "sigmoid": {EQUAL, COPY},
    "conv-relu": {EQUAL, COPY, ZERO, SILENT, AHEAD},
    "attention": {EQUAL, COPY, ZERO, SILENT, MIRRORED},
    "softmax": {EQUAL, COPY, MIRRORED},
}


@functools.cache
def setting(name):
    """Return a network with weights of order one, and data without structure."""
    rng = np.random.default_rng(3)
    key = jax.random.key(5)
    if name in ("attention", "softmax"):
        network = attention(2, 4, softmax=name == "softmax", scale=0.7, key=key)
        x = rng.normal(size=(15, 3, 4))
    elif name == "conv-relu":
        network = convolutional_1d(4, 4, activation="relu", scale=0.7, key=key)
        x = rng.normal(size=(15, 4))
    else:
        network = fully_connected(2, 4, activation=name, scale=0.7, key=key)
        x = rng.normal(size=(15, 2))
    return network, from_arrays(x, rng.normal(size=15))


DEFAULT = ("linear", "relu", "tanh", "quadratic", "softmax")


@pytest.mark.parametrize(
    "name",
    [name if name in DEFAULT else pytest.param(name, marks=pytest.mark.slow) for name in KEPT],
)
def test_flow_leaves_exactly_the_manifolds_that_the_algebra_does_not_keep(name):
    network, data = setting(name)
    for constraint in ALL:
        speed = escape_rate(network, data, constraint)
        assert flow_keeps_constraint(network.unit, constraint) == (constraint in KEPT[name])
        if constraint in KEPT[name]:
            assert speed < 1e-12, constraint
        else:
            assert speed > 1e-2, constraint


def test_constraints_hold_together():
    """Several constraints are kept together, here a chain of equal units and a silent unit."""
    network, data = setting("tanh")
    chain = (EQUAL, ManifoldConstraint("equal", 2, (1,)), ZERO)
    start = project_on_manifold(network, *chain)
    np.testing.assert_allclose(start.u[2], start.u[0], atol=1e-15)
    assert escape_rate(network, data, *chain) < 1e-12


@pytest.mark.parametrize(
    ("name", "constraint"),
    [
        pytest.param("relu", AHEAD, marks=pytest.mark.slow),
        pytest.param("linear", LINEAR, marks=pytest.mark.slow),
        ("quadratic", MIRRORED),
    ],
)
def test_two_thousand_steps_of_descent_do_not_drift(name, constraint):
    network, data = setting(name)
    start = project_on_manifold(network, constraint)
    run = gradient_descent(start, data, 0.01, 2000, converged=1e-15)
    moved = np.abs(run.final.u - start.u).max()
    assert moved > 1e-2  # the weights have changed
    assert max_manifold_distance(run.network, constraint) < 1e-12


@pytest.mark.slow
def test_proportional_rectified_units_are_neutrally_stable():
    """A unit slightly off its ray neither returns nor departs.

    It moves with the units on the ray, which do not move once their samples are fitted. Therefore
    errors by rounding remain and add up.
    """
    network, data = setting("relu")
    start = project_on_manifold(network, AHEAD)
    rest = gradient_descent(start, data, 0.05, 4000, converged=1e-15).final
    off = np.eye(4)[:, 1:2] * np.random.default_rng(0).normal(size=(1, 3))
    kept = []
    for size in (1e-6, 1e-8):
        moved = rest.with_parts(rest.u + size * off[:, :2], rest.v + size * off[:, 2:])
        later = gradient_descent(moved, data, 0.05, 2000, converged=1e-15).final
        kept.append(manifold_distance(later, AHEAD) / manifold_distance(moved, AHEAD))
    assert 0.5 < kept[0] < 2.0
    assert kept[1] == pytest.approx(kept[0], rel=1e-3)


def test_proportional_quadratic_units_drift_apart():
    """Units of degree two do not keep proportional weights, unlike ReLU in Theorem 3(iii)."""
    network, data = setting("quadratic")
    run = gradient_descent(project_on_manifold(network, AHEAD), data, 0.01, 2000, converged=1e-15)
    assert max_manifold_distance(run.network, AHEAD) > 1e-2


def test_odd_units_keep_opposite_weights():
    """Theorem 3 does not list θ_i = −θ_j for odd φ, which does not need homogeneity."""
    network, data = setting("tanh")
    assert flow_keeps_constraint(network.unit, OPPOSITE)
    assert flow_keeps_constraint("tanh", OPPOSITE)
    assert not flow_keeps_constraint(jax.nn.softplus, OPPOSITE)
    assert escape_rate(network, data, OPPOSITE) < 1e-12
    run = gradient_descent(project_on_manifold(network, OPPOSITE), data, 0.01, 500)
    assert np.abs(run.final.u - run.network.u[0]).max() > 1e-2  # the weights have changed
    assert max_manifold_distance(run.network, OPPOSITE) < 1e-12
    assert not flow_keeps_constraint(network.unit, BACK)
    assert escape_rate(network, data, BACK) > 1e-2


@pytest.mark.parametrize("name", ["relu", "quadratic", "sigmoid"])
def test_units_that_are_not_odd_leave_opposite_weights(name):
    network, data = setting(name)
    assert not flow_keeps_constraint(network.unit, OPPOSITE)
    assert escape_rate(network, data, OPPOSITE) > 1e-2


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(ALL))
def test_projection_is_orthogonal(seed, constraint):
    rng = np.random.default_rng(seed)
    network, _ = setting("linear")
    network = network.with_parts(*(rng.normal(size=part.shape) for part in network.parts))
    near = project_on_manifold(network, constraint)
    far = project_on_manifold(
        network.with_parts(*(rng.normal(size=part.shape) for part in network.parts)), constraint
    )
    flat = lambda one: np.concatenate([np.ravel(part) for part in one.parts])
    distance = manifold_distance(network, constraint)
    np.testing.assert_allclose(distance, np.linalg.norm(flat(network) - flat(near)), rtol=1e-12)
    assert manifold_distance(near, constraint) < 1e-14
    assert is_on_manifold(near, constraint)
    assert not is_on_manifold(network, constraint)
    # Pythagoras' theorem holds for every other point of the manifold.
    right = (flat(network) - flat(near)) @ (flat(far) - flat(near))
    assert abs(right) < 1e-12


def test_distance_of_one_constraint_by_its_formula():
    network, _ = setting("relu")
    theta = np.concatenate((network.v.reshape(4, -1), network.u), axis=1)
    apart = theta[2] - (0.5 * theta[0] - 1.2 * theta[1] + 0.3 * theta[3])
    expected = np.linalg.norm(apart) / np.sqrt(1 + 0.25 + 1.44 + 0.09)
    np.testing.assert_allclose(manifold_distance(network, LINEAR), expected, rtol=1e-13)
    batch = network.with_parts(*(np.stack((part, 2 * part)) for part in network.parts))
    np.testing.assert_allclose(manifold_distance(batch, LINEAR), [expected, 2 * expected])
    np.testing.assert_allclose(max_manifold_distance(batch, LINEAR), 2 * expected)


def test_embedded_fixed_points_on_manifolds():
    """Appendix F.4: only γ_v = γ_u/(1 + |γ_u|²) lies on the manifold."""
    network, _ = setting("linear")
    gamma_u = np.array([[0.4, -1.1, 0.7, 0.2]])
    relation = ManifoldConstraint("linear", 4, (0, 1, 2, 3), tuple(gamma_u[0].tolist()))
    on = embed_units(network, 5, "linear", gamma_u=gamma_u, gamma_v=gamma_v_on_manifold(gamma_u))
    assert manifold_distance(on, relation) < 1e-14
    off = embed_units(
        network, 5, "linear", gamma_u=gamma_u, gamma_v=1.1 * gamma_v_on_manifold(gamma_u)
    )
    assert manifold_distance(off, relation) > 1e-2
    assert gamma_v_on_manifold(1.0) == 0.5  # equal units, Eq. (4)


def test_several_embedded_units_on_manifolds():
    network, _ = setting("linear")
    gamma_u = np.random.default_rng(0).normal(size=(3, 4))
    wide = embed_units(network, 7, "linear", gamma_u=gamma_u, gamma_v=gamma_v_on_manifold(gamma_u))
    for unit, gamma in enumerate(gamma_u.tolist(), start=4):
        relation = ManifoldConstraint("linear", unit, (0, 1, 2, 3), tuple(gamma))
        assert manifold_distance(wide, relation) < 1e-13


DEEP = deep_network((3, 4, 4, 2), activations="tanh", scale=0.5, key=jax.random.key(0))

BAD = [
    (lambda: ManifoldConstraint(untyped("similar"), 1, (0,)), "`kind` must be one of equal"),
    (lambda: ManifoldConstraint("zero", 1, (0,)), "no other unit"),
    (lambda: ManifoldConstraint("equal", 1, (0, 2)), "one other unit"),
    (lambda: ManifoldConstraint("equal", 0, untyped(1)), r"`others` must be a tuple.* got 1"),
    (lambda: ManifoldConstraint("proportional", 1, (0,), untyped(2.0)), "`gamma` must be a tuple"),
    (lambda: ManifoldConstraint("equal", 1, (1,)), "none of them unit 1 itself"),
    (lambda: ManifoldConstraint("proportional", 1, (0,)), "needs 1 finite `gamma`"),
    (lambda: ManifoldConstraint("linear", 1, (0, 2), (1.0, np.nan)), "needs 2 finite `gamma`"),
    (lambda: manifold_distance(setting("tanh")[0], ManifoldConstraint("zero", 4)), "units 0 to 3"),
    (lambda: ManifoldConstraint("zero", -1), "`unit` must be a whole number from 0 up, got -1"),
    (lambda: manifold_distance(setting("tanh")[0]), "No constraint"),
    (lambda: max_manifold_distance(setting("tanh")[0], EQUAL), "got one network"),
    (lambda: manifold_distance(spoilt(setting("tanh")[0], 0), EQUAL), "`u` are not all finite"),
    (lambda: project_on_manifold(spoilt(setting("tanh")[0], 1), EQUAL), "`v` are not all finite"),
    (
        lambda: escape_rate(spoilt(setting("tanh")[0], 1), setting("tanh")[1], EQUAL),
        "`v` are not all finite",
    ),
    (lambda: manifold_distance(untyped(DEEP), EQUAL), "must be one layer.*got DeepNetwork"),
    (
        lambda: escape_rate(untyped(DEEP), setting("tanh")[1], EQUAL),
        "must be one layer.*got DeepNetwork",
    ),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input(call, words, as_a_user):
    with pytest.raises(ValueError, match=words):
        call()
