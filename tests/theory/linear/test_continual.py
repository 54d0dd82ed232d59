"""One task after the other: composed solutions against tabled values and integrated flows."""

import numpy as np
import pytest
from balanced_weights import SQUARE, balanced_weights, integrate, tabled

from festina.theory.linear import ObstructionWarning, balanced_flow, continual, interference

OTHER = np.array([[0.2, -0.9], [1.1, 0.5]])


@pytest.mark.parametrize(
    ("lam", "expected", "left", "forgotten"),
    [
        (-1.0, [0.21058707, -0.87751059, 1.08247436, 0.50958629], 1.085e-05, 2.30326254),
        (0.0, [0.21992574, -0.85500311, 1.06710409, 0.51562012], 0.00620202, 2.23650991),
        (1.0, [0.21058707, -0.87751059, 1.08247436, 0.50958629], 1.085e-05, 2.30326254),
    ],
)
def test_two_tasks_of_the_table(lam, expected, left, forgotten):
    first, second, _ = tabled("square", lam)
    run = continual(first, second, [SQUARE, OTHER], [np.linspace(0, 3, 4), np.linspace(0, 2, 4)])
    assert np.allclose(run.map[-1].ravel(), expected, atol=1e-6)
    assert run.after[0, 0] == pytest.approx(left, abs=5e-9)
    assert run.forgetting[1, 0] == pytest.approx(forgotten, abs=1e-6)
    assert np.array_equal(np.isnan(run.forgetting), [[False, True], [False, False]])
    assert np.array_equal(run.times, [0, 1, 2, 3, 3, 3 + 2 / 3, 3 + 4 / 3, 5])
    assert np.array_equal(run.stage, [0, 0, 0, 0, 1, 1, 1, 1])
    assert np.allclose(run.map[3], run.map[4], atol=1e-13)
    assert np.allclose(run.losses[:, 1], np.sum((run.map - OTHER) ** 2, axis=(1, 2)) / 2)


def test_composition_is_the_flow_from_real_weights():
    """The second task starts from weights that differ from the network's by a rotation."""
    first, second, sigma = tabled("funnel", -1.0)
    other = np.array([[0.2, -0.9, 0.3], [1.1, 0.5, 0.0]])
    run = continual(first, second, [sigma, other], [[1.0, 2.0], [0.5, 1.5]])
    state = run.states[0]
    q = integrate(first, second, sigma, [2.0])[0]
    values, vectors = np.linalg.eigh(q)
    root = vectors[:, -2:] * np.sqrt(values[-2:])  # rank two: another rotation of the same weights
    expected = integrate(root[:3].T, root[3:], other, [0.5, 1.5])
    assert np.allclose(run.map[2:], expected[:, 3:, :3], atol=1e-7)
    assert state.balance == pytest.approx(-1.0)


@pytest.mark.parametrize("lam", [-1.0, 1.0, 5.0])
def test_forgetting_of_what_was_learned_to_the_end(lam):
    first, second, _ = tabled("square", lam)
    run = continual(first, second, [SQUARE, OTHER, SQUARE], [[1e4]] * 3)
    limit = interference(run.correlations)
    assert limit[1, 0] == pytest.approx(2.37)
    assert np.allclose(run.after, limit, atol=1e-9)
    assert run.forgetting[1, 0] == pytest.approx(2.37, abs=1e-9)


def test_forgetting_with_too_few_units():
    rng = np.random.default_rng(0)
    tasks = list(rng.standard_normal((3, 4, 4)))
    first, second = balanced_weights(4, 1, 4, 0.5, [0.1], rng)
    run = continual(first, second, tasks, [[1e3]] * 3)
    risen = run.forgetting[np.tril_indices(3)]
    assert np.allclose(risen, interference(tasks, hidden=1)[np.tril_indices(3)], atol=1e-9)
    assert not np.allclose(risen, interference(tasks)[np.tril_indices(3)], atol=0.1)
    with pytest.raises(ValueError, match="`hidden` must be at least 1"):
        interference(tasks, hidden=0)


def test_a_task_that_is_never_learned_is_warned_of():
    first, second, _ = tabled("square", 0.0)
    with pytest.warns(ObstructionWarning, match=r"ends at a saddle of loss up to"):
        run = continual(first, second, [SQUARE, -SQUARE * [[1.0, -1.0]]], [[1.0], [30.0]])
    smallest = np.linalg.svd(SQUARE, compute_uv=False)[-1]
    assert run.after[1, 1] == pytest.approx(smallest**2 / 2, rel=1e-6)


def test_bad_curricula():
    first, second, _ = tabled("square", 1.0)
    for arguments, message in (
        (([SQUARE], [[1.0], [2.0]]), "an entry for each task, got 1 and 2"),
        (([], []), "an entry for each task"),
        (([SQUARE, OTHER], [[1.0], [2.0, 1.0]]), "`times` must increase"),
        (([SQUARE, np.eye(3)], [[1.0], [2.0]]), "`correlations` must have one shape"),
        (([SQUARE, OTHER * np.nan], [[1.0], [2.0]]), "`correlations` must be finite"),
        (([SQUARE, OTHER], [[1.0], [-2.0]]), "must not be negative"),
    ):
        with pytest.raises(ValueError, match=message):
            continual(first, second, *arguments)
    assert balanced_flow(first, second, SQUARE).balance == pytest.approx(1.0)
