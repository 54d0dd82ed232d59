"""Test that an extended run equals a single run, and that final networks can start a new run."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina import gradient_descent, gradient_flow, seeds
from festina.networks import (
    ConvolutionUnit,
    NeuronUnit,
    attention,
    convolutional_1d,
    deep_linear,
    deep_network,
    diagonal_linear,
    final_networks,
    fully_connected,
    gated,
    leaky_relu,
    linear_transformer,
    power,
)
from festina.tasks import from_arrays, in_context_regression, linear_teacher

SCALES = np.array([0.5, 0.2, 0.1])[:, None]
HOW = {"scale": SCALES, "key": seeds(4, first=3)}
X = np.random.default_rng(0).normal(size=(20, 3))
POINTS = from_arrays(X, np.sin(X @ [[1.0], [0.5], [-1.0]]))
TOKENS = in_context_regression(2, 8)
PROMPTS = in_context_regression(2, 8, samples=20, key=jax.random.key(0))

FAMILIES = {
    "linear": (lambda: fully_connected(3, 20, **HOW), POINTS),
    "relu": (lambda: fully_connected(3, 4, activation="relu", **HOW), POINTS),
    "leaky": (lambda: fully_connected(3, 4, activation=leaky_relu(1 / 3), **HOW), POINTS),
    "power": (lambda: fully_connected(3, 4, activation=power(4), **HOW), POINTS),
    "kernels": (lambda: convolutional_1d(3, 4, stride=1, activation="tanh", **HOW), POINTS),
    "heads": (lambda: attention(2, 3, rank=2, residual=False, per_token=False, **HOW), TOKENS),
    "softmax": (
        lambda: attention(2, 3, softmax=True, **HOW),
        PROMPTS,
    ),
    "deep": (lambda: deep_linear((3, 4, 4, 1), **HOW), POINTS),
    "diagonal": (lambda: diagonal_linear(3, **HOW), POINTS),
    "stack": (
        lambda: deep_network((3, 4, 4, 1), activations=("tanh", "relu"), skips=((1, 2),), **HOW),
        POINTS,
    ),
    "gated": (
        lambda: gated(
            {"x": 3, "a": 4, "b": 4, "y": 1},
            ["x-a-y", "x-b-y"],
            gates={"a": X[:, 0] > 0, "b": X[:, 1] > 0},
            x=X,
            **HOW,
        ),
        POINTS,
    ),
    "transformer": (lambda: linear_transformer(2, 2, (3, 1), **HOW), PROMPTS),
}

QUICK = ("relu",)
EACH_FAMILY = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES
]


@pytest.mark.parametrize("name", EACH_FAMILY)
def test_descent_extended_is_the_run_of_one_go(name):
    make, data = FAMILIES[name]
    network = make()
    half = gradient_descent(network, data, 0.02, 60)
    on, whole = half.extend(steps=120), gradient_descent(network, data, 0.02, 120)
    np.testing.assert_allclose(on.loss[..., -1], whole.loss[..., -1], rtol=1e-12)
    for part, known in zip(on.final.parts, whole.final.parts, strict=True):
        np.testing.assert_allclose(part, known, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(on.evaluations, whole.evaluations)
    assert (on.settings, on.endings) == (whole.settings, whole.endings)
    np.testing.assert_array_equal(on.lane(0, 0).loss[: half.saves[0, 0]], half.lane(0, 0).loss)


@pytest.mark.parametrize("name", EACH_FAMILY)
def test_saved_and_loaded_networks_are_the_same_and_carry_nothing_else(name, tmp_path):
    make, data = FAMILIES[name]
    final = gradient_descent(make(), data, 0.02, 60).final
    leaves, structure = jax.tree.flatten(final)
    loaded = final_networks(
        festina.save(gradient_descent(make(), data, 0.02, 60), tmp_path / "run")
    )
    fresh = gradient_descent(final, data, 0.02, 5)
    for again in (jax.tree.unflatten(structure, leaves), loaded):
        assert type(again) is type(final)
        assert again.structure == final.structure
        for part, known in zip(again.parts, final.parts, strict=True):
            np.testing.assert_array_equal(part, known)
        run = gradient_descent(again, data, 0.02, 5)
        np.testing.assert_array_equal(run.loss, fresh.loss)
    table = run.to_dataset()
    np.testing.assert_array_equal(table["scale"], SCALES[:, 0])
    np.testing.assert_array_equal(table["seed"], [3, 4, 5, 6])


@pytest.mark.parametrize(
    "name",
    [
        "deep",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("kernels", "heads", "diagonal", "gated", "linear")
        ),
    ],
)
def test_a_flow_at_given_times_is_the_flow_of_one_go(name):
    make, data = FAMILIES[name]
    half = gradient_flow(make(), data, np.array([0.7, 2.0]))
    on, whole = (
        half.extend(np.array([3.0, 5.0])),
        gradient_flow(make(), data, np.array([0.7, 2.0, 3.0, 5.0])),
    )
    np.testing.assert_array_equal(on.time, whole.time)
    np.testing.assert_allclose(on.loss, whole.loss, rtol=1e-12)
    np.testing.assert_array_equal(on.evaluations, whole.evaluations)
    again = half.extend(np.array([3.0])).extend(
        np.array([5.0])
    )  # the first extension has not changed `half`
    np.testing.assert_array_equal(again.loss, on.loss)


@pytest.mark.parametrize(
    ("unit", "solver", "tolerances"),
    [
        ("tanh", "explicit", {1e-4: 1e-3, 1e-6: 1e-6, 1e-8: 1e-8, 1e-10: 1e-10}),
        pytest.param(
            "quadratic", "implicit", {1e-3: 1e-2, 1e-5: 1e-4, 1e-7: 1e-6}, marks=pytest.mark.slow
        ),
        pytest.param("relu", "explicit", {1e-3: 1e-1, 1e-5: 1e-2}, marks=pytest.mark.slow),
    ],
)
def test_the_tolerance_says_how_near_a_flow_is_to_the_one_of_one_go(unit, solver, tolerances):
    network = fully_connected(3, 4, activation=unit, **HOW)
    for rtol, near in tolerances.items():
        how = {"rtol": rtol, "solver": solver}
        on = gradient_flow(network, POINTS, t_end=3.0, **how).extend(t_end=10.0)
        whole = gradient_flow(network, POINTS, t_end=10.0, **how)
        np.testing.assert_array_equal(on.time[..., -1], 10.0)
        assert {ending.reason for ending in on.endings} == {"finished"}
        for part, known in zip(on.final.parts, whole.final.parts, strict=True):
            np.testing.assert_allclose(part, known, rtol=0, atol=near)


@pytest.mark.parametrize(
    ("batch_size", "momentum"),
    [
        (None, 0.0),
        (8, np.array([0.5, 0.8, 0.9])[:, None]),
        pytest.param(None, np.array([0.5, 0.8, 0.9])[:, None], marks=pytest.mark.slow),
        pytest.param(8, 0.0, marks=pytest.mark.slow),
    ],
)
def test_velocity_and_mini_batches_are_those_of_one_go(momentum, batch_size):
    network = FAMILIES["relu"][0]()
    batches = {"batch_size": batch_size, "key": jax.random.key(1), "save_every": 10}
    how = {"momentum": momentum, **(batches if batch_size else {})}
    half = gradient_descent(network, POINTS, 0.02, 60, **how)
    whole = gradient_descent(network, POINTS, 0.02, 150, **how)
    for on in (half.extend(steps=150), half.extend(steps=110).extend(steps=150)):
        np.testing.assert_allclose(on.loss[..., -1], whole.loss[..., -1], rtol=1e-12)
        for part, known in zip(on.final.parts, whole.final.parts, strict=True):
            np.testing.assert_allclose(part, known, rtol=0, atol=1e-12)


@pytest.mark.parametrize("observe", [{}, {"outputs": lambda network: network.predict(X[:2])}])
def test_what_is_observed_goes_on(observe):
    network = FAMILIES["deep"][0]()
    half = gradient_flow(network, POINTS, np.array([0.7, 2.0]), observe=observe)
    whole = gradient_flow(network, POINTS, np.array([0.7, 2.0, 3.0]), observe=observe)
    on = half.extend(np.array([3.0]))
    np.testing.assert_allclose(on.loss, whole.loss, rtol=1e-12)
    assert on.observed.keys() == whole.observed.keys()
    for name in on.observed:
        np.testing.assert_allclose(on.observed[name], whole.observed[name], rtol=1e-10)
    np.testing.assert_allclose(on.final.predict(X), whole.final.predict(X), rtol=1e-10)


def narrow(unit="tanh", inputs=3):
    """Return a network of one unit, whose loss cannot reach zero."""
    return fully_connected(inputs, 1, activation=unit, scale=0.01, key=jax.random.key(0))


def rectified():
    rng = np.random.default_rng(0)
    x, u, v = (rng.normal(size=shape) for shape in ((60, 2), (3, 2), (3, 1)))
    return from_arrays(x, np.maximum(x @ u.T, 0.0) @ v)


LINEAR = linear_teacher(np.diag([1.0, 0.5]))
CONVERGED = {
    "at the floor": lambda: (fully_connected(2, 4, 2, scale=1e-3, key=seeds(2)), LINEAR),
    "at a minimum": lambda: (narrow(), POINTS),
}


@pytest.mark.parametrize(
    "name",
    [
        name if name == "at the floor" else pytest.param(name, marks=pytest.mark.slow)
        for name in CONVERGED
    ],
)
def test_what_has_converged_has_nothing_left_to_do(name):
    network, data = CONVERGED[name]()
    flow, descent = gradient_flow(network, data), gradient_descent(network, data, 0.05)
    for run, on in (
        (flow, flow.extend(t_end=1e6)),
        (descent, descent.extend(steps=10**6)),
    ):
        assert {ending.reason for ending in on.endings} == {"converged"}
        assert on.endings == run.endings
        np.testing.assert_array_equal(on.time, run.time)
        np.testing.assert_array_equal(on.loss, run.loss)


def test_what_rests_on_a_kink_slides_on_to_the_time_asked_for():
    angles = 2 * np.pi * np.arange(8) / 8
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    data = from_arrays(circle, np.random.default_rng(0).normal(size=8))
    network = fully_connected(2, 20, activation="relu", scale=0.01, key=jax.random.key(0))
    run = gradient_flow(network, data)
    assert run.endings[0].message.startswith("At rest on kinks")
    end = 1.1 * float(run.time[-1])
    on = run.extend(t_end=end)
    assert (on.endings[0].reason, on.time[-1]) == ("finished", end)
    np.testing.assert_allclose(on.loss[-1], run.loss[-1], rtol=1e-3)


def test_a_saddle_is_left_where_there_is_time():
    task = linear_teacher(np.diag([1.0, 1e5]), np.diag([1.0, 1e-10]))
    network = fully_connected(2, 4, 2, scale=1e-8, key=seeds(2))
    run = gradient_flow(network, task, solver="implicit")
    assert {ending.reason for ending in run.endings} == {"saddle"}
    on = run.extend(t_end=1e8)
    whole = gradient_flow(network, task, t_end=1e8, solver="implicit")
    assert {ending.reason for ending in (*on.endings, *whole.endings)} == {"converged"}
    assert (on.loss[:, -1] < 1e-6 * run.loss[:, -1]).all()
    np.testing.assert_allclose(on.time[:, -1], whole.time[:, -1], rtol=1e-3)


def test_who_is_out_of_steps_has_as_many_again():
    network, data = FAMILIES["power"][0]().lane(0, 0), POINTS
    run = gradient_flow(network, data, t_end=100.0, max_steps=50)
    on = run.extend(t_end=100.0)
    assert run.failed
    assert (run.evaluations, on.evaluations) == (301, 601)
    assert on.loss[-1] < run.loss[-1]


def test_diverged_networks_stay_as_they_are_and_alone_are_refused():
    network = FAMILIES["deep"][0]()
    run = gradient_descent(network, POINTS, np.array([3e3, 0.02, 0.02])[:, None], 60)
    on = run.extend(steps=120)
    assert [each.reason for each in on.endings] == ["diverged"] * 4 + ["finished"] * 8
    np.testing.assert_array_equal(on.lane(0, 0).loss, run.lane(0, 0).loss)
    alone = gradient_descent(network, POINTS, 3e3, 60)
    with pytest.raises(
        ValueError, match=r"no run can be extended\. The loss is not finite after step \d.*smaller"
    ):
        alone.extend(steps=120)


@pytest.mark.parametrize(
    ("run", "more", "message"),
    [
        ("descent", {}, "takes only `steps`"),
        ("descent", {"t_end": 100.0}, "takes only `steps`"),
        ("descent", {"steps": 60}, "after the end of this run, 60"),
        ("flow", {}, "takes only `t_end`"),
        ("flow", {"times": np.array([3.0])}, "takes only `t_end`"),
        ("flow", {"t_end": 1.0}, "after the end of this run, 2"),
        ("flow", {"t_end": np.inf}, "finite"),
        ("times", {"t_end": 3.0}, "takes only `times`"),
        ("times", {"times": np.array([2.0, 3.0])}, "after the end of this run, 2, and increase"),
        ("times", {"times": np.array([4.0, 3.0])}, "after the end of this run, 2, and increase"),
        ("times", {"times": np.array([])}, "`times`"),
    ],
)
def test_ends_that_make_no_sense_are_refused(run, more, message):
    network = narrow()
    runs = {
        "descent": lambda: gradient_descent(network, POINTS, 0.02, 60),
        "flow": lambda: gradient_flow(network, POINTS, t_end=2.0),
        "times": lambda: gradient_flow(network, POINTS, np.array([1.0, 2.0])),
    }
    with pytest.raises(ValueError, match=message):
        runs[run]().extend(**more)


def test_lanes_and_copies_are_refused():
    run = gradient_descent(fully_connected(3, 2, scale=0.1, key=seeds(2)), POINTS, 0.02, 5)
    for other in (run.lane(0), pickle.loads(pickle.dumps(run))):
        with pytest.raises(ValueError, match="only on the trajectory that training returned"):
            other.extend(steps=9)


def own(a):
    return a * jnp.tanh(a)


def tanh(a):
    return 2 * jnp.tanh(a / 2)


@pytest.mark.parametrize("function", [own, pytest.param(tanh, marks=pytest.mark.slow)])
def test_a_function_of_your_own_is_asked_for(function):
    network = convolutional_1d(
        3, 2, stride=1, activation=function, scale=0.1, key=jax.random.key(1)
    )
    run = gradient_descent(network, POINTS, 0.02, 3)
    with pytest.raises(
        ValueError, match=r"not one of the library's\. Give your function, as `unit`"
    ):
        final_networks(run.to_dataset())
    again = final_networks(run.to_dataset(), unit=ConvolutionUnit(function))
    np.testing.assert_array_equal(again.predict(X), run.final.predict(X))


def test_what_is_no_run_is_refused(tmp_path):
    run = gradient_descent(narrow(), POINTS, 0.02, 3)
    with pytest.raises(
        ValueError, match=r"got Trajectory. The final networks .* attribute `final`"
    ):
        final_networks(run)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"has no node 'theory'. Its nodes are: simulation"):
        final_networks(festina.save(run, tmp_path / "run"), node="theory")
    with pytest.raises(ValueError, match="attribute `network` is None"):
        final_networks(run.to_dataset().drop_attrs())
    with pytest.raises(ValueError, match="holds no weights"):
        final_networks(run.to_dataset().drop_vars(["u", "v"]))
    strange = dataclasses.replace(run).to_dataset()
    strange.attrs["unit"] = "__import__('os').getcwd()"
    with pytest.raises(
        ValueError, match=r"not units of `festina.networks`. Give the unit as `unit`"
    ):
        final_networks(strange)
    assert final_networks(strange, unit=NeuronUnit("tanh")).structure == narrow().structure
