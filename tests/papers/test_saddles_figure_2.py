"""Figure 2: width, spectrum, low-rank and large initial weights."""

import functools

import numpy as np
import pytest
import xarray as xr

from experiments import altered, broken, is_labelled, is_whole, once, reloaded, unexpected
from festina.networks import seeds
from festina.papers.saddles.figure_2 import _a as width
from festina.papers.saddles.figure_2 import _b as spectrum
from festina.papers.saddles.figure_2 import _c as low_rank
from festina.papers.saddles.figure_2 import _d as scale
from festina.papers.saddles.figure_2 import _models as shared
from festina.papers.saddles.figure_2._claims import duration_claims, reference_claims
from festina.theory.saddles import mode_drop_times

# Minutes of compilation; the functions themselves are tested in theory, diagnose and dynamics.
pytestmark = pytest.mark.slow

SMALL = {
    width: {
        "linear_widths": (20, 100),
        "attention_widths": (5, 25),
        "seeds": 5,
        "seed": 40,
    },
    spectrum: {"kappas": (0.0, 1.0), "seeds": 8, "seed": 40},
    low_rank: {"seeds": 9, "seed": 40},
    scale: {
        "linear_scales": (1e-8, 1e-6, 1e-3, 0.1),
        "attention_scales": (5e-3, 0.02, 0.1),
        "seeds": 5,
        "seed": 40,
    },
}
ALL = pytest.mark.parametrize("experiment", list(SMALL), ids=["2a", "2b", "2c", "2d"])
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
# Attention takes long to compile.
each = pytest.mark.parametrize(
    "experiment",
    [slow(width), slow(spectrum), low_rank, slow(scale)],
    ids=["2a", "2b", "2c", "2d"],
)


small = once(SMALL)


@each
def test_no_claim_is_broken_on_fresh_seeds(experiment):
    assert broken(experiment, small(experiment)) == []


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("quick", [False, True])
def test_quick_has_the_verdicts_of_the_whole(experiment, quick):
    changes = experiment.QUICK if quick else {}
    run = experiment.run(experiment.Parameters(**changes))
    assert unexpected(experiment, run) == []


@each
def test_a_saved_run_gives_the_same_claims_and_figure(experiment, tmp_path):
    again = reloaded(experiment, small(experiment), tmp_path)
    assert experiment.draw(again).axes


@each
def test_the_figure_is_legible(experiment):
    figure = experiment.draw(small(experiment))
    assert is_whole(figure)
    assert is_labelled(figure, "xlabel", "ylabel", "title")
    for ax in figure.axes:
        legend = ax.get_legend().get_window_extent()
        assert legend.x0 >= ax.get_window_extent().x1 - 1  # beside the curves, not on them
        wide = [line for line in ax.lines if line.get_linestyle() == "-"]
        dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
        assert dashed
        assert min(line.get_linewidth() for line in wide) > max(
            line.get_linewidth() for line in dashed
        )


@pytest.mark.parametrize(
    ("experiment", "group", "name", "change", "where", "words"),
    [
        slow(spectrum, "linear", "drop_time", lambda t: 1.05 * t, {"kappa": 1.0}, "predicted from"),
        slow(spectrum, "linear", "visited", lambda x: x + 0.01, {"kappa": 1.0}, "the loss rests"),
        slow(spectrum, "linear", "count", lambda n: n + 1, {"kappa": 0.0}, "equal singular values"),
        slow(spectrum, "linear", "in_order", lambda b: ~b, {"kappa": 1.0}, "order of s"),
        slow(
            width,
            "linear",
            "drop_time",
            lambda t: 1.05 * t,
            {"width": 100},
            "mean drop times follow",
        ),
        slow(
            width, "linear", "drop_time", lambda t: 1.05 * t, {"width": 100}, "between drops follow"
        ),
        slow(width, "attention", "drop_time", lambda t: 0.5 * t, {}, "attention: mean drop times"),
        slow(scale, "attention", "drop_time", lambda t: 0.5 * t, {}, "attention: mean drop times"),
        slow(scale, "linear", "drop_time", lambda t: 1.1 * t, {"scale": 1e-6}, "plain gradient"),
        slow(scale, "linear", "count", lambda n: n + 1, {"scale": 1e-3}, "numbers of plateaus are"),
        slow(spectrum, "attention", "count", lambda n: 0 * n + 3, {"kappa": 0.0}, "keep all 4"),
        (low_rank, "linear", "initial_rate", lambda r: 0.1 * r, {}, "start on no plateau"),
        (low_rank, "linear", "count", lambda n: n - 1, {"rank": 2}, "plateaus between"),
        (low_rank, "linear", "drop_time", lambda t: 1.02 * t, {"rank": 3}, "six units"),
        (low_rank, "linear", "drop_time", lambda t: t + 10, {"rank": 1}, "of nine"),
    ],
)
def test_data_that_differ_break_the_claim(experiment, group, name, change, where, words):
    found = broken(experiment, altered(small(experiment), group, name, change, **where))
    assert any(words in claim for claim in found)


@pytest.mark.slow
def test_the_first_plateau_grows_when_the_spectrum_gets_flatter():
    claims = {claim.claim: claim for claim in spectrum.claims(small(spectrum))}
    for name in ("linear network", "linear attention"):
        assert claims[f"{name}: decreasing κ shortens the plateaus"].verdict == (
            "holds with a correction"
        )
        first = claims[f"{name}: decreasing κ shortens the first plateau as well"]
        assert first.verdict == first.expected == "does not hold"


def test_levels_of_figure_2():
    """At κ = 1: .4050 .1074 .0331 0 and 1.6872 1.0174 .5561 .1869."""
    s = shared.spectrum(1.0)
    np.testing.assert_allclose(11 * s, (6, 3, 2))
    np.testing.assert_allclose(shared.LINEAR.levels(s), (0.4050, 0.1074, 0.0331, 0), atol=5e-5)
    np.testing.assert_allclose(
        shared.ATTENTION.levels(s), (1.6872, 1.0174, 0.5561, 0.1869), atol=5e-5
    )


def test_level_of_directions_one_and_three():
    """Attention at κ = .5: .6843 with {1, 3} learned, not .6327 as with {1, 2}."""
    s = shared.spectrum(0.5)
    variances = np.sqrt(s)
    left = variances / (1 + (1 + variances.sum() / variances) / shared.CONTEXT)
    assert variances.sum() - left[0] - left[2] == pytest.approx(0.6843, abs=5e-5)
    data = xr.Dataset(
        {
            "level": ("plateau", shared.ATTENTION.levels(s)),
            "count": ("seed", [4]),
            "in_order": ("seed", [False]),
            "visited": (("seed", "rest"), [[1.7207, 1.1260, variances.sum() - left[0] - left[2]]]),
        }
    )
    note = spectrum._other_levels(data, 0.5)
    assert "rest at 1.1260 and 0.6843" in note
    assert "in the order of s at 1.1260 and 0.6327" in note
    assert spectrum._other_levels(data.assign(in_order=("seed", [True])), 0.5) == ""


def attention_drops(seeds, draw):
    """Drop times of attention at every width of the reference, each `draw` of what it has."""
    table = width._ATTENTION_TIMES
    times = [[[draw(time) for time in table[heads]] for heads in table] for _ in range(seeds)]
    s = len(table) * [shared.spectrum(1.0)]
    return xr.Dataset(
        {"drop_time": (("seed", "width", "drop"), times), "singular_value": (("width", "mode"), s)},
        {"width": list(table)},
    )


@pytest.mark.parametrize("factor", [1.0, 0.5, 0.0])
def test_means_are_compared_however_little_the_run_scatters_or_how_much(factor):
    rng = np.random.default_rng(0)
    common = ("2a", "attention", "here")
    for scatter in (0.0, 0.5):
        data = attention_drops(8, lambda t, by=scatter: factor * t * (1 + by * rng.uniform(-1, 1)))
        found = [
            *reference_claims(
                *common, data, "width", width._ATTENTION_TIMES, width._ATTENTION_SPREAD
            ),
            *duration_claims(*common, data, "width", width._ATTENTION_TIMES),
        ]
        assert [claim.tolerance <= 0.35 * claim.predicted for claim in found] == [True, True]
        assert [claim.broken for claim in found] == [factor < 1] * 2


def test_means_that_chance_moves_far_are_not_compared():
    common = ("2a", "attention", "here", attention_drops(5, float), "width")
    times = width._ATTENTION_TIMES
    assert duration_claims(*common, {5: times[5]}) == []
    wide = {heads: np.multiply(times[heads], 0.3) for heads in times}
    assert reference_claims(*common, times, wide) == []


def test_drop_times_of_all_draws():
    """Mean and variance in closed form against those of many draws, each followed by itself."""
    s, seeds_ = shared.spectrum(1.0), 2000
    linear = xr.Dataset({"singular_value": (("width", "mode"), [s, s])}, {"width": [3, 10]})
    mean, variance = width._distribution(linear, 1e-6)
    for units in (3, 10):
        network = shared.LINEAR.network(units, 1e-6, seeds(seeds_))
        times = mode_drop_times(network.u, network.v, np.diag(s), np.eye(3))
        error = np.sqrt(variance.sel(width=units).values / seeds_)
        assert (np.abs(times.mean(axis=0) - mean.sel(width=units).values) < 4 * error).all()
        np.testing.assert_allclose(times.var(axis=0), variance.sel(width=units), rtol=0.25)


def test_a_head_moves_along_the_gradient_of_what_it_gains():
    """By finite differences of (v_y k + k_y v)·diag(s) q, which is ⟨y f⟩ of a single head."""
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


@pytest.mark.parametrize(
    ("experiment", "bad", "words"),
    [
        (width, {"linear_widths": (2, 10)}, "from 3 up"),
        (width, {"attention_widths": (25, 5)}, "increasing"),
        (spectrum, {"kappas": (1.0,)}, "two or more"),
        (spectrum, {"kappas": (-1.0, 1.0)}, "from 0 up"),
        (scale, {"linear_scales": (1e-3, 1e-6)}, "increasing positive"),
        (low_rank, {"strength": 3.0}, "less than or equal"),
    ],
)
def test_bad_parameters(experiment, bad, words):
    with pytest.raises(ValueError, match=words):
        experiment.Parameters(**bad)
