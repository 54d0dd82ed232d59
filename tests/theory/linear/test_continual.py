"""Test continual learning: composed solutions against reference values and integrated flows."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from balanced_weights import SQUARE, balanced_weights, integrate, rotation, tabled, two_by_two

from festina.networks import deep_linear_from
from festina.tasks import from_arrays, from_moments
from festina.theory.linear import (
    ObstructionWarning,
    balanced_flow,
    continual_learning,
    interference,
)

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
    run = continual_learning(
        deep_linear_from([first, second]),
        [from_moments(SQUARE), from_moments(OTHER)],
        [np.linspace(0, 3, 4), np.linspace(0, 2, 4)],
    )
    assert np.allclose(run.map[-1].ravel(), expected, atol=1e-6)
    assert run.after[0, 0] == pytest.approx(left, abs=5e-9)
    assert run.forgetting[1, 0] == pytest.approx(forgotten, abs=1e-6)
    assert np.array_equal(np.isnan(run.forgetting), [[False, True], [False, False]])
    assert np.array_equal(run.time, [0, 1, 2, 3, 3, 3 + 2 / 3, 3 + 4 / 3, 5])
    assert np.array_equal(run.stage, [0, 0, 0, 0, 1, 1, 1, 1])
    assert np.allclose(run.map[3], run.map[4], atol=1e-13)
    assert np.allclose(run.losses[:, 1], np.sum((run.map - OTHER) ** 2, axis=(1, 2)) / 2)


def test_composition_is_the_flow_from_real_weights():
    """The second task starts from weights that are a rotation of the network's weights."""
    first, second, sigma = tabled("funnel", -1.0)
    other = np.array([[0.2, -0.9, 0.3], [1.1, 0.5, 0.0]])
    run = continual_learning(
        deep_linear_from([first, second]),
        [from_moments(sigma), from_moments(other)],
        [[1.0, 2.0], [0.5, 1.5]],
    )
    state = run.states[0]
    q = integrate(first, second, sigma, [2.0])[0]
    values, vectors = np.linalg.eigh(q)
    root = vectors[:, -2:] * np.sqrt(values[-2:])  # rank two: the same weights, rotated
    expected = integrate(root[:3].T, root[3:], other, [0.5, 1.5])
    assert np.allclose(run.map[2:], expected[:, 3:, :3], atol=1e-7)
    assert state.balance == pytest.approx(-1.0)


@pytest.mark.parametrize("lam", [-1.0, 1.0, 5.0])
def test_forgetting_of_what_was_learned_to_the_end(lam):
    first, second, _ = tabled("square", lam)
    run = continual_learning(
        deep_linear_from([first, second]),
        [from_moments(SQUARE), from_moments(OTHER), from_moments(SQUARE)],
        [[1e4]] * 3,
    )
    limit = interference(run.correlations)
    assert limit[1, 0] == pytest.approx(2.37)
    assert np.allclose(run.after, limit, atol=1e-9)
    assert run.forgetting[1, 0] == pytest.approx(2.37, abs=1e-9)


def test_forgetting_with_too_few_units():
    rng = np.random.default_rng(0)
    tasks = list(rng.standard_normal((3, 4, 4)))
    first, second = balanced_weights(4, 1, 4, 0.5, [0.1], rng)
    run = continual_learning(
        deep_linear_from([first, second]), [from_moments(s) for s in tasks], [[1e3]] * 3
    )
    risen = run.forgetting[np.tril_indices(3)]
    assert np.allclose(risen, interference(tasks, hidden=1)[np.tril_indices(3)], atol=1e-9)
    assert not np.allclose(risen, interference(tasks)[np.tril_indices(3)], atol=0.1)


@pytest.mark.parametrize("hidden", [0, 1.5])
@pytest.mark.usefixtures("as_a_user")
def test_numbers_of_units_are_whole(hidden):
    with pytest.raises(
        ValueError, match=f"`hidden` must be a whole number from 1 up, got {hidden}"
    ):
        interference([SQUARE, OTHER], hidden=hidden)


def test_the_loss_that_nothing_reduces():
    first, second, _ = tabled("square", 1.0)
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.standard_normal((20, 2)))[0] * np.sqrt(20)
    y = rng.standard_normal((2, 20, 2))
    tasks, powers = y.swapaxes(1, 2) @ x / 20, np.sum(y**2, axis=(1, 2)) / 20
    known = [from_moments(s, target_power=p) for s, p in zip(tasks, powers, strict=True)]
    run = continual_learning(deep_linear_from([first, second]), known, [1.0, [0.0, 2.0]])
    direct = [[np.sum((y_j - x @ w.T) ** 2) / 40 for y_j in y] for w in run.map]
    assert np.allclose(run.losses + run.floor, direct, rtol=1e-12)
    assert np.array_equal(
        continual_learning(
            deep_linear_from([first, second]), [from_moments(s) for s in list(tasks)], [1.0, 2.0]
        ).floor,
        [0.0, 0.0],
    )


def test_a_task_that_is_never_learned_is_warned_of():
    first, second, _ = tabled("square", 0.0)
    with pytest.warns(ObstructionWarning, match=r"in task 1, and the flow ends at a saddle"):
        run = continual_learning(
            deep_linear_from([first, second]),
            [from_moments(SQUARE), from_moments(-SQUARE * [[1.0, -1.0]])],
            [[1.0], [30.0]],
        )
    smallest = np.linalg.svd(SQUARE, compute_uv=False)[-1]
    assert run.after[1, 1] == pytest.approx(smallest**2 / 2, rel=1e-6)


def composed(first, second, tasks, times, *, digits=400):
    """Return W₂W₁ after tasks Σ = diag(σ) at λ = 0, by M = XA⁻¹Xᵀ with many digits."""
    decimals = np.vectorize(Decimal, otypes=[object])
    with localcontext() as context:
        context.prec = digits
        x, half = decimals(np.concatenate([first.T, second])), 1 / Decimal(2).sqrt()
        n, a = len(second), decimals(np.eye(len(first)))
        for diagonal, t in zip(decimals(tasks), decimals(times), strict=True):
            for k, rate in enumerate(diagonal):
                both = [(x[k] + x[n + k]) * half, (x[k] - x[n + k]) * half]
                for i, f in enumerate((rate, -rate)):
                    a = a + np.outer(both[i], both[i]) * (((2 * f * t).exp() - 1) / (2 * f))
                    both[i] = both[i] * (f * t).exp()
                x[k], x[n + k] = (both[0] + both[1]) * half, (both[0] - both[1]) * half
        # Elimination without pivoting, because A is positive definite
        rows = np.concatenate([a, x[:n].T], axis=1)
        for k in range(len(a)):
            rows[k] = rows[k] / rows[k, k]
            others = np.arange(len(a)) != k
            rows[others] = rows[others] - np.outer(rows[others, k], rows[k])
        return (x[n:] @ rows[:, len(a) :]).astype(float)


def test_a_task_is_reversed_after_it_has_been_learned_for_long():
    """At λ = 0, the part of the weights along −Σ has fallen as e^{−2st} to 1e-16 and 1e-11."""
    first, second = (0.3 * two_by_two(angle) for angle in (0.4, 1.1))
    task = np.diag([1.5, 1.0])
    run = continual_learning(
        deep_linear_from([first, second]), [from_moments(task), from_moments(-task)], [12.0, 36.0]
    )
    assert np.allclose(run.map[-1], -task, atol=1e-4)
    exact = composed(first, second, [[1.5, 1.0], [-1.5, -1.0]], [12.0, 36.0])
    assert np.allclose(run.map[-1], exact, atol=1e-12)
    late = continual_learning(
        deep_linear_from([first, second]),
        [from_moments(task), from_moments(-task)],
        [60.0, [60.0, 132.0, 190.0]],
    )
    assert np.abs(late.map[1]).max() < 1e-20  # near the saddle between both tasks
    assert np.allclose(late.map[3], -task, atol=1e-9)
    for k, t in ((2, 132.0), (3, 190.0)):
        exact = composed(first, second, [[1.5, 1.0], [-1.5, -1.0]], [60.0, t], digits=600)
        assert np.allclose(np.diagonal(late.map[k]), np.diagonal(exact), rtol=1e-9)


@pytest.mark.parametrize(
    "size", [3, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 4))]
)
def test_what_a_long_stage_leaves_is_carried_into_the_next(size):
    """An even number of modes changes its sign between tasks, so the sign of det W is the same."""
    rng, count = np.random.default_rng(size), 4
    for _ in range(3):
        signs = rng.choice([-1.0, 1.0], (count, size))
        signs[:, 0] = np.prod(signs[:, 1:], axis=1)
        tasks = signs * np.sort(rng.uniform(0.5, 1.6, size))[::-1]
        times = rng.uniform(3.0, 60.0, count)
        first, second = (0.3 * rotation(size, rng) for _ in range(2))
        second[:, 0] *= np.sign(np.linalg.det(first) * np.linalg.det(second))
        run = continual_learning(
            deep_linear_from([first, second]), [from_moments(np.diag(s)) for s in tasks], times
        )
        for k in range(count):
            expected = composed(first, second, tasks[: k + 1], times[: k + 1])
            assert np.allclose(run.map[k], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("inputs", "hidden", "outputs", "lam"),
    [
        (3, 2, 4, -0.7),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((4, 6, 3, 0.0), (4, 3, 3, 2.0))),
    ],
)
def test_stages_are_those_of_one_flow_after_another(inputs, hidden, outputs, lam):
    """Unrelated tasks with short stages keep all digits of doubles."""
    rng = np.random.default_rng(7)
    first, second = balanced_weights(inputs, hidden, outputs, lam, 0.5, rng)
    tasks = list(rng.standard_normal((3, outputs, inputs)))
    run = continual_learning(
        deep_linear_from([first, second]), [from_moments(s) for s in tasks], [1.0, [0.3, 1.5], 2.0]
    )
    at = 0
    for sigma, times in zip(tasks, ([1.0], [0.3, 1.5], [2.0]), strict=True):
        state = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))(times)
        assert np.allclose(run.map[at : at + len(times)], state.map, atol=1e-9)
        first, second, at = state.inward[..., -1].T, state.outward[..., -1], at + len(times)


def test_where_rounding_decides_it_is_said():
    """After a long first stage, the part that would grow in the reversal is lost to rounding."""
    first, second = (0.3 * two_by_two(angle) for angle in (0.4, 1.1))
    task = np.diag([1.5, 1.0])
    with pytest.warns(ObstructionWarning, match=r"in task 1.*rounding may decide"):
        continual_learning(
            deep_linear_from([first, second]),
            [from_moments(task), from_moments(-task)],
            [[1e4], [3e4]],
        )


def test_a_network_and_tasks_are_their_weights_and_moments():
    rng = np.random.default_rng(3)
    first, second = balanced_weights(3, 2, 3, 0.5, 0.5, rng)
    tasks = [from_arrays(np.eye(3), rng.standard_normal((3, 3))) for _ in range(2)]
    run = continual_learning(deep_linear_from([first, second]), tasks, [1.0, 2.0], loss="half-sum")
    assert np.allclose(
        run.map,
        continual_learning(
            deep_linear_from([first, second]), [from_moments(t.y.T) for t in tasks], [1.0, 2.0]
        ).map,
    )
    assert np.allclose(run.floor, 0.0, atol=1e-12)  # one-hot items have no noise
    with pytest.raises(ValueError, match="needs white inputs"):
        continual_learning(deep_linear_from([first, second]), tasks, [1.0, 2.0])


def test_bad_curricula():
    first, second, _ = tabled("square", 1.0)
    for arguments, message in (
        (([SQUARE], [[1.0], [2.0]]), "an entry for each task, got 1 and 2"),
        (([], []), "an entry for each task"),
        (([SQUARE, OTHER], [[1.0], [2.0, 1.0]]), "`times` must increase"),
        (
            ([SQUARE, np.eye(3)], [[1.0], [2.0]]),
            "Network and task do not fit",
        ),
        (([SQUARE, OTHER], [[1.0], [-2.0]]), "must not be negative"),
    ):
        sigmas, times = arguments
        tasks = [from_moments(sigma) for sigma in sigmas]
        with pytest.raises(ValueError, match=message):
            continual_learning(deep_linear_from([first, second]), tasks, times)
    assert balanced_flow(
        deep_linear_from([first, second]), from_moments(SQUARE)
    ).balance == pytest.approx(1.0)
