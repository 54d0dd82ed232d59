"""Structured worlds, progressive differentiation and the hierarchy of saddles, as experiments."""

import functools

import numpy as np
import pytest
from matplotlib.figure import Figure
from pydantic import ValidationError

from experiments import are_apart, is_whole, reloaded
from festina.papers import load
from festina.papers.linear._passage import passage_times
from festina.papers.linear.worlds import _structures as structures

# Held out: neither the sizes nor the seeds of the defaults.
OTHER = {
    "structures": {
        "branching": (3, 3),
        "flip": 0.3,
        "cluster_sizes": (4, 3, 2),
        "items": 9,
        "rows": 3,
        "columns": 3,
        "coupling": 1.3,
        "precision": 0.5,
        "features": 12,
        "hidden": 14,
        "sampled_features": 5000,
        "seed": 70,
    },
    "differentiation": {"branching": (3, 2), "flip": 0.25, "hidden": 12, "seed": 70, "seeds": 3},
    "hierarchy-of-saddles": {
        "singular_values": (2.0, 1.1),
        "hidden": 5,
        "seed": 70,
        "seeds": 6,
        "variability": 1.0,
        "initial_strength": 1e-6,
    },
}
QUICKEST = "structures"
RUNS = [
    (QUICKEST, "other"),
    *(pytest.param(name, "other", marks=pytest.mark.slow) for name in OTHER if name != QUICKEST),
    *(pytest.param(name, "default", marks=pytest.mark.slow) for name in OTHER),
]

each_run = pytest.mark.parametrize(("name", "which"), RUNS)
each = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != QUICKEST)) for name in OTHER],
)


@functools.cache
def experiment(name):
    return load(f"linear/{name}")


@functools.cache
def made(name, which="other"):
    parameters = OTHER[name] if which == "other" else {}
    return experiment(name).run(experiment(name).parameters(**parameters))


def claim(name, words, run=None, which="other"):
    found = experiment(name).claims(made(name, which) if run is None else run)
    (one,) = [claim for claim in found if words in claim.claim]
    return one


def altered(name, group, variable, factor):
    run = made(name).copy(deep=True)
    run[group][variable][...] = run[group][variable] * factor
    return run


# What all do


@each_run
def test_no_claim_is_broken(name, which):
    claims = experiment(name).claims(made(name, which))
    assert len(claims) >= 10
    assert [claim for claim in claims if claim.broken] == []


@each
def test_a_saved_run_has_the_same_claims_and_figure(name, tmp_path):
    loaded = reloaded(experiment(name), made(name), tmp_path)
    assert isinstance(experiment(name).draw(loaded), Figure)


@each_run
def test_nothing_is_cut_off_or_covered(name, which):
    figure = experiment(name).draw(made(name, which))
    assert is_whole(figure)
    parts = [ax.get_tightbbox() for ax in figure.axes] + [figure.legends[0].get_window_extent()]
    assert are_apart(parts)
    dashed = [line for ax in figure.axes for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed
    assert max(line.get_linewidth() for line in dashed) <= 1


def test_runs_repeat():
    name = QUICKEST
    again = experiment(name).run(experiment(name).parameters(**OTHER[name]))
    for node in again.children:
        assert again[node].to_dataset().identical(made(name)[node].to_dataset())


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("structures", {"features": 19}, "`features` must be at least"),
        ("structures", {"hidden": 20}, "`hidden` must exceed"),
        ("structures", {"cluster_sizes": (3, 0)}, "`cluster_sizes` must be"),
        ("structures", {"branching": (2, 0)}, "`branching` must list"),
        ("structures", {"cluster_sizes": (1,)}, "two or more items"),
        ("structures", {"initial_strength": 0.5}, "`initial_strength` must be small"),
        ("structures", {"rows": 2}, "greater than or equal to 3"),
        ("differentiation", {"branching": (2, 1)}, "`branching` must list"),
        ("differentiation", {"branching": ()}, "`branching` must list"),
        ("differentiation", {"flip": 0.5}, "less than 0.5"),
        ("differentiation", {"features": 7}, "`features` must be at least"),
        ("differentiation", {"hidden": 8}, "`hidden` must exceed"),
        ("differentiation", {"initial_strength": 0.5}, "`initial_strength` must be small"),
        ("hierarchy-of-saddles", {"singular_values": (1.0, 2.0)}, "each smaller than"),
        ("hierarchy-of-saddles", {"singular_values": (1.0,)}, "two to six"),
        ("hierarchy-of-saddles", {"singular_values": (1.0, -1.0)}, "positive"),
        ("hierarchy-of-saddles", {"hidden": 4}, "`hidden` must exceed"),
        ("hierarchy-of-saddles", {"variability": 6.0}, "`initial_strength` must be small"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, wrong, words):
    with pytest.raises(ValidationError, match=words):
        experiment(name).parameters(**wrong)


# Small weights


def test_passages_of_logistic_curves_are_exact_between_samples():
    times = np.linspace(0, 4, 15)
    middle = np.array([0.77, 2.1, 9.0])
    share = 1 / (1 + np.exp(-3 * (times - middle[:, None])))
    found = passage_times(times, share)
    np.testing.assert_allclose(found[:2], middle[:2], rtol=1e-12)
    assert np.isnan(found[2])


# Structures: numbers of the six worlds


def default_world(name):
    return structures._spectrum(name, structures._worlds(structures.Parameters())[name])


@pytest.mark.parametrize(
    ("world", "leading"),
    [
        ("tree", [3.507776, 1.410624, 0.8208, 0.36]),
        ("clusters", [2.81045752, 2.57142857, 2.34567901, 0.90909091]),
        (
            "ring",
            [3.33333333, 1.94416606, 0.90909091, 0.52631579, 0.37037037, 0.30435465, 0.28571429],
        ),
        ("grid", [3.33333333, 1.6513291, 1.30101753, 0.93092364, 0.71145372]),
        ("torus", [3.33333333, 0.71145372, 0.52631579]),
    ],
)
def test_eigenvalues_of_the_worlds(world, leading):
    table = default_world(world)
    first = np.searchsorted(table["level_of_mode"].values, np.arange(len(leading)))
    np.testing.assert_allclose(table["numerical"].values[first], leading, rtol=1e-7)


@pytest.mark.parametrize("name", ["tree", "clusters", "chain", "ring", "grid", "torus"])
def test_every_item_is_drawn_and_tied_to_another(name):
    world = default_world(name)
    ends = world["edge"].values.reshape(-1, 2)
    for place in world["position"].values:
        assert np.isclose(np.abs(ends - place).sum(axis=1), 0, atol=1e-9).any()


def test_structures_claims_can_fail():
    for words, variable, factor in (
        ("ring: eigenvalues", "numerical", 1.001),
        ("ring: singular values of", "sampled", 1.2),
        ("decoupled weights: half-rise", "chains_half_time", 1.001),
        ("decoupled weights: every mode", "chains", 0.999),
        ("from the growing part", "random_half_time", 1.05),
        ("with effective strengths", "simple_half_time", 9.0),
        ("in the order of their eigenvalues", "chains_half_time", -1.0),
    ):
        groups = ("ring",) if words != "with effective strengths" else made("structures").children
        run = made("structures").copy(deep=True)
        for group in groups:
            run[group][variable][...] = run[group][variable] * factor
        assert claim("structures", words, run).broken, words


# Progressive differentiation


@pytest.mark.slow
def test_half_rise_times_of_the_levels():
    one = claim("differentiation", "half-rise times of the levels, broad", which="default")
    np.testing.assert_allclose(one.measured, [0.546057, 0.827193, 1.057996, 1.536831], atol=1e-6)


@pytest.mark.slow
def test_items_part_ways_level_by_level():
    """Items with a common branch are still together when the branches are half apart."""
    deep = made("differentiation", "default")["deep"].to_dataset()
    place = deep["place"].isel(seed=0).values
    half = deep["random_half_time"].isel(seed=0).values
    when = np.searchsorted(deep["time"].values, half[1])
    between = np.linalg.norm(place[when, :4].mean(0) - place[when, 4:].mean(0))
    within = np.linalg.norm(place[when, 0] - place[when, 1])
    assert within < 0.2 * between
    end = place[-1]
    apart = np.linalg.norm(end[:, None] - end, axis=-1)[np.triu_indices(8, 1)]
    assert apart.min() > 0.1 * apart.max()


@pytest.mark.slow
def test_differentiation_claims_can_fail():
    for words, group, variable, factor in (
        ("uncorrelated", "hierarchy", "mode_of_items", np.linspace(1, 2, 6)[:, None]),
        ("sampled features", "hierarchy", "outside", 50.0),
        ("squared singular values", "hierarchy", "numerical", 1.001),
        ("decay with depth", "hierarchy", "numerical", -1.0),
        ("broad to fine", "deep", "chains_half_time", 1.001),
        ("from the top", "deep", "chains_half_time", -1.0),
        ("inner products", "deep", "inner_products", 1.001),
        ("from the growing part", "deep", "random_half_time", 1.05),
        ("items' places", "deep", "place", 0.9),
        ("differentiate progressively", "trees", "ordered", False),
        ("same exponential", "shallow", "strength", 1.01),
        ("no differentiation", "shallow", "half_time", np.array([1.0, 1.0, 1.1])),
    ):
        run = altered("differentiation", group, variable, factor)
        assert claim("differentiation", words, run).broken, words


# The hierarchy of saddles


@pytest.mark.slow
def test_curvature_of_a_saddle_by_hand():
    """Two modes, the weaker one learned: index and rate from the quadratic form itself."""
    saddles = made("hierarchy-of-saddles")["saddles"].to_dataset()
    (weaker,) = np.flatnonzero((saddles["learned"].values == [0, 1]).all(axis=1))
    # Mode 1 (s = 2) leads away in four free units, and in the unit of mode 2 since 2 > 1.1.
    assert int(saddles["index"][weaker]) == 5
    assert float(saddles["loss"][weaker]) == pytest.approx(2.0)
    assert float(saddles["escape_rate"][weaker]) == pytest.approx(2.0)


@pytest.mark.slow
def test_individuals_differ_and_two_seeds_are_two_individuals():
    individuals = made("hierarchy-of-saddles")["individuals"]
    assert individuals["half_time"].values.std(axis=0).min() > 0.05
    assert (individuals["loss"].diff("time") <= 1e-12).all()


@pytest.mark.slow
def test_hierarchy_claims_can_fail():
    name = "hierarchy-of-saddles"
    for words, group, variable, factor in (
        ("stationary point", "saddles", "gradient", 1e6),
        ("the loss there is half", "saddles", "loss", 1.001),
        ("negative curvature", "saddles", "index", 2),
        ("saddles are left at", "saddles", "escape_rate", 1.001),
        ("nearer the path", "near", "closest", np.arange(1.0, 6.0)[:, None] ** 9),
        ("level of plateau 2", "near", "loss", 1.5),
        ("loss of every individual", "individuals", "loss", 1.1),
        ("plateaus of the loss", "individuals", "plateaus", 2),
        ("when each individual", "individuals", "half_time", 1.1),
        ("the same times from chains", "individuals", "half_time_simple", 2.0),
        ("orders of their own", "individuals", "half_time", -1.0),
        ("spread of", "individuals", "half_time", 3.0),
        ("no saddles", "shallow", "loss", 1.001),
        ("between the start", "shallow", "plateaus", 2),
    ):
        run = altered(name, group, variable, factor)
        assert claim(name, words, run).broken, words
