"""Test every experiment: it runs, draws and is saved, no claim is broken, every claim can be."""

import functools
import itertools
import os

import numpy as np
import pytest

from experiments import are_apart, at_small_parameters, is_whole, pixels, reloaded
from festina.experiments import experiment_names
from festina.experiments.figures import fit_to_slide
from festina.experiments.figures._fit import covers_data, has_room
from small import SMALL

NEED_MNIST = {"coding/digits", "haste/scale", "saddles/figure-3", "saddles/table-1"}
without = pytest.mark.skipif(
    "FESTINA_DATA" not in os.environ, reason="FESTINA_DATA names no MNIST folder"
)
# Experiments that take longer than 15 s on one core at their small parameters, or 5 s beside a
# cheaper panel made by the same code, and the reason.
LONG = {
    "coding/digits": "linear networks at three temperatures, and others, of many moves each",
    "coding/drift": "neurons are followed along chains of many moves, long after they were cooled",
    "coding/schemes": "each activation has a sampler and a law of its own to compile",
    "coding/temperature": "each temperature has a sampler, with enough moves to measure a kernel",
    "coding/width": "corrections of 1/N are told apart from noise in long chains of several widths",
    "haste/conflict": "each share of conflicting examples has a flow of its own, to the end",
    "haste/depth": "networks of one and two hidden layers, and a gated one for each, are compiled",
    "haste/equivalence": "a ReLU network and its gated equivalents are separate programs",
    "haste/mixed": "ReLU, modular and shared networks are separate programs",
    "haste/scale": "images of MNIST and thousands of steps of gradient descent",
    "haste/structures": "each structure of features has a task and networks of its own",
    "haste/tasks": "laws of late views are those of long flows at overlaps near one",
    "haste/views": "limits of wide networks need 200 units, and of small scales long flows",
    "haste/why": "ReLU networks are trained, and races of pathways solved from each scale",
    "linear/chains": "each depth and each kind of initial weights is a program of its own",
    "linear/regimes": "networks of three shapes are trained to the end at every balance",
    "race/abstraction": "networks of every M, K and way are reduced and trained one by one",
    "race/context": "networks of 2^C - 1 pathways are compiled whole",
    "race/generalisation": "each number of trained pairs has a graph of its own",
    "race/routing": "a routed, a common and a gated network are separate graphs",
    "race/xor": "ReLU networks, copies with fixed gates and a gated network are separate programs",
    "saddles/drop-times": "the spread of drop times is measured over hundreds of seeds",
    "saddles/figure-1c": "each panel has flows of its own to compile; the other panels are cheaper",
    "saddles/figure-2a": "each panel has flows of its own to compile; Figure 2B is cheaper",
    "saddles/figure-3": "images of MNIST, and flows that read the width on every plateau",
    "saddles/figure-4g": "each activation has flows of its own to compile; 4C to 4F are cheaper",
    "saddles/figure-4h": "each activation has flows of its own to compile; 4C to 4F are cheaper",
    "saddles/figure-5d": "each panel has flows of its own to compile; 5B and 5F are cheaper",
    "saddles/figure-5e": "attention below two layers and two controls are separate programs",
    "saddles/figure-6": "each network, with skips or without, is a program of its own",
    "saddles/table-1": "the covariance of MNIST is inverted in many ways, and networks are trained",
    "saddles/theorem-1": "every kind of embedding is checked in every architecture",
}


def marks(name):
    yield pytest.mark.xdist_group(name)
    if name in NEED_MNIST:
        yield without
    if name in LONG:
        yield pytest.mark.slow(reason=LONG[name])


EVERY = [pytest.param(name, marks=[*marks(name)]) for name in experiment_names()]


# Claims that a source's number is none of several values; only such a value breaks them.
COINCIDENCES = {
    "saddles/figure-4d": ("/plateaus", "level", lambda run: run["theory"]["fixed_point"].values[0]),
    "saddles/table-1": ("/pairs", "tried", lambda run: 5.21),  # printed for 0/8
}


@functools.cache
def drawn(name):
    """Return the figure of an experiment and its pixels."""
    experiment, run = at_small_parameters(name)
    figure = experiment.draw(run)
    return figure, pixels(figure)


@pytest.mark.parametrize("name", EVERY)
def test_no_claim_is_broken(name):
    experiment, run = at_small_parameters(name)
    claims = experiment.claims(run)
    assert claims
    told = [(claim.id, claim.predicted, claim.measured) for claim in claims if claim.broken]
    assert told == []
    identifiers = [claim.id for claim in claims]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.parametrize("name", EVERY)
def test_a_saved_run_makes_the_same_claims_and_figure(name, tmp_path):
    experiment, run = at_small_parameters(name)
    again = reloaded(experiment, run, tmp_path)
    np.testing.assert_array_equal(pixels(experiment.draw(again)), drawn(name)[1])


@pytest.mark.parametrize("name", EVERY)
def test_its_figure_can_be_read(name):
    figure, _ = drawn(name)
    assert is_whole(figure, slack=0.02)
    shown = [ax for ax in figure.axes if ax.axison and ax.get_label() != "<colorbar>"]
    for ax in shown:
        beside = [*ax.get_shared_y_axes().get_siblings(ax), *in_row(ax, shown)]
        below = [other for other in ax.get_shared_x_axes().get_siblings(ax)]
        assert any(other.get_ylabel() for other in beside)
        assert any(other.get_xlabel() or other.get_title() for other in below)
        assert len({text.get_text() for text in (legend(ax) or [])}) == len(legend(ax) or [])
    titles = [ax.title.get_window_extent() for ax in shown if ax.get_title()]
    assert are_apart(titles)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_its_slide_can_be_read(name):
    experiment, run = at_small_parameters(name)
    figure = fit_to_slide(lambda: experiment.draw(run))
    assert has_room(figure)
    assert [ax.get_title() for ax in figure.axes if covers_data(ax)] == []


def in_row(ax, shown):
    """Return panels in the row of `ax`, whose first panel may carry the shared axis label."""
    return [other for other in shown if np.isclose(other.get_position().y0, ax.get_position().y0)]


def legend(ax):
    found = ax.get_legend()
    return found and [*found.get_texts()]


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_claim_can_break(name):
    experiment, run = at_small_parameters(name)
    unbroken = {claim.id for claim in experiment.claims(run)}
    for change in alterations(run):
        try:
            altered = experiment.claims(change)
        except (ArithmeticError, LookupError, ValueError, np.linalg.LinAlgError, RuntimeWarning):
            continue  # no claim can be made of these numbers
        unbroken -= {claim.id for claim in altered if claim.broken}
        if not unbroken:
            return
    assert unbroken == set()


def alterations(run):
    """Yield runs with changed numbers: all numbers, one variable in all tables, or in one table."""
    changes = {
        (node.path, str(name)): changed(variable.values)
        for node in run.subtree
        for name, variable in node.data_vars.items()
    }
    for way in itertools.count():
        together = {at: ways[way] for at, ways in changes.items() if way < len(ways)}
        if not together:
            break
        yield with_variables(run, together)
    for name in dict.fromkeys(name for _, name in changes):  # in all tables with this variable
        alike = {at: ways for at, ways in changes.items() if at[1] == name}
        for way in range(max(map(len, alike.values()))):
            yield with_variables(run, {at: ways[way % len(ways)] for at, ways in alike.items()})
    for at, ways in changes.items():
        for values in ways:
            yield with_variables(run, {at: values})
    if coincidence := COINCIDENCES.get(run.attrs["experiment"]):
        path, name, value = coincidence
        same = np.full(run[path][name].shape, value(run))
        yield with_variables(run, {(path, name): same})


def changed(values):
    """Return changed values, as their type allows, but not NaN, which breaks every claim."""
    kind, rng = values.dtype.kind, np.random.default_rng(values.size)
    if kind == "f":
        known = np.abs(values[np.isfinite(values)])  # infinity stands for units that never escape
        return [
            values * rng.lognormal(0.0, 1.0, values.shape),
            values + rng.normal(size=values.shape) * known.max(initial=1.0),
            np.zeros_like(values),
            np.ones_like(values),
            1e3 * values,
            1e-3 * values,
            np.sort(values, axis=None).reshape(values.shape),
            np.flip(values),
        ]
    if kind == "b":
        return [~values, np.zeros_like(values), np.ones_like(values)]
    if kind in "iu":
        turned = [values[::-1].copy(), values[..., ::-1].copy()] if values.ndim else []
        return [values + 1, np.maximum(values - 1, 0), 2 * values, 0 * values, *turned]
    return [np.full(values.shape, "?")]


def with_variables(run, replaced):
    copy = run.copy()
    for (path, name), values in replaced.items():
        table = copy[path].to_dataset(inherit=False)
        copy[path].dataset = table.assign({name: (table[name].dims, values)})
    return copy


def test_every_experiment_is_small():
    assert set(SMALL) == set(experiment_names())
