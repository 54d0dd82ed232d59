"""Helpers that tests of several experiments share."""

import functools
import itertools
import json

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

import festina
import festina.experiments
from small import SMALL


def once(parameters):
    """Return a function that runs one of the modules at its parameters, and caches the run."""

    @functools.cache
    def run(experiment):
        return experiment.run(experiment.Parameters(**parameters[experiment]))

    return run


@functools.cache
def at_small_parameters(name):
    """Return an experiment and its run at small parameters, cached for all tests of a process."""
    experiment = festina.experiments.load_experiment(name)
    return experiment, experiment.run(experiment.parameters(**SMALL[name]))


def by_id(experiment, run):
    """Return the claims of a run by identifier."""
    return {claim.id: claim for claim in experiment.claims(run)}


def broken(experiment, run):
    """Return the identifiers of the claims of a run that are broken."""
    return [claim.id for claim in experiment.claims(run) if claim.broken]


def unexpected(experiment, run):
    """Return the identifiers of broken claims, and of claims that hold against expectation."""
    known = [claim for claim in experiment.claims(run) if claim.expected == "does not hold"]
    hold = [claim.id for claim in known if claim.verdict != "does not hold"]
    return broken(experiment, run) + hold


def altered(run, group, name, change, **where):
    """Return a copy of the run with one variable changed at the given labels."""
    copy = run.copy(deep=True)
    values = copy[group][name]
    values.loc[where] = change(values.loc[where])
    return copy


def written(experiment, run):
    """Return the claims of a run as plain JSON."""
    claims = [claim.to_json() for claim in experiment.claims(run)]
    assert json.loads(json.dumps(claims, allow_nan=False)) == claims
    return claims


def reloaded(experiment, run, folder):
    """Save and load the run, and check that its claims are the same."""
    festina.save(run, folder / "run.zarr")
    again = festina.load(folder / "run.zarr")
    assert written(experiment, again) == written(experiment, run)
    return again


def pixels(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def is_whole(figure, slack=0.0):
    """Draw a figure and return whether nothing is cut off at its edges."""
    figure.draw_without_rendering()
    drawn, page = figure.get_tightbbox(), figure.bbox_inches
    inside = (drawn.min >= page.min - slack).all() and (drawn.max <= page.max + slack).all()
    return bool(inside)


def is_labelled(figure, *words):
    """Return whether all axes have the given texts: "xlabel", "ylabel" or "title"."""
    return all(getattr(ax, f"get_{word}")() for ax in figure.axes for word in words)


def are_apart(boxes):
    """Return whether no two boxes overlap."""
    return not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
