"""Test that functions give the same results for networks with tasks and for plain arrays."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from festina.dynamics import gradient_descent
from festina.networks import (
    DeepLinear,
    NeuronUnit,
    attention,
    deep_linear,
    fully_connected,
    layer_from,
    seeds,
)
from festina.tasks import (
    from_arrays,
    from_moments,
    in_context_regression,
    linear_teacher,
    quadratic_teacher,
)
from festina.theory import saddles
from helpers import untyped

RNG = np.random.default_rng(4)
SIGMA = np.diag([2.0, 1.0, 0.4])
TASK = linear_teacher(np.diag([1.0, 0.8])[:, :2] @ np.eye(2, 3), SIGMA)
CORRELATION = np.array([[2.0, 0.0, 0.0], [0.0, 0.8, 0.0]])
LAYERS = fully_connected(3, 5, 2, scale=1e-5, key=seeds(2))

LINEAR = {
    "initial_mode_amplitudes": lambda u, v, c: saddles.initial_mode_amplitudes(
        layer_from("linear", u, v), from_moments(CORRELATION)
    ),
    "mode_drop_times": lambda u, v, c: (
        saddles.mode_drop_times(layer_from("linear", u, v), from_moments(CORRELATION, SIGMA)) / c
    ),
    "unit_growth_times": lambda u, v, c: (
        saddles.unit_growth_times(layer_from("linear", u, v), from_moments(CORRELATION)) / c
    ),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize(("loss", "factor"), [("half", 1.0), ("mean-square", 2.0)])
def test_linear_layers_and_two_deep_ones_are_their_arrays(name, loss, factor):
    arrays = LINEAR[name](LAYERS.u, LAYERS.v, factor)
    convention = {} if name == "initial_mode_amplitudes" else {"loss": loss}
    for network in (LAYERS, DeepLinear.from_layer(LAYERS)):
        found = getattr(saddles, name)(network, TASK, **convention)
        np.testing.assert_allclose(found, arrays, rtol=1e-12)
        assert found.shape[0] == 2
    one = getattr(saddles, name)(LAYERS.lane(1), TASK, **convention)
    np.testing.assert_allclose(one, arrays[1], rtol=1e-12)


def test_steps_of_descent_know_the_convention():
    steps = saddles.mode_drop_times(LAYERS, TASK, loss="mean-square", learning_rate=0.01)
    expected = saddles.mode_drop_times(LAYERS, TASK, learning_rate=0.02)
    np.testing.assert_allclose(steps, expected, rtol=1e-12)


@pytest.mark.parametrize("deep", [False, True])
def test_the_linear_phase_is_a_network_at_each_time(deep):
    network = DeepLinear.from_layer(LAYERS) if deep else LAYERS
    times = np.array([0.0, 0.5, 1.0])
    u, v = saddles.linear_phase(
        layer_from("linear", LAYERS.u, LAYERS.v), from_moments(CORRELATION), 2 * times
    ).parts
    found = saddles.linear_phase(network, TASK, times, loss="mean-square")
    assert type(found) is type(network)
    assert found.batch_shape == (2, 3)
    as_layer = found.to_layer() if isinstance(found, DeepLinear) else found
    np.testing.assert_allclose(as_layer.u, u, rtol=1e-12)
    np.testing.assert_allclose(as_layer.v, v, rtol=1e-12)
    single = saddles.linear_phase(network, TASK, 0.5)
    assert single.batch_shape == (2,)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), samples=st.integers(6, 30))
def test_saddles_of_a_task_are_those_of_its_averages(seed, samples):
    """For data that no linear map fits, losses include the remaining error of least squares."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(samples, 3)), rng.normal(size=(samples, 2))
    data = from_arrays(x, y)
    averages = y.T @ x / samples, x.T @ x / samples
    power = float(np.sum(y**2) / samples)
    pairs = zip(
        saddles.linear_saddles(data, loss="mean-square"),
        saddles.linear_saddles(from_moments(*averages, target_power=power)),
        strict=True,
    )
    for found, expected in pairs:
        assert found.modes == expected.modes
        assert found.loss == pytest.approx(2 * expected.loss, rel=1e-9)
        np.testing.assert_allclose(found.escape_rates, 2 * expected.escape_rates, rtol=1e-7)
    one = saddles.linear_saddle(data, (1,))
    residual = y - x @ one.map.T
    assert one.loss == pytest.approx(0.5 * np.sum(residual**2) / samples, rel=1e-9)


def test_quadratic_units_see_one_matrix():
    data = quadratic_teacher(np.diag([1.0, 0.6]))
    network = fully_connected(2, 7, activation="quadratic", scale=1e-3, key=seeds(3))
    seen = from_moments(data.statistics(network.unit).correlation)
    times = saddles.blow_up_times(network, data, loss="mean-square")
    np.testing.assert_allclose(times, saddles.blow_up_times(network, seen) / 2, rtol=1e-12)
    unit, first = saddles.first_unit_to_escape(network, data)
    np.testing.assert_array_equal(unit, saddles.first_unit_to_escape(network, seen)[0])
    np.testing.assert_allclose(first, 2 * times.min(axis=-1), rtol=1e-12)


def test_others_are_refused_and_told_where_to_go(as_a_user):
    relu = fully_connected(3, 5, 2, activation="relu", key=seeds(1)[0])
    deep = deep_linear((3, 4, 4, 2), scale=1e-3, key=seeds(1)[0])
    heads = attention(2, 3, scale=1e-3, key=seeds(1)[0])
    two = fully_connected(2, 3, 2, activation="quadratic", key=seeds(1)[0])
    for call, words in (
        (
            lambda: saddles.initial_mode_amplitudes(relu, TASK),
            "linear and fully connected, of two layers",
        ),
        (lambda: saddles.mode_drop_times(deep, TASK), r"Got DeepLinear\(3-4-4-2\).*staircase"),
        (lambda: saddles.unit_growth_times(untyped(LAYERS.u), TASK), "Expected a network"),
        (
            lambda: saddles.linear_phase(LAYERS, TASK, np.ones((2, 2))),
            "one time or a list of times",
        ),
        (lambda: saddles.mode_drop_times(LAYERS, quadratic_teacher(np.eye(2))), "do not fit"),
        (lambda: saddles.linear_saddles(untyped(CORRELATION)), "`task` must be a `Task`"),
        (lambda: saddles.linear_saddles(TASK, rank=untyped(0.5)), "`rank` must be a whole number"),
        (lambda: saddles.first_unit_to_escape(heads, in_context_regression(2)), "staircase"),
        (lambda: saddles.blow_up_times(two, quadratic_teacher(np.eye(2))), "with one output"),
        (lambda: saddles.first_unit_to_escape(LAYERS, TASK), "mode_drop_times"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert relu.unit != NeuronUnit()


def test_a_staircase_is_not_drawn_over_another_loss_or_clock():
    network, figure = LAYERS.lane(0), Figure()
    half, square = (saddles.staircase(network, TASK, loss=loss) for loss in ("half", "mean-square"))
    ax = half.draw(figure.add_subplot())
    with pytest.raises(
        ValueError, match=r"`ax` shows the loss ½⟨.*⟩ over time, expected the loss ⟨"
    ):
        square.draw(ax)
    assert (len(ax.patches), ax.get_ylabel()) == (1, "loss ½⟨‖y − f‖²⟩")
    descent = gradient_descent(network, TASK, learning_rate=0.1, steps=3)
    steps = descent.draw(figure.add_subplot())
    with pytest.raises(ValueError, match=r"over steps, expected the loss .* over time, which"):
        half.draw(steps)
    with pytest.raises(ValueError, match=r"over time, expected the loss .* over steps, which"):
        descent.draw(ax)
    mine = figure.add_subplot()  # words of the user are replaced
    mine.plot([0, 1], [1, 0])
    mine.set(xlabel="epoch", ylabel="my loss")
    assert half.draw(mine).get_xlabel() == "time $t/τ$"


def test_a_staircase_is_drawn_with_its_loss_and_clock():
    import matplotlib.pyplot as plt
    from matplotlib.patches import StepPatch

    found = [saddles.staircase(LAYERS.lane(k), TASK, loss="mean-square") for k in range(2)]
    ax = found[0].draw()
    assert found[1].draw(ax) is ax
    assert ax.get_xlabel() == "time $t/τ$"
    assert ax.get_ylabel() == "loss ⟨‖y − f‖²⟩"
    assert ax.get_legend_handles_labels()[1] == ["theory: staircase"]
    for patch, each in zip(ax.patches, found, strict=True):
        assert isinstance(patch, StepPatch)
        values, edges, _ = patch.get_data()
        np.testing.assert_array_equal(values, each.levels)
        np.testing.assert_array_equal(edges[1:-1], each.times)
    later = found[1].times[-1] * 3
    ax = plt.figure().add_subplot()
    ax.plot([0.0, later], [1.0, 0.0])
    (patch,) = found[0].draw(ax).patches
    assert isinstance(patch, StepPatch)
    assert patch.get_data()[1][-1] == later
    none = np.zeros(0)
    still = replace(found[0], levels=np.ones(1), times=none, uncertainty=none, active=((),))
    assert still.draw()
    plt.close("all")
