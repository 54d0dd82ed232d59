"""What tests of several experiments do to them."""

import functools
import itertools
import json

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

import festina
import festina.experiments
from small import SMALL


def once(parameters):
    """A function that runs any of these modules at its parameters, the first time it is asked."""

    @functools.cache
    def run(experiment):
        return experiment.run(experiment.Parameters(**parameters[experiment]))

    return run


@functools.cache
def at_small_parameters(name):
    """An experiment and its run in seconds, which all tests of a process share."""
    experiment = festina.experiments.load_experiment(name)
    return experiment, experiment.run(experiment.parameters(**SMALL[name]))


def by_id(experiment, run):
    """The claims of a run, by their identifiers."""
    return {claim.id: claim for claim in experiment.claims(run)}


def broken(experiment, run):
    """The identifiers of the claims of a run that fail although they are known to hold."""
    return [claim.id for claim in experiment.claims(run) if claim.broken]


def unexpected(experiment, run):
    """Those, and the claims that hold although they are known to fail."""
    known = [claim for claim in experiment.claims(run) if claim.expected == "does not hold"]
    hold = [claim.id for claim in known if claim.verdict != "does not hold"]
    return broken(experiment, run) + hold


def altered(run, group, name, change, **where):
    """The run with one variable changed, at the given labels."""
    copy = run.copy(deep=True)
    values = copy[group][name]
    values.loc[where] = change(values.loc[where])
    return copy


def written(experiment, run):
    """The claims of a run as they are written, which is plain JSON."""
    claims = [claim.to_json() for claim in experiment.claims(run)]
    assert json.loads(json.dumps(claims, allow_nan=False)) == claims
    return claims


def reloaded(experiment, run, folder):
    """The run from disk, which makes the same claims."""
    festina.save(run, folder / "run.zarr")
    again = festina.load(folder / "run.zarr")
    assert written(experiment, again) == written(experiment, run)
    return again


def pixels(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def is_whole(figure, slack=0.0):
    """Whether nothing is cut off at the edge of the figure, which is drawn for that."""
    figure.draw_without_rendering()
    drawn, page = figure.get_tightbbox(), figure.bbox_inches
    inside = (drawn.min >= page.min - slack).all() and (drawn.max <= page.max + slack).all()
    return bool(inside)


def is_labelled(figure, *words):
    """Whether all axes have what is asked for: "xlabel", "ylabel" or "title"."""
    return all(getattr(ax, f"get_{word}")() for ax in figure.axes for word in words)


def are_apart(boxes):
    """Whether no box lies on another."""
    return not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
