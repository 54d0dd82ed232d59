"""Test Figure 6, skip connections, against a plain loop that drops at the same steps."""

import numpy as np
import pytest
import xarray as xr

from festina.diagnose import plateaus_of_batch
from festina.dynamics import gradient_descent
from festina.networks import deep_convolutional, deep_network, seeds
from festina.papers.saddles import _figure_6 as skips
from festina.tasks import linear_teacher
from plain_descent import furthest, loss_and_gradients, plain_drops

slow = pytest.mark.slow  # compiles networks


@pytest.mark.parametrize(
    ("family", "skipped"),
    [
        pytest.param(family, skipped, marks=[] if (family, skipped) == ("relu", 1) else slow)
        for family in skips.FAMILIES
        for skipped in range(3)
    ],
)
def test_every_drop_comes_when_a_plain_loop_has_it(family, skipped):
    """The reference is a plain loop from the same weights, with derivatives by hand."""
    task = skips.task_of(family)
    network = skips.skipping(family, task, skipped, 10, 0.1, seeds(2))
    run = gradient_descent(network, task, 0.01, loss=skips.LOSS, max_steps=10_000)
    levels = run.loss.max() * np.array([1.0, 0.4, 0.0])
    plain = plain_drops(network, task, 0.01, (levels[1:] + levels[:-1]) / 2, 10_000)
    assert np.isfinite(plain).all()
    assert furthest(plateaus_of_batch(run, levels)["passage"].to_numpy(), plain) < 0.1


@slow
def test_from_large_weights_two_skipped_layers_leave_no_plateau():
    """At ε = 0.05 the plateau remains with one layer skipped, and vanishes with two."""
    run = skips.run(skips.Parameters(seed=100, seeds=3, scale=0.05))
    for family in skips.FAMILIES:
        counts = [run[f"{family}_{skipped}"]["count"].to_numpy() for skipped in range(3)]
        assert (np.array(counts[:2]) == 3).all()
        assert (counts[2] == 2).all()


def test_training_that_ends_before_a_drop_is_drawn_to_its_end():
    short = xr.Dataset(
        {
            "step": (("seed", "save"), [[0, 20]]),
            "loss": (("seed", "save"), [[1.0, 0.9]]),
            "drop_step": (("seed", "fall"), [[np.nan, np.nan]]),
            "level": ("plateau", [1.0, 0.5, 0.0]),
        }
    )
    names = ("theory", "0", "1", "2", "1_shallow", "2_shallow")
    each = {f"{family}_{name}": short for family in skips.FAMILIES for name in names}
    axes = skips.draw(xr.DataTree.from_dict(each)).axes
    assert [ax.get_xlim()[1] for ax in axes] == pytest.approx([23.0] * 4)


def test_bad_parameters():
    with pytest.raises(ValueError, match="greater than 0"):
        skips.Parameters(scale=0.0)


def test_drops_that_one_table_does_not_have():
    steps = np.array([[1.0, np.nan], [2.0, 5.0]])
    assert furthest(steps, steps + 0.25) == 0.25
    assert furthest(steps, np.nan_to_num(steps)) == np.inf


def networks():
    key = seeds(2)
    return {
        "linear": deep_network((3, 4, 4, 2), scale=0.5, key=key),
        "ReLU, one skipped": deep_network(
            (3, 4, 4, 4, 2), activations="relu", skips=((1, 2),), scale=0.5, key=key
        ),
        "linear, two skipped": deep_network((3, 4, 4, 4, 2), skips=((1, 3),), scale=0.5, key=key),
        "ReLU kernels": deep_convolutional(
            4, (3, 4, 2), stride=2, activations="relu", scale=0.5, key=key
        ),
    }


@slow
@pytest.mark.parametrize(
    "name", ["linear", "ReLU, one skipped", "linear, two skipped", "ReLU kernels"]
)
def test_derivatives_by_hand_are_those_of_the_network(name):
    """Compare with differences of the loss, computed from the outputs of the network."""
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
    loss, gradients = loss_and_gradients(network, flat, patches, y)
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
    """With one unit per layer, the loop follows the recursion for w³ → 1."""
    network = deep_network((1, 1, 1, 1), scale=0.3, key=seeds(1))
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
