"""Test errors of tasks and networks for invalid arguments."""

import jax
import numpy as np
import pytest

import festina
from festina import networks, tasks
from helpers import untyped

KEY = jax.random.key(0)
RELU = networks.layer_from("relu", np.ones((2, 2)), np.ones((2, 1)))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        # The only node of a one-point Gauss–Hermite rule is zero, so all inputs would be zero.
        (
            lambda: tasks.gaussian_cubature_points(np.eye(2), nodes=1),
            "`nodes` must be a whole .* from 2",
        ),
        (
            lambda: tasks.gaussian_cubature_points(np.eye(2), degree=untyped(4.5)),
            "`degree` must be a whole number",
        ),
        (
            lambda: tasks.objects_in_contexts(4, 2, context_input=np.inf),
            "`context_input` must be a finite",
        ),
        (lambda: tasks.xor(np.inf), "`delta` must be a finite number"),
        (lambda: tasks.targets_per_class(2, own=np.inf), "`own` must be a finite number"),
        (
            lambda: tasks.cyclic_domain_pairs(3, 1, first=untyped(0.5)),
            "`first` must be a whole number",
        ),
        (lambda: tasks.signed_tree_features(2, spread=np.nan), "`spread` must be a finite number"),
        (
            lambda: tasks.quadratic_teacher(np.eye(2), target_scale=untyped("a")),
            "`target_scale` must be",
        ),
        (
            lambda: tasks.modular_addition(5, untyped("half"), key=KEY),
            "`train_fraction` must be a finite",
        ),
        (lambda: tasks.objects_in_contexts(8, untyped([3])), "`contexts` must be a whole number"),
        (
            lambda: networks.draw_from_prior(2, 3, 1, readout_variance=1.0, key=festina.seeds(2)),
            r"`key` must be one key, got a batch \(2,\)",
        ),
        (
            lambda: networks.attention(2, 2, outputs=untyped("a"), key=KEY),
            "`outputs` must be a whole",
        ),
        (
            lambda: networks.rectifier_gates(RELU, np.ones((4, 3))),
            r"`x` must be \(example, 2\)",
        ),
        (
            lambda: networks.gated_equivalent(RELU, np.ones((4, 3))),
            r"`x` must be \(example, 2\)",
        ),
        (lambda: tasks.classification(np.eye(2), [0, 1e40]), "`classes` goes up to 1e.40"),
        (lambda: tasks.structured_task([[np.inf, 1.0]]), "`source` must be finite"),
        (lambda: networks.fully_connected(2, 2, scale=[], key=KEY), "`scale` must hold at least"),
        (lambda: tasks.linear_teacher(np.empty((0, 2))), "`weights` of the teacher must be"),
        (
            lambda: networks.lambda_balanced((2, 2, 2), balance=[], scale=1.0, key=KEY),
            "`balance` must be",
        ),
        (
            lambda: networks.decoupled(np.eye(2), np.eye(2), initial_strength=1j),
            "`initial_strength` must be real",
        ),
        (
            lambda: networks.greedy_pretrained_linear((2, 2), fraction=untyped("most"), key=KEY),
            "`fraction` must be a finite number",
        ),
    ],
)
def test_bad_input_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("as_a_user")
def test_numbers_may_come_as_arrays():
    assert tasks.signed_tree_features(untyped(np.array(2.0))).shape == (4, 4)
    assert (
        len(tasks.objects_in_contexts(contexts=untyped(np.array(3)), preset="jarvis-2025").x) == 24
    )
