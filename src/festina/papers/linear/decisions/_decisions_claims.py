"""What the slides say of mice, and of how the model captures them."""

import json

import numpy as np
import xarray as xr

from ...claims import Claim
from .._slides import slide
from ._animals import DRAWN, EVEN, LEFT_FIRST, claimed, slope_with_gain

NAME = "linear/decisions"
_DIVERSE = slide("Mice exhibit diverse learning trajectories")
_SYSTEMATIC = slide("Learning trajectories are individually diverse but systematic")
_MODEL = slide("Model captures behavior")
_LEARNED = 0.8
"""An animal that uses both stimuli by this fraction of the time is held to be an expert."""

_TOLD_APART = 5.0
"""Ratio of gains from which on chance does not turn the order around."""

# Another integration of the same equations: W row by row at times 25, 50 and 100.
_REFERENCE = {
    "total": (
        (0.592541, -0.118052, 0.495509, -0.414479, 0.227705, 0.700959),
        (0.567618, -0.243481, 0.530632, -0.537118, 0.451400, 0.610585),
        (0.508564, -0.408539, 0.576898, -0.634241, 0.485130, 0.596012),
    ),
    "heterogeneous": (
        (0.631009, -0.021694, 0.474180, -0.044764, 0.658053, 0.479703),
        (0.625578, -0.010827, 0.474397, -0.029122, 0.624733, 0.476191),
        (0.620061, -0.006693, 0.475643, -0.019441, 0.618361, 0.476294),
    ),
}
_USE = {"total": (13.5, 115.0, 36.5, 36.5), "heterogeneous": (12.5, 57.0, 35.0, 35.0)}
"""Left and right of the left-first animal, then of the even one; known to half a unit."""


def claims(run: xr.DataTree) -> list[Claim]:
    """The stages, their order, and trials against the mean over trials."""
    found = []
    for teaching in _REFERENCE:
        table = run[teaching].to_dataset()
        found += [
            *_stages(run, table, teaching),
            *_order(table, teaching),
            *_trials(run, table, teaching),
            *_numbers(run, table, teaching),
        ]
    return found


def stage_times(table: xr.Dataset) -> np.ndarray | None:
    """Places in time of naive, one-sided and expert for the left-first animal, if it is all three.

    One-sided is half way between the use of the first and of the second stimulus.
    """
    first, second = table["use_theory"].values[LEFT_FIRST]
    time = table["time"].values
    if not (2.0 * first < second < _LEARNED * time[-1]):
        return None
    return np.array([0, np.searchsorted(time, 0.5 * (first + second)), len(time) - 1])


def _allowed(run: xr.DataTree) -> float:
    """How far P(R) in the mean of runs may be from the mean field.

    That of 16 runs at a learning rate of 0.01 and β = 5 stays within 0.1. Values fluctuate with the
    root of the learning rate and choices with β times that; more than 16 runs do not help, since
    the mean of runs itself is off by the order of the learning rate.
    """
    parameters = json.loads(run.attrs["parameters"])
    noise = parameters["learning_rate"] / 0.01 * max(16 / parameters["runs"], 1.0)
    return round(0.1 * parameters["inverse_temperature"] / 5.0 * float(np.sqrt(noise)), 3)


def _stages(run: xr.DataTree, table: xr.Dataset, teaching: str) -> list[Claim]:
    places = stage_times(table)
    if places is None:
        return []
    naive, one_sided, expert = table["right_probability"].values[LEFT_FIRST, places]
    stage, end = table["stage_choices"].values
    known = np.isfinite(stage)
    near = max(0.15, _allowed(run))
    other = (
        "takes its absence for the right one"
        if teaching == "total"
        else "stays near chance without it"
    )
    why = "" if known.all() else "nothing rests at that stage: chance is predicted for c ≥ 0 alone"
    say = lambda words, predicted, measured, tolerance, note="": claimed(
        NAME,
        claim=f"{teaching} teaching, left-first animal: {words}",
        source=_DIVERSE,
        predicted=np.round(predicted, 4),
        measured=np.round(measured, 4),
        tolerance=tolerance,
        note=note,
    )
    return [
        say("naive it chooses by chance (P(R) for each contrast)", np.full(5, 0.5), naive, 0.05),
        say(
            f"then it uses the left stimulus and {other}", stage[known], one_sided[known], near, why
        ),
        say("at last an expert on both sides", end, expert, near),
    ]


def _order(table: xr.Dataset, teaching: str) -> list[Claim]:
    """The side with the larger gain comes first; when, follows from the gain."""
    drawn = table.isel(animal=slice(DRAWN, None))
    gain, use = drawn["gain"].values, drawn["use"].values
    larger = gain.argmax(axis=1)
    pick = lambda times, side: np.take_along_axis(times, side[:, None], axis=-1)[:, 0]
    theory = drawn["use_theory"].values
    found = [
        claimed(
            NAME,
            claim=f"{teaching} teaching: drawn animals that use the side of the larger gain no "
            "later than the other (mean field)",
            source=_SYSTEMATIC,
            predicted=len(gain),
            measured=int((pick(theory, larger) <= pick(theory, 1 - larger)).sum()),
        )
    ]
    apart = gain.max(axis=1) > _TOLD_APART * gain.min(axis=1)
    if apart.any():
        ahead = [
            pick(use[:, run], larger) <= pick(use[:, run], 1 - larger)
            for run in range(use.shape[1])
        ]
        found.append(
            claimed(
                NAME,
                claim=f"{teaching} teaching: the same trial by trial, fraction of runs of animals "
                f"with gains at a ratio above {_TOLD_APART:g}",
                source=_SYSTEMATIC,
                predicted=1.0,
                measured=float(np.mean(np.array(ahead)[:, apart])),
                tolerance=0.1,
            )
        )
    typical = np.median(table["use"].values, axis=1)
    done = np.isfinite(typical).any(axis=1)
    if done.all():
        found.append(
            claimed(
                NAME,
                claim=f"{teaching} teaching: slope of the time of first use with the logarithm of "
                "the larger gain",
                source=_SYSTEMATIC,
                predicted=-1.0 / table.attrs["escape_rate"],
                measured=slope_with_gain(table, typical),
                tolerance=0.15,
                relative=True,
                note="predicted: −1 over the escape rate where the constant line alone is in use",
            )
        )
    return found


def _trials(run: xr.DataTree, table: xr.Dataset, teaching: str) -> list[Claim]:
    parameters = json.loads(run.attrs["parameters"])
    rate, runs = parameters["learning_rate"], parameters["runs"]
    apart = lambda name: float(np.abs(table[name] - table[f"{name}_theory"]).max())
    found = [
        claimed(
            NAME,
            claim=f"{teaching} teaching: {who} trial by trial follows the mean field "
            "(mean P(R), largest difference)",
            source=_MODEL,
            predicted=0.0,
            measured=apart(name),
            tolerance=_allowed(run),
            note=f"{runs} runs at a learning rate of {rate:g}",
        )
        for who, name in (
            ("every animal", "right_probability"),
            ("the reference animal", "reference_right_probability"),
        )
    ]
    typical, theory = np.median(table["use"].values, axis=1), table["use_theory"].values
    done = np.isfinite(typical) & (theory < _LEARNED * float(table["time"][-1]))
    found.append(
        claimed(
            NAME,
            claim=f"{teaching} teaching: each animal uses each stimulus when the mean field says "
            "(largest relative error)",
            source=_MODEL,
            predicted=0.0,
            measured=float((np.abs(typical - theory) / np.maximum(theory, 10.0))[done].max()),
            tolerance=0.2,
            note="median over runs; errors in units of the prediction, or of 10 τ if that is more; "
            f"{done.sum()} times, the latest at {theory[done].max():.1f}",
        )
    )
    return found


def _numbers(run: xr.DataTree, table: xr.Dataset, teaching: str) -> list[Claim]:
    """Reference numbers, which exist for the default temperature and gains alone."""
    parameters = json.loads(run.attrs["parameters"])
    if parameters["inverse_temperature"] != 5.0:
        return []
    times = " and ".join(f"{time:g}" for time in table["checkpoint"].values)
    found = [
        claimed(
            NAME,
            claim=f"{teaching} teaching: weights of the reference animal at the times {times}",
            source=_MODEL,
            predicted=np.ravel(_REFERENCE[teaching]),
            measured=np.round(table["reference_products"].values.ravel(), 7),
            tolerance=1e-5,
            note="mean field, against another integration of the same equations",
        )
    ]
    gains = (parameters["largest_gain"], parameters["smallest_gain"])
    if gains == (0.1, 1e-3) and float(table["time"][-1]) > max(_USE[teaching]):
        measured = table["use_theory"].values[[LEFT_FIRST, EVEN]].ravel()
        step = float(table["time"][1])
        found.append(
            claimed(
                NAME,
                claim=f"{teaching} teaching: when left and right are used, by the left-first and "
                "by the even animal",
                source=_DIVERSE,
                predicted=list(_USE[teaching]),
                measured=measured,
                tolerance=0.5 + step,
                note="known to half a unit of time",
            )
        )
    return found
