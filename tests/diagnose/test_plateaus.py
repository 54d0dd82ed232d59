"""Test `plateaus` on simulations of figures by Zhang, Saxe & Latham, and on known staircases."""

import functools
from collections.abc import Callable

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.diagnose._plateaus import Plateaus, plateaus
from festina.diagnose._scatter import scatter_by_level
from festina.networks import fully_connected
from festina.tasks import from_arrays

SEEDS = range(16)
BIN = 1 / 200  # as a fraction of the initial loss

# Simulations of figures -------------------------------------------------------------------------

Weights = tuple[np.ndarray, np.ndarray]


def descend(
    loss_and_gradients: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Weights]],
    weights: Weights,
    *,
    rate: float,
    steps: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Train all seeds by gradient descent; return steps, losses and |∂L/∂θ|² `(seed, step)`."""
    u, v = weights
    losses, squared = [], []
    for _ in range(steps + 1):
        loss, (du, dv) = loss_and_gradients(u, v)
        losses.append(loss)
        squared.append(sum((d**2).reshape(len(d), -1).sum(1) for d in (du, dv)))
        u, v = u - rate * du, v - rate * dv
    return np.arange(steps + 1.0), np.array(losses).T, np.array(squared).T


def initial(scale: float, *shapes: tuple[int, ...], seeds=SEEDS) -> Weights:
    draws = [np.random.default_rng(seed) for seed in seeds]
    u, v = (np.stack([scale * rng.standard_normal(shape) for rng in draws]) for shape in shapes)
    return u, v


COVARIANCE = np.array([[1.0, 1.0], [1.0, 4.0]])


def start_1b() -> Weights:
    return initial(1e-6, (50, 2), (50, 2))


def linear(target: np.ndarray, covariance: np.ndarray):
    """Return the population loss ⟨|y − Σ_i v_i u_iᵀ x|²⟩, Eq. (64) without ½, for y = W* x."""

    def loss_and_gradients(u, v):
        error = target - np.einsum("shi,shj->sij", v, u)
        weighted = error @ covariance
        gradients = -2 * v @ weighted, -2 * u @ weighted.transpose(0, 2, 1)
        return np.einsum("sij,sij->s", weighted, error), gradients

    return loss_and_gradients


def figure_1b():
    return descend(linear(np.eye(2), COVARIANCE), start_1b(), rate=0.01, steps=1500)


def figure_1d():
    x, y = np.array([[1.0, 0.5], [-1.0, 2.0]]), np.array([1.0, -1.0])

    def loss_and_gradients(u, v):
        z = u @ x.T
        error = y - np.einsum("sh,shp->sp", v, np.maximum(z, 0))
        du = -v[:, :, None] * (((z > 0) * error[:, None, :]) @ x)
        return (error**2).mean(1), (du, -np.einsum("shp,sp->sh", np.maximum(z, 0), error))

    return descend(loss_and_gradients, initial(1e-6, (50, 2), (50,)), rate=0.01, steps=2200)


def figure_1g():
    def loss_and_gradients(u, v):
        """Use ⟨(xᵀA x)²⟩ = 2 tr A² + (tr A)² for x ~ N(0, I)."""
        a = np.einsum("sh,shi,shj->sij", v, u, u) - np.eye(2)
        trace = np.trace(a, axis1=1, axis2=2)
        da = 4 * a + 2 * trace[:, None, None] * np.eye(2)
        gradients = 2 * v[:, :, None] * (u @ da), np.einsum("shi,sij,shj->sh", u, da, u)
        return 2 * np.einsum("sij,sij->s", a, a) + trace**2, gradients

    return descend(loss_and_gradients, initial(5e-3, (10, 2), (10,)), rate=0.04, steps=2000)


PANELS = {"1B": figure_1b, "1D": figure_1d, "1G": figure_1g}


@functools.cache
def run(panel: str):
    return PANELS[panel]()


@functools.cache
def found(panel: str, method: str = "gradient", **options) -> tuple[Plateaus, ...]:
    steps, losses, squared = run(panel)
    return tuple(
        plateaus(steps, loss, r if method == "gradient" else None, **options)
        for loss, r in zip(losses, squared, strict=True)
    )


# Figures of the paper --------------------------------------------------------------------------


@pytest.mark.parametrize("levels", ["linear", "log"])
@pytest.mark.parametrize("panel", PANELS)
def test_figure_1_has_three_plateaus_in_every_seed(panel, levels):
    assert [len(each) for each in found(panel, levels=levels)] == [3] * len(SEEDS)


@pytest.mark.parametrize(
    ("panel", "levels", "tolerance"),
    [
        ("1B", (5.0, (5 - np.sqrt(13)) / 2, 0.0), 1e-5),
        ("1D", (1.0, 0.5, 0.0), 5e-4),
        ("1G", (8.0, 8 / 3, 0.0), 5e-4),
    ],
)
def test_figure_1_levels(panel, levels, tolerance):
    """In Figure 1G only seeds that come near the saddle reach its level."""
    near = [each for each in found(panel) if panel != "1G" or each.strength[1] > 4.5]
    assert len(near) >= len(SEEDS) / 2
    for each in near:
        assert np.allclose(each.level, levels, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("panel", "steps"), [("1B", (142.8, 851.0)), ("1D", (532.0, 1110.0))])
def test_figure_1_mean_drop_steps(panel, steps):
    mean = np.mean([each.drop_time for each in found(panel)], axis=0)
    assert np.all(np.abs(mean / steps - 1) < (0.02, 0.03))


def test_figure_1g_drop_steps_within_the_spread_over_seeds():
    """Reference means over 8 seeds, 245 ± 60 and 483 ± 175, are met within 3 standard errors."""
    drops = np.array([each.drop_time for each in found("1G")])
    error = np.sqrt(np.array([60.0, 175.0]) ** 2 / 8 + drops.var(0) / len(SEEDS))
    assert np.all(np.abs(drops.mean(0) - (245.0, 483.0)) < 3 * error)


def test_figure_1g_distance_from_the_saddle_falls_with_the_strength():
    strength = np.array([each.strength[1] for each in found("1G")])
    distance = 8 / 3 - np.array([each.level[1] for each in found("1G")])
    slope = np.polyfit(strength, np.log10(distance), 1)[0]
    assert np.corrcoef(strength, np.log10(distance))[0, 1] < -0.98
    assert -0.85 < slope < -0.55


def test_figure_1b_drops_follow_from_the_initial_weights():
    """Mode k drops at step n_k = ln(x/(1−x)/a₀) / (2 ln(1+2ηs)) with x = 1 − 1/√2.

    Modes do not interact. The growing part of unit i in mode k is c_ki = (u_i + v_i)·e_k/2, and a₀
    = Σ_i c_ki². As mode one grows, it absorbs the component of mode two that is parallel to it
    across units; only the orthogonal component counts for the second drop. These times are exact to
    a thousandth of a step, up to a constant from comparing descent at rate η with a flow.
    """
    u, v = start_1b()
    s, e = np.linalg.eigh(COVARIANCE)
    s, e = s[::-1], e[:, ::-1]
    c = 0.5 * (u + v) @ e
    a0 = np.sum(c**2, axis=1)
    a0[:, 1] -= np.sum(c[:, :, 0] * c[:, :, 1], axis=1) ** 2 / a0[:, 0]
    x = 1 - 1 / np.sqrt(2)
    predicted = np.log(x / (1 - x) / a0) / (2 * np.log1p(2 * 0.01 * s))
    measured = np.array([each.drop_time for each in found("1B")])
    assert np.allclose(measured, predicted, rtol=2e-3)
    assert np.all(np.std(measured - predicted, axis=0) < 1e-3)


@pytest.mark.parametrize("levels", ["linear", "log"])
@pytest.mark.parametrize("panel", PANELS)
def test_both_methods_agree(panel, levels):
    """Gradients and losses give the same count, levels within a bin, and drops within a step."""
    for a, b in zip(found(panel), found(panel, "loss", levels=levels), strict=True):
        if a.strength[1] < 1 and len(b) == 2:  # too brief for a curve smoothed over bins
            continue
        assert len(a) == len(b)
        one_bin = BIN * a.level[0] if levels == "linear" else -np.log(1e-6) * BIN * a.level
        assert np.all(np.abs(a.level - b.level) < one_bin + 1e-9)
        assert np.allclose(a.drop_time, b.drop_time, rtol=0, atol=0.3)
        assert b.method == "loss"


@pytest.mark.parametrize(
    ("scale", "count"), [(1e-8, 4), (1e-6, 4), (1e-4, 3), (1e-3, 2), (1e-2, 2)]
)
def test_figure_2_plateaus_vanish_as_initial_weights_grow(scale, count):
    s = np.array([6, 3, 2]) / 11
    weights = initial(scale, (100, 3), (100, 3), seeds=range(2))
    steps, losses, squared = descend(linear(np.diag(s), np.eye(3)), weights, rate=0.01, steps=5000)
    for loss, r in zip(losses, squared, strict=True):
        by_gradient, by_loss = plateaus(steps, loss, r), plateaus(steps, loss)
        assert len(by_gradient) == len(by_loss) == count
        if count == 4:
            assert np.allclose(by_gradient.level, [0.4050, 0.1074, 0.0331, 0.0], atol=6e-4)


# Noise -----------------------------------------------------------------------------------------


def white(rng, loss):
    return loss + 0.01 * loss[0] * rng.standard_normal(loss.shape)


def proportional(rng, loss):
    return loss * (1 + 0.03 * rng.standard_normal(loss.shape))


def spiky(rng, loss):
    return loss + loss[0] * (rng.random(loss.shape) < 0.01) * rng.exponential(3.0, loss.shape)


@pytest.mark.parametrize(
    "noise",
    [*(pytest.param(noise, marks=pytest.mark.slow) for noise in (white, proportional)), spiky],
)
def test_noise_seldom_changes_what_the_loss_shows(noise):
    """At least nine in ten noisy records keep their plateaus.

    With a running minimum and a median filter, 48 of 56 records would keep their plateaus under
    `white` noise.
    """
    rng = np.random.default_rng(0)
    right, off = 0, []
    for panel in PANELS:
        steps, losses, _ = run(panel)
        for loss, clean in zip(losses, found(panel), strict=True):
            noisy = plateaus(steps, noise(rng, loss))
            if len(noisy) == 3:
                right += 1
                off.append(np.abs(noisy.level - clean.level).max() / loss[0])
    assert right >= 0.9 * len(PANELS) * len(SEEDS)
    assert np.median(off) < BIN


def test_a_spike_anywhere_changes_nothing():
    """The spike, ten times the initial loss, lies on a plateau, within a drop or at the end."""
    steps, losses, _ = run("1B")
    loss, clean = losses[0], found("1B")[0]
    drop = int(np.argmin(np.diff(loss)))
    for at in (3, drop - 8, drop - 3, drop, drop + 2, drop + 6, 1000, loss.size - 2, loss.size - 1):
        each = plateaus(steps, np.where(np.arange(loss.size) == at, 10 * loss[0], loss))
        assert each.level == pytest.approx(clean.level, abs=1e-6 * loss[0])
        assert each.drop_time == pytest.approx(clean.drop_time, abs=0.5)
        assert not each.rises.size


LEVELS = np.array([3.0, 2.0, 0.8, 0.1])


def mini_batch(level: np.ndarray, freedom: int, seed: int) -> np.ndarray:
    """Return losses that are each the mean of `freedom` squared errors."""
    return level * np.random.default_rng(seed).chisquare(freedom, level.size) / freedom


@pytest.mark.parametrize(
    ("freedom", "all_found", "off"),
    [(8, 34, 0.15), pytest.param(64, 40, 0.05, marks=pytest.mark.slow)],
)
def test_levels_show_through_scatter_of_their_own_size(freedom, all_found, off):
    """A drop is at most threefold, comparable with the scatter of single samples."""
    steps = np.arange(2000.0)
    each = [plateaus(steps, mini_batch(LEVELS.repeat(500), freedom, s)) for s in range(40)]
    right = [one for one in each if len(one) == len(LEVELS)]
    assert len(right) >= all_found
    for one in right:
        assert np.allclose(one.level, LEVELS, rtol=off, atol=0)
        assert_consistent(one, steps)
    late = np.abs([one.drop_time - [500, 1000, 1500] for one in right])
    assert np.mean(late < 50) >= 0.9


@pytest.mark.parametrize("freedom", [8, pytest.param(24, marks=pytest.mark.slow), 96])
def test_scatter_in_proportion_to_the_loss_is_no_rise(freedom):
    """A long quiet end does not tell how much the loss scatters while it is high."""
    level = np.repeat([7.0, 1.7, 0.3], [500, 500, 1000])
    for seed in range(10):
        found = plateaus(np.arange(2000.0), mini_batch(level, freedom, seed))
        assert len(found.rises) == 0
        assert found.level[0] == pytest.approx(7.0, rel=0.25)


@pytest.mark.parametrize(
    "scatter",
    [0.1, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.3, 0.45, 0.6)), 0.8],
)
def test_more_scatter_hides_no_drop_that_averages_show(scatter):
    level = np.repeat([7.0, 1.7, 0.3], [500, 500, 1000])
    for seed in range(10):
        noise = scatter * np.random.default_rng(seed).normal(size=2000)
        assert len(plateaus(np.arange(2000.0), level + noise)) == 3


def test_no_record_makes_plateaus_stronger_than_they_are():
    """Neither rounded numbers nor averages of strong noise increase the strength of a plateau."""
    time = np.linspace(0.0, 100.0, 4001)
    loss = 0.5 + 2.0 / (1 + np.exp(time - 30.0)) + 1.0 / (1 + np.exp(0.5 * (time - 70.0)))
    clean = plateaus(time, loss).strength[:-1]
    for digits in (7, 5, 3):
        short = np.array([float(f"{value:.{digits}e}") for value in loss])
        assert (plateaus(time, short).strength[:-1] < clean + 0.3).all()
    rough = {
        "single": loss.astype(np.float32),
        "half": loss.astype(np.float16),
        "decimals": np.round(loss, 4),
        "digits in single precision": np.array([float(f"{x:.3e}") for x in loss], np.float32),
    }
    for name, record in rough.items():
        assert (plateaus(time, record).strength[:-1] < clean + 0.3).all(), name
    for seed in range(5):
        found = plateaus(time, mini_batch(loss, 24, seed))
        assert found.strength[:-1].max() < 3


def test_one_high_sample_at_the_start_is_no_plateau():
    found = plateaus(np.arange(5), [10.0, 1.0, 1.0, 1.0, 1.0])
    assert found.strength[0] == pytest.approx(0, abs=1e-9)
    assert "begins within a drop" in str(found)


@pytest.mark.parametrize("freedom", [8, 64])
def test_scatter_alone_makes_no_drop(freedom):
    for seed in range(10):
        assert len(plateaus(np.arange(2000.0), mini_batch(np.ones(2000), freedom, seed))) == 1


def falls_without_rest(samples: int, scatter: float, seeds: int) -> list[Plateaus]:
    """Return plateaus of a loss that falls linearly from 1 to 0 in noise."""
    times = np.arange(float(samples))
    draws = (np.random.default_rng(seed).standard_normal(samples) for seed in range(seeds))
    return [plateaus(times, 1 - times / samples + scatter * noise) for noise in draws]


def assert_without_rest(found: list[Plateaus], samples: int, scatter: float) -> None:
    """Check that at least 95 % of the records show no pause, and none a single plateau."""
    assert min(len(each) for each in found) == 2
    assert np.mean(["no pause" in str(each) for each in found]) >= 0.95
    ends = np.array([each.level[[0, -1]] for each in found]) - [1.0, 0.0]
    error = 2 * scatter / np.sqrt(samples)  # of the ends of a straight line
    assert np.abs(ends.mean(axis=0)).max() < 0.005 + 3 * error / np.sqrt(len(found))
    assert np.median(np.abs(ends)) < 0.005 + error


@pytest.mark.parametrize(
    ("samples", "scatter"),
    [(300, 0.01), (1500, 0.03), pytest.param(1500, 0.3, marks=pytest.mark.slow)],
)
def test_a_straight_fall_in_noise_has_no_rest(samples, scatter):
    assert_without_rest(falls_without_rest(samples, scatter, 20), samples, scatter)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [300, 1500, 6000])
@pytest.mark.parametrize("scatter", [0.01, 0.03, 0.1, 0.3])
def test_straight_falls_of_any_length_and_noise_have_no_rest(samples, scatter):
    assert_without_rest(falls_without_rest(samples, scatter, 60), samples, scatter)


@pytest.mark.slow
@pytest.mark.parametrize("scatter", [0.001, 0.003, 0.01, 0.03])
@pytest.mark.parametrize(
    "fall", [lambda t: np.exp(-t / 300), lambda t: 1 / (1 + t / 20)], ids=["exponential", "power"]
)
def test_bent_falls_in_noise_seldom_rest_in_between(fall, scatter):
    times = np.arange(2000.0)
    draws = (np.random.default_rng(seed).standard_normal(times.size) for seed in range(60))
    counts = np.array([len(plateaus(times, fall(times) + scatter * noise)) for noise in draws])
    assert np.mean(counts == 2) >= 0.95


SMALL_STEPS = np.array([2.3, 1.8, 1.1, 0.7, 0.3, 0.05])


@pytest.mark.parametrize("stays", [[2000] * 6, [3000, 2000, 2000, 2000, 2000, 1000]])
@pytest.mark.parametrize("scatter", [0.02, pytest.param(0.08, marks=pytest.mark.slow), 0.16])
def test_levels_are_told_apart_as_well_as_their_means_are_known(scatter, stays):
    """The smallest drop is the size of the scatter and a hundred times the error of the levels."""
    times = np.arange(float(sum(stays)))
    for seed in range(5):
        noise = np.random.default_rng(seed).standard_normal(times.size)
        each = plateaus(times, np.repeat(SMALL_STEPS, stays) + scatter * noise)
        assert_consistent(each, times)
        assert len(each) == len(SMALL_STEPS)
        np.testing.assert_allclose(each.level, SMALL_STEPS, atol=5 * scatter / np.sqrt(1000))
        np.testing.assert_allclose(each.drop_time, np.cumsum(stays)[:-1], atol=12)


@pytest.mark.parametrize("drop", [0.04, 0.05])
def test_a_drop_below_the_scatter_of_a_sample_is_found(drop):
    """The drop is at most the scatter of a sample; means of 1000 samples are known to 0.0016."""
    times = np.arange(3000.0)
    loss = np.repeat([1.0 + drop, 1.0, 0.5], 1000)
    for seed in range(5):
        noise = np.random.default_rng(seed).standard_normal(times.size)
        each = plateaus(times, loss + 0.05 * noise)
        np.testing.assert_allclose(each.level, loss[[0, 1000, 2000]], atol=0.008)


@pytest.mark.parametrize(
    "memory", [*(pytest.param(each, marks=pytest.mark.slow) for each in (0.5, 0.8)), 0.9]
)
def test_slow_noise_is_noise(memory):
    """Noise with memory, as in running averages of losses, is recognised as noise."""
    from scipy.signal import lfilter

    rest, fall, stairs = [], [], []
    for seed in range(10):
        white = np.random.default_rng(seed).standard_normal(STEP.size + 200)
        noise = 0.03 * np.asarray(lfilter([np.sqrt(1 - memory**2)], [1, -memory], white))[200:]
        rest.append(len(plateaus(STEP, 1 + noise)))
        fall.append(len(plateaus(STEP, 1 - STEP / STEP.size + noise)))
        stairs.append(len(plateaus(STEP, two_drops() + noise)))
    assert min(rest.count(1), fall.count(2), stairs.count(3)) >= 9


# Rises -----------------------------------------------------------------------------------------


def overfit(rise: float, scatter: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a loss that falls from 1 to 0.2 at time 200 and rises again from time 500 on."""
    times = np.arange(1000.0)
    loss = 0.6 - 0.4 * np.tanh((times - 200) / 10) + rise * np.clip(times / 500 - 1, 0, None)
    return times, loss + scatter * np.random.default_rng(1).standard_normal(times.size)


@pytest.mark.parametrize("levels", ["linear", "log"])
@pytest.mark.parametrize(("rise", "scatter"), [(0.3, 0.0), (0.1, 0.0), (0.3, 0.02), (0.1, 0.02)])
def test_a_loss_that_falls_and_later_rises_is_judged_before_it_rises(rise, scatter, levels):
    times, loss = overfit(rise, scatter)
    each = plateaus(times, loss, levels=levels)
    assert_consistent(each, times)
    assert np.allclose(each.level, [1.0, 0.2], atol=5e-3)
    assert np.isclose(each.drop_time[0], 200.0, atol=0.05 if scatter == 0 else 2.0)
    assert np.isclose(each.end[-1], 500.0, atol=10 if scatter == 0 else 120)
    assert np.array_equal(each.rises, [[each.end[-1] + 1, 999.0]])
    assert str(each).endswith("on the loss rises; the rise is left out")


def test_a_rise_for_a_while_is_passed_over():
    """In double descent (1.3 to 0.3, up to 0.8, down to 0.1) the rise is left out."""
    times = np.arange(1000.0)
    step = lambda middle: 0.5 * (1 + np.tanh((times - middle) / 20))
    each = plateaus(times, 1.3 - step(100) + 0.5 * step(300) - 0.7 * step(700))
    assert_consistent(each, times)
    assert np.allclose(each.level, [1.3, 0.3, 0.1], atol=2e-3)
    ((begin, end),) = each.rises
    assert 200 < begin < 300 < 700 < end < 750
    assert str(each).endswith("the loss rises for a while; the rise is left out")


@pytest.mark.parametrize("width", [1.0, 5.0, 20.0])
@pytest.mark.parametrize(("at", "reach"), [(40.0, 20.0), (60.0, 30.0), (30.0, 20.0)])
def test_a_warm_up_is_no_plateau(at, reach, width):
    """The loss begins with a hump; the fall from the hump is not counted as a drop."""
    times = np.arange(1200.0)
    stairs = Staircase([1.0, 0.8], [width, width], [400 / width, 400 / width], base=0.2)
    hump = np.exp(-(((times - at) / reach) ** 2))
    each = plateaus(times, stairs(times)[0] + hump)
    assert_consistent(each, times)
    first, *others = each.level
    if hump[0] > 0.05:  # the record begins on the rising side of the hump
        assert first == pytest.approx(2 + hump[0], abs=0.01)
        assert each.duration[0] < 2
        assert each.strength[0] < 0.5
        first, *others = others
    assert [first, *others] == pytest.approx([2.0, 1.0, 0.2], abs=0.01)
    np.testing.assert_allclose(each.drop_time[-2:], [400.0, 800.0], atol=0.5)
    assert each.start[-3] >= at


@pytest.mark.parametrize("scatter", [0.0, 0.02])
@pytest.mark.parametrize(("up", "down"), [(1.2, 0.6), (0.7, 0.25), (1.4, 1.1)])
def test_a_plateau_ends_where_a_rise_leaves_it(scatter, up, down):
    """A loss rises from its plateau at 2.3 to a hump and falls to 0.02, passing 2.3 quickly."""
    times = np.arange(1200.0)
    step = lambda middle, width: 0.5 * (1 + np.tanh((times - middle) / (2 * width)))
    last = 2.28 + up - down
    loss = 2.3 + up * step(300, 30) - down * step(600, 30) - last * step(900, 10)
    begins = []
    for seed in range(5 if scatter else 1):
        noise = scatter * np.random.default_rng(seed).standard_normal(times.size)
        each = plateaus(times, loss + noise)
        assert_consistent(each, times)
        np.testing.assert_allclose(each.level, [2.3, 0.02], atol=0.02)
        ((begin, end),) = each.rises
        begins.append(begin)
        assert each.end[0] == begin - 1
        assert begin < 300
        assert 860 < end < each.drop_time[0] < each.start[1] < 950
    assert np.median(begins) > 100


def test_the_last_plateau_ends_where_the_loss_falls_on():
    """The second drop is less than `merge` of the initial loss, but it goes to nearly zero."""
    stairs = Staircase([5.0, 0.0045], [1.0, 1.0], [60.0, 60.0], base=1e-5)
    times = np.linspace(0.0, stairs.middle[1] + 8.0, 2001)
    loss, slope = stairs(times)
    for r in (-slope, None):
        each = plateaus(times, loss, r)
        assert_consistent(each, times)
        np.testing.assert_allclose(each.level, [5.00451, 0.00451], atol=0.001)
        assert each.end[-1] == pytest.approx(stairs.middle[1] - np.log(19.0), abs=0.3)


def test_noise_does_not_rise():
    times = np.arange(1000.0)
    for seed in range(10):
        noise = 0.1 * np.random.default_rng(seed).standard_normal(times.size)
        for loss in (overfit(0.0, 0.0)[1] + noise, 1 + noise):
            assert not plateaus(times, loss).rises.size


# Staircases ------------------------------------------------------------------------------------


class Staircase:
    """Loss L(t) = base + Σ_k height_k / (1 + e^{(t − t_k)/width_k}) with drops at the times t_k."""

    def __init__(self, heights, widths, gaps, base=0.0):
        self.height, self.width = np.array(heights), np.array(widths)
        self.middle = np.cumsum(np.array(gaps) * max(widths))
        self.end = self.middle[-1] + max(gaps) * max(widths)
        self.base = base
        self.level = base + np.append(np.cumsum(self.height[::-1])[::-1], 0.0)

    def __call__(self, times) -> tuple[np.ndarray, np.ndarray]:
        """Return loss and slope."""
        f = 0.5 * (1 - np.tanh((times[:, None] - self.middle) / (2 * self.width)))
        return self.base + f @ self.height, -(f * (1 - f)) @ (self.height / self.width)

    def __repr__(self) -> str:
        return f"Staircase({self.height}, {self.width}, at {self.middle}, base={self.base})"


@st.composite
def staircases(draw) -> Staircase:
    n = draw(st.integers(1, 4))
    several = lambda low, high: draw(st.lists(st.floats(low, high), min_size=n, max_size=n))
    return Staircase(
        several(0.1, 1.0), several(0.5, 2.0), several(45.0, 90.0), draw(st.floats(0.0, 1.0))
    )


def uneven(stairs: Staircase, spacing: float, seed: int = 0) -> np.ndarray:
    """Return irregular times, dense around drops and twenty times sparser in between.

    Times around a drop are about `spacing` widths apart, and neighbouring gaps differ by up to a
    factor of two.
    """
    rng = np.random.default_rng(seed)

    def grid(low, high, step):
        nodes = np.arange(low, high, step) + step * rng.uniform(0, 1)
        return nodes + step * rng.uniform(-1 / 6, 1 / 6, nodes.size)

    between = grid(0.0, stairs.end, 20 * spacing * stairs.width.min())
    at_drops = [
        m + w * grid(-15.0, 15.0, spacing) for m, w in zip(stairs.middle, stairs.width, strict=True)
    ]
    times = np.concatenate([[0.0, stairs.end], between, *at_drops])
    return np.unique(times[(times >= 0) & (times <= stairs.end)])


few = settings(max_examples=12, deadline=None, derandomize=True)


@pytest.mark.slow
@few
@given(staircases())
def test_drop_times_converge_with_the_sampling(stairs):
    """Drop times converge at fourth order with slopes, and at third order without.

    The ideal gains for four times as many samples are 256 and 64. The bounds of 100 and 25 are
    lower, because errors also depend on the position of the samples.
    """

    def error(spacing: float, slopes: bool) -> float:
        off = []
        for seed in range(8):
            times = uneven(stairs, spacing, seed)
            loss, slope = stairs(times)
            each = plateaus(times, loss, -slope, slope=slope if slopes else None)
            assert len(each) == len(stairs.level)
            off.append((each.drop_time - stairs.middle) / stairs.width)
        return float(np.sqrt(np.mean(np.square(off))))

    for slopes, gain in ((True, 100.0), (False, 25.0)):
        coarse, fine = error(0.8, slopes), error(0.2, slopes)
        assert fine < coarse / gain + 1e-8
        assert fine < 1e-3


@few
@given(staircases(), st.integers(0, 99))
def test_staircase_by_either_method_at_any_sampling(stairs, seed):
    for spacing in (0.5, 0.1):
        times = uneven(stairs, spacing, seed)
        loss, slope = stairs(times)
        for each in (plateaus(times, loss, -slope), plateaus(times, loss)):
            assert len(each) == len(stairs.level)
            assert np.allclose(each.level, stairs.level, rtol=0, atol=BIN * loss[0])
            assert np.allclose(each.drop_time, stairs.middle, atol=0.1 * stairs.width.max())
            assert_consistent(each, times)


UNITS = st.integers(-30, 30).map(lambda exponent: 2.0**exponent)


@few
@given(staircases(), UNITS, UNITS, UNITS)
def test_units_do_not_matter(stairs, time_unit, loss_unit, gradient_unit):
    """Units are powers of two, which do not change rounding.

    The strength of a plateau that is flat to rounding depends on the rounding.
    """
    times = uneven(stairs, 0.2)
    loss, slope = stairs(times)
    scaled_slope = slope * loss_unit / time_unit
    for gradient in (True, False):
        a = plateaus(times, loss, -slope if gradient else None, slope=slope)
        b = plateaus(
            times * time_unit,
            loss * loss_unit,
            -slope * gradient_unit if gradient else None,
            slope=scaled_slope,
        )
        assert len(a) == len(b)
        assert np.allclose(a.level * loss_unit, b.level, rtol=1e-9, atol=0)
        assert np.allclose(a.drop_time * time_unit, b.drop_time, rtol=1e-9, atol=0)
        assert np.allclose(a.duration * time_unit, b.duration, rtol=1e-9, atol=0)
        assert np.allclose(a.strength, b.strength, rtol=1e-9, atol=0)


def test_samples_where_the_loss_moves_are_enough():
    """Sparse records suffice if they are evenly spaced in the arc length of (t, L).

    An adaptive solver saves such records.
    """
    for panel in PANELS:
        steps, losses, squared = run(panel)
        for loss, r, full in zip(losses, squared, found(panel), strict=True):
            arc = np.append(
                0, np.cumsum(np.hypot(np.diff(steps) / steps[-1], np.diff(loss) / loss[0]))
            )
            keep = np.unique(np.searchsorted(arc, np.linspace(0, arc[-1], len(steps) // 10)))
            thin = plateaus(steps[keep], loss[keep], r[keep])
            if full.strength[1] > 1:
                assert len(thin) == len(full) == len(plateaus(steps[keep], loss[keep]))
                assert np.allclose(thin.level, full.level, atol=BIN * loss[0])
                assert np.allclose(thin.drop_time, full.drop_time, rtol=1e-2)


def test_start_and_end_bound_the_stay():
    stairs = Staircase([0.6, 0.4], [1.0, 1.0], [60.0, 60.0])
    times = uneven(stairs, 0.05)
    loss, slope = stairs(times)
    each = plateaus(times, loss, -slope, slope=slope, edge=0.1)
    reach = np.log(9.0)  # a logistic drop has fallen by a tenth this many widths before its middle
    assert np.allclose(each.end[:-1], stairs.middle - reach, atol=1e-4)
    assert np.allclose(each.start[1:], stairs.middle + reach, atol=1e-4)
    assert each.start[0] == times[0]
    assert each.end[-1] == times[-1]
    assert np.allclose(each.duration, each.end - each.start)


def test_log_levels_see_plateaus_far_below_the_initial_loss():
    stairs = Staircase([1.0, 5e-4, 5e-5], [1.0, 1.0, 1.0], [60.0, 60.0, 60.0], base=1e-7)
    times = uneven(stairs, 0.2)
    loss, slope = stairs(times)
    for r in (-slope, None):
        assert len(plateaus(times, loss, r)) == 2
        each = plateaus(times, loss, r, levels="log")
        assert len(each) == 4
        assert np.allclose(each.level, stairs.level, rtol=0.1, atol=0)
        assert np.allclose(each.drop_time, stairs.middle, atol=0.1)
    assert len(plateaus(times, loss, -slope, merge=1e-6)) == 4


def late_drop(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return loss and slope: drops from 1 to 0.016 and to 0.002, then a slow fall to 1e-8.

    The drops are around steps 200 and 2500.
    """
    stairs = Staircase([0.984, 0.014], [10.0, 100.0], [2.0, 23.0], base=0.0)
    loss, slope = stairs(steps)
    tail = 0.002 / (1 + np.exp((steps - 3500) / 1000))
    return loss + tail, slope - tail * (1 - tail / 0.002) / 1000


def test_a_low_plateau_before_a_slow_end_is_seen_by_the_loss_alone():
    """The loss alone gives the plateau the same strength as gradients do."""
    steps = np.arange(20000.0)
    loss, slope = late_drop(steps)
    by_gradient, by_loss = plateaus(steps, loss, -slope), plateaus(steps, loss)
    assert len(by_gradient) == len(by_loss) == 3
    assert np.isclose(by_loss.level[1], by_gradient.level[1], rtol=0.01)
    assert np.allclose(by_loss.drop_time, by_gradient.drop_time, rtol=1e-2)
    assert np.isclose(by_loss.strength[1], by_gradient.strength[1], atol=0.3)


def test_noise_proportional_to_the_loss_makes_no_plateaus_within_a_drop():
    """Noise within a drop makes no plateaus, although the long quiet end contains little noise."""
    steps = np.arange(20000.0)
    loss, _ = late_drop(steps)
    for seed in range(6):
        noise = np.random.default_rng(seed).standard_normal(steps.size)
        each = plateaus(steps, loss * np.exp(0.05 * noise))
        assert len(each) == 3
        assert np.isclose(each.level[1], 0.016, rtol=0.03)


def test_log_levels_see_low_plateaus_through_proportional_noise():
    stairs = Staircase([1.0, 5e-3, 5e-5], [10.0, 10.0, 10.0], [60.0, 60.0, 60.0], base=1e-6)
    times = np.arange(stairs.end)
    loss, _ = stairs(times)
    for seed in range(4):
        noise = np.random.default_rng(seed).standard_normal(times.size)
        each = plateaus(times, loss * np.exp(0.03 * noise), levels="log")
        assert len(each) == 4
        assert np.allclose(each.level, stairs.level, rtol=0.05, atol=0)


@pytest.mark.parametrize("panel", PANELS)
def test_strength_on_a_clean_curve_needs_no_gradients(panel):
    a = np.array([each.strength[1] for each in found(panel)])
    b = np.array([each.strength[1] for each in found(panel, "loss")])
    assert np.all(np.abs(a - b) < 0.3)


@pytest.mark.parametrize("law", [lambda level: 0.02 + 0 * level, lambda level: 0.05 * level])
def test_scatter_is_a_function_of_the_level(law):
    """Additive and proportional scatter are found, also at levels with few samples."""
    level = late_drop(np.arange(20000.0))[0]
    noise = law(level) * np.random.default_rng(0).standard_normal(level.size)
    at = np.array([0.01, 0.1, 0.5, 0.9])
    ratio = scatter_by_level(level, noise)(at) / law(at)
    assert np.all(ratio > 0.85)
    assert np.all(ratio < 1.4)


def stairs_in_noise(seed: int, samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, losses with two or three logistic drops, and noise that varies by plateau."""
    rng = np.random.default_rng(seed)
    drops = int(rng.integers(1, 3))
    part = samples / (drops + 1)
    times, middle = np.arange(float(samples)), part * np.arange(1, drops + 1)
    width = part / rng.uniform(15, 40, drops)
    loss = 0.4 + np.sum(
        rng.uniform(0.5, 1.5, drops) / (1 + np.exp((times[:, None] - middle) / width)), axis=1
    )
    levels = rng.choice([0.0, 0.003, 0.01, 0.03], drops + 1, replace=False)
    sizes = levels[np.searchsorted(middle, times)]
    return times, loss, sizes * rng.standard_normal(samples)


@pytest.mark.parametrize(
    "samples", [120, *(pytest.param(each, marks=pytest.mark.slow) for each in (180, 600))]
)
def test_noise_that_changes_along_the_record_makes_no_plateaus(samples):
    """In noise of varying scale, at least nine in ten records keep their number of plateaus."""
    right = []
    for seed in range(20):
        times, loss, noise = stairs_in_noise(seed, samples)
        right.append(len(plateaus(times, loss + noise)) == len(plateaus(times, loss)))
    assert np.mean(right) >= 0.9


def test_noise_that_begins_with_the_drop():
    """A plateau until time 108, then an exponential fall in noise, are mostly two plateaus."""
    times = np.arange(180.0)
    loss = np.where(times < 108, 2.29, 0.45 + 1.84 * np.exp(-(times - 108) / 18))
    for early in (0.003, 0.0):
        scale = np.where(times < 108, early, 0.03)
        draws = (np.random.default_rng(seed).standard_normal(180) for seed in range(20))
        counts = [len(plateaus(times, loss + scale * draw)) for draw in draws]
        assert np.mean(np.array(counts) == 2) >= 0.85
        assert max(counts) <= 3


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_noise_only_lowers_the_strength(seed):
    """The median strength falls with the noise, and no strength exceeds the clean curve's."""
    times, loss, _ = stairs_in_noise(seed, 600)
    clean = plateaus(times, loss)
    draws = np.random.default_rng(seed).standard_normal((3, times.size))
    before = clean.strength
    for scatter in (1e-4, 3e-3, 0.03, 0.1, 0.2):
        found = [plateaus(times, loss + scatter * draw).strength for draw in draws]
        each = np.array([strength for strength in found if len(strength) == len(clean)])
        assert len(each)
        assert not (each > clean.strength + 0.1).any()
        known = ~np.isnan(each).all(axis=0)  # noise may hide whether the loss pauses at the end
        median = np.nanmedian(np.where(known, each, 0.0), axis=0)
        assert (median <= before + 0.1).all()
        before = median


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("times", [np.arange(1.0, 2001.0), np.geomspace(1.0, 1e5, 500)])
@pytest.mark.parametrize("exponent", [0.1, 0.3, 0.7, 1.0])
def test_a_power_law_never_rests(exponent, times, gradient):
    """A power law has no time constant, so it has no plateau, unlike an exponential."""
    loss = times**-exponent
    found = plateaus(times, loss, exponent * loss / times if gradient else None)
    assert found.strength == pytest.approx([0.0, 0.0], abs=0.05)
    assert str(found).startswith("no plateau")
    rate = 20 / times[-1]
    decay = np.exp(-rate * times)
    assert plateaus(times, decay, rate * decay if gradient else None).strength[-1] > 3


@pytest.mark.parametrize("scatter", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("exponent", [0.3, 0.8, 1.2])
def test_a_power_law_in_noise_never_rests(exponent, scatter):
    """Either the loss is found to fall at the end, or noise hides whether it falls."""
    times = np.arange(1.0, 1001.0)
    loss = times**-exponent
    late = times > 250
    fall = (loss[late][0] - loss[-1]) / (scatter * np.sqrt(12 / late.sum()))  # in standard errors
    for seed in range(4):
        noise = scatter * np.random.default_rng(seed).standard_normal(times.size)
        found = plateaus(times, loss + noise)
        last = found.strength[-1]
        assert len(found) == 2
        assert np.isnan(last) or last == 0
        assert last == 0 if fall > 6 else fall > 1 or np.isnan(last)
        assert str(found).startswith("no plateau")
        assert np.isnan(last) == ("noise hides whether" in str(found))


@pytest.mark.parametrize(("scatter", "seen"), [(0.001, 1.0), (0.01, 1.0), (0.3, 0.0)])
def test_rest_after_a_drop_shows_as_far_as_noise_allows(scatter, seen):
    """An exponential drop with a pause keeps its last plateau, unless the noise is too strong."""
    times = np.arange(1.0, 1001.0)
    loss = 0.1 + np.where(times < 400, 0.9, 0.9 * np.exp(-(times - 400) / 15))
    for seed in range(4):
        noise = scatter * np.random.default_rng(seed).standard_normal(times.size)
        found = plateaus(times, loss + noise)
        assert found.level == pytest.approx([1.0, 0.1], abs=5 * scatter / np.sqrt(400))
        assert found.start[1] - 400 == pytest.approx(15 * np.log(20), abs=20 + 200 * scatter)
        assert (found.strength[1] > 1) == bool(seen)
        assert str(found).startswith("2 plateaus," if seen else "1 plateau and one in doubt,")


@pytest.mark.parametrize("scatter", [0.0, 0.001, 0.003, 0.01, 0.03])
def test_noise_makes_no_rest_that_a_clean_record_has_not(scatter):
    """The record ends four time constants after the drop begins, too early to be a plateau."""
    times = np.arange(180.0)
    loss = np.where(times < 108, 2.29, 0.45 + 1.84 * np.exp(-(times - 108) / 18))
    for seed in range(4):
        noise = scatter * np.random.default_rng(seed).standard_normal(times.size)
        found = plateaus(times, loss + noise)
        assert found.strength[-1] == 0
        assert "the record ends within a drop" in str(found)


def test_a_fast_start_in_little_noise_is_a_drop():
    """The curvature of the first samples looks like noise, but the loss falls to a hundredth."""
    times = np.arange(1.0, 1001.0)
    for seed in range(1020, 1024):
        noise = 0.001 * np.random.default_rng(seed).standard_normal(times.size)
        found = plateaus(times, times**-0.8 + noise)
        assert len(found) == 2
        assert found.time[0] == 1


def test_flat_steps_are_equally_strong():
    each = plateaus(np.arange(100), np.repeat([4.0, 3.0, 2.0, 1.0], 25))
    assert np.allclose(each.strength, each.strength[0], atol=0.05)
    assert each.strength[0] > 10


def test_a_small_drop_is_merged_into_its_plateau():
    stairs = Staircase([1.0, 5e-4, 1.0], [1.0, 1.0, 1.0], [60.0, 60.0, 60.0])
    times = uneven(stairs, 0.2)
    loss, slope = stairs(times)
    assert len(plateaus(times, loss, -slope)) == 3
    assert len(plateaus(times, loss, -slope, merge=1e-4)) == 4


# Unusual curves --------------------------------------------------------------------------------


def assert_consistent(each: Plateaus, times: np.ndarray) -> None:
    """Check what holds for every result of `plateaus`."""
    assert len(each) >= 1
    assert len(each.drop_time) == len(each) - 1
    assert np.all(np.diff(each.level) < 0)
    assert np.all(np.diff(each.index) > 0)
    assert np.array_equal(each.time, times[each.index])
    assert np.all(each.start <= each.time)
    assert np.all(each.time <= each.end)
    assert np.all(each.end[:-1] <= each.drop_time)
    assert np.all(each.time[:-1] <= each.drop_time)
    assert np.all(each.drop_time <= each.time[1:])
    assert np.all(each.strength[:-1] >= 0)
    assert np.isnan(each.strength[-1]) or (len(each) > 1 and each.strength[-1] >= 0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_curve_has_an_answer(data):
    n = data.draw(st.integers(1, 40))
    numbers = lambda low, high: np.array(
        data.draw(st.lists(st.floats(low, high), min_size=n, max_size=n))
    )
    times = np.cumsum(numbers(0.0, 10.0))
    loss = numbers(-2.0, 5.0)
    if data.draw(st.booleans()):
        loss = np.sort(loss)[::-1].copy()
    r = numbers(0.0, 5.0) ** 8
    options = {"merge": data.draw(st.sampled_from([0.0, 1e-3, 0.5])), "edge": 0.3}
    levels = data.draw(st.sampled_from(["linear", "log"] if loss.min() > 0 else ["linear"]))
    first = np.diff(times, prepend=-np.inf) > 0
    for squared in (r, None):
        each = plateaus(times, loss, squared, levels=levels, **options)
        assert_consistent(each, times)
        assert np.all(first[each.index])


T = np.linspace(0.0, 20.0, 401)


@pytest.mark.parametrize("gradient", [True, False])
def test_an_exponential_has_a_drop_at_its_start(gradient):
    each = plateaus(T, np.exp(-T), np.exp(-2 * T) if gradient else None)
    assert len(each) == 2
    assert each.strength[0] < 0.05
    assert np.allclose(each.level, [1.0, 0.0], atol=BIN)
    assert np.isclose(each.drop_time[0], np.log(2), atol=0.01)


@pytest.mark.parametrize("gradient", [True, False])
def test_a_straight_line_has_two_plateaus_and_no_strength(gradient):
    each = plateaus(T, 20 - T, np.ones_like(T) if gradient else None)
    assert len(each) == 2
    assert np.allclose(each.strength, 0, atol=1e-6)
    assert np.isclose(each.drop_time[0], 10.0, atol=0.1)
    assert np.allclose(each.level, [20.0, 0.0], atol=20 * BIN)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize(
    "loss",
    [np.ones(1), np.ones(2), np.full(401, 3.0), np.zeros(401), np.full(401, -1.0), 1 + T, T],
    ids=["one", "two", "constant", "zero", "negative", "rising", "rising from zero"],
)
def test_a_curve_without_a_drop_is_one_plateau(loss, gradient):
    each = plateaus(T[: loss.size], loss, np.zeros(loss.size) if gradient else None)
    assert len(each) == 1
    assert_consistent(each, T[: loss.size])
    assert each.start[0] == 0.0
    assert each.end[0] == T[loss.size - 1]


def test_a_record_that_stops_within_a_drop_ends_with_strength_zero():
    stairs = Staircase([1.0, 1.0], [1.0, 1.0], [60.0, 60.0])
    times = np.linspace(0.0, stairs.middle[1], 1001)
    loss, slope = stairs(times)
    each = plateaus(times, loss, -slope)
    assert len(each) == 3
    assert each.strength[-1] == 0.0
    assert each.index[-1] == 1000


def test_edge_of_stability_does_not_make_plateaus():
    stairs = Staircase([1.0, 1.0], [1.0, 1.0], [60.0, 60.0])
    times = np.linspace(0.0, stairs.end, 1801)
    loss, slope = stairs(times)
    onset = 1 / (1 + np.exp(stairs.middle[1] + 20 - times))
    # Alternates from step to step
    loss = loss + 0.05 * onset * (1 + np.cos(np.pi * np.arange(times.size)))
    each = plateaus(times, loss)
    assert len(each) == 3
    assert np.allclose(each.level[:2], [2.0, 1.0], atol=2 * BIN)
    assert np.allclose(each.drop_time, stairs.middle, atol=0.2)
    assert_consistent(plateaus(times, loss, slope**2 + 1e-3 * onset), times)


@pytest.mark.parametrize("panel", PANELS)
def test_padding_by_repeated_samples_changes_nothing(panel):
    steps, losses, squared = run(panel)
    pad = lambda a: np.append(a, np.repeat(a[-1], 700))
    for gradient in (True, False):
        a = plateaus(steps, losses[0], squared[0] if gradient else None)
        b = plateaus(pad(steps), pad(losses[0]), pad(squared[0]) if gradient else None)
        assert str(a) == str(b)
        assert np.array_equal(a.index, b.index)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "empty, expected at least one sample"),
        ((T,), r"takes times and losses, plateaus\(steps, loss\), or the trajectory"),
        ((T, T[:-1]), "`loss` has 400 samples, expected the 401 of `times`"),
        ((T, T, T[:3]), "`squared_gradient` has 3 samples"),
        ((T, np.ones((2, 401))), r"`loss` has shape \(2, 401\).*loop over seeds"),
        ((1.0, 2.0), r"`times` has shape \(\)"),
        ((T[::-1], T), "`times` fall from 20 to 19.95 at sample 1, .*argsort"),
        ((T, np.where(T > 5, np.nan, 1.0)), "`loss` is nan at sample 101.*the first 101"),
        ((np.where(T > 5, np.inf, T), T), "`times` is inf at sample 101.*padded"),
        ((T, T, -T), "`squared_gradient` is -20 at sample 400.*`slope`"),
    ],
)
def test_curves_that_are_none(arguments, message, as_a_user):
    with pytest.raises(ValueError, match=message):
        plateaus(*arguments)


@pytest.mark.parametrize(
    "option",
    [
        {"prominence": 0.0},
        {"merge": 1.0},
        {"edge": 0.5},
        {"levels": "cubic"},
        {"floor": 0.0},
        {"bins": 1},
        {"smoothing": -1.0},
        {"median": 4},
        {"median": True},
        {"prominence": "half"},
        {"merge": None},
        {"edge": "0.05"},
        {"levels": 1},
        {"floor": [1e-6]},
        {"bins": 10.5},
        {"smoothing": float("inf")},
        {"median": "nine"},
        {"prominence": np.array([0.5, 0.6])},
    ],
    ids=str,
)
def test_options_that_are_none(option, as_a_user):
    (name,) = option
    with pytest.raises(ValueError, match=f"`{name}` is .*, expected "):
        plateaus(T, T, **option)


def test_log_levels_need_a_positive_loss():
    with pytest.raises(ValueError, match="starts at -1, expected a positive loss"):
        plateaus(T, T - 1, levels="log")


# Output ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (np.ones(1), "one sample only"),
        (np.ones(2), "no drop: the loss does not fall"),
        (np.full(401, 3.0), "no drop: the loss does not fall"),
        (np.array([2.0, 1.0]), "no pause: the loss falls from the first sample to the last"),
        (20 - T, "no pause: the loss falls from the first sample to the last"),
        (np.exp(-T), "the record begins within a drop"),
        (1 - np.exp(T - 20), "the record ends within a drop"),
    ],
    ids=["one", "two", "constant", "two that fall", "line", "decay", "growing fall"],
)
def test_curves_without_plateaus_are_told_in_words(loss, words, gradient):
    times = T[: loss.size]
    fall = np.maximum(-np.gradient(loss, times), 0.0) if loss.size > 1 else np.zeros(1)
    each = plateaus(times, loss, fall if gradient else None)
    first, *_, last = str(each).splitlines()
    assert last.startswith(words)
    assert first.startswith("no plateau") == words.startswith("no pause")


def test_text_and_dataset():
    each = found("1B")[0]
    lines = str(each).splitlines()
    assert lines[0] == "3 plateaus, judged by the gradient"
    assert len(lines) == 5
    assert "0.697224" in lines[3]
    assert f"{each.drop_time[1]:.6g}" in lines[3]
    assert str(plateaus([0], [1])).startswith("1 plateau, judged by the loss")

    data = each.to_dataset()
    assert dict(data.sizes) == {"plateau": 3, "fall": 2, "rise": 0, "side": 2}
    assert data.attrs["method"] == "gradient"
    for name in ("level", "index", "time", "start", "end", "strength", "drop_time"):
        assert np.array_equal(data[name].values, getattr(each, name))


STEP = np.arange(0.0, 3000.0)


def two_drops(first: float = 800.0, second: float = 2000.0) -> np.ndarray:
    """Return a loss with plateaus at 1, 0.4 and 0.1."""
    falls = [1 / (1 + np.exp(0.04 * (STEP - at))) for at in (first, second)]
    return 0.1 + 0.6 * falls[0] + 0.3 * falls[1]


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize(("at", "width"), [(60.0, 30.0), (300.0, 100.0), (1400.0, 100.0)])
def test_a_hump_is_passed_over(at, width, noise):
    rng = np.random.default_rng(int(at))
    hump = 0.4 * np.exp(-(((STEP - at) / width) ** 2))
    found = plateaus(STEP, two_drops() + hump + noise * rng.normal(size=STEP.size))
    np.testing.assert_allclose(found.level, [1.0, 0.4, 0.1], atol=0.01)
    np.testing.assert_allclose(found.drop_time, [800.0, 2000.0], atol=5.0)
    assert len(found.rises) == 1
    assert found.rises[0, 0] < at < found.rises[0, 1]


@pytest.mark.parametrize("decimals", [2, 3, 4])
@pytest.mark.parametrize("kind", [float, np.float32])
def test_losses_written_with_few_decimals(decimals, kind):
    found = plateaus(STEP, np.round(two_drops(500.0, 1500.0), decimals).astype(kind))
    np.testing.assert_allclose(found.level, [1.0, 0.4, 0.1], atol=10.0**-decimals)
    np.testing.assert_allclose(found.drop_time, [500.0, 1500.0], atol=10.0)


def test_round_numbers_are_no_rounding():
    """A staircase of few round levels is not mistaken for rounding of a continuous loss."""
    found = plateaus(np.arange(400.0), np.repeat([3.0, 2.0, 1.0, 0.0], 100))
    np.testing.assert_allclose(found.level, [3.0, 2.0, 1.0, 0.0])


def test_the_foot_of_a_steep_drop_is_no_rise():
    """A fit of slow noise by few straight pieces overshoots after a drop; it is not a rise."""
    t = np.arange(0.0, 1000.0, 10.0)
    falls = lambda at, width: 1 / (1 + np.exp((t - at) / width))
    clean = 0.16 + 0.37 * falls(470, 22) + 0.47 * falls(107, 4) - 5e-5 * np.minimum(t, 350)
    for seed in (0, 1, 3, 29):
        noise, rng = np.zeros(t.size), np.random.default_rng(seed)
        for k in range(1, t.size):
            noise[k] = 0.9 * noise[k - 1] + 2e-4 * rng.normal()
        found = plateaus(t, clean + noise, prominence=1.0)
        assert len(found) == 3
        assert (found.rises[:, 0] > 600).all()  # later the noise itself changes slowly


def test_a_run_that_diverged_has_no_plateaus():
    network = fully_connected(2, 4, activation="linear", scale=1.0, key=jax.random.key(0))
    data = from_arrays(np.eye(2), [10.0, -10.0])
    run = festina.gradient_descent(network, data, 20.0, steps=500)
    with pytest.raises(ValueError, match="This run diverged, so its loss shows no plateaus"):
        plateaus(run)
