"""Saddles, the plateaus they make, and what decides how an individual passes them."""

import json

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim
from .._slides import slide

NAME = "linear/hierarchy-of-saddles"
_HIERARCHY = slide("Depth introduces a hierarchy of saddle points")
_VARIABILITY = slide("Individual variability amidst structure")
_STAGES = slide("Depth introduces stage-like transitions")


def claims(run: xr.DataTree) -> list[Claim]:
    """Stationary points by autodiff, individuals and closest approaches by training."""
    parameters = json.loads(run.attrs["parameters"])
    s = np.array(parameters["singular_values"])
    saddles, individuals, near, shallow = (
        run[name].to_dataset() for name in ("saddles", "individuals", "near", "shallow")
    )
    return [
        *_saddle_claims(saddles, s, parameters["hidden"]),
        *_approach_claims(near, s),
        *_curve_claims(individuals, s),
        *_individual_claims(individuals, s),
        *_shallow_claims(shallow),
    ]


def _saddle_claims(saddles: xr.Dataset, s: np.ndarray, hidden: int) -> list[Claim]:
    """A mode that is left leads away in every free unit, and in those of weaker modes learned."""
    learned = saddles["learned"].values.astype(bool)
    index, rate = [], []
    for has in learned:
        free = hidden - has.sum()
        index.append(sum(free + np.sum(s[has] < left) for left in s[~has]))
        rate.append(float(s[~has].max(initial=0.0)))
    return [
        compare(
            experiment=NAME,
            claim="every set of learned modes is a stationary point: largest gradient of all "
            f"{len(learned)}",
            source=_HIERARCHY,
            predicted=0.0,
            measured=float(saddles["gradient"].max()),
            tolerance=1e-12 * float(s[0]) ** 1.5,
        ),
        compare(
            experiment=NAME,
            claim="the loss there is half the sum of s² over the modes that are left",
            source=_HIERARCHY,
            predicted=0.5 * (~learned @ s**2),
            measured=saddles["loss"].values,
            tolerance=1e-12 * float(s @ s),
        ),
        compare(
            experiment=NAME,
            claim="all but the last are saddles: directions of negative curvature",
            source=_HIERARCHY,
            predicted=[int(i) for i in index],
            measured=[int(i) for i in saddles["index"].values],
            note="each mode left: one in every free hidden unit, and one in the unit of each "
            "weaker mode that was learned before it",
        ),
        compare(
            experiment=NAME,
            claim="saddles are left at the rate of the largest singular value that is left",
            source=_HIERARCHY,
            predicted=[r for r, i in zip(rate, index, strict=True) if i],
            measured=[
                float(r) for r, i in zip(saddles["escape_rate"].values, index, strict=True) if i
            ],
            tolerance=1e-9,
            relative=True,
        ),
    ]


def _approach_claims(near: xr.Dataset, s: np.ndarray) -> list[Claim]:
    """Between stages: (s − a) ∝ e^{−2st}/a₀ and a′ ∝ a₀ e^{2s′t} are equal at the closest."""
    closest, strength = near["closest"].values, near["initial_strength"].values
    exponent = (s[:-1] - s[1:]) / (s[:-1] + s[1:])
    law = s[:-1] * (strength[:, None] / s[:-1]) ** exponent
    # The smallest two for which the distance is well above the error of the integration.
    last = np.maximum((law > 1e-8 * s[:-1]).sum(axis=0) - 1, 1)
    stage = np.arange(len(s) - 1)
    nearer, distance = (closest[last - 1, stage] / closest[last, stage], law[last, stage])
    measured = np.log(nearer) / np.log(strength[last - 1] / strength[last])
    return [
        compare(
            experiment=NAME,
            claim="the smaller the initial weights, the nearer the path to each saddle: exponents "
            "of the closest distance in a₀",
            source=_HIERARCHY,
            predicted=exponent,
            measured=measured,
            tolerance=0.02,
            note="(s − s′)/(s + s′), s′ the next singular value",
        ),
        *(
            compare(
                experiment=NAME,
                claim=f"level of plateau {k + 2}, for a₀ = {strength[last[k]]:g}: half the sum "
                "of s² that is left",
                source=_STAGES,
                predicted=float(near["saddle_loss"][k]),
                measured=float(near["loss"][last[k], k]),
                tolerance=float(2 * s[k + 1] * distance[k]),
                note="tolerance: 2s′ times the distance that the law gives",
            )
            for k in range(len(s) - 1)
            # Of singular values that are too close the plateau is not flat, at any a₀ in reach.
            if distance[k] < 0.1 * s[k + 1]
        ),
    ]


def _curve_claims(individuals: xr.Dataset, s: np.ndarray) -> list[Claim]:
    apart = np.abs(individuals["loss"] - individuals["loss_theory"]).max() / (0.5 * s @ s)
    return [
        compare(
            experiment=NAME,
            claim="loss of every individual from the growing part of its weights (largest error "
            "over the initial loss)",
            source=_VARIABILITY,
            predicted=0.0,
            measured=float(apart),
            tolerance=_second_order(individuals, s),
            note="what the prediction leaves out is of second order in the weights",
        ),
        compare(
            experiment=NAME,
            claim="stage-like transitions: plateaus of the loss of each individual",
            source=_STAGES,
            predicted=individuals["plateaus_theory"].values,
            measured=individuals["plateaus"].values,
            note=f"first and last included: {len(s) + 1} unless two modes are learned together",
        ),
    ]


def _second_order(individuals: xr.Dataset, s: np.ndarray) -> float:
    size, share = individuals["initial_size"].values, individuals["independence"].values
    return min(float(np.max(size / (s[-1] * share))) + 1e-5, 0.02)


def _individual_claims(individuals: xr.Dataset, s: np.ndarray) -> list[Claim]:
    half, theory = individuals["half_time"].values, individuals["half_time_theory"].values
    simple = individuals["half_time_simple"].values
    error = _second_order(individuals, s)
    order, expected = (np.argsort(times, axis=1) for times in (half, theory))
    tied = (np.diff(np.sort(theory, axis=1)) < 2 * error * theory.max()).any(axis=1)
    return [
        compare(
            experiment=NAME,
            claim="when each individual learns each mode, from its own initial weights (largest "
            "relative difference)",
            source=_VARIABILITY,
            predicted=0.0,
            measured=float(np.abs(half / theory - 1).max()),
            tolerance=error,
        ),
        compare(
            experiment=NAME,
            claim="the same times from chains with effective strengths (median relative error)",
            source=_VARIABILITY,
            predicted=0.0,
            measured=float(np.median(np.abs(simple / half - 1))),
            tolerance=float(1 / np.log(s[-1] / np.median(individuals["initial_size"]))),
            note="modes share hidden units, which costs a time of order 1/s",
        ),
        compare(
            experiment=NAME,
            claim="individuals learn modes in orders of their own: how many as predicted",
            source=_VARIABILITY,
            predicted=int((~tied).sum()),
            measured=int((order == expected)[~tied].all(axis=1).sum()),
            note=f"{_others(expected)} of {len(half)} do not learn in the order of s",
        ),
        compare(
            experiment=NAME,
            claim="spread of the half-rise times over individuals, mode by mode (standard "
            "deviation)",
            source=_VARIABILITY,
            predicted=theory.std(axis=0),
            measured=half.std(axis=0),
            tolerance=float(error * theory.max()),
        ),
    ]


def _others(order: np.ndarray) -> int:
    return int((np.diff(order, axis=1) < 0).any(axis=1).sum())


def _shallow_claims(shallow: xr.Dataset) -> list[Claim]:
    loss, plateaus = shallow["loss"].values, shallow["plateaus"].values
    return [
        compare(
            experiment=NAME,
            claim="shallow: no saddles, the loss falls as exp(−2t/τ) for everyone (largest "
            "relative difference)",
            source=_STAGES,
            predicted=0.0,
            measured=float(np.abs(loss / shallow["loss_theory"].values - 1).max()),
            tolerance=1e-5,
        ),
        compare(
            experiment=NAME,
            claim="shallow: plateaus between the start and the end, of any individual",
            source=_STAGES,
            predicted=0,
            measured=int(plateaus.max()) - 2,
        ),
    ]
