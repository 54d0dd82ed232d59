"""Test experiments on balanced networks: the exact solution and the regimes of learning."""

import jax
import numpy as np
import pytest
import scipy.integrate
from pydantic import ValidationError

from experiments import broken
from festina.experiments import load_experiment
from festina.networks import deep_linear_from
from festina.papers.linear.balanced import _continual as continual
from festina.papers.linear.balanced import _shapes as shapes
from festina.papers.linear.balanced._exponential_to_sigmoidal import time_to
from festina.tasks import from_moments
from festina.theory.linear import balanced_flow, balanced_gram
from small import SMALL

OTHERS = {
    "linear/partitioned-solution": {
        "seed": 40,
        "balances": (-3.0, -0.2, 0.5),
        "singular_values": (2.0, 1.1, 0.6),
        "wide": 5,
    },
    "linear/exponential-to-sigmoidal": {
        "seed": 7,
        "balances": (0.3, 6.0),
        "singular_values": (3.0, 1.0, 0.5),
        "initial_strength": 0.003,
    },
    "linear/regimes": {"seed": 11, "singular_values": (1.6, 0.7, 0.5), "wide": 4, "scale": 0.1},
    "linear/delayed-rich": {"seed": 23, "singular_values": (1.9, 0.8, 0.6), "inputs": 5},
    "linear/continual": {"seed": 500, "size": 3, "tasks": 3, "balance": 0.7, "scale": 0.2},
    "linear/reversal": {"seed": 500, "singular_values": (1.9, 1.3, 0.5), "size": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_no_claim_is_broken_for_other_sizes_and_draws(name):
    experiment = load_experiment(name)
    parameters = experiment.parameters(**SMALL[name] | OTHERS[name])
    assert broken(experiment, experiment.run(parameters, key=jax.random.key(3))) == []


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("partitioned-solution", {"balances": (1.0, -1.0)}, "increasing"),
        ("partitioned-solution", {"wide": 2}, "funnel would be square"),
        ("partitioned-solution", {"balances": (0.0, 5000.0)}, "to 1000"),
        ("partitioned-solution", {"singular_values": (1.0, 0.0)}, "positive"),
        ("exponential-to-sigmoidal", {"balances": (-1.0, 1.0)}, "from 0 to 1000"),
        ("exponential-to-sigmoidal", {"initial_strength": 0.5}, "a twentieth"),
        ("exponential-to-sigmoidal", {"singular_values": (1.0, 2.0)}, "not increase"),
        ("regimes", {"balances": (-20.0, 0.0, 30.0)}, "for each λ, −λ"),
        ("regimes", {"balances": (-2.0, 0.0, 2.0)}, "must lie between"),
        ("regimes", {"singular_values": (1.0,)}, "cannot change direction"),
        ("regimes", {"balances": (-20.0, -1.0, 1.0, 20.0)}, "contain 0"),
        ("delayed-rich", {"inputs": 3}, "needs more inputs than hidden units"),
        ("delayed-rich", {"balances": (-20.0, 80.0)}, "must start at"),
        ("delayed-rich", {"balances": (70.0, 80.0)}, "factor of two"),
        ("delayed-rich", {"balances": (80.0, 500.0)}, "too long"),
        ("continual", {"balance": 0.0}, "between 0.01 and 100"),
        ("continual", {"other_balances": (1.0,)}, "must differ"),
        ("continual", {"other_balances": (2.0, 2.0)}, "must differ"),
        ("continual", {"tasks": 1}, "greater than or equal to 2"),
        ("reversal", {"singular_values": (1.0, 2.0)}, "decreasing"),
        ("reversal", {"singular_values": (1.0, 0.0)}, "greater than 0"),
        ("reversal", {"balances": (0.0, 1.0)}, "increasing numbers from 0.0001"),
        ("reversal", {"balances": (1.0,)}, "2 or more"),
        ("reversal", {"stops": (1.0, 3.0)}, "from 2 to 8"),
        ("reversal", {"stops": (3.0, 20.0)}, "from 2 to 8"),
        ("reversal", {"size": 3}, "must be even"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, values, words):
    with pytest.raises(ValidationError, match=words):
        load_experiment(f"linear/{name}").parameters(**values)


def test_a_seed_is_the_same_however_many_there_are():
    drawn = lambda count, seed, key=None: [
        rng.normal() for rng in shapes.generators(count, seed, key)
    ]
    assert drawn(3, 5)[2] == drawn(1, 7)[0]
    keyed = drawn(3, 5, jax.random.key(3))
    assert len({*keyed, *drawn(3, 5)}) == 6


# W₂W₁ at t = 1.5 and traces of both Gram matrices, integrated by another program
TABLE = {
    ("square", -5.0): (
        (1.19980716, 0.39979965, -0.29973259, 0.79982290),
        (10.44353924, 0.44353924),
    ),
    ("square", 0.0): (
        (0.76626960, 0.30694931, -0.00761931, 0.31347572),
        (1.12463477, 1.12463477),
    ),
    ("funnel", -5.0): (
        (1.24633756, 0.37585170, 0.17494267, -0.36681346, 0.83422609, -0.13142064),
        (10.48786971, 0.48786971),
    ),
    ("funnel", 1.0): (
        (1.15965680, 0.35486235, 0.47302298, -0.26872148, 0.73050236, -0.56088642),
        (1.46261402, 3.46261402),
    ),
    ("inverted", 1.0): (
        (1.18446368, -0.30764567, 0.33425315, 0.76284001, 0.29038470, -0.27431084),
        (1.35509181, 3.35509181),
    ),
    ("inverted", 5.0): (
        (1.24633756, -0.36681346, 0.37585170, 0.83422609, 0.17494267, -0.13142064),
        (0.48786971, 10.48786971),
    ),
}


@pytest.mark.parametrize(
    ("shape", "balance"),
    [
        pytest.param(*each, marks=() if each == ("funnel", -5.0) else pytest.mark.slow)
        for each in TABLE
    ],
)
def test_reference_values_of_the_fixed_networks(shape, balance):
    network, correlation = shapes.fixed_networks(shape, [balance])
    times = np.array([0.0, 1.5])
    trained = shapes.train(network, correlation, times)
    first, second = (np.asarray(weight)[0, -1] for weight in trained.weights)
    flow = balanced_flow(
        deep_linear_from(network.weights), from_moments(correlation), balance=balance
    )
    exact = flow(times).factor[0, -1]
    learned, traces = TABLE[shape, balance]
    for q in (np.vstack([first.T, second]), exact):
        inward, outward = q[: len(correlation.T)], q[len(correlation.T) :]
        np.testing.assert_allclose((outward @ inward.T).ravel(), learned, atol=1e-7)
        np.testing.assert_allclose((np.sum(inward**2), np.sum(outward**2)), traces, atol=1e-7)


def test_rotated_hidden_units_learn_the_same_map():
    network, correlation = shapes.fixed_networks("funnel", [-2.0])
    turned = shapes.rotated(network, shapes.random_frame(2, 2, np.random.default_rng(0)))
    one, other = (
        shapes.train(each, correlation, np.array([0.0, 1.5])) for each in (network, turned)
    )
    np.testing.assert_allclose(one.end_to_end(), other.end_to_end(), atol=1e-9)
    assert np.abs(np.asarray(one.weights[0]) - other.weights[0]).max() > 0.1


@pytest.mark.parametrize("shape", ["funnel", "inverted"])
def test_the_misprint_matters_at_every_balance_but_zero(shape):
    balances = (-2.0, 0.0, 2.0)
    network, correlation = shapes.fixed_networks(shape, balances)
    times = np.linspace(0.0, 3.0, 13)
    wrong = []
    for k, lam in enumerate(balances):
        first, second = (weights[k] for weights in network.weights)
        printed, right = (
            balanced_gram(times, first, second, correlation, balance=lam, as_printed=as_printed)
            for as_printed in (True, False)
        )
        wrong.append(np.abs(np.asarray(printed) - right).max())
    assert wrong[1] < 1e-9
    assert min(wrong[0], wrong[2]) > 1e-4


def test_times_of_marks_agree_with_quadrature():
    for balance in (0.0, 0.03, 2.0):
        slowness = lambda a, lam=balance: 1 / (np.hypot(lam, 2 * a) * (1.5 - a))
        expected, _ = scipy.integrate.quad(slowness, 0.01, 1.2, epsabs=1e-12, epsrel=1e-12)
        found = time_to(np.array([1.2]), np.array([1.5]), 0.01, balance)
        np.testing.assert_allclose(found, [expected], rtol=1e-9)


def test_the_wait_goes_from_that_of_a_sigmoid_to_that_of_an_exponential():
    s, a0, marks = 2.0, 0.01, np.array([0.2, 1.8])
    waits = []
    for balance in (0.0, 0.1, 0.5, 2.0, 10.0, 500.0):
        early, late = time_to(marks, np.array(s), a0, balance)
        waits.append(early / (late - early))
    assert np.all(np.diff(waits) < 0)
    assert waits[0] == pytest.approx(np.log(0.1 * (s - a0) / (0.9 * a0)) / (2 * np.log(9)))
    assert waits[-1] == pytest.approx(np.log((s - a0) / (0.9 * s)) / np.log(9), rel=1e-3)


def test_two_tasks_in_two_dimensions():
    """The network learns task A for 3 τ, then task B for 2 τ, at balances −1, 0 and 1."""
    networks, first = shapes.fixed_networks("square", (-1.0, 0.0, 1.0))
    stages = [np.linspace(0.0, end, 31) for end in (3.0, 2.0)]
    data = continual._learn(networks, [first, continual._SECOND], stages)
    far = [0.21058707, -0.87751059, 1.08247436, 0.50958629]
    near = [0.21992574, -0.85500311, 1.06710409, 0.51562012]
    for name in ("map", "map_theory"):
        found = data[name].isel(time=-1).values.reshape(3, 4)
        np.testing.assert_allclose(found, [far, near, far], atol=1e-6)
    own, rise, limit = continual._forgetting(data)
    np.testing.assert_allclose(own.isel(task=0), [1.085e-5, 0.00620202, 1.085e-5], atol=1e-6)
    np.testing.assert_allclose(rise[:, 0], [2.30326254, 2.23650991, 2.30326254], atol=1e-6)
    assert float(limit[0]) == pytest.approx(2.37)
    for stage, part in data.groupby("stage"):
        assert (part["loss"].isel(task=stage).diff("time") <= 1e-9).all()


@pytest.mark.slow
def test_what_was_not_learned_to_the_end_makes_no_claim_about_the_end():
    short = continual.run(continual.Parameters(**SMALL["linear/continual"], stage=2.0))
    assert broken(continual, short) == []
    assert "cost-of-forgetting" not in {claim.id for claim in continual.claims(short)}
