"""Test diagnostics of chains: adapted steps, agreement, and frozen populations."""

from typing import Any

import jax
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from festina.dynamics.posterior import sample
from festina.dynamics.posterior._agreement import classes_of, diagnostics, populations
from festina.networks._code_activations import erf_sigmoid, linear, relu, unit_slope_erf
from festina.tasks import orthogonal_inputs

KEY = jax.random.key(0)
stats: Any = array_stats  # typed as returning tuples


def spoken(words, chains=2, draws=6, low=0.05, high=0.95):
    """Return responses of neurons that have the same codewords at every draw."""
    one = np.array([[high if letter == "1" else low for letter in word] for word in words])
    return np.broadcast_to(one, (chains, draws, *one.shape)).copy()


def test_frozen_populations_are_recognised():
    answers = spoken(["110"] * 40 + ["011"] * 60)
    alike = populations(answers, erf_sigmoid)
    assert alike.frozen
    assert not alike.apart
    assert dict(zip(alike.words, alike.shares[0], strict=True)) == {"110": 0.4, "011": 0.6}
    # All neurons of the second chain have the codeword 011
    answers[1, :, :40] = answers[1, :, 40:80]
    other = populations(answers, erf_sigmoid)
    assert other.apart
    assert "up to 40 of 100 neurons, more than for" in other.message


def test_populations_that_change_are_not_frozen():
    rng = np.random.default_rng(0)
    answers = rng.choice([-0.9, 0.9], size=(2, 10, 50, 3))
    found = populations(answers, unit_slope_erf)
    assert not found.frozen
    assert set("".join(found.words)) == {"+", "-"}
    assert "change along chains" in found.message


def test_outliers_of_rectifiers_are_words():
    rng = np.random.default_rng(0)
    answers = rng.uniform(size=(2, 8, 100, 3)) * 0.3
    answers[:, :, 3] = [5, 0, 0]
    answers[:, :, 7] = [0, 0, 5]
    found = populations(answers, relu)
    assert set(found.words) == {"bulk", "100", "001"}
    assert found.frozen


def test_linear_networks_have_no_words():
    found = populations(np.random.default_rng(0).normal(size=(2, 5, 9, 3)), linear)
    assert found.words == ()
    assert not found.frozen


def test_classes_are_numbered_as_they_occur():
    y = np.array([[0, 1], [0, 1], [1, 0], [0, 1.0]])
    assert classes_of(y).tolist() == [0, 0, 1, 0]


def test_diagnostics_are_arvizs_and_know_of_frozen_kernels():
    rng = np.random.default_rng(0)
    loss, kernel = rng.normal(size=(2, 4, 50))[:, :, :, None]
    kernel = kernel + 9.0 * np.arange(4)[:, None, None]
    frozen = populations(spoken(["110"] * 5 + ["011"] * 6), erf_sigmoid)
    found = diagnostics({"loss": loss, "kernel": kernel}, frozen)
    assert found.rhat["loss"] == pytest.approx(float(stats.rhat(loss[..., 0])))
    assert found.ess["loss"] == pytest.approx(float(stats.ess(loss[..., 0])))
    assert found.rhat["kernel"] > 1.5
    assert found.converged
    assert "Chains differ in kernel: codewords are frozen." in str(found)
    moving = populations(rng.choice([0.1, 0.9], size=(4, 10, 50, 3)), erf_sigmoid)
    assert not diagnostics({"loss": loss, "kernel": kernel}, moving).converged
    apart = kernel[..., 0]
    assert diagnostics({"loss": loss, "potential": apart}, frozen).converged
    assert not diagnostics({"loss": loss, "potential": apart}, moving).converged
    assert not diagnostics({"loss": apart, "potential": loss}, frozen).converged


def mixed(chains, draws, rng):
    return {"loss": rng.normal(size=(chains, draws)), "kernel": rng.normal(size=(chains, draws, 3))}


def test_one_chain_is_compared_with_itself():
    rng = np.random.default_rng(1)
    alone = populations(rng.choice([0.1, 0.9], size=(1, 100, 50, 3)), erf_sigmoid)
    found = diagnostics(mixed(1, 100, rng), alone)
    assert found.apart == ()
    assert not found.converged
    assert "halves of the only chain agree" in str(found)
    assert "Chains differ" not in str(found)
    drifting = mixed(1, 100, rng)
    drifting["loss"] += np.linspace(0, 9, 100)
    halves = np.reshape(drifting["loss"], (2, 50))
    found = diagnostics(drifting, alone)
    assert found.rhat["loss"] == pytest.approx(float(stats.rhat(halves)))
    assert "halves of the chain differ in loss" in str(found)
    kept = populations(spoken(["110"] * 5 + ["011"] * 6, chains=1), erf_sigmoid)
    assert "Other chains would have other codewords" in kept.message
    with pytest.raises(ValueError, match="at least 8 draws in each chain, got 7"):
        diagnostics(mixed(1, 7, rng), alone)


@pytest.mark.parametrize("chains", [1, 4])
def test_chains_that_never_move_are_one_draw_each(chains):
    rng = np.random.default_rng(2)
    frozen = populations(spoken(["110"] * 5 + ["011"] * 6, chains=chains), erf_sigmoid)
    moving = mixed(chains, 16, rng)
    still = {name: np.repeat(each[:, :1], 16, axis=1) for name, each in moving.items()}
    found = diagnostics(still, frozen)
    assert dict(found.ess) == {"loss": chains, "kernel": chains}
    assert found.stuck == tuple(range(chains))
    assert not found.converged
    assert "never moved" in str(found)
    if chains > 1:
        some = {name: each.copy() for name, each in moving.items()}
        for name, each in some.items():
            each[0] = still[name][0]
        found = diagnostics(some, frozen)
        assert found.stuck == (0,)
        rest = float(stats.ess(moving["loss"][1:]))
        assert found.ess["loss"] == pytest.approx(1 + rest)
        assert found.apart == ("loss", "kernel")


@pytest.mark.slow
def test_steps_adapt_before_sampling_and_not_after():
    drawn = sample(
        orthogonal_inputs([4, 4, 4]),
        width=50,
        activation="relu",
        temperature=0.05,
        chains=4,
        anneal=120,
        burn=120,
        moves=120,
        thin=3,
        key=KEY,
    )
    assert 0.7 < drawn.kept("acceptance").mean() < 0.9
    steps = drawn.kept("step")
    np.testing.assert_array_equal(steps, np.broadcast_to(steps[:, :1], steps.shape))
    assert drawn.plan.temperature_at(0) > 0.9
    assert drawn.plan.temperature_at(119) == pytest.approx(0.05)
    tree = drawn.to_arviz()
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data"}
    assert tree["posterior"]["kernel"].dims == ("chain", "draw", "sample", "sample_other")
    assert tree["sample_stats"]["lp"].shape == (4, 40)
    found = drawn.diagnostics()
    assert set(found.rhat) == {"loss", "potential", "trace_U", "outputs", "kernel"}
    assert "R-hat" in str(found)
