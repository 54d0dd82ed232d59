"""Test experiments over many seeds and grids: closed forms against independent computations."""

import numpy as np
import pytest
import xarray as xr
from pydantic import ValidationError

import festina
from festina.experiments import load_experiment
from festina.networks import deep_linear_from, fully_connected, lambda_balanced
from festina.papers.linear.balanced import _regime_map as regime_map
from festina.papers.linear.balanced import _shapes as shapes
from festina.papers.race import _outcomes as outcomes
from festina.papers.saddles import _drop_times as drop_times
from festina.tasks import from_moments, quadratic_teacher, xor
from festina.theory.gated import race_of_gatings
from festina.theory.linear import balanced_flow
from festina.theory.saddles import first_unit_to_escape


def test_kernels_of_the_map_are_those_of_the_exact_solution():
    inputs, hidden, outputs = sizes = 3, 2, 4
    parameters = regime_map.Parameters(start=1e-4)
    balances = np.array([-3.0, -0.1, 0.5, 20.0])
    row = regime_map._row(sizes, balances, parameters, shapes.generators(2, 7, None))
    task = np.eye(outputs, inputs)
    np.fill_diagonal(task, regime_map._spectrum(parameters, min(inputs, outputs)))
    rng = shapes.generators(1, 8, None)[0]
    v, u = (shapes.random_frame(n, hidden, rng) for n in sizes[::2])
    network = lambda_balanced(sizes, balance=balances, product=parameters.start * u @ v.T)
    exact = balanced_flow(
        deep_linear_from(network.weights), from_moments(task), balance=balances
    ).limit()
    np.testing.assert_allclose(row["distance"][:, 1], exact.kernel_distance()[:, 0], atol=1e-9)


def test_mean_and_spread_of_the_map_are_those_of_many_draws():
    balances = np.array([-5.0, 0.3, 30.0])
    row = regime_map._row(
        (6, 2, 5), balances, regime_map.Parameters(), shapes.generators(4000, 0, None)
    )
    distance, error = row["distance"], row["spread"] / np.sqrt(4000)
    assert (abs(distance.mean("seed") - row["expected"]) < 4 * error).all()
    np.testing.assert_allclose(distance.std("seed"), row["spread"], rtol=0.05)


def quadratic(width, count):
    keys = festina.seeds(count)
    return fully_connected(2, width, activation="quadratic", scale=1e-3, key=keys)


def test_first_drops_in_closed_form_are_those_of_quadrature():
    network = quadratic(3, 400)
    _, when = first_unit_to_escape(network, quadratic_teacher(np.eye(2)))
    predicted = drop_times._predict(network)[:, 0]
    assert np.isnan(predicted).sum() == np.isinf(when).sum() > 0
    np.testing.assert_allclose(predicted[np.isfinite(when)], when[np.isfinite(when)], rtol=1e-9)


def test_the_law_of_the_first_drop_is_that_of_draws():
    v = np.random.default_rng(0).standard_normal(200_000)
    half = np.random.default_rng(1).exponential(size=v.size)  # |u|²/2 in two dimensions
    escape, _ = drop_times._escape(v, half, 4.0)
    times = np.array([0.05, 0.1, 0.3, 1.0, 1e6])
    seen = [np.mean((escape > 0) & (escape < t)) for t in times]
    predicted = drop_times.law(times / 1e-3 - drop_times.advance(), 1, 1e-3)
    np.testing.assert_allclose(seen, predicted, atol=0.004)
    assert predicted[-1] == pytest.approx(1 - drop_times._NEVER, abs=1e-5)
    many = drop_times.law(times / 1e-3, 7, 1e-3)
    np.testing.assert_allclose(1 - many, (1 - drop_times.law(times / 1e-3, 1, 1e-3)) ** 7)


@pytest.mark.parametrize("margin", [0.6, 0.9])
def test_the_end_of_a_race_needs_no_integration(margin):
    gates = {f"example {k}": np.eye(4)[k] for k in range(4)}
    y = np.asarray(xor(margin).y)[:, 0]
    gates |= {"up": (y > 0) * 1.0, "down": (y < 0) * 1.0}
    # Pathways of examples of one class start alike, and no direction turns.
    start = [*np.where(y > 0, 1e-4, 3e-5), 2e-4, 5e-5]
    raced = race_of_gatings(xor(margin), gates, initial_strength=start)
    expected = np.mean(raced.strength[-1, :4]) * np.sqrt(2 + margin**2)
    assert outcomes._race(np.array([start]), margin)[0] == pytest.approx(expected, rel=1e-5)


def test_pathways_from_initial_weights_are_those_of_a_network_that_has_turned():
    margin, scale, time = 0.8, 1e-7, outcomes._STEP * outcomes._STEPS
    network = fully_connected(3, 24, activation="relu", scale=scale, key=festina.seeds(3))
    u, v = (np.asarray(part, float) for part in network.parts)
    found = outcomes._turned(u, v[..., 0], margin).sum(axis=1)
    trained = festina.gradient_flow(network, xor(margin), np.array([0.0, time]), rtol=1e-7)
    u, v = (np.asarray(part)[:, -1] for part in trained.network.parts)
    w, x = v[..., 0], outcomes._examples(margin)[0]
    on = u @ x.T > 0
    for places, count in ((slice(4), 1), (slice(4, 6), 2)):
        grown = np.linalg.norm(u, axis=-1) * np.abs(w) * (on.sum(axis=-1) == count)
        rate = np.sqrt(2 + margin**2) / 4 if count == 1 else margin / 2
        expected = grown.sum(axis=1) * np.exp(-2 * rate * time)
        np.testing.assert_allclose(found[:, places].sum(axis=1), expected, rtol=0.03)


def test_a_crossing_is_found_between_margins():
    margin = np.array([0.7, 0.8, 0.9])
    rising = xr.DataArray(
        [[-1.0, 1.0], [-0.5, 2.0], [1.0, 3.0]], {"margin": margin}, ("margin", "s")
    )
    np.testing.assert_allclose(outcomes._crossing(rising), [0.8 + 0.1 / 3, np.nan])


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("linear/regime-map", {"points": 25}, "must be even"),
        ("linear/regime-map", {"strongest": 5.0}, "less than or equal to 2.5"),
        ("saddles/drop-times", {"widths": (3, 2)}, "increasing"),
        ("race/outcomes", {"width": 4}, "greater than or equal to 16"),
        ("saddles/drop-times", {"scale": 0.1}, "less than or equal to 0.01"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, values, words):
    with pytest.raises(ValidationError, match=words):
        load_experiment(name).parameters(**values)
