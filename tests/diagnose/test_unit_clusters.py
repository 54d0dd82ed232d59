"""Test rays: clusters of unit directions, weighted by contributions to the output."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.diagnose import UnitClusters, unit_clusters, unit_clusters_from
from festina.networks import deep_linear, fully_connected
from festina.tasks import two_orthogonal_points


def bundle(degrees, contributions, *, count=20, spread=1.0, seed=0):
    """Return units along rays in the plane, whose contributions add up to a given sum per ray."""
    rng = np.random.default_rng(seed)
    angles = np.radians(
        np.repeat(degrees, count) + spread * rng.standard_normal(len(degrees) * count)
    )
    size = rng.uniform(0.5, 2.0, len(angles))
    share = rng.uniform(0.5, 1.5, (len(degrees), count))
    share *= np.asarray(contributions)[:, None] / share.sum(1, keepdims=True)
    u = size[:, None] * np.stack((np.cos(angles), np.sin(angles)), axis=1)
    return u, share.ravel() / size * rng.choice((-1, 1), len(size))


def test_rays_are_found_in_the_order_of_their_shares():
    u, v = bundle([26.6, 116.6, -150.0], [0.3, 0.6, 0.1])
    found = unit_clusters_from(u, v)
    assert len(found) == 3
    np.testing.assert_allclose(found.angle, [116.6, 26.6, -150.0], atol=1.0)
    np.testing.assert_allclose(found.share, [0.6, 0.3, 0.1], rtol=1e-12)
    np.testing.assert_allclose(np.degrees(found.spread), 1.0, rtol=0.4)
    np.testing.assert_allclose(np.linalg.norm(found.direction, axis=1), 1.0)


def test_many_small_units_that_point_anywhere_are_no_ray():
    rng = np.random.default_rng(1)
    u, v = bundle([0.0], [1.0])
    dust_u, dust_v = 1e-3 * rng.standard_normal((500, 2)), 1e-2 * rng.standard_normal(500)
    found = unit_clusters_from(np.concatenate((u, dust_u)), np.concatenate((v, dust_v)))
    assert len(found) == 1
    assert found.share[0] > 0.99
    # A unit with large input weights and no output weight contributes nothing.
    silent = unit_clusters_from(np.concatenate((u, [[0.0, 1e3]])), np.append(v, 0.0))
    assert len(silent) == 1
    np.testing.assert_allclose(silent.share, 1.0)


def test_a_direction_is_that_of_the_units_that_contribute():
    """Contributions weight the mean direction.

    One unit at 0° contributes 0.9 and nine units at 8° contribute 0.1, so the ray is at about 0.8°.
    """
    degrees = np.radians([0.0] + [8.0] * 9)
    u = np.stack((np.cos(degrees), np.sin(degrees)), axis=1)
    contribution = np.array([0.9] + [0.1 / 9] * 9)
    found = unit_clusters_from(u, contribution)
    mean = np.degrees(np.arctan2(*(contribution @ u)[::-1]))
    np.testing.assert_allclose(found.angle, mean, rtol=1e-9)
    spread = np.sqrt(0.9 * mean**2 + 0.1 * (8 - mean) ** 2)
    np.testing.assert_allclose(np.degrees(found.spread), spread, rtol=1e-6)


def test_opposite_directions_are_two_rays():
    """The directions u and −u are two rays, because ReLU units scale only by factors α ≥ 0."""
    found = unit_clusters_from([[1.0, 0.0], [-1.0, 0.0]], [1.0, 1.0])
    np.testing.assert_allclose(sorted(np.abs(found.angle)), [0.0, 180.0])


@given(
    seed=st.integers(0),
    # In this range contributions neither underflow nor overflow.
    factor=st.floats(-12, 12).map(lambda e: 10.0**e),
    turn=st.floats(0, 360),
)
@settings(max_examples=20)
def test_rays_turn_with_the_weights_and_do_not_care_for_their_size(seed, factor, turn):
    u, v = bundle([0.0, 80.0, 200.0], [0.5, 0.3, 0.2], seed=seed)
    c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
    one = unit_clusters_from(u, v)
    other = unit_clusters_from(factor * u @ np.array([[c, s], [-s, c]]), v / 3)
    np.testing.assert_allclose(other.share, one.share, rtol=1e-9)
    np.testing.assert_allclose(other.spread, one.spread, rtol=1e-5)
    difference = (other.angle - one.angle - turn + 180) % 360 - 180
    assert np.abs(difference).max() < 1e-6
    # Results also do not depend on the order of units, an output axis, or scaling u against v.
    size = np.linspace(0.5, 2, len(u))
    again = unit_clusters_from((size[:, None] * u)[::-1], (v / size)[::-1, None])
    np.testing.assert_allclose(again.share, one.share, rtol=1e-12)
    np.testing.assert_allclose(again.angle, one.angle, atol=1e-9)


def test_the_angle_decides_what_is_one_ray():
    u, v = bundle([0.0, 20.0], [0.6, 0.4], spread=0.1)
    assert len(unit_clusters_from(u, v, angle=np.radians(10))) == 2
    assert len(unit_clusters_from(u, v, angle=np.radians(30))) == 1
    assert len(unit_clusters_from(u, v, angle=np.radians(10), share=0.5)) == 1


def test_any_number_of_dimensions_and_outputs():
    u = np.repeat(np.eye(5)[:3], [3, 2, 1], axis=0)
    found = unit_clusters_from(u, np.ones((6, 2, 4)))
    np.testing.assert_allclose(found.share, [3 / 6, 2 / 6, 1 / 6])
    np.testing.assert_allclose(found.direction, np.eye(5)[:3], atol=1e-12)
    np.testing.assert_allclose(found.spread, 0.0, atol=1e-7)
    with pytest.raises(ValueError, match="two dimensions, not 5"):
        _ = found.angle


def test_when_every_ray_is_too_small():
    found = unit_clusters_from(np.eye(4), np.ones(4), share=0.5)
    assert len(found) == 0
    assert found.direction.shape == (0, 4)
    assert unit_clusters_from(np.eye(2), np.ones(2), share=0.9).angle.shape == (0,)


def test_a_tiny_angle_ends():
    """A unit counts as its own direction at an angle of 1e-9, where cos(1e-9) rounds to 1."""
    rng = np.random.default_rng(0)
    found = unit_clusters_from(rng.standard_normal((50, 3)), np.ones(50), angle=1e-9, share=0.0)
    assert len(found) == 50


@pytest.mark.parametrize(
    ("u", "v", "how", "message"),
    [
        (np.ones((3, 2)), np.ones(2), {}, r"got shapes \(3, 2\) and \(2,\)"),
        (np.ones((4, 2)), np.ones((2, 2)), {}, r"got shapes \(4, 2\) and \(2, 2\)"),
        (np.ones(3), np.ones(3), {}, r"`u` must be \(unit, input\) .* got shapes \(3,\)"),
        (np.array([[1.0, np.nan]]), np.ones(1), {}, "must be finite"),
        (np.ones((1, 2)), np.array([np.inf]), {}, "must be finite"),
        (np.zeros((3, 2)), np.ones(3), {}, "No unit contributes: all weights `u`"),
        (np.ones((3, 2)), np.ones(3), {"angle": 0.0}, r"between 0 and π/2 radians, got 0\.0"),
        (np.ones((3, 2)), np.ones(3), {"angle": 3.0}, r"between 0 and π/2 radians, got 3\.0"),
        (np.ones((3, 2)), np.ones(3), {"angle": float("nan")}, "`angle` must be a number, got nan"),
    ],
)
def test_weights_that_have_no_rays(u, v, how, message):
    with pytest.raises(ValueError, match=message):
        unit_clusters_from(u, v, **how)


def test_layers_of_a_batch_and_along_a_run_have_rays_each():
    network = fully_connected(2, 20, 1, activation="relu", scale=1e-3, key=festina.seeds(2))
    run = festina.gradient_flow(network, two_orthogonal_points())
    found = unit_clusters(run, share=0.1)
    assert isinstance(found, np.ndarray)
    assert found.shape == (2, run.loss.shape[1])
    for seed in range(2):
        last = unit_clusters(run.lane(seed).final, share=0.1)
        assert isinstance(last, UnitClusters)
        np.testing.assert_array_equal(last.share, found[seed, -1].share)
        u, v = (np.asarray(part[seed]) for part in (run.final.u, run.final.v))
        np.testing.assert_array_equal(last.direction, unit_clusters_from(u, v, share=0.1).direction)


def test_what_has_no_layer_is_said(as_a_user):
    with pytest.raises(
        ValueError, match=r"must be a layer.*DeepLinear.*unit_clusters_from\(u, v\)"
    ):
        unit_clusters(deep_linear((2, 3, 1), scale=1.0, key=festina.seeds(1)[0]))
    with pytest.raises(ValueError, match="or a trajectory, got ndarray"):
        unit_clusters(np.ones((3, 2)))  # pyright: ignore[reportArgumentType]
