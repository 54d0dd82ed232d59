"""Test Figure 3 and Table 1, on pairs of handwritten digits.

The images are not part of the project: without `FESTINA_DATA` these tests are skipped.
"""

import functools
import os

import numpy as np
import pytest

from experiments import altered, at_small_parameters, broken, by_id
from festina.experiments import load_experiment
from festina.papers.saddles.digits._figure_3 import passage

pytestmark = pytest.mark.skipif(
    "FESTINA_DATA" not in os.environ, reason="FESTINA_DATA names no MNIST folder"
)

FIGURE, TABLE = "saddles/figure-3", "saddles/table-1"


def beside_its_contract(test):
    """Mark a test that shares its run with the tests of every experiment."""
    return pytest.mark.slow(pytest.mark.xdist_group(FIGURE)(test))


@functools.cache
def small(name):
    if name == FIGURE:
        return at_small_parameters(name)[1]
    return load_experiment(name).run(
        load_experiment(name).parameters(pairs=("0/8", "3/5"), width=5, seed=11)
    )


def claim_on(name, id, run=None):
    return by_id(load_experiment(name), small(name) if run is None else run)[id]


# Figure 3


@beside_its_contract
def test_the_second_growth_of_a_linear_network_follows_from_its_initial_weights():
    late = altered(
        small(FIGURE), "simulation", "passage", lambda step: 1.1 * step, network="linear"
    )
    assert claim_on(FIGURE, "linear-second-passage").verdict == "holds with a correction"
    assert claim_on(FIGURE, "linear-second-passage", late).broken


@beside_its_contract
def test_widths_are_read_from_errors_in_function_space():
    for kind in ("linear", "relu"):
        assert claim_on(FIGURE, f"{kind}-width-on-plateau").measured == [1]
        assert claim_on(FIGURE, f"{kind}-width-after-drops").measured == [2]
    far = altered(
        small(FIGURE), "reduction", "error", lambda error: error + 0.2, network="relu", width=2
    )
    assert claim_on(FIGURE, "relu-width-after-drops", far).broken


@beside_its_contract
def test_a_relu_network_of_two_units_predicts_what_the_wide_one_does():
    at = {"network": "relu", "stage": "second drop"}
    reduction = small(FIGURE)["reduction"].sel(at)
    assert float(reduction["test_error"].squeeze()) < 0.1
    assert float(reduction["accuracy"].squeeze()) > 0.9
    assert float(np.abs(reduction["accuracy"] - reduction["narrow_accuracy"]).max()) < 0.01
    # One unit is not enough, nor are the two strongest rays.
    assert float(reduction["error"].sel(width=1).squeeze()) > 0.3
    assert float(reduction["ray_width"].squeeze()) > 2


def test_a_passage_is_interpolated_and_none_is_none():
    steps, values = np.arange(0, 60, 10), 0.01 * 2.0 ** np.arange(6)
    assert passage(steps, values, 0.01 * 2.0**2.5) == pytest.approx(25.0)
    for never in (1.0, 0.001):
        assert np.isnan(passage(steps, values, never))


@beside_its_contract
def test_a_loss_without_two_drops_is_told_and_nothing_else():
    run = altered(small(FIGURE), "simulation", "count", lambda count: count - 1, network="relu")
    about = [claim for claim in load_experiment(FIGURE).claims(run) if claim.id.startswith("relu")]
    assert [claim.broken for claim in about] == [True]


@pytest.mark.slow
def test_figure_3_quick_comes_to_the_same_verdicts_on_fresh_seeds():
    experiment = load_experiment(FIGURE)
    run = experiment.run(experiment.parameters(**experiment.quick, seed=5, seeds=2))
    assert broken(experiment, run) == []


@pytest.mark.slow
def test_figure_3_numbers_of_the_paper_s_networks():
    """At width 1000 and step 3000, the third singular value of ReLU networks is 0.10 to 0.28."""
    experiment = load_experiment(FIGURE)
    run = experiment.run(experiment.parameters(seed=5, steps=3000, judged=500))
    assert broken(experiment, run) == []
    third = run["simulation"]["singular_value"].sel(network="relu", rank=3).isel(save=-1).to_numpy()
    assert (third > 0.095).all()
    assert (third < 0.285).all()
    # Reference numbers are those of an independent implementation of mini-batch descent: the loss
    # on the plateau, and the steps at which the first and second singular values of the linear
    # network's U pass 0.24 and 0.2. The first step is the middle of a range of ten steps. Along the
    # plateau the loss falls from 0.53 to 0.5, and mini-batches decide where it falls most slowly,
    # so its middle is used.
    linear = run["simulation"].sel(network="linear").isel(seed=0)
    half_way = ((linear["start"] + linear["end"]) / 2).sel(plateau=1)
    losses = linear["loss"].transpose("pair", "save").to_numpy()
    there = [np.interp(at, linear["step"], loss) for at, loss in zip(half_way, losses, strict=True)]
    np.testing.assert_allclose(there, [0.54, 0.52, 0.52, 0.52], atol=0.012)
    steps, values = (
        linear["step"].to_numpy(),
        linear["singular_value"].transpose("rank", "pair", ...),
    )
    first, second = (
        np.array([passage(steps, each, threshold) for each in values.sel(rank=rank).to_numpy()])
        for rank, threshold in ((1, 0.24), (2, 0.2))
    )
    np.testing.assert_allclose(first, [115, 95, 125, 105], rtol=0.08)
    np.testing.assert_allclose(second, [202, 238, 299, 446], rtol=0.08)
    np.testing.assert_allclose(second - first, [87, 143, 174, 341], atol=10)


# Table 1


@pytest.mark.slow
def test_table_1_growth_rates_are_those_of_an_independent_implementation():
    """Mini-batches differ, so growth rates read from two plateaus differ by about one per cent."""
    experiment = load_experiment(TABLE)
    run = experiment.run(experiment.parameters(seed=5))
    for id, reported in (
        ("first-growth-rate", (4.05, 4.93, 3.91, 4.38)),
        ("second-growth-rate", (2.25, 1.92, 1.55, 1.02)),
    ):
        np.testing.assert_allclose(by_id(experiment, run)[id].measured, reported, rtol=0.025)


@pytest.mark.slow
def test_table_1_rows_are_those_of_an_independent_implementation():
    """The implementation's numbers are for raw pixels in [0, 1] and the pairs 0/8 and 3/5."""
    here = small(TABLE)["pairs"]
    np.testing.assert_allclose(here["singular_value"].sel(mode=0), [5.206, 4.617], atol=0.002)
    np.testing.assert_allclose(here["recipe"], [2.117, 1.377], atol=0.01)


@pytest.mark.slow
def test_pairs_that_are_not_in_table_1_have_no_entry_for_it():
    other = small(TABLE).copy()
    other["pairs"].dataset = other["pairs"].to_dataset().assign_coords(pair=["0/7", "2/4"])

    def in_legend(run):
        legend = load_experiment(TABLE).draw(run).axes[1].get_legend()
        assert legend is not None
        return str([*legend.get_texts()])

    assert "printed in the paper" in in_legend(small(TABLE))
    assert "printed in the paper" not in in_legend(other)


@pytest.mark.slow
def test_table_1_second_row_is_what_no_recipe_gives():
    assert claim_on(TABLE, "second-row-3-5").verdict == "holds"
    wrong = claim_on(TABLE, "second-row-0-8")
    assert wrong.verdict == wrong.expected == "does not hold"
    assert not wrong.broken
    assert claim_on(TABLE, "repeated-number").verdict == "holds with a correction"


@pytest.mark.slow
def test_growth_on_the_second_plateau_tells_which_number_counts():
    growth = small(TABLE)["pairs"]["growth"].sel(mode=1).mean("seed").to_numpy()
    s = np.array([1.952, 1.029])
    np.testing.assert_allclose(growth, np.log1p(0.02 * s) / 0.02, rtol=0.04)
    assert claim_on(TABLE, "second-row-is-growth-rate").verdict == "does not hold"
    assert claim_on(TABLE, "second-growth-rate").verdict == "holds with a correction"
    slow = altered(small(TABLE), "pairs", "growth", lambda growth: 0.9 * growth)
    assert broken(load_experiment(TABLE), slow)


@pytest.mark.slow
def test_table_1_all_pairs():
    experiment = load_experiment(TABLE)
    run = experiment.run(experiment.parameters())
    second = run["pairs"]["singular_value"].sel(mode=1)
    np.testing.assert_allclose(second, [2.352, 1.952, 1.560, 1.029], atol=0.001)
    assert broken(experiment, run) == []
