"""Test Figure 2: width, spectrum, low-rank and large initial weights."""

import numpy as np
import pytest

from experiments import broken
from festina.networks import layer_from, seeds
from festina.papers.saddles.figure_2 import _a as width
from festina.papers.saddles.figure_2 import _b as spectrum
from festina.papers.saddles.figure_2 import _c as low_rank
from festina.papers.saddles.figure_2 import _d as scale
from festina.papers.saddles.figure_2 import _models as shared
from festina.tasks import from_moments
from festina.theory.saddles import mode_drop_times


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [width, spectrum, low_rank, scale])
@pytest.mark.parametrize("quick", [False, True])
def test_quick_has_the_verdicts_of_the_whole(experiment, quick):
    run = experiment.run(experiment.Parameters(**(experiment.QUICK if quick else {})))
    assert broken(experiment, run) == []


def test_levels_of_figure_2():
    """Levels at κ = 1 are 0.4050, 0.1074, 0.0331, 0 and 1.6872, 1.0174, 0.5561, 0.1869."""
    s = shared.spectrum(1.0)
    np.testing.assert_allclose(11 * s, (6, 3, 2))
    np.testing.assert_allclose(shared.LINEAR.levels(s), (0.4050, 0.1074, 0.0331, 0), atol=5e-5)
    np.testing.assert_allclose(
        shared.ATTENTION.levels(s), (1.6872, 1.0174, 0.5561, 0.1869), atol=5e-5
    )


def test_level_of_directions_one_and_three():
    """Attention at κ = 0.5 has the level 0.6843 with directions {1, 3}, and 0.6327 with {1, 2}."""
    _, first, second, third = shared.ATTENTION.levels(shared.spectrum(0.5))
    assert second == pytest.approx(0.6327, abs=5e-5)
    assert first - (second - third) == pytest.approx(0.6843, abs=5e-5)


def test_drop_times_of_all_draws():
    """Mean and variance of drop times in closed form match those of many random draws."""
    s, draws, widths = shared.spectrum(1.0), 2000, np.array([3, 10])
    for units, mean, variance in zip(widths, *width._distribution(widths, s, 1e-6), strict=True):
        network = shared.LINEAR.network(int(units), 1e-6, seeds(draws))
        times = mode_drop_times(
            layer_from("linear", network.u, network.v), from_moments(np.diag(s), np.eye(3))
        )
        assert (np.abs(times.mean(axis=0) - mean) < 4 * np.sqrt(variance / draws)).all()
        np.testing.assert_allclose(times.var(axis=0), variance, rtol=0.25)


def test_a_head_moves_along_the_gradient_of_what_it_gains():
    """Compare with finite differences of ⟨y f⟩ = (v_y k + k_y v)·diag(s) q of a single head."""
    s = shared.spectrum(0.7)
    network = shared.ATTENTION.network(4, 1.0, seeds(1))
    k, q, v = (part[0] for part in shared._heads(network))
    theta = np.concatenate((k, q, v), axis=-1)

    def gain(theta):
        k, q, v = np.split(theta, (4, 7), axis=-1)
        return np.sum((v[:, 3:] * k[:, :3] + k[:, 3:] * v[:, :3]) * s * q, axis=-1)

    step = 1e-6
    for weight in range(theta.shape[1]):
        moved = step * np.eye(theta.shape[1])[weight]
        slope = (gain(theta + moved) - gain(theta - moved)) / (2 * step)
        np.testing.assert_allclose(shared._head_field(theta, s)[:, weight], slope, atol=1e-8)


def six_units(network, s, times):
    r"""Return ‖diag(s) − W‖² `(seed, time)` of six units that replace all, integrated by SciPy.

    Rotating units of a linear network into each other does not change what they learn. With the
    singular value decomposition $\Theta = U S R^\top$ of all weights θ_i = [v_i, u_i], the rows of
    $S R^\top$ are a network that learns the same, from weights of any size.
    """
    from scipy.integrate import solve_ivp

    _, sizes, rows = np.linalg.svd(np.concatenate((network.v, network.u), -1), full_matrices=False)
    start = sizes[..., None] * rows

    def left(state):
        v, u = np.split(state, 2, axis=-1)
        return v, u, np.diag(s) - v.swapaxes(-1, -2) @ u

    def flow(_, state):
        v, u, error = left(state.reshape(start.shape))
        return np.concatenate((u @ error.swapaxes(-1, -2), v @ error), axis=-1).ravel()

    # The smallest weights decide when later drops come, so their relative error must be small.
    how = {"method": "DOP853", "t_eval": times, "rtol": 1e-9, "atol": 1e-9 * sizes.min()}
    solution = solve_ivp(flow, (0.0, times[-1]), start.ravel(), **how)
    return np.sum(left(solution.y.T.reshape(-1, *start.shape))[2] ** 2, axis=(-1, -2)).T


@pytest.mark.slow
def test_figure_2c_every_drop_from_every_start_is_that_of_six_units():
    parameters = low_rank.Parameters(seeds=2)
    data = low_rank.run(parameters)["linear"].to_dataset()
    s, end = shared.spectrum(1.0), 1.2 * float(data["drop_time"].max())
    # Dense at the start, because large weights drop at once
    times = end * np.linspace(0.0, 1.0, 4000) ** 2
    levels = shared.LINEAR.levels(s)
    for rank, network in enumerate(low_rank.networks(parameters, seeds(2))):
        losses = six_units(network, s, times)
        passed = [np.interp(-(levels[1:] + levels[:-1]) / 2, -loss, times) for loss in losses]
        np.testing.assert_allclose(data["drop_time"].sel(rank=rank), passed, atol=0.02)


@pytest.mark.parametrize(
    ("experiment", "bad", "words"),
    [
        (width, {"linear_widths": (2, 10)}, "from 3 up"),
        (width, {"attention_widths": (25, 5)}, "increasing"),
        (spectrum, {"kappas": (1.0,)}, "2 or more"),
        (spectrum, {"kappas": (-1.0, 1.0)}, "from 0 up"),
        (scale, {"linear_scales": (1e-3, 1e-6)}, "increasing"),
        (scale, {"attention_scales": (0.0, 1e-3)}, "greater than 0"),
        (low_rank, {"strength": 3.0}, "less than or equal"),
    ],
)
def test_bad_parameters(experiment, bad, words):
    with pytest.raises(ValueError, match=words):
        experiment.Parameters(**bad)
