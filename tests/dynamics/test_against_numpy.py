"""Test flow against SciPy's integrator and descent against a plain loop.

The loss and its gradient of five architectures are written by hand in NumPy, on the samples
themselves. The reference uses neither automatic differentiation nor compressed features.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

import festina
from festina.diagnose import passage_time
from festina.dynamics import SaveResolution, loss_factor
from festina.networks import Layer, attention, convolutional_1d, fully_connected
from festina.tasks import Task, from_arrays, in_context_regression
from helpers import terminal

EVERY_STEP = SaveResolution(1e-12, 1e-12)
"""So fine that no step of descent is left out."""

Gradient = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]
"""(u, v) → ½⟨|y − f|²⟩ and its derivatives by u and v."""


def neurons(activation, slope) -> Callable[[Task], Gradient]:
    def on(data: Task) -> Gradient:
        x, y, w = data.x, data.y, data.weight[:, None]

        def gradient(u, v):
            a = x @ u.T
            residual = activation(a) @ v - y
            back = (w * residual) @ v.T * slope(a)
            loss = 0.5 * np.sum(w * residual**2)
            return loss, back.T @ x, activation(a).T @ (w * residual)

        return gradient

    return on


def linear_kernels(data: Task) -> Gradient:
    y, w = data.y, data.weight[:, None]
    z = np.stack((data.x[:, 0:2], data.x[:, 2:4]), axis=1)  # kernel 2, stride 2

    def gradient(u, v):
        h = np.einsum("pqk,hk->phq", z, u)
        residual = np.einsum("phq,hoq->po", h, v) - y
        back = np.einsum("po,hoq->phq", w * residual, v)
        loss = 0.5 * np.sum(w * residual**2)
        return loss, np.einsum("phq,pqk->hk", back, z), np.einsum("phq,po->hoq", h, w * residual)

    return gradient


def linear_heads(data: Task) -> Gradient:
    """Output v XXᵀ k qᵀx_q / N; the query's own label is zero, so the residual adds nothing."""
    x, y, w = data.x, data.y, data.weight[:, None]
    gram = x @ x.transpose(0, 2, 1) / (x.shape[2] - 1)
    query = x[:, :, -1]

    def gradient(u, v):
        k, q, v = u[:, 0, 0], u[:, 1, 0], v[:, 0]
        seen = np.einsum("pab,hb->pha", gram, k)
        asked = query @ q.T
        residual = np.einsum("ha,pha,ph->p", v, seen, asked)[:, None] - y
        r = (w * residual)[:, 0]
        by_k = np.einsum("p,ha,pab,ph->hb", r, v, gram, asked)
        by_q = np.einsum("p,ha,pha,pc->hc", r, v, seen, query)
        by_v = np.einsum("p,pha,ph->ha", r, seen, asked)
        by_u = np.stack((by_k, by_q), axis=1)[:, :, None]
        return 0.5 * np.sum(w * residual**2), by_u, by_v[:, None]

    return gradient


@dataclass(frozen=True)
class Case:
    name: str
    network: Layer
    data: Task
    gradient: Gradient
    end: float
    learning_rate: float


def regression(inputs: int, outputs: int, *, seed: int) -> Task:
    """Return few noisy samples of unequal weight, whose least-squares loss is not zero."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(15, inputs)) * np.linspace(0.7, 1.3, inputs)
    y = x @ draw.normal(size=(inputs, outputs)) + 0.3 * draw.normal(size=(15, outputs))
    return from_arrays(x, y, weight=draw.uniform(0.5, 1.5, size=15))


def _cases() -> list[Case]:
    key = jax.random.key(3)
    plain, even = regression(3, 2, seed=2), regression(3, 1, seed=1)
    taps, tokens = regression(4, 1, seed=7), in_context_regression(2, 6, samples=40, key=key)
    assert isinstance(tokens, Task)
    relu = neurons(lambda a: np.maximum(a, 0.0), lambda a: 1.0 * (a > 0))
    square = neurons(np.square, lambda a: 2 * a)
    rows = (
        ("linear", fully_connected(3, 4, 2, scale=0.1, key=key), plain),
        # About thirty units switch at a sample during training, and none slides along its kink.
        (
            "relu",
            fully_connected(3, 6, 2, activation="relu", scale=0.1, key=jax.random.key(2)),
            plain,
        ),
        ("quadratic", fully_connected(3, 4, activation="quadratic", scale=0.4, key=key), even),
        ("convolutional", convolutional_1d(4, 3, kernel=2, stride=2, scale=0.1, key=key), taps),
        ("attention", attention(2, 3, scale=0.5, key=key), tokens),
    )
    gradients = {
        "linear": neurons(lambda a: a, np.ones_like),
        "relu": relu,
        "quadratic": square,
        "convolutional": linear_kernels,
        "attention": linear_heads,
    }
    ends = {"linear": 6.0, "relu": 6.0, "quadratic": 4.0, "convolutional": 6.0, "attention": 12.0}
    return [
        Case(name, network, data, gradients[name](data), ends[name], 0.02)
        for name, network, data in rows
    ]


CASES = _cases()
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
few_cases = pytest.mark.parametrize(
    "case",
    [case if case.name == "relu" else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
    ids=lambda case: case.name,
)


def flat(u: ArrayLike, v: ArrayLike) -> np.ndarray:
    return np.concatenate((np.ravel(u), np.ravel(v)))


def parts(case: Case, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u, v = np.split(weights, [case.network.u.size])
    return u.reshape(case.network.u.shape), v.reshape(case.network.v.shape)


def velocity(case: Case, weights: np.ndarray) -> np.ndarray:
    return -flat(*case.gradient(*parts(case, weights))[1:])


def scipy_flow(case: Case, times: np.ndarray) -> np.ndarray:
    start = flat(case.network.u, case.network.v)
    solution = solve_ivp(
        lambda t, weights: velocity(case, weights),
        (0.0, times[-1]),
        start,
        method="DOP853",
        rtol=1e-12,
        atol=1e-14,
        t_eval=times,
    )
    assert solution.success
    return solution.y.T


def saved(trajectory) -> np.ndarray:
    """Return the weights of a single trajectory, `(save, weight)`."""
    u, v = trajectory.network.u, trajectory.network.v
    return np.concatenate((u.reshape(len(u), -1), v.reshape(len(v), -1)), axis=1)


@each_case
def test_the_gradient_written_here_is_the_gradient_of_the_loss(case):
    weights = flat(case.network.u, case.network.v)
    direction = np.random.default_rng(0).normal(size=weights.shape)
    h = 1e-5
    ahead, behind = (case.gradient(*parts(case, weights + s * direction))[0] for s in (h, -h))
    slope = -velocity(case, weights) @ direction
    assert (ahead - behind) / (2 * h) == pytest.approx(slope, rel=1e-6)


@few_cases
def test_flow_follows_scipy_and_its_error_falls_with_the_tolerance(case):
    times = np.concatenate(([0.0], np.linspace(0.1, 1.0, 7) * case.end))
    exact = scipy_flow(case, times)

    def error(rtol: float) -> float:
        run = festina.gradient_flow(case.network, case.data, times, rtol=rtol)
        np.testing.assert_array_equal(run.time, times)
        np.testing.assert_array_equal(saved(run)[0], exact[0])
        return float(np.abs(saved(run) - exact).max())

    errors = np.array([error(rtol) for rtol in (1e-4, 1e-6, 1e-8)])
    order = np.diff(np.log10(errors)) / -2
    if case.name == "relu":
        # A unit that switches within a step lowers the order of the method.
        assert errors[-1] < 1e-4
        assert order.mean() > 0.5
    else:
        assert errors[-1] < 1e-7
        assert ((order > 0.7) & (order < 1.3)).all()


@each_case
def test_loss_and_gradient_of_every_sample_are_those_of_the_saved_weights(case):
    run = festina.gradient_flow(case.network, case.data, np.linspace(0.0, 1.0, 8) * case.end)
    for weights, loss, rate in zip(saved(run), run.loss, run.squared_gradient, strict=True):
        by_hand, *_ = case.gradient(*parts(case, weights))
        assert loss == pytest.approx(by_hand, rel=1e-12)
        assert rate == pytest.approx(np.sum(velocity(case, weights) ** 2), rel=1e-9)


@few_cases
def test_descent_is_the_plain_loop_on_the_samples(case):
    """Descent on the compressed moments equals descent on the samples at every step."""
    steps = 150
    run = festina.gradient_descent(
        case.network, case.data, case.learning_rate, steps, resolution=EVERY_STEP
    )
    weights = flat(case.network.u, case.network.v)
    loop = [weights]
    for _ in range(steps):
        weights = weights + case.learning_rate * velocity(case, weights)
        loop.append(weights)
    np.testing.assert_array_equal(run.time, np.arange(steps + 1))
    np.testing.assert_allclose(saved(run), loop, rtol=0, atol=1e-12)
    losses = [case.gradient(*parts(case, weights))[0] for weights in loop]
    np.testing.assert_allclose(run.loss, losses, rtol=1e-12)
    assert np.ptp(run.loss) > 0.2 * run.loss[0]


@few_cases
def test_a_heavy_ball_is_the_plain_loop(case):
    """Momentum follows PyTorch's SGD: b ← μ b + ∂L/∂θ, θ ← θ − η b."""
    steps, mu = 100, 0.8
    rate = 0.3 * case.learning_rate
    how = {"momentum": mu, "resolution": EVERY_STEP}
    run = festina.gradient_descent(case.network, case.data, rate, steps, **how)
    weights, buffer, loop = flat(case.network.u, case.network.v), 0.0, []
    for _ in range(steps + 1):
        loop.append(weights)
        buffer = mu * buffer - velocity(case, weights)
        weights = weights - rate * buffer
    np.testing.assert_allclose(saved(run), loop, rtol=0, atol=1e-12)
    slopes = [np.sum(velocity(case, weights) ** 2) for weights in loop]
    np.testing.assert_allclose(run.squared_gradient, slopes, rtol=1e-9)
    assert run.to_dataset().attrs["momentum"] == mu
    plain = festina.gradient_descent(case.network, case.data, rate, steps, momentum=0.0)
    assert plain.loss[-1] > run.loss[-1]
    assert plain.method == "gradient descent"


@each_case
def test_descent_in_another_convention_is_descent_at_another_rate(case):
    factor = loss_factor("sum-square", case.data)
    assert factor == 2 * case.data.samples
    half = festina.gradient_descent(case.network, case.data, case.learning_rate, 40)
    other = festina.gradient_descent(
        case.network, case.data, case.learning_rate / factor, 40, loss="sum-square"
    )
    np.testing.assert_allclose(saved(other)[-1], saved(half)[-1], rtol=1e-11, atol=1e-14)
    assert other.loss[-1] == pytest.approx(factor * half.loss[-1], rel=1e-11)


def test_descent_approaches_the_flow_at_first_order_in_the_learning_rate():
    case = CASES[0]
    flow = saved(festina.gradient_flow(case.network, case.data, np.array([3.0]), rtol=1e-10))[-1]
    rates = 0.04 / 2.0 ** np.arange(5)
    u, v = (np.broadcast_to(w, (5, *w.shape)) for w in (case.network.u, case.network.v))
    batch = Layer(u, v, case.network.unit)
    errors = []
    for lane, rate in enumerate(rates):
        run = festina.gradient_descent(batch, case.data, rates, round(3.0 / rate)).lane(lane)
        errors.append(np.abs(saved(run)[-1] - flow).max())
    ratio = np.array(errors[:-1]) / np.array(errors[1:])
    assert (np.abs(ratio - 2.0) < 0.3).all()
    assert abs(ratio[-1] - 2.0) < abs(ratio[0] - 2.0)
    assert ratio[-1] == pytest.approx(2.0, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "quadratic"])
def test_drop_times_converge_as_the_tolerance_tightens(name):
    """Leaving a saddle amplifies solver errors, so drop times depend most on the tolerance."""
    key, scale = jax.random.key(5), {"linear": 1e-4, "quadratic": 0.02}[name]
    data = regression(3, 1, seed=1)
    activation = {"linear": "linear", "quadratic": "quadratic"}[name]
    network = fully_connected(3, 5, activation=activation, scale=scale, key=key)
    hand = {
        "linear": neurons(lambda a: a, np.ones_like),
        "quadratic": neurons(np.square, lambda a: 2 * a),
    }[name]
    case = Case(name, network, data, hand(data), 0.0, 0.0)
    start = flat(network.u, network.v)
    top = case.gradient(*parts(case, start))[0]
    run = festina.gradient_flow(network, data, rtol=1e-8)
    middle = (top + run.loss[-1]) / 2

    @terminal
    def passes(t, weights):
        return case.gradient(*parts(case, weights))[0] - middle

    solution = solve_ivp(
        lambda t, weights: velocity(case, weights),
        (0.0, 1e4),
        start,
        method="DOP853",
        rtol=1e-12,
        atol=1e-12 * scale,
        events=passes,
    )
    exact = solution.t_events[0][0]

    def error(rtol: float) -> float:
        run = festina.gradient_flow(network, data, rtol=rtol)
        drop = passage_time(run.time, run.loss, middle, slope=-run.squared_gradient)
        return abs(float(drop) / exact - 1)

    errors = [error(rtol) for rtol in (1e-4, 1e-6, 1e-8, 1e-10)]
    assert errors[2] < 1e-5
    assert errors[3] < 1e-2 * errors[0]
    assert errors[3] < 1e-6
