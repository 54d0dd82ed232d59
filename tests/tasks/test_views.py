"""Test views of one class, of several classes, of correlated signs, and in conflict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.tasks import (
    conflicting_views,
    correlated_views,
    multi_view_classes,
    views_of_independent_classes,
)

AMPLITUDES = st.lists(st.floats(0.1, 3.0), min_size=1, max_size=3)


def moments(task):
    x, y, w = task.x, task.y, task.weight[:, None]
    return (w * y).T @ x, (w * x).T @ x


def floor(task):
    """Return the loss of least squares."""
    root = np.sqrt(task.weight)[:, None]
    best = np.linalg.lstsq(root * task.x, root * task.y, rcond=None)[0]
    return 0.5 * np.sum(task.weight[:, None] * (task.y - task.x @ best) ** 2)


@settings(max_examples=10)
@given(AMPLITUDES, st.integers(2, 5))
def test_views_of_one_class_are_one_direction_for_each(a, classes):
    task = multi_view_classes(a, classes)
    cross, second = moments(task)
    s = np.linalg.svd(cross, compute_uv=False)
    np.testing.assert_allclose(s, np.linalg.norm(a) / classes, rtol=1e-12)
    d = np.linalg.eigvalsh(second)[::-1]
    np.testing.assert_allclose(d[:classes], np.linalg.norm(a) ** 2 / classes, rtol=1e-12)
    np.testing.assert_allclose(d[classes:], 0, atol=1e-12)
    assert floor(task) < 1e-24
    assert task.labels["class"].tolist() == [*range(classes)]


@settings(max_examples=10)
@given(AMPLITUDES, st.integers(2, 4))
def test_views_of_several_classes_have_their_mean_in_common(a, classes):
    task = views_of_independent_classes(a, classes)
    assert len(task.x) == classes ** len(a)
    assert np.linalg.matrix_rank(task.x) == len(a) * (classes - 1) + 1
    assert floor(task) < 1e-24
    for v, amplitude in enumerate(a):
        block = slice(v * classes, (v + 1) * classes)
        one = np.eye(classes)[task.labels[f"view {v + 1}"]]
        np.testing.assert_array_equal(task.x[:, block], amplitude * one)
        np.testing.assert_array_equal(task.y[:, block], one)


@settings(max_examples=10)
@given(AMPLITUDES, st.floats(0.0, 1.0))
def test_signs_are_correlated_as_they_should(a, kappa):
    a, count = np.array(a), len(a)
    alike = kappa + (1 - kappa) * np.eye(count)
    wanted = {
        "sum": a * (1 + (count - 1) * kappa),
        "common": a * np.sqrt(kappa),
        "each": alike * a,
    }
    for target, expected in wanted.items():
        cross, second = moments(correlated_views(a, kappa, target=target))
        np.testing.assert_allclose(second, a[:, None] * alike * a, atol=1e-12)
        np.testing.assert_allclose(cross, np.atleast_2d(expected), atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.7, 1.0])
def test_without_gates_a_quarter_of_the_conflict_is_left(share, classes):
    for cue in (True, False):
        task = conflicting_views(share, classes, cue=cue)
        assert task.x.shape == (2 * classes**2, 2 * classes + 2 * cue)
        differ = task.labels["first"] != task.labels["second"]
        np.testing.assert_allclose(task.weight[differ].sum(), share, atol=1e-12)
        np.testing.assert_allclose(floor(task), share / 4, atol=1e-12)
    asked = np.where(task.labels["cue"] == 0, task.labels["first"], task.labels["second"])
    np.testing.assert_array_equal(task.y, np.eye(classes)[asked])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: multi_view_classes([]), "`amplitudes` must have at least one entry"),
        (lambda: multi_view_classes([1.0, 0.0]), "1 that are not positive"),
        (lambda: multi_view_classes([[1.0]]), "one positive number for each view"),
        (lambda: multi_view_classes([1.0, np.nan]), "`amplitudes` must be finite"),
        (lambda: multi_view_classes([1.0], 1), "`classes` must be a whole number from 2 up"),
        (lambda: views_of_independent_classes([1.0] * 9, 9), "387,420,489 combinations"),
        (lambda: correlated_views([1.0, 1.0], 1.5), "`overlap` must lie between 0 and 1"),
        (lambda: correlated_views([1.0], np.nan), "`overlap` must be a number"),
        (lambda: correlated_views([1.0] * 11, 0.5), "there may be 10"),
        (lambda: correlated_views([1.0], 0.5, target="mean"), "'sum', 'common' or 'each'"),
        (lambda: conflicting_views(-0.1), "`share` must lie between 0 and 1"),
    ],
)
def test_views_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
