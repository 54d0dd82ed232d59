"""Test Figure 5 of the saddle-to-saddle paper, deep networks, on fresh seeds."""

import functools
import importlib

import numpy as np
import pytest
from pydantic import ValidationError

from experiments import broken
from festina.diagnose import plateaus_of_batch
from festina.dynamics import gradient_descent
from festina.experiments import load_experiment
from festina.networks import seeds
from festina.papers.saddles.figure_5._e import advance, growing_mode
from helpers import terminal
from plain_descent import furthest, plain_drops

slow = pytest.mark.slow  # minutes of compilation


def panel(letter):
    return load_experiment(f"saddles/figure-5{letter}")


@functools.cache
def fresh(letter, **options):
    experiment = panel(letter)
    return experiment.run(experiment.parameters(**{"seed": 100, "seeds": 6, **options}))


@slow
@pytest.mark.parametrize(
    ("letter", "levels"),
    [
        ("a", (5.0, (5 - np.sqrt(13)) / 2, 0.0)),  # Lemma 6: without the larger eigenvalue of Σ
        ("b", (1.0, 0.4, 0.0)),
        ("c", (1.0, 0.5, 0.0)),
        ("d", (1.0, 0.4, 0.0)),
        ("f", (6.0, 8 / 3, 0.0)),
    ],
)
def test_levels(letter, levels):
    """Levels are those of narrow minima; training starts at the first and ends at the last."""
    experiment, run = panel(letter), fresh(letter)
    assert broken(experiment, run) == []
    np.testing.assert_allclose(run["theory"]["level"].to_numpy(), levels, atol=1e-6)
    loss = run["simulation"]["loss"].to_numpy()
    assert np.median(loss[:, 0]) == pytest.approx(levels[0], rel=1e-3)
    np.testing.assert_allclose(loss[:, -1], 0.0, atol=1e-6)


@slow
@pytest.mark.parametrize(("letter", "within"), [("a", 1e-3), ("b", 1e-2), ("c", 1e-3)])
def test_every_seed_rests_at_the_level_of_one_unit(letter, within):
    run = fresh(letter)
    assert (run["plateaus"]["count"].to_numpy() == 3).all()
    visited, level = run["plateaus"]["level"].to_numpy()[:, 1], run["theory"]["level"].to_numpy()[1]
    np.testing.assert_allclose(visited, level, atol=within)


@pytest.mark.parametrize("letter", ["d", *(pytest.param(k, marks=slow) for k in "abc")])
def test_every_drop_comes_when_a_plain_loop_has_it(letter):
    """The reference is a plain loop from the same weights, with derivatives by hand."""
    made = importlib.import_module(f"festina.papers.saddles.figure_5._{letter}").PANEL
    parameters = made.parameters(width=10, scale=0.1)
    network, task = made.network(parameters, seeds(2)), made.task(parameters, None)
    rate, steps = parameters.learning_rate, 10_000
    run = gradient_descent(network, task, rate, loss="mean-square", max_steps=steps)
    levels = run.loss.max() * np.array([1.0, 0.4, 0.0])
    plain = plain_drops(network, task, rate, (levels[1:] + levels[:-1]) / 2, steps)
    assert np.isfinite(plain).all()
    assert furthest(plateaus_of_batch(run, levels)["passage"].to_numpy(), plain) < 0.5


@slow
def test_figure_5d_split_by_patch_has_no_clean_plateau():
    """Split by kernel tap there is a plateau at 0.40, by patch none; the paper is not explicit."""
    experiment = panel("d")
    claim, *_ = experiment.claims(fresh("d", split="patch", cleaner=None))
    assert claim.verdict == claim.expected == "does not hold"
    assert "split by patch" in claim.wrong
    claim, *_ = experiment.claims(fresh("d"))
    assert claim.verdict == "holds with a correction"
    assert "does not say how the scalar target is split" in claim.correction


@slow
def test_figure_5e_starts_and_ends_at_its_levels():
    loss, (top, _, floor) = (
        fresh("e")[at].to_numpy() for at in ("simulation/loss", "theory/level")
    )
    assert np.median(loss[:, 0]) == pytest.approx(top, rel=1e-3)
    np.testing.assert_allclose(loss[:, -1], floor, atol=2e-3 * top)


@slow
def test_figure_5e_controls_learn_nothing():
    for name in ("without_residual", "uncorrelated"):
        assert np.abs(fresh("e")["controls"][name].to_numpy()).max() < 1e-6


@slow
def test_figure_5e_escapes_in_inverse_proportion_to_an_accident_of_the_sample():
    """Drop times are inversely proportional to the sample correlation of target and query."""
    products = {}
    for samples in (1024, 8192):
        run = fresh("e", samples=samples, seeds=4)
        size = float(run["theory"]["correlation"].to_numpy())
        products[samples] = size, size * run["drops"]["step"].to_numpy()[:, 0].mean()
    (few, fast), (many, late) = products.values()
    assert few > 1.5 * many
    np.testing.assert_allclose(fast, late, rtol=0.35)


@slow
def test_figure_5e_what_its_prediction_leaves_out_falls_with_the_initial_scale():
    errors = []
    for scale in (5e-3, 1e-3):
        run = fresh("e", scale=scale, seeds=4)
        ratio = run["drops"]["step"].to_numpy()[:, 0] / run["theory"]["drop_step"].to_numpy()[:, 0]
        errors.append(np.median(np.abs(ratio - 1)))
    assert errors[0] < 0.01
    # The error falls faster than the scale; measured from 8e-3 to 1e-3, with the power 1.4.
    assert np.log(errors[0] / errors[1]) / np.log(5) > 1.2


@pytest.mark.parametrize("scale", [1e-3, 1e-4])
def test_what_initial_weights_hold_of_a_mode_times_its_half_rise(scale):
    """For ẇ = (c − w·W)W and Ẇ = (c − w·W)w with one input, half the rise takes ln(c/a₀)/2c."""
    from scipy.integrate import solve_ivp

    rng = np.random.default_rng(0)
    inner, outer = scale * rng.normal(size=(2, 40))
    (mode,) = growing_mode(inner[None, :, None], outer[None], np.ones(1))
    c = 0.05
    predicted = np.log(c / (mode @ mode)) / (2 * c)

    def field(_, theta):
        w, b = np.split(theta, 2)
        return (c - w @ b) * np.concatenate((b, w))

    half = lambda _, theta: theta[:40] @ theta[40:] - c / 2
    start = np.concatenate((inner, outer))
    flow = solve_ivp(field, (0, 2 * predicted), start, events=half, rtol=1e-9, atol=1e-12)
    assert flow.t_events[0][0] == pytest.approx(predicted, rel=scale)


@pytest.mark.parametrize("heads", [1, 2])
def test_heads_that_make_their_own_readout_grow_are_early(heads):
    """Compare with u̇ = γau² and ȧ = 2a(c − σa + Σγu³), integrated from small u and a = c/σ."""
    from scipy.integrate import solve_ivp

    c, sigma, gamma = 0.03, 0.9, np.array([1.1, 1.3])[:heads]
    readout = c / sigma

    def field(_, state):
        a, u = state[0], state[1:]
        return np.append(2 * a * (c - sigma * a + np.sum(gamma * u**3)), gamma * a * u**2)

    infinite = terminal(lambda _, state: state.max() - 1e6)
    off = []
    for size in (0.02, 0.005):
        alone = np.array([1.0, 0.95])[:heads] / size  # times at which each head alone would diverge
        start, last = np.append(readout, 1 / (gamma * alone)), 2 * alone[0] / readout
        flow = solve_ivp(field, (0, last), start, events=infinite, rtol=1e-10, atol=1e-13)
        (early,) = advance(alone[None], gamma[None], readout, sigma)
        off.append(abs(flow.t[-1] - (alone.min() / readout - early)) / early)
    assert off[0] < 0.02
    assert off[1] < 0.3 * off[0]


@slow
def test_figure_5f_is_cleaner_from_smaller_weights():
    run = fresh("f")
    levels = [run[name]["level"].to_numpy()[:, 1] for name in ("plateaus", "cleaner")]
    away = [np.nanmedian(np.abs(each / (8 / 3) - 1)) for each in levels]
    assert away[1] < 0.2 * away[0]


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match="`samples` must be none"):
        panel("c").run(panel("c").parameters(samples=5))
    with pytest.raises(ValueError, match="`samples` must be a number"):
        panel("e").run(panel("e").parameters(samples=None))
    with pytest.raises(ValidationError, match="split"):
        panel("d").parameters(split="half")
