"""What is known of the saddle points, and how near to them animals come."""

import json

import numpy as np
import xarray as xr

from ...claims import Claim
from .._slides import slide
from ._animals import DRAWN, LEFT_FIRST, RIGHT_FIRST, claimed

NAME = "linear/decision-saddles"
_SLIDE = slide("Dynamics pass near a hierarchy of saddle points")
NOTHING, LEFT, RIGHT, CONSTANT, STIMULI, LEFT_CONSTANT, RIGHT_CONSTANT, ALL = range(8)
"""Points in the order of their number of active lines."""

NAMES = ("nothing", "L", "R", "0", "L R", "L 0", "R 0", "L R 0")

# Random choices: least squares on the active lines.
_UNIFORM_LOSS = (0.225, 0.135, 0.135, 0.1, 0.045, 0.0296875, 0.0296875, 0.01)
_UNIFORM_RATE = {
    NOTHING: (0.15, 0.15, 0.353553),
    LEFT: (0.15, 0.2596),
    CONSTANT: (0.106066, 0.106066),
    STIMULI: (0.0990,),
    LEFT_CONSTANT: (0.0464,),
}
# β = 5.
_SOFTMAX_LOSS = (0.225, 0.144211, 0.144211, 0.1, 0.063421, 0.025700, 0.025700, 0.007099)
_SOFTMAX_CHOICES = {
    LEFT_CONSTANT: (6.4e-5, 0.02047, 0.8722, 0.8722, 0.8722),
    ALL: (2.3e-4, 0.01496, 0.5, 0.985, 0.9998),
}
_POLICIES = {"uniform": "random choices", "softmax": "softmax"}


def claims(run: xr.DataTree) -> list[Claim]:
    """Points, indices, rates, paths, and how near."""
    found = []
    for group, policy in _POLICIES.items():
        found += _hierarchy(run[group].to_dataset(), policy)
    found += _numbers(run)
    found += _paths(run)
    found += _nearness(run)
    return found


def _hierarchy(points: xr.Dataset, policy: str) -> list[Claim]:
    silent = (1 - points["active"]).sum("line").values
    rate, growth = points["escape_rate"].values, points["growth_rate"].values
    leaving = np.isfinite(rate)
    return [
        claimed(
            NAME,
            claim=f"{policy}: unstable directions of each of the {len(silent)} points",
            source=_SLIDE,
            predicted=silent,
            measured=points["index"].values,
            note="predicted: its silent lines; measured: eigenvalues of the Jacobian",
        ),
        claimed(
            NAME,
            claim=f"{policy}: rate at which a silent line leaves, relative to |g_i|/τ "
            f"({leaving.sum()} animals put beside the saddles)",
            source=_SLIDE,
            predicted=np.ones(leaving.sum()),
            measured=np.round(growth[leaving] / rate[leaving], 5),
            tolerance=2e-3,
        ),
        claimed(
            NAME,
            claim=f"{policy}: loss at the points, where animals settle whose silent lines are held",
            source=_SLIDE,
            predicted=np.round(points["loss"].values, 6),
            measured=np.round(points["settled_loss"].values, 6),
            tolerance=1e-4,
        ),
    ]


def _numbers(run: xr.DataTree) -> list[Claim]:
    """Reference numbers, which for the softmax exist at β = 5 alone."""
    say = lambda words, predicted, measured, tolerance: claimed(
        NAME,
        claim=words,
        source=_SLIDE,
        predicted=np.array(predicted),
        measured=np.round(np.asarray(measured), 7),
        tolerance=tolerance,
    )
    uniform, softmax = (run[group].to_dataset() for group in _POLICIES)
    rates = uniform["escape_rate"].values[list(_UNIFORM_RATE)]
    found = [
        say("random choices: loss at the points", _UNIFORM_LOSS, uniform["settled_loss"], 1e-6),
        say(
            "random choices: escape rates of {}, {L}, {0}, {L, R} and {L, 0}",
            np.concatenate(list(_UNIFORM_RATE.values())),
            rates[np.isfinite(rates)],
            6e-5,
        ),
    ]
    if json.loads(run.attrs["parameters"])["inverse_temperature"] == 5.0:
        found.append(say("β = 5: loss at the points", _SOFTMAX_LOSS, softmax["loss"], 1e-6))
        for point, choices in _SOFTMAX_CHOICES.items():
            lines = ", ".join(NAMES[point].split())
            measured = softmax["right_probability"].values[point]
            words = f"β = 5: P(R) for each contrast at {{{lines}}}"
            found.append(say(words, choices, measured, 5e-5))
    return found


def visited(nearest: np.ndarray) -> list[int]:
    """The points that one animal is nearest to, in the order of time."""
    entered = np.concatenate([[True], np.diff(nearest) != 0])
    return nearest[entered].tolist()


def _lingers(run: xr.DataTree) -> bool:
    """Whether the gains are far enough apart for a one-sided stage, and the time long enough."""
    parameters = json.loads(run.attrs["parameters"])
    nearest = run["paths"].to_dataset()["nearest"].values
    ratio = parameters["largest_gain"] / parameters["smallest_gain"]
    return bool(ratio >= 30 and nearest[LEFT_FIRST, -1] == ALL)


def _paths(run: xr.DataTree) -> list[Claim]:
    paths = run["paths"].to_dataset()
    nearest = paths["nearest"].values
    sharp = json.loads(run.attrs["parameters"])["inverse_temperature"] > 5
    in_words = lambda places: " → ".join(f"{{{NAMES[place]}}}" for place in places)
    found = [
        claimed(
            NAME,
            claim=f"the {side}-first animal is nearest to one point after the other",
            source=_SLIDE,
            predicted=in_words((NOTHING, CONSTANT, between, ALL)),
            measured=in_words(visited(nearest[animal])),
            note="sharper choices try too little for weights to get there" if sharp else "",
            expected="does not hold" if sharp else "holds",
        )
        for side, animal, between in (
            ("left", LEFT_FIRST, LEFT_CONSTANT),
            ("right", RIGHT_FIRST, RIGHT_CONSTANT),
        )
        if _lingers(run)
    ]
    drawn, gain = nearest[DRAWN:], paths["gain"].values[DRAWN:]
    own = np.where(gain[:, 0] > gain[:, 1], LEFT_CONSTANT, RIGHT_CONSTANT)[:, None]
    other = LEFT_CONSTANT + RIGHT_CONSTANT - own
    staged = (drawn == own).any(axis=1)
    return [
        *found,
        claimed(
            NAME,
            claim="drawn animals that are ever nearest to the saddle of the side with the smaller "
            "gain",
            source=_SLIDE,
            predicted=0,
            measured=int((drawn == other).any(axis=1).sum()),
            note=f"{staged.sum()} of {len(drawn)} are for a while nearest to that of the larger "
            "gain; the others go from {0} to {L R 0} without",
        ),
        claimed(
            NAME,
            claim="animals that are ever nearest to {L}, {R} or {L R}",
            source=_SLIDE,
            predicted=0,
            measured=int(np.isin(nearest, (LEFT, RIGHT, STIMULI)).any(axis=1).sum()),
            note="the constant line leaves {} fastest, so three of the eight are never visited",
        ),
    ]


def _nearness(run: xr.DataTree) -> list[Claim]:
    """The saddle of the constant line is passed closely, the one-sided ones are not."""
    approach, points = run["approach"].to_dataset(), run["softmax"].to_dataset()
    paths = run["paths"].to_dataset()
    # Approached at the rate μ and left at r in each layer, from a gain v: at the closest
    # e^{−μt} = v² e^{2rt}, so that the distance goes as v^{2μ/(μ + 2r)}.
    mu = -float(points["eigenvalues"].values[CONSTANT].min())
    r = float(points["escape_rate"].values[CONSTANT, 0])
    gains = approach["gain"].values
    slope = np.diff(np.log(approach["constant"].values))[-1] / np.diff(np.log(gains))[-1]
    found = [
        claimed(
            NAME,
            claim="even animals come nearer to {0} the smaller their gains (exponent)",
            source=_SLIDE,
            predicted=2 * mu / (mu + 2 * r),
            measured=float(slope),
            tolerance=0.02,
            relative=True,
            note="predicted: 2μ/(μ + 2r), approached at the rate μ and left at r",
        )
    ]
    one = paths.isel(animal=LEFT_FIRST)
    if not _lingers(run):
        return found
    gap = float(points["distance"].values[CONSTANT, LEFT_CONSTANT])
    closest = float(one["distance"].isel(point=LEFT_CONSTANT).min())
    return [
        *found,
        claimed(
            NAME,
            claim="the left-first animal behaves as at {L 0} for a while (largest difference in "
            "P(R) when it is least)",
            source=_SLIDE,
            predicted=0.0,
            measured=float(one["choice_distance"].isel(point=LEFT_CONSTANT).min()),
            tolerance=0.15,
        ),
        claimed(
            NAME,
            claim="its weights, too, pass near {L 0} (closest approach over the distance from {0} "
            "to {L 0})",
            source=_SLIDE,
            predicted=0.0,
            measured=closest / gap,
            tolerance=0.1,
            note="what the left stimulus says against going right is learned only when the animal "
            "goes right, which it hardly does; a right gain of "
            f"{gains[-1]:g} would leave {float(approach['one_sided'][-1]) / gap:.2f}",
            expected="does not hold",
        ),
    ]
