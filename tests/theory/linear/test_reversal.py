"""Test reversal: times at which modes cross zero, and modes that never do."""

import numpy as np
import pytest
from balanced_weights import balanced_weights, rotation

from festina.networks import deep_linear_from
from festina.tasks import from_moments
from festina.theory.linear import balanced_flow, reversal_initial_amplitude, reversal_time

TABLE = {0.01: 2.14018716, 0.1: 1.26696655, 1.0: 0.47788189, 3.0: 0.21234528, 10.0: 0.06867999}


def reversed_flow(first, second, sigma, lam):
    end = balanced_flow(deep_linear_from([first, second]), from_moments(sigma), balance=lam).limit()
    return balanced_flow(
        deep_linear_from([end.inward[..., 0].T, end.outward[..., 0]]),
        from_moments(-sigma),
        balance=lam,
    )


@pytest.mark.parametrize(("lam", "expected"), TABLE.items())
@pytest.mark.parametrize("sign", [1, -1])
def test_zero_crossing(lam, expected, sign):
    assert reversal_time(1.3, sign * lam) == pytest.approx(expected, abs=1e-8)
    weights = np.sqrt((np.hypot(lam, 0.2) + np.array([-lam, lam])) / 2)[::sign]
    flow = reversed_flow(weights[:1, None], weights[1:, None], np.array([[1.3]]), sign * lam)
    assert flow([expected]).map[0, 0, 0] == pytest.approx(0.0, abs=1e-7)
    assert flow([0.9 * expected]).map[0, 0, 0] > 1e-3


def test_limits_of_the_crossing_time():
    for lam in (1e-6, 1e-8):
        assert reversal_time(1.3, lam, tau=2.0) == pytest.approx(np.log(2.6 / lam) / 1.3, rel=lam)
    for lam in (1e3, 1e5):
        assert reversal_time(1.3, -lam) == pytest.approx(np.log(2) / lam, rel=10 / lam)
    assert reversal_time([1.0, 2.0], 0.0).tolist() == [np.inf, np.inf]


def test_overlap_with_what_grows():
    """Compare with converged weights along growing eigenvectors of the reversed task."""
    rng = np.random.default_rng(0)
    s = np.array([2.0, 1.0, 0.5])
    u, v = rotation(3, rng), rotation(3, rng)
    for lam in (-3.0, 0.4):
        first, second = balanced_weights(3, 3, 3, lam, 0.5, rng)
        end = balanced_flow(
            deep_linear_from([first, second]), from_moments(u * s @ v.T), balance=lam
        ).limit()
        root = np.hypot(s, lam / 2)
        h = lam / 2 / (root + s)
        g = 1 / np.sqrt(1 + h**2)
        # B of Eq. (15) for −Σ = (−U) S Vᵀ
        b = (end.outward[..., 0].T @ -u) * (g + h * g) + (end.inward[..., 0].T @ v) * (g - h * g)
        assert np.allclose(
            np.linalg.norm(b, axis=0), np.abs(reversal_initial_amplitude(s, lam)), atol=1e-10
        )
    assert np.all(reversal_initial_amplitude(s, 0.0) == 0.0)


@pytest.mark.filterwarnings("ignore:The weights cannot reach")
def test_without_balance_a_converged_network_is_trapped():
    root = np.sqrt(1.3)
    flow = balanced_flow(deep_linear_from([[[root]], [[root]]]), from_moments([[-1.3]]))
    assert flow.obstructed
    a = flow([1.0, 30.0, 1e6]).map[:, 0, 0]
    assert np.all((a >= 0) & (a <= 1.3))
    assert a[1] <= 1e-12
    assert a[2] <= 1e-12


def test_stopped_early_it_takes_as_long_to_unlearn_as_it_learned():
    """For λ = 0 and s = 1, alignment changes its sign after T_A and the new task takes 2T_A."""
    rng = np.random.default_rng(4)
    sigma = rotation(4, rng) @ rotation(4, rng).T
    first, second = balanced_weights(4, 4, 4, 0.0, 0.05, rng)
    if np.linalg.det(second @ first) * np.linalg.det(sigma) < 0:
        sigma = sigma @ np.diag([-1.0, 1.0, 1.0, 1.0])
    flow = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))
    crossings, relearned = [], []
    for stop in (10.0, 14.0):
        end = flow([stop])
        back = balanced_flow(
            deep_linear_from([end.inward[..., 0].T, end.outward[..., 0]]),
            from_moments(-sigma),
            balance=0.0,
        )
        times = np.linspace(0.0, 3 * stop, 4000)
        state = back(times)
        crossings.append(times[np.argmax(state.alignment() > 0)])
        relearned.append(times[np.argmax(state.loss() < 0.02 * state.loss()[0])])
    assert np.diff(crossings) / 4.0 == pytest.approx(1.0, abs=0.02)
    assert np.diff(relearned) / 4.0 == pytest.approx(2.0, abs=0.05)


@pytest.mark.filterwarnings("ignore:The weights cannot reach")
def test_an_odd_number_of_modes_cannot_all_be_reversed():
    rng = np.random.default_rng(4)
    sigma = rotation(3, rng) * [2.0, 1.5, 0.7] @ rotation(3, rng).T
    first, second = balanced_weights(3, 3, 3, 0.0, 0.05, rng)
    if np.linalg.det(second @ first) * np.linalg.det(sigma) < 0:
        sigma = -sigma
    end = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))([1.0])
    back = balanced_flow(
        deep_linear_from([end.inward[..., 0].T, end.outward[..., 0]]),
        from_moments(-sigma),
        balance=0.0,
    )
    assert back.obstructed
    assert back.limit().loss()[0] == pytest.approx(0.7**2 / 2, abs=1e-9)


def test_bad_arguments():
    with pytest.raises(ValueError, match="`singular_values` must be positive"):
        reversal_time([1.0, 0.0], 1.0)
    with pytest.raises(ValueError, match="`balance` must be finite"):
        reversal_time(1.0, np.nan)
    for call in (reversal_time, reversal_initial_amplitude):
        with pytest.raises(ValueError, match=r"one value for each mode.*\(2,\), \(3,\)"):
            call(np.ones(2), np.ones(3))
