"""Test experiments on structured worlds, progressive differentiation and hierarchies of saddles."""

import functools

import numpy as np
import pytest
from pydantic import ValidationError

from festina.experiments import load_experiment
from festina.papers.linear._passage import half_times
from festina.papers.linear.worlds import _structures as structures
from small import SMALL


@functools.cache
def experiment(name):
    return load_experiment(f"linear/{name}")


@functools.cache
def made(name):
    return experiment(name).run(experiment(name).parameters(**SMALL[f"linear/{name}"]))


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("structures", {"features": 19}, "`features` must be at least"),
        ("structures", {"hidden": 20}, "`hidden` must exceed"),
        ("structures", {"cluster_sizes": (3, 0)}, "`cluster_sizes` must be"),
        ("structures", {"branching": (2, 0)}, "`branching` must list"),
        ("structures", {"cluster_sizes": (1,)}, "each have at least two items"),
        ("structures", {"initial_strength": 0.5}, "`initial_strength` must be below"),
        ("structures", {"rows": 2}, "greater than or equal to 3"),
        ("differentiation", {"branching": (2, 1)}, "`branching` must list"),
        ("differentiation", {"branching": ()}, "`branching` must list"),
        ("differentiation", {"flip": 0.5}, "less than 0.5"),
        ("differentiation", {"features": 7}, "`features` must be at least"),
        ("differentiation", {"hidden": 8}, "`hidden` must exceed"),
        ("differentiation", {"initial_strength": 0.5}, "`initial_strength` must be below"),
        ("hierarchy-of-saddles", {"singular_values": (1.0, 2.0)}, "each smaller than"),
        ("hierarchy-of-saddles", {"singular_values": (1.0,)}, "two to six"),
        ("hierarchy-of-saddles", {"singular_values": (1.0, -1.0)}, "positive"),
        ("hierarchy-of-saddles", {"hidden": 4}, "`hidden` must exceed"),
        ("hierarchy-of-saddles", {"variability": 6.0}, "must be below a hundredth"),
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
    found = half_times(times, share)
    np.testing.assert_allclose(found[:2], middle[:2], rtol=1e-10)
    assert np.isnan(found[2])


# Structures: reference numbers of six worlds


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
    made = structures.Parameters().worlds()[world]
    seen = np.linalg.eigvalsh(made.covariance)[::-1]
    np.testing.assert_allclose(made.eigenvalues, seen, rtol=1e-9)
    distinct = np.append(True, -np.diff(seen) > 1e-9)
    np.testing.assert_allclose(seen[distinct][: len(leading)], leading, rtol=1e-7)


@pytest.mark.parametrize("name", ["tree", "clusters", "chain", "ring", "grid", "torus"])
def test_every_item_is_drawn_and_tied_to_another(name):
    world = structures.Parameters().worlds()[name]
    ends = structures.edges(name, world).reshape(-1, 2)
    for place in world.position:
        assert np.isclose(np.abs(ends - place).sum(axis=1), 0, atol=1e-9).any()


# Progressive differentiation


@pytest.mark.slow
def test_half_rise_times_of_the_levels():
    parameters = experiment("differentiation").parameters(seeds=1, sampled_features=1000)
    deep = experiment("differentiation").run(parameters)["deep"].to_dataset()
    seen = [0.546057, 0.827193, 1.057996, 1.536831]
    np.testing.assert_allclose(deep["chains_half_time"], seen, atol=1e-6)
    # Items of one branch are still together when the branches are half separated.
    place = deep["place"].isel(seed=0).to_numpy()
    when = np.searchsorted(deep["time"], deep["random_half_time"].isel(seed=0, level=1))
    between = np.linalg.norm(place[when, :4].mean(0) - place[when, 4:].mean(0))
    assert np.linalg.norm(place[when, 0] - place[when, 1]) < 0.2 * between
    apart = np.linalg.norm(place[-1][:, None] - place[-1], axis=-1)[np.triu_indices(8, 1)]
    assert apart.min() > 0.1 * apart.max()


# The hierarchy of saddles


@pytest.mark.slow
def test_curvature_of_a_saddle_by_hand():
    """Check index, loss and rate of the saddle with the weaker mode by its quadratic form."""
    saddles = made("hierarchy-of-saddles")["saddles"].to_dataset()
    (weaker,) = np.flatnonzero((saddles["learned"].to_numpy() == [0, 1]).all(axis=1))
    # Mode 1 (s = 2) escapes in four free units, and in the unit of mode 2, because 2 > 1.1.
    assert int(saddles["index"][weaker]) == 5
    assert float(saddles["escape_rate"][weaker]) == pytest.approx(2.0)
    left = 1 - saddles["learned"].to_numpy()
    np.testing.assert_allclose(saddles["loss"], 0.5 * left @ [4.0, 1.21], atol=1e-12)


@pytest.mark.slow
def test_individuals_differ_and_two_seeds_are_two_individuals():
    individuals = made("hierarchy-of-saddles")["individuals"]
    assert individuals["half_time"].to_numpy().std(axis=0).min() > 0.05
    assert (individuals["loss"].diff("time") <= 1e-12).all()
