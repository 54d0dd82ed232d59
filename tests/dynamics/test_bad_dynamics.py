"""Test that flow and descent refuse invalid input in one clear line before they compute."""

import jax
import numpy as np
import pytest

import festina
from festina.dynamics import SaveResolution
from festina.networks import Layer, attention, fully_connected
from festina.tasks import from_arrays, in_context_regression, linear_teacher
from helpers import untyped

TASK = linear_teacher(np.eye(2))
NETWORK = fully_connected(2, 4, 2, scale=0.1, key=jax.random.key(0))
NAN, INF = float("nan"), float("inf")

pytestmark = pytest.mark.usefixtures("as_a_user")


def refused(message: str, train) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        train()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rtol": 0.0}, "`rtol` must lie between 0 and 0.1, got 0"),
        ({"rtol": -1e-6}, "`rtol`"),
        ({"rtol": 0.5}, "`rtol`"),
        ({"rtol": NAN}, "`rtol`"),
        ({"rtol": "1e-6"}, "`rtol` must be a number, got '1e-6'"),
        ({"atol": "small"}, "`atol` must be a number"),
        ({"t_end": "100"}, "`t_end` must be a number"),
        ({"converged": [0.1]}, "`converged` must be a number"),
        ({"atol": 0.0}, "`atol` must be positive and finite, got 0"),
        ({"atol": NAN}, "`atol`"),
        ({"atol": INF}, "`atol`"),
        ({"converged": 0.0}, "`converged` must lie between 0 and 1, got 0"),
        ({"converged": 1.0}, "`converged`"),
        ({"converged": NAN}, "`converged`"),
        ({"t_end": 0.0}, "`t_end` must be positive, got 0"),
        ({"t_end": -1.0}, "`t_end`"),
        ({"t_end": NAN}, "`t_end`"),
        ({"max_steps": 0}, "`max_steps` must be a whole number from 1 up, got 0"),
        ({"max_steps": 1.5}, "`max_steps`"),
        ({"times": np.array([])}, "`times` must be a list of finite numbers"),
        ({"times": np.array([[0.0, 1.0]])}, "`times`.*got shape"),
        ({"times": np.array([0.0, NAN])}, "`times`"),
        ({"times": np.array([0.0, INF])}, "`times`"),
        ({"times": np.array([1.0, 0.5])}, "`times` must increase"),
        ({"times": np.array([1.0, 1.0])}, "`times` must increase"),
        ({"times": np.array([-1.0, 0.5])}, "`times` must increase and start at 0"),
        ({"times": np.array([1.0, 2.0]), "t_end": 2.0}, "`times` or `t_end`, not both"),
    ],
)
def test_flow_refuses(options, message, as_a_user):
    refused(message, lambda: festina.gradient_flow(NETWORK, TASK, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.0}, "`learning_rate` must be positive and finite, got 0"),
        ({"learning_rate": -0.1}, "`learning_rate`"),
        ({"learning_rate": NAN}, "`learning_rate`"),
        ({"learning_rate": INF}, "`learning_rate`"),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and below 1, got 1"),
        ({"momentum": -0.1}, "`momentum`"),
        ({"momentum": NAN}, "`momentum`"),
        ({"momentum": np.array([0.1, 0.2])}, r"`momentum`.*batch \(\), got shape \(2,\)"),
        ({"learning_rate": np.array([0.1, 0.2])}, r"`learning_rate`.*batch \(\), got shape \(2,\)"),
        ({"converged": 2.0}, "`converged` must lie between 0 and 1"),
        ({"steps": 0}, "`steps` must be a whole number from 1 up, got 0"),
        ({"steps": -4}, "`steps`"),
        ({"steps": 2.5}, "`steps`"),
        ({"max_steps": 0}, "`max_steps`"),
        ({"max_steps": -1}, "`max_steps`"),
    ],
)
def test_descent_refuses(options, message):
    given = {"learning_rate": 0.01} | options
    refused(message, lambda: festina.gradient_descent(NETWORK, TASK, **given))


def test_rates_must_fit_the_batch():
    seeds = fully_connected(2, 4, 2, scale=0.1, key=festina.seeds(3))
    rates = np.array([0.1, 0.2])
    refused(r"batch \(3,\), got shape \(2,\)", lambda: festina.gradient_descent(seeds, TASK, rates))
    refused("positive", lambda: festina.gradient_descent(seeds, TASK, np.array([0.1, 0.0, 0.1])))


@pytest.mark.parametrize("values", [(0.0, 0.1), (0.1, 0.0), (-1.0, 0.1), (NAN, 0.1)])
def test_a_resolution_is_positive(values):
    refused("must be positive", lambda: SaveResolution(*values))


def _spoilt(name: str, value: float) -> Layer:
    weights = {"u": np.array(NETWORK.u), "v": np.array(NETWORK.v)}
    weights[name].flat[3] = value
    return Layer(**weights, unit=NETWORK.unit)


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("name", ["u", "v"])
def test_weights_must_be_finite(name, value):
    refused(
        f"`{name}` are not all finite", lambda: festina.gradient_flow(_spoilt(name, value), TASK)
    )


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (fully_connected(3, 4, 2, key=jax.random.key(0)), r"do not fit: .* \(3,\), got \(2,\)"),
        (fully_connected(2, 4, 1, key=jax.random.key(0)), "has 1 outputs.* 2 outputs"),
        (attention(2, 4, key=jax.random.key(0)), "attention head takes tokens as columns"),
        (
            fully_connected(2, 4, 2, activation="relu", key=jax.random.key(0)),
            "degree up to 1.*not a polynomial.*`nodes=20`",
        ),
        (
            fully_connected(2, 4, 2, activation="quadratic", key=jax.random.key(0)),
            "degree up to 1.*of degree 2",
        ),
    ],
)
def test_network_and_task_must_fit(network, message):
    refused(message, lambda: festina.gradient_flow(network, TASK))
    refused(message, lambda: festina.gradient_descent(network, TASK, 0.01))


def test_network_and_task_are_not_to_be_exchanged():
    message = "Expected a network .* and a task .*, got Task and Layer"
    refused(message, lambda: festina.gradient_flow(untyped(TASK), untyped(NETWORK)))
    refused(message, lambda: festina.gradient_descent(untyped(TASK), untyped(NETWORK), 0.01))
    refused(
        message,
        lambda: festina.gradient_descent(
            untyped(TASK), untyped(NETWORK), 0.01, 5, batch_size=2, key=jax.random.key(0)
        ),
    )


def test_a_population_of_sequences_is_for_linear_attention():
    softmax = attention(2, 3, softmax=True, key=jax.random.key(0))
    refused(
        r"linear attention only.*samples=…, key=…",
        lambda: festina.gradient_flow(softmax, in_context_regression()),
    )


def test_data_with_nan_never_reach_the_flow():
    x = np.ones((4, 2))
    x[2, 1] = NAN
    refused("`x` is not finite in 1 of 4 samples, the first is sample 2", lambda: from_arrays(x, x))
