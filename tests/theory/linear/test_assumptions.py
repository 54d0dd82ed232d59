"""Test errors of linear theory for tasks and weights that violate its assumptions."""

import numpy as np
import pytest

from festina.networks import deep_linear_from, layer_from
from festina.tasks import from_moments
from festina.theory.linear import (
    balanced_flow,
    balanced_gram,
    continual_learning,
    in_white_coordinates,
    learning_regime,
    measured_balance,
    measured_layer_strengths,
    mode_loss,
    modes,
)
from helpers import untyped

ONE, NAN = np.eye(2), np.full((2, 2), np.nan)
FLOW = balanced_flow(deep_linear_from([ONE, ONE]), from_moments(2 * ONE))
MANY = balanced_flow(
    deep_linear_from([np.stack([ONE] * 3), np.stack([ONE] * 3)]), from_moments(ONE)
)
ZERO = balanced_flow(deep_linear_from([0 * ONE, 0 * ONE]), from_moments(ONE))


def test_balance_of_a_batch_is_that_of_each():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 5, 2))
    value, residual = measured_balance(deep_linear_from([first, second]))
    for k in range(3):
        difference = second[k].T @ second[k] - first[k] @ first[k].T
        eigenvalues = np.linalg.eigvalsh(difference - np.trace(difference) / 2 * ONE)
        assert value[k] == pytest.approx(np.trace(difference) / 2, rel=1e-13)
        assert residual[k] == pytest.approx(np.abs(eigenvalues).max(), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measured_balance(deep_linear_from([ONE])), "linear with two layers"),
        (lambda: measured_balance(layer_from("relu", ONE, ONE)), "linear with two layers"),
        (lambda: measured_balance(untyped(ONE)), "linear with two layers.*deep_linear_from"),
        (lambda: modes(untyped(ONE)), "`task` must be a `Task`, got array"),
        (
            lambda: balanced_flow(deep_linear_from([ONE, ONE]), untyped(ONE)),
            "`task` must be a `Task`",
        ),
        (
            lambda: measured_layer_strengths(untyped([ONE, ONE]), from_moments(ONE)),
            "`network` must be a `DeepLinear`",
        ),
        (lambda: in_white_coordinates(untyped(ONE), from_moments(ONE)), "linear with two layers"),
        (
            lambda: in_white_coordinates(deep_linear_from([ONE, ONE]), untyped(ONE)),
            "`task` must be a `Task`",
        ),
        (lambda: balanced_gram([1.0], ONE, ONE, ONE, balance=np.nan), "`balance` must be"),
        (lambda: balanced_gram([1.0], ONE, ONE, ONE, balance=0.0, tau=-1.0), "`tau` must be pos"),
        (lambda: mode_loss(np.ones(2) + 0j, modes(from_moments(ONE))), "`strengths` must be real"),
        (lambda: FLOW([1.0]).loss(np.ones((1, 1))), r"\(output, input\) of the learned task"),
        (lambda: FLOW([1.0]).alignment(np.ones(2)), r"\(output, input\) of the learned task"),
        (lambda: learning_regime(MANY), r"batch of networks, \(3,\)"),
        (lambda: learning_regime(ZERO), "weights that are zero"),
        (
            lambda: continual_learning(
                deep_linear_from([MANY.first, MANY.second]), [from_moments(ONE)], [[1.0]]
            ),
            "Expected a single network",
        ),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_lost_digits_are_said():
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    first, second = 0.1 * turn, np.sqrt(1.01) * turn.T @ np.diag([1.0, -1.0])
    with pytest.warns(UserWarning, match="at t = 30, .*Use `balanced_flow`"):
        balanced_gram([0.1, 30.0], first, second, np.diag([3.0, 1.0]), balance=1.0)
