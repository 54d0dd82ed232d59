"""Test reduction (F.3): fewer units give the same outputs and, if split correctly, learn alike."""

import functools

import jax
import numpy as np
import pytest

from festina.dynamics import gradient_descent
from festina.networks import attention, deep_network, fully_connected
from festina.tasks import from_arrays
from festina.theory.saddles import ManifoldConstraint, project_on_manifold, reduce_width
from helpers import spoilt, untyped

CASES = [
    ("tanh", (ManifoldConstraint("equal", 1, (0,)),)),
    ("tanh", (ManifoldConstraint("equal", 2, (1,)), ManifoldConstraint("equal", 1, (0,)))),
    ("tanh", (ManifoldConstraint("zero", 3),)),
    ("relu", (ManifoldConstraint("proportional", 1, (0,), (1.7,)), ManifoldConstraint("zero", 2))),
    ("linear", (ManifoldConstraint("linear", 2, (0, 1, 3), (0.5, -1.2, 0.3)),)),
    (
        "linear",
        (
            ManifoldConstraint("linear", 2, (0, 1), (0.5, -1.2)),
            ManifoldConstraint("linear", 3, (0, 2), (0.3, 0.4)),
        ),
    ),
    ("quadratic", (ManifoldConstraint("mirrored", 1, (0,)),)),
    ("attention", (ManifoldConstraint("mirrored", 1, (0,)), ManifoldConstraint("equal", 3, (2,)))),
]


@functools.cache
def setting(name):
    rng = np.random.default_rng(7)
    key = jax.random.key(1)
    if name == "attention":
        return attention(2, 4, scale=0.7, key=key), from_arrays(
            rng.normal(size=(15, 3, 4)), rng.normal(size=15)
        )
    network = fully_connected(2, 4, activation=name, scale=0.7, key=key)
    return network, from_arrays(rng.normal(size=(15, 2)), rng.normal(size=15))


@pytest.mark.parametrize(
    ("name", "constraints"), [*CASES[:-1], pytest.param(*CASES[-1], marks=pytest.mark.slow)]
)
def test_the_narrow_network_computes_the_same(name, constraints):
    network, data = setting(name)
    wide = project_on_manifold(network, *constraints)
    narrow = reduce_width(wide, *constraints)
    assert narrow.width == 4 - len(constraints)
    np.testing.assert_allclose(narrow.predict(data.x), wide.predict(data.x), atol=1e-13)
    # Off the manifold, the reduction is not exact.
    off = reduce_width(network, *constraints)
    assert np.abs(off.predict(data.x) - network.predict(data.x)).max() > 1e-2


def test_the_factors_of_f3():
    network, _ = setting("linear")
    gamma = 1.7
    cases = {
        "equal": (ManifoldConstraint("equal", 1, (0,)), 2.0),
        "proportional": (ManifoldConstraint("proportional", 1, (0,), (gamma,)), 1 + gamma**2),
    }
    for constraint, factor in cases.values():
        wide = project_on_manifold(network, constraint)
        np.testing.assert_allclose(reduce_width(wide, constraint).v[0], factor * wide.v[0])
    constraint = CASES[4][1][0]
    wide = project_on_manifold(network, constraint)
    gammas, kept = np.array(constraint.gamma), np.asarray(wide.v)[[0, 1, 3]]
    by_28 = kept + gammas[:, None] * (gammas @ kept)
    np.testing.assert_allclose(reduce_width(wide, constraint).v, by_28, atol=1e-14)


def test_a_whole_trajectory_is_reduced_at_once():
    """By Theorem 3 and F.3, the reduced network stays equivalent while the wide network learns."""
    network, data = setting("relu")
    constraints = CASES[3][1]
    run = gradient_descent(project_on_manifold(network, *constraints), data, 0.02, 500)
    narrow = reduce_width(run.network, *constraints)
    np.testing.assert_allclose(narrow.predict(data.x), run.network.predict(data.x), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "constraints"),
    [
        ("relu", (ManifoldConstraint("proportional", 1, (0,), (1.7,)),)),
        pytest.param(
            "linear",
            (ManifoldConstraint("linear", 2, (0, 1, 3), (0.5, -1.2, 0.3)),),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_split_between_both_layers_the_narrow_network_learns_the_same(name, constraints):
    network, data = setting(name)
    wide = project_on_manifold(network, *constraints)
    steps = 300

    def trained(start):
        return gradient_descent(start, data, 0.02, steps, converged=1e-15).final.predict(data.x)

    expected = trained(wide)
    even = reduce_width(wide, *constraints, same_flow=True)
    np.testing.assert_allclose(even.predict(data.x), wide.predict(data.x), atol=1e-13)
    np.testing.assert_allclose(trained(even), expected, atol=1e-11)
    # F.3's own split is the same function, but learns at different speeds.
    assert np.abs(trained(reduce_width(wide, *constraints)) - expected).max() > 1e-3


BAD = [
    (
        lambda n: reduce_width(n, *(ManifoldConstraint("zero", i) for i in range(4))),
        "would remove all 4 units",
    ),
    (lambda n: reduce_width(n, *(ManifoldConstraint("zero", 1),) * 2), "a different unit"),
    (
        lambda n: reduce_width(
            n, ManifoldConstraint("equal", 1, (0,)), ManifoldConstraint("equal", 0, (1,))
        ),
        "go in a circle",
    ),
    (
        lambda n: reduce_width(n, ManifoldConstraint("equal", 1, (0,)), same_flow=True),
        "for constraints of kind equal",
    ),
    (lambda n: reduce_width(spoilt(n, 0), ManifoldConstraint("zero", 1)), "`u` are not all finite"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call(setting("tanh")[0])


def test_a_deep_network_has_no_units_that_are_all_of_it(as_a_user):
    deep = deep_network((3, 4, 4, 2), activations="tanh", scale=0.5, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"must be one layer.*got DeepNetwork"):
        reduce_width(untyped(deep), ManifoldConstraint("zero", 1))
