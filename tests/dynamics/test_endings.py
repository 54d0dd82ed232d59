"""Test why training stops: convergence, rest, divergence, or no steps left."""

import re

import jax
import numpy as np
import pytest

import festina
from festina.networks import (
    Layer,
    NeuronUnit,
    activation,
    deep_linear,
    deep_network,
    fully_connected,
    layer_from,
    power,
)
from festina.tasks import (
    AbstractTask,
    from_arrays,
    gaussian_cubature_points,
    linear_teacher,
    quadratic_teacher,
    student_teacher,
    two_orthogonal_points,
)
from festina.theory.saddles import narrow_minima

COVARIANCE = np.array([[1.0, 1.0], [1.0, 4.0]])
LINEAR = linear_teacher(np.eye(2), COVARIANCE)
QUADRATIC = quadratic_teacher(np.eye(2))
SEEDS = festina.seeds(3, first=5)


def linear(scale: float, width: int = 5) -> Layer:
    return fully_connected(2, width, 2, scale=scale, key=SEEDS)


def quadratic(scale: float) -> Layer:
    return fully_connected(2, 10, activation="quadratic", scale=scale, key=SEEDS)


def reasons(run) -> set[str]:
    return {ending.reason for ending in run.endings}


def all_finite(run) -> bool:
    arrays = (run.time, run.loss, run.squared_gradient, run.network.u, run.network.v)
    return all(np.isfinite(array).all() for array in arrays)


# Saddles during training


@pytest.mark.parametrize("scale", [1e-6, 1e-12])
def test_the_initial_saddle_of_a_linear_network_is_no_end(scale):
    for run in (
        festina.gradient_flow(linear(scale), LINEAR),
        festina.gradient_descent(linear(scale), LINEAR, 0.02),
    ):
        assert reasons(run) == {"converged"}
        assert (run.loss[:, -1] < 1e-8).all()


def test_the_smallest_weights_leave_the_initial_saddle_too():
    """At a scale of 1e-30 the second mode is smaller than rounding errors of the first mode.

    Only the drop of the first mode is therefore tested.
    """
    for run in (
        festina.gradient_flow(linear(1e-30), LINEAR),
        festina.gradient_descent(linear(1e-30), LINEAR, 0.02, max_steps=5000),
    ):
        assert (run.loss[:, 0] > 2.4).all()
        assert (run.loss[:, -1] < 0.4).all()


def test_the_initial_saddle_of_a_quadratic_network_is_no_end():
    """The gradient stays of order ε² = 10⁻⁸ for a time of order 1/ε."""
    run = festina.gradient_flow(quadratic(1e-4), QUADRATIC, rtol=1e-6)
    assert reasons(run) == {"converged"}
    assert (run.loss[:, -1] < 1e-8).all()
    assert (run.time[:, -1] > 500).all()


def test_the_saddle_of_figure_1b_is_no_end():
    run = festina.gradient_flow(linear(1e-10), LINEAR, loss="mean-square")
    assert reasons(run) == {"converged"}
    assert (run.loss[:, -1] < 1e-8).all()
    # Near the saddle, the squared gradient was smaller than the criterion of convergence.
    for lane in range(3):
        near = np.abs(run.loss[lane] - (5 - np.sqrt(13)) / 2) < 1e-6
        assert run.squared_gradient[lane][near].min() < 1e-7 * run.squared_gradient[lane].max()


def test_the_saddle_of_figure_1g_is_no_end():
    run = festina.gradient_flow(quadratic(1e-3), QUADRATIC, loss="mean-square")
    assert reasons(run) == {"converged"}
    assert (run.loss[:, -1] < 1e-7).all()
    assert (np.abs(run.loss - 8 / 3) < 0.01).any(axis=1).all()


def test_a_saddle_that_is_left_a_hundred_times_more_slowly_is_no_end():
    """Half of the loss belongs to a mode that is learned a hundred times more slowly."""
    data = linear_teacher(np.diag([1.0, 100.0]), np.diag([1.0, 1e-4]))
    run = festina.gradient_flow(linear(1e-4), data)
    assert reasons(run) == {"converged"}
    assert (run.loss[:, -1] < 1e-8).all()


def test_a_saddle_that_is_left_very_slowly_is_not_called_a_minimum():
    data = linear_teacher(np.diag([1.0, 1e4]), np.diag([1.0, 1e-8]))
    run = festina.gradient_flow(linear(1e-4), data, max_steps=5000)
    for ending in run.endings:
        assert ending.reason != "converged"


# Minima that are not zero


SLOW = 3e-5


def two_speeds(slow=SLOW):
    """Return a linear teacher whose first mode is learned at rate 1, the second at `slow`."""
    return linear_teacher(np.diag([1.0, 1 / slow]), np.diag([1.0, slow**2]))


@pytest.mark.parametrize(
    "train",
    [festina.gradient_flow, lambda network, task: festina.gradient_descent(network, task, 0.1)],
)
@pytest.mark.parametrize("slow", [1e-7, SLOW])
def test_a_saddle_that_is_left_late_is_said_to_be_one(train, slow):
    network = fully_connected(2, 4, 2, scale=1e-8, key=SEEDS[:2])
    for ending in train(network, two_speeds(slow)).endings:
        assert ending.reason == "saddle"
        assert f"a saddle that it would leave at rate {slow:.3g}," in ending.message
        assert "up to a thousand times the elapsed" in ending.message


def test_a_late_saddle_is_left_about_when_it_was_said():
    """The message predicts the time at which the slow mode is learned within a factor of 1.5."""
    network = fully_connected(2, 3, 2, scale=1e-8, key=jax.random.key(0))
    short = festina.gradient_flow(network, two_speeds())
    told = re.search(r"in about t = ([0-9.e+]+)\.", short.endings[0].message)
    assert told is not None
    when = float(told[1])
    long = festina.gradient_flow(
        short.final, two_speeds(), when * np.array([0.7, 1.5]), solver="implicit"
    )
    assert long.loss[0] > 0.49
    assert long.loss[1] < 0.01


HIGH_ORDER = {
    "quadratic": lambda: (
        fully_connected(3, 8, activation="quadratic", scale=1e-10, key=SEEDS[:1]),
        quadratic_teacher(np.eye(3)[:2]),
    ),
    "quadratic, by Lanczos": lambda: (
        fully_connected(3, 200, activation="quadratic", scale=1e-9, key=SEEDS[:1]),
        quadratic_teacher(np.eye(3)[:2]),
    ),
    "fourth power": lambda: (
        fully_connected(2, 8, activation=power(4), scale=1e-3, key=SEEDS),
        student_teacher(
            layer_from(NeuronUnit(power(4)), [[0.9, 0.1], [-0.2, 1.1]], [1.0, 1.0]),
            np.eye(2),
            nodes=None,
        ),
    ),
    "three linear layers": lambda: (
        deep_linear((3, 3, 3, 3), scale=1e-10, key=SEEDS),
        linear_teacher(np.diag([1.0, 0.7, 0.4]), np.eye(3)),
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "quadratic" else [pytest.mark.slow])
        for name in HIGH_ORDER
    ],
)
def test_saddles_of_high_order_curve_too_little_to_see_and_are_no_end(name):
    """The curvature at small weights is a power of their size, far below other curvatures."""
    network, task = HIGH_ORDER[name]()
    run = festina.gradient_flow(network, task, solver="implicit")
    assert reasons(run) == {"converged"}
    assert (run.loss[..., -1] < 1e-6 * run.loss[..., 0]).all()


@pytest.mark.parametrize("scale", [30.0, 200.0])
def test_large_weights_have_learned_when_their_loss_is_small_beside_that_of_none(scale):
    x = np.random.default_rng(6).normal(size=(60, 3))
    network = fully_connected(3, 9, 1, scale=scale, key=SEEDS)
    run = festina.gradient_flow(network, from_arrays(x, x @ np.ones((3, 1))))
    assert reasons(run) == {"converged"}
    noise = 100 * 1e-8**2 * run.loss[..., 0]
    assert (run.loss[..., -1] < np.maximum(2e-9, 2 * noise)).all()


def test_a_linear_student_too_narrow_for_its_teacher_converges_at_the_width_one_minimum():
    run = festina.gradient_flow(linear(0.1, width=1), LINEAR, loss="mean-square")
    assert reasons(run) == {"converged"}
    np.testing.assert_allclose(run.loss[:, -1], (5 - np.sqrt(13)) / 2, rtol=1e-7)
    assert run.floor == 0.0


def test_a_relu_student_with_one_unit_converges_at_one_point_learned():
    network = fully_connected(2, 1, activation="relu", scale=0.1, key=festina.seeds(4))
    run = festina.gradient_flow(network, two_orthogonal_points())
    # Both points are on the inactive side of the unit of the last seed.
    assert [ending.reason for ending in run.endings] == ["converged"] * 3 + ["stationary"]
    np.testing.assert_allclose(run.loss[:, -1], [0.25, 0.25, 0.25, 0.5], atol=1e-8)


def test_a_nonlinear_student_that_cannot_reach_zero_converges_where_another_optimiser_does():
    x = np.linspace(-2.0, 2.0, 9)
    data = from_arrays(x[:, None], 0.8 * np.tanh(1.5 * x) + 0.3 * np.cos(x))
    network = fully_connected(1, 1, activation="tanh", scale=0.1, key=SEEDS)
    lowest = narrow_minima(network.unit, data).loss[0]
    assert lowest > 0.01
    for run in (
        festina.gradient_flow(network, data),
        festina.gradient_descent(network, data, 0.1),
    ):
        assert reasons(run) == {"converged"}
        np.testing.assert_allclose(run.loss[:, -1], lowest, rtol=1e-6)


def test_noise_in_the_targets_is_the_floor_that_the_loss_converges_to():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(20, 2))
    y = x + 0.5 * draw.normal(size=(20, 2))
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    floor = 0.5 * np.mean(np.sum((y - x @ best) ** 2, axis=1))
    run = festina.gradient_flow(linear(1e-3), from_arrays(x, y))
    assert run.floor == pytest.approx(floor, rel=1e-10)
    assert reasons(run) == {"converged"}
    np.testing.assert_allclose(run.loss[:, -1], floor, rtol=1e-7)


# Starting at rest


def _embedded(unit: str, how: str) -> tuple[Layer, AbstractTask, float]:
    """Return a width-1 fixed point embedded in a network of width three, with task and loss (½)."""
    if unit == "linear":
        axis = np.linalg.eigh(COVARIANCE)[1][:, -1]
        u, v, level, data = axis, axis, (5 - np.sqrt(13)) / 4, LINEAR
    else:
        # The loss ⟨(x₁² + x₂² − c x₁²)²⟩ of one unit v(u·x)² along the first axis is least at c =
        # 4/3.
        u, v, level, data = np.array([1.0, 0.0]), np.array([4 / 3]), 4 / 3, QUADRATIC
    share = {"zero": np.array([1.0, 0.0, 0.0]), "spread": np.array([0.6, 0.8, 0.0])}[how]
    network = layer_from(NeuronUnit(activation(unit)), share[:, None] * u, share[:, None] * v)
    return network, data, level


@pytest.mark.parametrize(
    ("unit", "how"), [("linear", "zero"), ("linear", "spread"), ("quadratic", "zero")]
)
def test_starting_on_an_embedded_fixed_point_is_reported(unit, how):
    network, data, level = _embedded(unit, how)
    for run in (
        festina.gradient_flow(network, data),
        festina.gradient_descent(network, data, 0.01),
    ):
        # For φ of order two, units at zero have no curvature, so the saddle is degenerate.
        assert reasons(run) == {{"linear": "saddle", "quadratic": "stationary"}[unit]}
        assert not run.failed
        assert run.evaluations < 100
        np.testing.assert_allclose(run.loss, level, rtol=1e-12)


@pytest.mark.parametrize("unit", ["linear", "quadratic"])
def test_starting_at_zero_is_reported_and_stays(unit):
    outputs = {"linear": 2, "quadratic": 1}[unit]
    data = {"linear": LINEAR, "quadratic": QUADRATIC}[unit]
    network = layer_from(NeuronUnit(activation(unit)), np.zeros((3, 2)), np.zeros((3, outputs)))
    flow = festina.gradient_flow(network, data)
    descent = festina.gradient_descent(network, data, 0.01)
    # At zero weights, a network of order two has no curvature in any direction.
    expected = {"linear": "saddle", "quadratic": "stationary"}[unit]
    for run in (flow, descent):
        assert reasons(run) == {expected}
        assert "gradient" in run.endings[0].message
        np.testing.assert_array_equal(run.network.u[-1], 0.0)
    at_times = festina.gradient_flow(network, data, np.array([0.0, 1.0, 100.0]))
    assert reasons(at_times) == {"finished"}
    np.testing.assert_array_equal(at_times.loss, np.full(3, flow.loss[0]))


def test_starting_at_the_solution_is_reported_and_stays():
    network = layer_from(NeuronUnit(), np.eye(2), np.eye(2))
    for run in (
        festina.gradient_flow(network, LINEAR),
        festina.gradient_descent(network, LINEAR, 0.01),
    ):
        assert reasons(run) <= {"converged", "stationary"}
        assert run.evaluations < 100
        assert run.loss[-1] < 1e-25


def test_a_network_at_rest_does_not_hold_up_the_batch():
    seeds = fully_connected(2, 5, 2, scale=1e-2, key=festina.seeds(3))
    u, v = seeds.u.copy(), seeds.v.copy()
    u[1], v[1] = 0.0, 0.0
    run = festina.gradient_flow(Layer(u, v, seeds.unit), LINEAR)
    assert [ending.reason for ending in run.endings] == ["converged", "saddle", "converged"]
    assert run.saves[1] < run.saves[0]


def test_weights_near_a_saddle_are_not_at_rest():
    """The flow leaves an embedded fixed point that is 10⁻⁹ away."""
    network, data, _ = _embedded("linear", "zero")
    u, v = network.u.copy(), network.v.copy()
    u[1:] += 1e-9 * np.random.default_rng(0).normal(size=(2, 2))
    run = festina.gradient_flow(Layer(u, v, network.unit), data)
    assert reasons(run) == {"converged"}
    assert run.loss[-1] < 1e-8


# Divergence


def named(number: str, message: str) -> float:
    found = re.search(number, message)
    assert found is not None
    return float(found[1])


def named_limit(message: str) -> float:
    return named(r"stability limit ([\d.e+-]+)", message)


@pytest.mark.parametrize(
    "width", [pytest.param(5, marks=pytest.mark.slow), 40], ids=["dense", "Lanczos"]
)
def test_rectifiers_that_a_step_has_silenced_are_no_minimum(width):
    x = np.random.default_rng(0).normal(size=(20, 3))
    wide = deep_network((3, width, width, 1), activations="relu", scale=1.0, key=jax.random.key(0))
    silent = wide.with_parts(wide.parts[0], -np.abs(wide.parts[1]), *wide.parts[2:])
    run = festina.gradient_descent(
        silent, from_arrays(x, x[:, :1] + 3.0), learning_rate=0.01, steps=50
    )
    assert run.endings[0].reason == "stationary"
    # The first step is too large and silences the units.
    early = wide.with_parts(*wide.parts[:2], np.abs(wide.parts[2]))
    run = festina.gradient_descent(
        early, from_arrays(x, x[:, :1] - 1e3), learning_rate=1.0, steps=50
    )
    assert run.endings[0].reason == "stationary"
    assert "no unit responds" in run.endings[0].message


@pytest.mark.parametrize("rate", [2.5, 5.0, 100.0])
def test_divergence_from_near_a_solution_names_the_limit(rate):
    """The loss ½(1 − uv)² has sharpness u² + v² = 2 at its balanced solution, so η < 1."""
    network = layer_from(NeuronUnit(), np.array([[1.0001]]), np.array([[1.0001]]))
    run = festina.gradient_descent(network, linear_teacher(np.array([[1.0]])), rate)
    (ending,) = run.endings
    assert ending.reason == "diverged"
    assert ending.failed
    assert run.failed
    assert f"learning rate {rate:g} is above" in ending.message
    assert named_limit(ending.message) == pytest.approx(1.0, rel=0.02)
    assert named(r"after step (\d+)", ending.message) == run.time[-1]
    assert run.time[-1] < 100
    assert all_finite(run)


def test_the_named_limit_knows_the_loss_convention():
    network = layer_from(NeuronUnit(), np.array([[1.0001]]), np.array([[1.0001]]))
    data = linear_teacher(np.array([[1.0]]))
    run = festina.gradient_descent(network, data, 2.0, loss="mean-square")
    assert named_limit(run.endings[0].message) == pytest.approx(0.5, rel=0.02)


def test_divergence_from_small_weights_is_a_result_without_nan():
    run = festina.gradient_descent(linear(1e-3), LINEAR, 1.0)
    assert reasons(run) == {"diverged"}
    assert all_finite(run)
    for ending in run.endings:
        assert "above the stability limit" in ending.message


def test_the_named_limit_is_that_of_the_solution_aimed_at():
    """At the balanced solution W = I the sharpness is 2 λ_max(Σ)."""
    limit = 1 / np.linalg.eigvalsh(COVARIANCE)[-1]
    run = festina.gradient_descent(linear(1e-3), LINEAR, 0.5)
    assert reasons(run) == {"diverged"}
    for ending in run.endings:
        assert named_limit(ending.message) == pytest.approx(limit, rel=0.05)


def to_and_fro(rate):
    """Train on ½(1 − uv)², where descent with η > 1 oscillates about the solution for ever."""
    network = layer_from(NeuronUnit(), np.array([[0.9]]), np.array([[0.9]]))
    return festina.gradient_descent(network, linear_teacher(np.array([[1.0]])), rate, 400)


def test_steps_that_are_too_large_but_do_not_diverge_are_named():
    (ending,) = to_and_fro(1.05).endings
    assert ending.reason == "finished"
    assert "ran to step 400 as requested, but the loss goes up and down" in ending.message
    assert 0.5 < named(r"sharpness is ([\d.]+)", ending.message) < 1.05


def test_steps_just_below_the_limit_converge():
    assert reasons(to_and_fro(0.9)) == {"converged"}


@pytest.mark.slow
def test_figure_4g_diverges_at_the_printed_rate_and_says_why():
    """The paper's rate 0.02 exceeds the limit 0.0071 of the solution, whose sharpness is 283."""
    x, weight = gaussian_cubature_points(np.eye(2), degree=6)
    data = from_arrays(x, np.sum(x**3, axis=1), weight=weight)
    network = fully_connected(2, 10, activation="cubic", scale=0.05, key=festina.seeds(4))
    run = festina.gradient_descent(network, data, 0.02, loss="mean-square")
    assert reasons(run) == {"diverged"}
    assert all_finite(run)
    for ending in run.endings:
        # The flow from ε = 0.05 ends near the balanced solution, whose limit is 0.0071.
        assert 0.005 < named_limit(ending.message) < 0.0075


# Requested ends of training


@pytest.mark.parametrize("t_end", [0.5, 3.0])
def test_the_flow_ends_at_t_end(t_end):
    run = festina.gradient_flow(linear(1e-3), LINEAR, t_end=t_end)
    assert reasons(run) == {"finished"}
    assert (run.time[:, -1] == t_end).all()
    assert not run.failed
    at_times = festina.gradient_flow(linear(1e-3), LINEAR, np.array([t_end]))
    np.testing.assert_allclose(run.loss[:, -1], at_times.loss[:, -1], rtol=1e-6)


def test_a_flow_that_has_converged_does_not_wait_for_t_end():
    run = festina.gradient_flow(linear(1e-3), LINEAR, t_end=1e6)
    assert reasons(run) == {"converged"}
    assert (run.time[:, -1] < 100).all()


def test_descent_takes_the_steps_it_was_told_to():
    run = festina.gradient_descent(linear(1e-3), LINEAR, 0.01, 123)
    assert reasons(run) == {"finished"}
    assert (run.time[:, -1] == 123).all()
    assert all("123" in ending.message for ending in run.endings)


def test_running_out_of_steps_is_a_failure_that_says_so():
    for run in (
        festina.gradient_descent(linear(1e-12), LINEAR, 0.01, max_steps=600),
        festina.gradient_flow(linear(1e-12), LINEAR, max_steps=20, rtol=1e-13),
    ):
        assert reasons(run) == {"out of steps"}
        assert run.failed
        assert all("`max_steps`" in ending.message for ending in run.endings)
        assert all_finite(run)


def test_a_relu_unit_that_slides_along_a_kink_is_reported():
    """The flow leads back to a sample's kink from both sides, so no step is small enough."""
    draw = np.random.default_rng(1)
    data = from_arrays(draw.normal(size=(5, 2)), draw.normal(size=(5, 2)))
    network = fully_connected(2, 5, 2, activation="relu", scale=0.4, key=jax.random.key(3))
    run = festina.gradient_flow(network, data, max_steps=3000)
    assert run.failed
    assert run.endings[0].reason in ("out of steps", "step underflow")
    assert all_finite(run)


def test_a_tighter_criterion_trains_longer():
    ends = [
        festina.gradient_flow(linear(1e-3), LINEAR, converged=converged)
        for converged in (1e-4, 1e-8, 1e-12)
    ]
    for run, converged in zip(ends, (1e-4, 1e-8, 1e-12), strict=True):
        assert (run.loss[:, -1] <= 1.01 * converged * run.loss[:, 0]).all()
    last = np.array([run.time[:, -1] for run in ends])
    # Near the end the error decays at the rate 2 s₂, so the loss falls as e^(−4 s₂ t).
    slowest = np.linalg.eigvalsh(COVARIANCE)[0]
    np.testing.assert_allclose(np.diff(last, axis=0), 4 * np.log(10) / (4 * slowest), rtol=0.2)


@pytest.mark.parametrize("rate", [1.05, 1.2])
def test_a_rate_beyond_the_limit_that_goes_up_and_down_is_named(rate):
    """f = uv at a minimum of sharpness 2 ends in a finite oscillation."""
    data = festina.tasks.from_arrays([[1.0], [-1.0]], [1.0, -1.0])
    start = layer_from(NeuronUnit(), [[0.1]], [[0.1]])
    (ending,) = festina.gradient_descent(start, data, rate, max_steps=3000).endings
    assert ending.reason == "out of steps"
    assert f"The learning rate {rate:g} is above the stability limit 1 " in ending.message
    (slow,) = festina.gradient_descent(start, data, 1e-3, max_steps=3000).endings
    assert "still learning slowly" in slow.message


def test_a_rate_beyond_the_limit_that_fell_back_on_the_saddle_at_zero_is_named():
    """f = vu² overshoots to a place from which descent returns to zero weights and stays there."""
    data = festina.tasks.from_arrays([[1.0], [-1.0]], [1.0, 1.0])
    start = layer_from(NeuronUnit("quadratic"), [[0.5]], [[0.5]])
    run = festina.gradient_descent(start, data, 0.8, max_steps=3000)
    assert run.loss[-1] == pytest.approx(0.5)
    assert "after going up and down. The learning rate 0.8 is above" in run.endings[0].message
