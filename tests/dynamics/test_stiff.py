"""Test that implicit steps follow the same flow, however long its plateaus are."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina._objective import objective
from festina.diagnose import passage_time, plateaus
from festina.dynamics import Trajectory
from festina.dynamics._drive import initial_state
from festina.dynamics._implicit_solve import assembled, hessian, implicit_solve, unit_curvature
from festina.dynamics._program import Controls, Field, start
from festina.dynamics._rosenbrock import STAGES, rosenbrock_step
from festina.dynamics._stiffness import learns_by_units
from festina.networks import Layer, attention, fully_connected
from festina.tasks import AbstractTask, from_arrays, in_context_regression, quadratic_teacher

TASK = quadratic_teacher(np.eye(2))
MIDDLES = (16 / 3, 4 / 3)  # halfway between the levels 8, 8/3 and 0 of the loss ⟨‖y − f‖²⟩
X = np.random.default_rng(5).normal(size=(40, 2))


def bump(a):
    return 1 - jnp.cos(a)


def quadratic(scale: float, seed: int = 0) -> Layer:
    return fully_connected(2, 10, activation="quadratic", scale=scale, key=jax.random.key(seed))


def flow(network, data: AbstractTask = TASK, **options) -> Trajectory:
    return festina.gradient_flow(network, data, loss="mean-square", **options)


def flow_half(network, **options) -> Trajectory:
    return festina.gradient_flow(network, TASK, **options)


def drops(run: Trajectory) -> np.ndarray:
    slope = -run.squared_gradient
    return np.array([passage_time(run.time, run.loss, level, slope=slope) for level in MIDDLES])


def steps(run: Trajectory) -> np.ndarray:
    """Return the number of steps; for units of three weights, a step takes STAGES + 3 gradients."""
    return (run.evaluations - 1) // (STAGES + 3)


def test_drop_times_are_those_of_tight_explicit_steps():
    network = quadratic(1e-3)
    exact = drops(flow(network, solver="explicit", rtol=1e-11))
    ours = flow(network, solver="implicit")
    assert ours.endings[0].reason == "converged"
    np.testing.assert_allclose(drops(ours), exact, rtol=5e-6)
    np.testing.assert_allclose(ours.loss[-1], 0.0, atol=1e-8)


def test_the_error_falls_with_the_tolerance():
    """The error falls at least tenfold when the tolerance falls a hundredfold."""
    network, times = quadratic(0.3), np.array([0.4])
    exact = flow(network, times=times, solver="explicit", rtol=1e-12).final
    errors = []
    for rtol in (1e-3, 1e-5, 1e-7, 1e-9):
        ours = flow(network, times=times, solver="implicit", rtol=rtol).final
        errors.append(max(np.abs(ours.u - exact.u).max(), np.abs(ours.v - exact.v).max()))
    assert errors[-1] < 1e-9
    assert all(fine < coarse / 10 for coarse, fine in itertools.pairwise(errors))


def test_steps_of_equal_length_are_of_fourth_order():
    """The error at a fixed time falls with the fourth power of the step."""
    network, end = quadratic(0.3), 0.4
    with jax.enable_x64(True):
        problem = objective(network, TASK, "half")
        data = jax.tree.map(jnp.asarray, problem.data)
        weights = problem.structure.columns(*network.parts)
        one = np.ones(1)
        loose = Controls(
            stops=np.array([np.inf]),
            at_stops=np.asarray(False),
            rtol=np.asarray(0.1),
            most_steps=np.asarray(10**6),
            most_samples=np.asarray(np.inf),
            rate_resolution=np.asarray(1.0),
            loss_resolution=one,
            atol=1e9 * one,
            loss_scale=1e9 * one,
            loss_tolerance=-one,
            gain_tolerance=-one,
            learning_rate=one,
            momentum=0 * one,
        )

        @jax.jit
        def after(state, controls, steps):
            step = lambda _, now: rosenbrock_step(
                now._replace(step_size=state.step_size), Field(problem.structure, data), controls
            )
            return jax.lax.fori_loop(0, steps, step, state)

        def reached(steps: int) -> np.ndarray:
            begun = start(weights, problem.data, structure=problem.structure)
            state = initial_state(weights, begun)._replace(step_size=end / steps * one)
            state = after(state, loose, steps)
            assert float(state.time[0]) == pytest.approx(end, rel=1e-12)
            return np.asarray(state.weights)[:, 0]

        exact = problem.structure.columns(
            *flow_half(network, times=np.array([end]), solver="explicit", rtol=1e-13).final.parts
        )[:, 0]
        errors = [np.linalg.norm(reached(steps) - exact) for steps in (32, 64, 128, 256)]
    np.testing.assert_allclose(np.diff(np.log2(errors)), -4.0, atol=0.1)


def test_a_batch_half_of_which_is_stiff_takes_the_steps_that_all_can_end_with():
    one, scale = quadratic(1.0), np.array([0.5, 1e-9])[:, None, None]
    run = flow(Layer(scale * one.u, scale * one.v, one.unit))
    assert run.solver == "implicit"
    assert [ending.reason for ending in run.endings] == ["converged"] * 2


@functools.cache
def five_scales() -> Trajectory:
    scale, one = np.logspace(-3, -7, 5)[:, None], quadratic(1.0)
    return flow(Layer(scale[..., None] * one.u, scale[..., None] * one.v, one.unit))


def test_steps_grow_with_the_logarithm_of_the_scale():
    run = five_scales()
    assert run.solver == "implicit"
    counts = steps(run)
    assert (counts < 1500).all()
    assert (counts[1:] < 2 * counts[:-1]).all()
    # The length of plateaus is proportional to one over the scale.
    lanes = [run.lane(lane) for lane in range(5)]
    ratios = np.diff(np.log10([drops(lane) for lane in lanes]), axis=0)
    np.testing.assert_allclose(ratios[1:], 1.0, atol=1e-2)


def test_a_batch_is_each_of_its_networks():
    together, alone = five_scales().lane(1), flow(quadratic(1e-4))
    assert together.solver == alone.solver == "implicit"
    np.testing.assert_allclose(drops(together), drops(alone), rtol=1e-6)


def test_each_unit_keeps_its_balance():
    """|u|² − 2v² of a quadratic unit is conserved, also relative to the size of small units."""
    network = quadratic(1e-4)
    run = flow(network)
    balance = lambda layer: np.sum(layer.u**2, axis=-1) - 2 * layer.v[..., 0] ** 2
    size = np.max(np.sum(run.network.u**2, axis=-1) + 2 * run.network.v[..., 0] ** 2, axis=0)
    drift = np.max(np.abs(balance(run.network) - balance(network)), axis=0)
    assert (size < 1e-2).sum() >= 7
    assert (drift < 3e-5 * size + 1e-12).all()


@pytest.mark.parametrize(
    "name",
    [
        "attention",
        pytest.param("cubic", marks=pytest.mark.slow),
        pytest.param("no polynomial", marks=pytest.mark.slow),
    ],
)
def test_other_units(name):
    key = jax.random.key(2)
    if name == "attention":
        network, data = attention(2, 3, scale=1e-2, key=key), in_context_regression(2, 32)
    elif name == "cubic":
        network = fully_connected(2, 10, activation="cubic", scale=0.05, key=key)
        data = from_arrays(X, np.sum(X**3, axis=1, keepdims=True))
    else:
        network = fully_connected(2, 10, activation=bump, scale=0.02, key=key)
        data = from_arrays(X, np.sum(bump(X), axis=1, keepdims=True))
    explicit = flow(network, data, t_end=100.0, solver="explicit")
    implicit = flow(network, data, t_end=100.0, solver="implicit")
    found = plateaus(explicit)
    level = float(np.mean(found.level[:2]))
    first, ours = (
        passage_time(run.time, run.loss, level, slope=-run.squared_gradient)
        for run in (explicit, implicit)
    )
    assert ours == pytest.approx(first, rel=1e-5)
    assert implicit.evaluations < explicit.evaluations * 4


def test_what_is_chosen_is_said():
    small, large = quadratic(1e-4), quadratic(5e-2)
    linear = fully_connected(2, 10, scale=1e-6, key=jax.random.key(0))
    assert not learns_by_units(linear)
    end: dict[str, Any] = {"t_end": 1e-3}
    assert flow(large, **end).solver == "explicit"
    assert flow(small, solver="explicit", **end).solver == "explicit"
    run = flow(small, **end)
    assert run.solver == run.lane().solver == run.to_dataset().attrs["solver"] == "implicit"
    assert "by implicit steps" in repr(run)
    assert f"{steps(run)} implicit step" in run.endings[0].message
    assert festina.gradient_descent(large, TASK, 0.01, 2).solver == "descent"


@pytest.mark.usefixtures("as_a_user")
def test_a_solver_that_is_none():
    with pytest.raises(ValueError, match="`solver` must be 'automatic', 'explicit' or 'implicit'"):
        flow(quadratic(1e-3), solver="stiff")  # pyright: ignore[reportArgumentType]
    wide = fully_connected(20, 40, activation=bump, scale=1e-3, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    data = from_arrays(rng.normal(size=(1000, 20)), rng.normal(size=(1000, 1)))
    with pytest.raises(ValueError, match="a matrix of 840 rows"):
        flow(wide, data, solver="implicit")


@functools.partial(jax.jit, static_argnums=0)
def solved(structure, data, weights, shift, b):
    field = Field(structure, data)
    parts = assembled(*unit_curvature(structure, weights, data))
    return hessian(field, weights), parts, implicit_solve(field, weights, shift)(b)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("attention", marks=pytest.mark.slow),
        "few samples",
        pytest.param("samples", marks=pytest.mark.slow),
        pytest.param("quadratic", marks=pytest.mark.slow),
    ],
)
@settings(max_examples=6)
@given(seed=st.integers(0, 10_000), shift=st.floats(0.01, 100.0))
def test_units_are_solved_for_as_the_whole_is(kind, seed, shift):
    """With few samples the system is solved by units; with many, as one matrix."""
    rng, key = np.random.default_rng(seed), jax.random.key(seed)
    if kind == "attention":
        network, data = attention(2, 3, scale=0.5, key=key), in_context_regression(2, 32)
    else:
        activation = "quadratic" if kind == "quadratic" else bump
        network = fully_connected(2, 4, 2, activation=activation, scale=0.5, key=key)
        count = 5 if kind == "few samples" else 40
        data = from_arrays(X[:count], rng.normal(size=(count, 2)))
    with jax.enable_x64(True):
        problem = objective(network, data, "half")
        weights = problem.structure.columns(*network.parts)
        b = rng.normal(size=weights.shape)
        for factor in (shift, 1e-3 * shift):
            whole, parts, x = map(
                np.asarray,
                solved(problem.structure, problem.data, weights, np.array([factor]), b),
            )
            np.testing.assert_allclose(parts, whole, atol=1e-12 * np.abs(whole).max())
            matrix = whole[..., 0] + factor * np.eye(len(b))
            exact = np.linalg.solve(matrix, b)
            lost = np.linalg.cond(matrix)
            np.testing.assert_allclose(x, exact, atol=1e-12 * lost * np.abs(exact).max())


def test_a_tiny_unit_is_found_to_its_own_accuracy():
    """Weights of a tiny unit beside large units are solved to their own relative accuracy."""
    network = quadratic(1.0)
    size = np.array([1.0, 1.0] + [1e-6] * 8)[:, None]
    tiny = Layer(size * network.u, size * network.v, network.unit)
    with jax.enable_x64(True):
        problem = objective(tiny, TASK, "half")
        weights = problem.structure.columns(*tiny.parts)
        whole, _, x = map(
            np.asarray,
            solved(problem.structure, problem.data, weights, np.array([2.0]), weights),
        )
    whole = whole[..., 0]
    scaled = np.tile(size[:, 0], 3)
    # In D⁻¹(σ + ∂²L)D with b of order one, every unknown is of order one.
    matrix = (whole + 2.0 * np.eye(30)) * scaled / scaled[:, None]
    exact = scaled[:, None] * np.linalg.solve(matrix, weights / scaled[:, None])
    np.testing.assert_allclose(x, exact, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3])
def test_explicit_steps_are_given_up_when_they_have_cost_as_much(seed):
    """Cubic units on noise become stiff, which no estimate at the start can predict."""
    rng = np.random.default_rng(seed)
    noise = from_arrays(rng.normal(size=(30, 2)), rng.normal(size=30))
    key = jax.random.key(seed)
    network = fully_connected(2, 8, activation="cubic", scale=0.03, key=key)
    chosen, implicit = flow(network, noise), flow(network, noise, solver="implicit")
    assert (chosen.solver, chosen.endings[0].reason) == ("implicit", "converged")
    np.testing.assert_array_equal(chosen.loss, implicit.loss)
    assert implicit.evaluations < chosen.evaluations < implicit.evaluations + 6 * 3000
    # One slow network does not make a batch switch to implicit steps.
    scales = np.array([0.03, 0.5, 0.5, 0.5])
    batch = fully_connected(2, 8, activation="cubic", scale=scales, key=key)
    assert flow(batch, noise).solver == "explicit"


@pytest.mark.slow
def test_patience_runs_out_alike_whoever_works_on_it():
    """The switch to implicit steps does not depend on the progress of single workers.

    The 150 networks are more than one worker's share.
    """
    rng = np.random.default_rng(1)
    noise = from_arrays(rng.normal(size=(30, 2)), rng.normal(size=30))
    many = fully_connected(2, 8, activation="cubic", scale=0.03, key=festina.seeds(150))
    first, again = flow(many, noise), flow(many, noise)
    assert first.solver == again.solver == "implicit"
    assert {ending.reason for ending in first.endings} == {"converged"}
    np.testing.assert_array_equal(first.loss, again.loss)
    np.testing.assert_array_equal(first.evaluations, again.evaluations)


@pytest.mark.slow
def test_implicit_steps_stop_at_zero_and_where_they_would_have_stepped_anyway():
    network = fully_connected(3, 8, activation="quadratic", scale=1e-4, key=jax.random.key(4321))
    task = quadratic_teacher(np.eye(3)[:2])
    free = festina.gradient_flow(network, task)
    assert free.solver == "implicit"
    asked = festina.gradient_flow(network, task, times=free.time)
    assert asked.endings[0].reason == "finished"
    np.testing.assert_array_equal(asked.network.lane(0).u, network.u)
    np.testing.assert_allclose(asked.loss, free.loss, atol=1e-4 * free.loss[0])
    for stop in free.time[1::120]:
        run = festina.gradient_flow(network, task, times=np.array([stop, 3e4]))
        assert run.endings[0].reason == "finished"
