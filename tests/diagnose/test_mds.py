"""Test multidimensional scaling: exact for exact distances, and continuous over time."""

import numpy as np
import pytest

from festina.diagnose import classical_mds
from festina.tasks.worlds import tree


def distances(points):
    return np.linalg.norm(points[..., :, None, :] - points[..., None, :, :], axis=-1)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("form", ["similarity", "distances", "points"])
def test_euclidean_configurations_are_recovered(dimensions, form):
    rng = np.random.default_rng(dimensions)
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0][:dimensions]
    points = rng.standard_normal((7, dimensions)) @ rotation + 3.0  # a plane in six dimensions
    found = {
        "similarity": lambda: classical_mds(points @ points.T, dimensions=dimensions),
        "distances": lambda: classical_mds(distances=distances(points), dimensions=dimensions),
        "squares": lambda: classical_mds(-0.5 * distances(points) ** 2, dimensions=dimensions),
        "points": lambda: classical_mds(points=points, dimensions=dimensions),
    }[form]()
    assert found.points.shape == (7, dimensions)
    assert np.allclose(distances(found.points), distances(points), rtol=0, atol=1e-12)
    assert np.abs(found.points.mean(axis=0)).max() < 1e-12
    assert found.share.sum() == pytest.approx(1.0, abs=1e-12)


def test_axes_are_the_textbooks():
    """Columns are √β times the eigenvectors of the centred similarity, from the largest β down."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((6, 4))
    found = classical_mds(z @ z.T, dimensions=2)
    z = z - z.mean(axis=0)
    beta, modes = np.linalg.eigh(z @ z.T)
    expected = np.sqrt(beta[:-3:-1]) * modes[:, :-3:-1]
    assert np.allclose(np.abs(found.points), np.abs(expected), rtol=0, atol=1e-12)
    assert np.allclose(found.share, beta[:-3:-1] / beta.sum(), rtol=1e-12)


def differentiation(times):
    """Return item similarities while a tree is learned; eigenvalues are degenerate and cross."""
    world = tree([2, 2, 2], 0.1)
    s = world.singular_values(32)
    # Fine distinctions are learned before broad ones, so the order of the modes changes
    rate = np.where(world.kind == 2, 3.0, 1.0)
    a = s / (1 + 1e4 * np.exp(-2 * s * rate * times[:, None]))
    return (world.modes * a[:, None, :]) @ world.modes.T


@pytest.mark.parametrize("dimensions", [2, 3])
def test_trajectories_do_not_jump(dimensions):
    """Steps between frames shrink with the time between frames; across a jump they would not."""
    steps = []
    for frames in (400, 1600):
        moved = classical_mds(
            differentiation(np.linspace(0.0, 3.0, frames)), dimensions=dimensions
        ).points
        assert moved.shape == (frames, 8, dimensions)
        steps.append(np.abs(np.diff(moved, axis=0)).max())
    assert steps[1] == pytest.approx(steps[0] / 4, rel=0.05)


def test_each_frame_of_a_trajectory_is_exact_if_the_axes_suffice():
    similarity = differentiation(np.linspace(0.0, 3.0, 9))
    found = classical_mds(similarity, dimensions=7)
    square = np.diagonal(similarity, axis1=1, axis2=2)
    expected = square[:, :, None] + square[:, None, :] - 2 * similarity
    assert np.allclose(distances(found.points) ** 2, expected, rtol=0, atol=1e-12)
    assert found.share.sum() == pytest.approx(1.0, abs=1e-12)


def test_trajectories_of_points_share_their_axes():
    rng = np.random.default_rng(2)
    start, end = rng.standard_normal((2, 5, 2)) @ np.linalg.qr(rng.standard_normal((4, 4)))[0][:2]
    path = start + np.linspace(0, 1, 6)[:, None, None] * (end - start)
    found = classical_mds(points=path).points
    assert np.allclose(distances(found), distances(path), rtol=0, atol=1e-12)
    assert np.allclose(np.diff(found, n=2, axis=0), 0.0, atol=1e-12)  # straight lines stay straight


def test_dissimilarities_that_are_no_distances_lose_their_negative_part():
    similarity = np.diag([2.0, 2.0, -1.0, -1.0])
    found = classical_mds(similarity, dimensions=4)
    centring = np.eye(4) - 0.25
    beta = np.linalg.eigvalsh(centring @ similarity @ centring)
    assert beta.min() < -0.1
    assert np.allclose(np.sort(np.sum(found.points**2, axis=0)), np.maximum(beta, 0), atol=1e-12)


def test_items_that_are_all_alike_are_one_point():
    found = classical_mds(np.ones((3, 3)))
    assert np.allclose(found.points, 0.0, atol=1e-12)
    assert np.isfinite(found.share).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either `similarity` between items, their `distances`, or their `points`"),
        ({"similarity": 1 - np.eye(3)}, "must hold inner products.*distances as `distances`"),
        ({"distances": np.eye(3)}, "`distances` must be positive between items and zero"),
        ({"distances": np.eye(3) - 1}, "`distances` must be positive between items"),
        ({"similarity": np.eye(3), "points": np.eye(3)}, "either `similarity`"),
        ({"similarity": np.ones(3)}, r"`similarity` must be \(item, item\)"),
        ({"similarity": np.ones((2, 3))}, "square over items.*use `points`"),
        ({"similarity": np.triu(np.ones((3, 3)))}, "symmetric, the largest asymmetry is 1"),
        ({"similarity": np.full((3, 3), np.nan)}, "`similarity` must be finite, but 9 of its 9"),
        ({"points": np.ones((1, 2, 3, 4))}, r"`points` must be \(item, unit\)"),
        ({"similarity": np.eye(3), "dimensions": 4}, "`dimensions` must lie between 1 and 3"),
        ({"similarity": np.eye(3), "dimensions": 0}, "`dimensions` must be a whole number"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        classical_mds(**arguments)
