"""Training that is broken off, saved and loaded goes on as if it had never stopped."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina import gradient_descent, gradient_flow, seeds
from festina.networks import (
    ConvolutionKernel,
    Neuron,
    attention,
    convolutional_1d,
    deep_linear,
    deep_network,
    diagonal_linear,
    from_run,
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
            examples=X,
            **HOW,
        ),
        POINTS,
    ),
    "transformer": (lambda: linear_transformer(2, 2, (3, 1), **HOW), PROMPTS),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_saved_loaded_and_trained_on_are_the_numbers_of_one_go(name, tmp_path):
    make, data = FAMILIES[name]
    network = make()
    half = gradient_descent(network, data, 0.02, 60)
    again = from_run(festina.save(half, tmp_path / "run"))
    assert type(again) is type(network)
    assert again.structure == network.structure
    for part, known in zip(again.parts, half.final.parts, strict=True):
        np.testing.assert_array_equal(part, known)
    on = gradient_descent(again, data, 0.02, 60)
    whole = gradient_descent(network, data, 0.02, 120)
    np.testing.assert_allclose(on.loss[..., -1], whole.loss[..., -1], rtol=1e-12)
    for part, known in zip(on.final.parts, whole.final.parts, strict=True):
        np.testing.assert_allclose(part, known, rtol=0, atol=1e-12)
    table = on.to_dataset()
    np.testing.assert_array_equal(table["scale"], SCALES[:, 0])
    np.testing.assert_array_equal(table["seed"], [3, 4, 5, 6])


@pytest.mark.parametrize("name", ["kernels", "heads", "deep", "diagonal", "gated"])
def test_a_flow_that_lands_on_the_break_is_the_flow_of_one_go(name, tmp_path):
    make, data = FAMILIES[name]
    half = gradient_flow(make(), data, np.array([0.7, 2.0]))
    on = gradient_flow(from_run(festina.save(half, tmp_path / "run")), data, np.array([1.0, 3.0]))
    whole = gradient_flow(make(), data, np.array([0.7, 2.0, 3.0, 5.0]))
    np.testing.assert_allclose(on.loss, whole.loss[..., 2:], rtol=1e-12)
    np.testing.assert_array_equal(on.evaluations + half.evaluations - 1, whole.evaluations)


def narrow(unit="tanh", inputs=3):
    """One unit for what needs more: it ends at a loss above zero."""
    return fully_connected(inputs, 1, activation=unit, scale=0.01, key=jax.random.key(0))


def rectified():
    rng = np.random.default_rng(0)
    x, u, v = (rng.normal(size=shape) for shape in ((60, 2), (3, 2), (3, 1)))
    return from_arrays(x, np.maximum(x @ u.T, 0.0) @ v)


CONVERGED = {
    "at the floor": lambda: (fully_connected(2, 4, 2, scale=1e-3, key=seeds(2)), LINEAR),
    "at a minimum": lambda: (narrow(), POINTS),
    "on a kink": lambda: (narrow("relu", 2), rectified()),
}
LINEAR = linear_teacher(np.diag([1.0, 0.5]))


@pytest.mark.parametrize("train", [gradient_flow, lambda *a: gradient_descent(*a, 0.05)])
@pytest.mark.parametrize("name", CONVERGED)
def test_what_has_converged_has_nothing_left_to_do(name, train, tmp_path):
    network, data = CONVERGED[name]()
    run = train(network, data)
    assert {ending.reason for ending in run.endings} == {"converged"}
    for _ in range(2):  # twice: it remembers what it has remembered
        again = train(from_run(festina.save(run, tmp_path / "run", overwrite=True)), data)
        assert {ending.reason for ending in again.endings} == {"converged"}
        assert (again.time == 0).all()
        np.testing.assert_allclose(again.loss[..., -1], run.loss[..., -1], rtol=1e-9)
        run = again


def test_who_asks_for_more_gets_more():
    network, data = CONVERGED["at the floor"]()
    run = gradient_flow(network, data)
    on = gradient_flow(run.final, data, converged=1e-11)
    assert (on.loss[:, -1] < 0.1 * run.loss[:, -1]).all()
    assert {ending.reason for ending in on.endings} == {"converged"}


def test_another_task_is_not_the_one_remembered():
    network, data = CONVERGED["at the floor"]()
    other = linear_teacher(np.diag([0.5, 1.0]))
    trained = gradient_flow(network, data).final
    without = trained.with_parts(*trained.parts)
    assert without.past is None
    on, fresh = gradient_flow(trained, other), gradient_flow(without, other)
    np.testing.assert_array_equal(on.loss, fresh.loss)
    assert (on.loss[:, -1] < 1e-8).all()


def own(a):
    return a * jnp.tanh(a)


def tanh(a):
    return 2 * jnp.tanh(a / 2)


@pytest.mark.parametrize("function", [own, tanh])
def test_a_function_of_your_own_is_asked_for(function):
    network = convolutional_1d(
        3, 2, stride=1, activation=function, scale=0.1, key=jax.random.key(1)
    )
    run = gradient_descent(network, POINTS, 0.02, 3)
    with pytest.raises(ValueError, match="a function of your own: give it, as `unit`"):
        from_run(run.to_dataset())
    again = from_run(run.to_dataset(), unit=ConvolutionKernel(function))
    np.testing.assert_array_equal(again.predict(X), run.final.predict(X))


def test_what_is_no_run_is_refused(tmp_path):
    run = gradient_descent(narrow(), POINTS, 0.02, 3)
    with pytest.raises(ValueError, match=r"got Trajectory. Of a trajectory there is `final`"):
        from_run(run)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"has no node 'theory'. It has: simulation"):
        from_run(festina.save(run, tmp_path / "run"), node="theory")
    with pytest.raises(ValueError, match="says None"):
        from_run(run.to_dataset().drop_attrs())
    with pytest.raises(ValueError, match="holds no weights"):
        from_run(run.to_dataset().drop_vars(["u", "v"]))
    strange = dataclasses.replace(run).to_dataset()
    strange.attrs["unit"] = "__import__('os').getcwd()"
    with pytest.raises(ValueError, match=r"none of `festina.networks`: give `unit`"):
        from_run(strange)
    assert from_run(strange, unit=Neuron("tanh")).structure == narrow().structure
