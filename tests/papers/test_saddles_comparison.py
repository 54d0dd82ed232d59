"""How runs are held against numbers of other implementations."""

import numpy as np
import pytest

from festina.networks import convolutional_stack, seeds, stack
from festina.papers._old import compare
from festina.papers.saddles._comparison import Reported
from festina.papers.saddles._plain_descent import _loss_and_gradients, furthest, plain_drops
from festina.papers.saddles.figure_5._e_escape import mode_amplitude
from festina.tasks import linear_teacher


def reported_claim(reported, ours, **options):
    def judge(words, predicted, measured, **options):
        judged = {"claim": words, "predicted": predicted, "measured": measured}
        return compare(experiment="", source="", **judged, **options)

    return reported.claim(judge, "step", np.asarray(ours), **options)


@pytest.mark.parametrize(
    ("n", "told"), [(1, "mean"), (3, "mean"), (2, "range"), (3, "range"), (4, "range")]
)
def test_chance_moves_what_is_reported_by_a_known_factor(n, told):
    """Errors in units of what is allowed, which is three and a half standard deviations."""
    rng, spread, off = np.random.default_rng(n), 0.1, []
    for there, ours in zip(
        np.exp(spread * rng.standard_normal((1500, n))),
        np.exp(spread * rng.standard_normal((1500, 8))),
        strict=True,
    ):
        values = (there.min(), there.max()) if told == "range" else (np.exp(np.log(there).mean()),)
        claim = reported_claim(Reported(values, n, spread), ours)
        allowed = np.log(float(claim.tolerance.split()[1]))
        off.append(np.log(claim.measured / claim.predicted) / allowed)
    assert np.std(off) == pytest.approx(1 / 3.5, rel=0.05)


def test_a_mean_that_is_off_by_a_larger_factor_does_not_hold():
    reported = Reported((90.0, 110.0), 4, 0.05)  # allowed: 3.5 × 0.05 × √(1/4 + 0.298), 0.13
    for factor, verdict in ((1.13, "holds"), (1 / 1.13, "holds"), (1.15, "does not hold")):
        claim = reported_claim(reported, 99.5 * factor * np.ones(4))
        assert claim.verdict == verdict
        assert claim.predicted == pytest.approx(np.sqrt(9900.0), rel=1e-5)
    claim = reported_claim(reported, 99.5 * 1.15 * np.ones(4), common=0.03)
    assert claim.verdict == "holds"  # what seeds have in common adds to chance


def test_drops_that_one_table_does_not_have():
    steps = np.array([[1.0, np.nan], [2.0, 5.0]])
    assert furthest(steps, steps + 0.25) == 0.25
    assert furthest(steps, np.nan_to_num(steps)) == np.inf


def networks():
    key = seeds(2)
    return {
        "linear": stack((3, 4, 4, 2), scale=0.5, key=key),
        "ReLU, one skipped": stack(
            (3, 4, 4, 4, 2), activations="relu", skips=((1, 2),), scale=0.5, key=key
        ),
        "linear, two skipped": stack((3, 4, 4, 4, 2), skips=((1, 3),), scale=0.5, key=key),
        "ReLU kernels": convolutional_stack(
            4, (3, 4, 2), stride=2, activations="relu", scale=0.5, key=key
        ),
    }


@pytest.mark.slow  # compiles what the networks compute
@pytest.mark.parametrize(
    "name", ["linear", "ReLU, one skipped", "linear, two skipped", "ReLU kernels"]
)
def test_derivatives_by_hand_are_those_of_the_network(name):
    """Against differences of losses, which are computed from the network's own outputs."""
    network, rng = networks()[name], np.random.default_rng(0)
    inputs = 4 if "kernels" in name else 3
    x, y = rng.normal(size=(5, inputs)), rng.normal(size=(5, 2))
    parts = [np.array(weight) for weight in network.weights]

    def losses(parts):
        outputs = network.with_parts(*parts).predict(x)
        return np.mean(np.sum((y - np.asarray(outputs)) ** 2, axis=-1), axis=-1)

    flat = [*parts]
    flat[1] = flat[1].reshape(*flat[1].shape[:2], -1)
    patches = x.reshape(5, -1, parts[0].shape[-1])
    loss, gradients = _loss_and_gradients(network, flat, patches, y)
    np.testing.assert_allclose(loss, losses(parts), rtol=1e-12)
    for layer, gradient in enumerate(gradients):
        change = rng.normal(size=parts[layer].shape)
        up, down = (
            losses([p + h * change if i == layer else p for i, p in enumerate(parts)])
            for h in (1e-6, -1e-6)
        )
        slope = np.sum((gradient.reshape(change.shape) * change).reshape(2, -1), axis=1)
        np.testing.assert_allclose((up - down) / 2e-6, slope, rtol=1e-6, atol=1e-8)


def test_a_plain_loop_passes_a_level_between_two_steps():
    """One unit in every layer, w³ → 1: as the recursion has it."""
    network = stack((1, 1, 1, 1), scale=0.3, key=seeds(1))
    network = network.with_parts(*(np.full_like(weight, 0.5) for weight in network.weights))
    drops = plain_drops(network, linear_teacher(np.eye(1)), 0.1, np.array([0.25, -1.0]), 40)
    w, loss = 0.5, []
    for _ in range(41):
        loss.append((1 - w**3) ** 2)
        w += 0.1 * 2 * (1 - w**3) * w**2
    step = int(np.argmax(np.array(loss) <= 0.25))
    assert step - 1 < drops[0, 0] <= step
    assert np.interp(-0.25, -np.array(loss), np.arange(41)) == pytest.approx(drops[0, 0])
    assert np.isnan(drops[0, 1])


@pytest.mark.parametrize("scale", [1e-3, 1e-4])
def test_what_initial_weights_hold_of_a_mode_times_its_half_rise(scale):
    """ẇ = (c − w·W)W and Ẇ = (c − w·W)w, in one input: half-way at ln(c/a₀)/2c."""
    from scipy.integrate import solve_ivp

    rng = np.random.default_rng(0)
    inner, outer = scale * rng.normal(size=(2, 40))
    (amplitude,) = mode_amplitude(inner[None, :, None], outer[None], np.ones(1))
    c = 0.05
    predicted = np.log(c / amplitude) / (2 * c)

    def field(_, theta):
        w, b = np.split(theta, 2)
        return (c - w @ b) * np.concatenate((b, w))

    half = lambda _, theta: theta[:40] @ theta[40:] - c / 2
    flow = solve_ivp(
        field,
        (0, 2 * predicted),
        np.concatenate((inner, outer)),
        events=half,
        rtol=1e-9,
        atol=1e-12,
    )
    assert flow.t_events[0][0] == pytest.approx(predicted, rel=scale)
