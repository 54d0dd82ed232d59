"""What depth adds: points of rest, stages, and a wait that grows with the logarithm of the gain."""

import numpy as np
import xarray as xr

from ...claims import Claim
from .._slides import slide
from ._animals import DRAWN, LEFT_FIRST, claimed, slope_with_gain

NAME = "linear/decision-depth"
_SLIDE = slide("Saddle points arise through depth")
_COUNT = {"shallow": 1, "deep": 8}
_CONSTANT, _LEFT_CONSTANT = 3, 5
_TOLD_APART = 3.0


def claims(run: xr.DataTree) -> list[Claim]:
    """One point against eight, at once against in stages."""
    shallow, deep = (run[name].to_dataset() for name in _COUNT)
    return [
        *_points(run),
        *_behaviour(shallow, deep),
        *_weights(shallow, deep),
    ]


def _say(words: str, predicted, measured, tolerance: float = 0.0, **rest) -> Claim:
    return claimed(
        NAME,
        claim=words,
        source=_SLIDE,
        predicted=predicted,
        measured=measured,
        tolerance=tolerance,
        **rest,
    )


def _points(run: xr.DataTree) -> list[Claim]:
    found = []
    for name, count in _COUNT.items():
        table = run[name].to_dataset()
        resting = table["point_speed"].values < 1e-9
        found += [
            _say(
                f"{name}: points of rest that a search from random weights finds, random choices",
                count,
                int(table["found"]),
                note="for a fixed policy there are no others; the softmax is followed from there",
            ),
            _say(f"{name}: points at which the softmax rests", count, int(resting.sum())),
            _say(
                f"{name}: how many of them are stable",
                1,
                int((table["point_index"].values == 0).sum()),
            ),
            _say(
                f"{name}: the even animal ends at the expert (largest difference in P(R))",
                0.0,
                float(np.abs(table["end"] - table["expert"]).max()),
                0.01,
            ),
        ]
    shallow, deep = (run[name].to_dataset()["expert_products"] for name in _COUNT)
    apart = np.abs(shallow - deep).max()
    return [*found, _say("shallow and deep experts are the same (W)", 0.0, float(apart), 1e-8)]


def _behaviour(shallow: xr.Dataset, deep: xr.Dataset) -> list[Claim]:
    at_once, staged = shallow["use"].values, deep["use"].values
    start = np.abs(shallow["start"] - deep["start"]).max()
    step = float(shallow["time"][1])
    found = [
        _say("both start with the same choices (P(R))", 0.0, float(start), 1e-12),
        _say(
            "shallow: time between the use of one side and of the other (largest of all animals)",
            0.0,
            float(np.abs(np.diff(at_once, axis=1)).max()),
            0.5,
            note=f"first use at {at_once.min():.2f} to {at_once.max():.2f}",
        ),
        _say(
            "shallow: the time of first use does not depend on the gain (slope with its logarithm)",
            0.0,
            slope_with_gain(shallow, at_once),
            0.2,
        ),
    ]
    if not np.isfinite(staged.min(axis=1)).all():
        return found
    found.append(
        _say(
            "deep: it comes later by this for each factor e in the larger gain (τ)",
            1.0 / float(deep["escape_rate"][_CONSTANT]),
            -slope_with_gain(deep, staged),
            0.15,
            relative=True,
            note="predicted: one over the escape rate where the constant line alone is in use",
        )
    )
    gain = deep["gain"].values[DRAWN:]
    apart = gain.max(axis=1) > _TOLD_APART * gain.min(axis=1)
    if apart.any():
        first, second = np.sort(staged[DRAWN:][apart], axis=1).T
        longest = float(np.abs(np.diff(at_once, axis=1)).max()) + step
        found.append(
            _say(
                f"deep: drawn animals of gains at a ratio above {_TOLD_APART:g} with sides ten "
                "times further apart in time than any shallow one's",
                int(apart.sum()),
                int((second - first > 10 * longest).sum()),
            )
        )
    return found


def _weights(shallow: xr.Dataset, deep: xr.Dataset) -> list[Claim]:
    """How far the weights of one side are ahead of the other's, over what is to be learned."""
    goal = float(shallow["point_lean"].values[-1, 0])
    ahead = lambda table: np.abs(np.diff(table["lean"].values, axis=-1))[..., 0].max(axis=1) / goal
    at_once, staged = ahead(shallow), ahead(deep)
    gain = deep["gain"].values
    apart = gain.max(axis=1) > _TOLD_APART * gain.min(axis=1)
    saddle = deep["point_lean"].values[_LEFT_CONSTANT, 0] / goal
    return [
        _say(
            "shallow: weights of both sides grow together (largest lead of one over the goal)",
            0.0,
            float(at_once.max()),
            0.05,
        ),
        _say(
            f"deep: animals of gains at a ratio above {_TOLD_APART:g} in which one side gets ten "
            "times as far ahead as with one layer",
            int(apart.sum()),
            int((staged > 10 * at_once)[apart].sum()),
            note=f"left-first: by {staged[LEFT_FIRST]:.2f} of the goal; at the saddle {{L 0}} it "
            f"would be {saddle:.2f}",
        ),
    ]
