"""One task after the other, and the same task with the other sign."""

import numpy as np
import pytest

from experiments import altered, broken, is_labelled, is_whole, once, reloaded
from festina.papers.linear.balanced import _continual as continual
from festina.papers.linear.balanced import _reversal as reversal

# Minutes of compilation; the solutions themselves are tested in theory.
pytestmark = pytest.mark.slow

SMALL = {
    continual: {
        "size": 3,
        "tasks": 3,
        "balance": -2.0,
        "other_balances": (0.7,),
        "scale": 0.2,
        "stage": 25.0,
        "seeds": 2,
        "seed": 500,
    },
    reversal: {
        "singular_values": (1.3, 0.5),
        "balances": (0.01, 1.0, 10.0),
        "stops": (4.0, 5.5),
        "size": 2,
        "seeds": 2,
        "seed": 500,
    },
}

each = pytest.mark.parametrize("experiment", [continual, reversal], ids=["continual", "reversal"])


small = once(SMALL)


# Both


@pytest.mark.slow
@each
def test_no_claim_is_broken_by_default(experiment):
    assert broken(experiment, experiment.run(experiment.Parameters())) == []


@each
def test_no_claim_is_broken(experiment):
    assert len(experiment.claims(small(experiment))) >= 7
    assert broken(experiment, small(experiment)) == []


@each
def test_a_saved_run_gives_the_same_claims(experiment, tmp_path, monkeypatch):
    run = small(experiment)
    monkeypatch.setattr(experiment, "gradient_flow", None)
    experiment.draw(reloaded(experiment, run, tmp_path))


@each
def test_the_figure_is_legible(experiment):
    figure = experiment.draw(small(experiment))
    assert is_whole(figure)
    assert is_labelled(figure, "xlabel", "ylabel")


# Continual


def test_two_tasks_in_two_dimensions():
    """A for 3 τ, then B for 2 τ, at balances −1, 0 and 1."""
    data = small(continual)["pair"].to_dataset()
    far = [0.21058707, -0.87751059, 1.08247436, 0.50958629]
    near = [0.21992574, -0.85500311, 1.06710409, 0.51562012]
    for balance, expected in ((-1.0, far), (0.0, near), (1.0, far)):
        found = data["map"].sel(balance=balance).isel(time=-1).values.ravel()
        np.testing.assert_allclose(found, expected, atol=1e-6)
    learned = data["loss"].sel(task=0).isel(time=30)
    np.testing.assert_allclose(learned, [1.085e-5, 0.00620202, 1.085e-5], atol=1e-6)
    forgotten = data["loss"].sel(task=0).isel(time=-1) - learned
    np.testing.assert_allclose(forgotten, [2.30326254, 2.23650991, 2.30326254], atol=1e-6)
    assert float(data["interference"][1, 0]) == pytest.approx(2.37)


def test_training_keeps_the_balance_and_the_loss_of_the_task_at_hand_falls():
    data = small(continual)["sequence"].to_dataset()
    for stage, part in data.groupby("stage"):
        own = part["loss"].sel(task=stage)
        assert (own.diff("time") <= 1e-9).all()
    assert dict(data.sizes)["seed"] == 2
    assert data["balance"].values.tolist() == [-2.0, 0.7]


@pytest.mark.parametrize(
    ("group", "name", "change", "where", "words"),
    [
        ("sequence", "loss", lambda x: 1.001 * x, {"balance": 0.7, "seed": 501}, "balance 0.7"),
        ("sequence", "interference", lambda x: 1.1 * x, {}, "costs task i"),
        ("pair", "map", lambda w: w + 1e-5, {"balance": 0.0}, "balance 0: W₂W₁"),
        ("pair", "loss_theory", lambda x: 1.001 * x, {}, "loss of the first"),
    ],
)
def test_data_that_differ_break_the_claim(group, name, change, where, words):
    found = broken(continual, altered(small(continual), group, name, change, **where))
    assert len(found) == 1
    assert words in found[0]


def test_what_was_not_learned_to_the_end_makes_no_claim_about_the_end():
    short = continual.run(continual.Parameters(**SMALL[continual] | {"stage": 2.0}))
    assert broken(continual, short) == []
    assert not any("to the end" in claim.claim for claim in continual.claims(short))
    assert any("to the end" in claim.claim for claim in continual.claims(small(continual)))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"balance": 0.0}, "between 0.01 and 100"),
        ({"other_balances": (1.0,)}, "must differ"),
        ({"other_balances": (2.0, 2.0)}, "must differ"),
        ({"tasks": 1}, "greater than or equal to 2"),
        ({"stage": 0.0}, "greater than 0"),
    ],
)
def test_bad_parameters_of_continual(bad, words):
    with pytest.raises(ValueError, match=words):
        continual.Parameters(**bad)


# Reversal


def test_times_to_pass_through_zero():
    """s = 1.3 at balances 0.01, 1 and 10."""
    data = small(reversal)["converged"].to_dataset().sel(mode=1.3)
    times = [2.14018716, 0.47788189, 0.06867999]
    for seed in data["seed"].values:
        np.testing.assert_allclose(data["crossing"].sel(seed=seed), times, rtol=1e-5)


def test_trapped_at_balance_zero():
    strength = small(reversal)["trapped"]["strength"].values
    assert strength[0] == pytest.approx(1.3)
    assert (np.diff(strength) < 0).all()
    assert 0 <= strength[-1] < 1e-12


@pytest.mark.parametrize(
    ("group", "name", "change", "words"),
    [
        ("converged", "strength", lambda a: a + 1e-4, "follows its closed form"),
        ("trapped", "strength", lambda a: -a, "never changes sign"),
        ("shallow", "crossing", lambda t: 1.01 * t, "τ ln 2"),
        ("early", "crossing", lambda t: 1.1 * t, "changes its sign"),
        ("early", "relearned", lambda t: 1.1 * t, "half of the new map"),
    ],
)
def test_a_course_that_differs_breaks_the_claim(group, name, change, words):
    found = broken(reversal, altered(small(reversal), group, name, change))
    assert any(words in claim for claim in found)
    assert len(found) <= 2


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"singular_values": (1.0, 2.0)}, "positive and falling"),
        ({"balances": (0.0, 1.0)}, "increasing numbers from 1e-4"),
        ({"balances": (1.0,)}, "two or more"),
        ({"stops": (1.0, 3.0)}, "from 2 to 8"),
        ({"stops": (3.0, 20.0)}, "from 2 to 8"),
        ({"size": 3}, "must be even"),
    ],
)
def test_bad_parameters_of_reversal(bad, words):
    with pytest.raises(ValueError, match=words):
        reversal.Parameters(**bad)
