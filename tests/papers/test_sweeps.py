"""Experiments over many seeds and whole grids: their closed forms against other routes."""

import numpy as np
import pytest
from pydantic import ValidationError

from festina.networks import balanced
from festina.papers import load
from festina.papers.linear.balanced import _regime_map as regime_map
from festina.papers.linear.balanced import _shapes as shapes
from festina.theory.linear import balanced_flow_from


def test_kernels_of_the_map_are_those_of_the_exact_solution():
    inputs, hidden, outputs = sizes = 3, 2, 4
    parameters = regime_map.Parameters(start=1e-4)
    balances = np.array([-3.0, -0.1, 0.5, 20.0])
    row = regime_map._row(sizes, balances, parameters, shapes.generators(2, 7, None))
    task = np.eye(outputs, inputs)
    np.fill_diagonal(task, regime_map._spectrum(parameters, min(inputs, outputs)))
    rng = shapes.generators(1, 8, None)[0]
    v, u = (shapes.random_frame(n, hidden, rng) for n in sizes[::2])
    network = balanced(sizes, balance=balances, product=parameters.start * u @ v.T)
    exact = balanced_flow_from(*network.weights, task, balance=balances).limit()
    np.testing.assert_allclose(row["distance"][:, 1], exact.kernel_distance()[:, 0], atol=1e-9)


def test_mean_and_spread_of_the_map_are_those_of_many_draws():
    balances = np.array([-5.0, 0.3, 30.0])
    row = regime_map._row(
        (6, 2, 5), balances, regime_map.Parameters(), shapes.generators(4000, 0, None)
    )
    distance, error = row["distance"], row["spread"] / np.sqrt(4000)
    assert (abs(distance.mean("seed") - row["expected"]) < 4 * error).all()
    np.testing.assert_allclose(distance.std("seed"), row["spread"], rtol=0.05)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("linear/regime-map", {"points": 25}, "must be even"),
        ("linear/regime-map", {"strongest": 5.0}, "less than or equal to 2.5"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, values, words):
    with pytest.raises(ValidationError, match=words):
        load(name).parameters(**values)
