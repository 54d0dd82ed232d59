"""What the runs of the relative scale show, seed against seed.

A network that has not grokked by the end counts as grokking then, so that every factor by which it
is later than another is at least the one stated.
"""

import json
from collections.abc import Callable

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim, Verdict
from .._slides import slide

NAME = "linear/relative-scale"
_SLIDE = slide("Impact of relative scale initializations in practice")
_KUNIN = "Kunin et al. (2024), grokking in modular arithmetic"
_HERE = "this experiment"
# Where seeds differ by tens of percent, less is no difference.
_NO_LESS = 1.2
_ENOUGH = 5
"""Seeds from which on a comparison of medians is no luck."""


def claims(run: xr.DataTree) -> list[Claim]:
    """Whether networks grok, and whether relative scale makes it sooner."""
    data = run["simulation"].to_dataset()
    parameters = json.loads(run.attrs["parameters"])
    # A few held-out pairs can be right by chance at the start, which counts as the first sample.
    grok = data["grok_time"].fillna(parameters["t_end"]).clip(min=float(data["time"][1]))
    start = grok.sel(way="embedding", factor=1.0, drop=True)
    smallest = grok.isel(factor=-1, drop=True)
    found = [_conserved(data, parameters["rtol"])]
    if not _long_enough(data, parameters["t_end"]):
        return found
    found.append(_fits(data))
    if not _conclusive(data):
        return found
    return [
        *found,
        _memorises(data),
        _groks(data, grok),
        _smaller_embedding(start, grok.sel(way="embedding")),
        _delay(data, grok),
        _upstream(smallest),
        _balanced(smallest),
        _alone(start, smallest),
    ]


def _long_enough(data: xr.Dataset, end: float) -> bool:
    """Whether training goes on for long after the time at which networks usually fit."""
    return bool((3 * data["fit_time"].median("seed", skipna=False) <= end).all())


def _conclusive(data: xr.Dataset) -> bool:
    """Whether there is something to compare: an embedding much smaller, with which most grok."""
    reached = data["grok_time"].sel(way="embedding").isel(factor=-1).notnull()
    return bool(reached.size >= _ENOUGH and data["factor"][-1] <= 0.5 and reached.mean() > 0.5)


def _fits(data: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim="every network fits its training pairs (fraction)",
        source=_HERE,
        predicted=1.0,
        measured=float(data["fit_time"].notnull().mean()),
    )


def _memorises(data: xr.Dataset) -> Claim:
    """What is known of the other pairs when those of training are fitted."""
    lane = data.sel(way="embedding", factor=1.0)
    then = lane["test_accuracy"].where(lane["time"] == lane["fit_time"]).max("time")
    return _judged(
        "balanced, when the training pairs are fitted: accuracy on the others (median)",
        "< 0.5",
        float(then.median()),
        lambda x: x < 0.5,
        _SLIDE,
    )


def _groks(data: xr.Dataset, grok: xr.DataArray) -> Claim:
    lane = {"way": "embedding", "factor": 1.0}
    late = (grok / data["fit_time"]).sel(lane)
    reached = int(data["grok_time"].sel(lane).notnull().sum())
    return _judged(
        "balanced: grokking comes late, in units of the time to fit (median)",
        "> 2",
        float(late.median()),
        lambda x: x > 2,
        _SLIDE,
        note=f"by the end {reached} of {late.size} have grokked",
    )


def _smaller_embedding(start: xr.DataArray, grok: xr.DataArray) -> Claim:
    sooner = start / grok
    medians = ", ".join(f"{value:.2g}" for value in sooner.median("seed").values[1:])
    wins = int((sooner.isel(factor=-1) > 1).sum())
    return _judged(
        "with the smallest embedding grokking comes sooner (median factor)",
        "> 1",
        float(sooner.isel(factor=-1).median()),
        lambda x: x > 1,
        f"{_SLIDE}; {_KUNIN}",
        correction="the function at the start is smaller too, and with both layers smaller "
        "instead, balanced, it comes about as soon",
        note=f"sooner in {wins} of {start.size} seeds; at each size by {medians}",
    )


def _delay(data: xr.Dataset, grok: xr.DataArray) -> Claim:
    """The same without a clock: a parametrisation can be faster at everything."""
    late = (grok / data["fit_time"]).sel(way="embedding").median("seed").values
    return _judged(
        "with the smallest embedding the delay is shorter, in units of the time to fit (medians)",
        "falls",
        late,
        lambda x: x[-1] < x[0],
        f"{_SLIDE}; {_KUNIN}",
        note="so that it is no matter of the clock",
    )


def _upstream(grok: xr.DataArray) -> Claim:
    later = grok.sel(way="readout", drop=True) / grok.sel(way="embedding", drop=True)
    wins, log = int((later > 1).sum()), np.log(later.values)
    spread = float(2 * log.std(ddof=1) / np.sqrt(len(log)))
    return _judged(
        "equal function: sooner with a small embedding than a small readout (mean factor)",
        "> 1",
        float(np.exp(log.mean())),
        lambda x: x * np.exp(spread) > 1,
        _KUNIN,
        tolerance=f"a factor of {np.exp(spread):.2f}",
        note=f"geometric mean, within two standard errors; sooner in {wins} of {later.size} seeds",
    )


def _balanced(grok: xr.DataArray) -> Claim:
    later = grok.sel(way="both", drop=True) / grok.sel(way="embedding", drop=True)
    return _judged(
        "equal function: sooner with a small embedding than balanced (median factor)",
        f"> {_NO_LESS}",
        float(later.median()),
        lambda x: x > _NO_LESS,
        _SLIDE,
        note="a balanced network with as small a function groks about as soon",
        expected="does not hold",
    )


def _alone(start: xr.DataArray, grok: xr.DataArray) -> Claim:
    sooner = start / grok.sel(way="exchange", drop=True)
    reached = int((sooner > 1).sum())
    return _judged(
        "relative scale alone, function kept: sooner with a small embedding (median factor)",
        "> 1",
        float(sooner.median()),
        lambda x: x > 1,
        _SLIDE,
        note=f"fits sooner but groks later; sooner in {reached} of {sooner.size} seeds",
        expected="does not hold",
    )


def _conserved(data: xr.Dataset, rtol: float) -> Claim:
    # Thousands of steps, each in error by `rtol` with either sign.
    return compare(
        experiment=NAME,
        claim="every unit conserves |u|² − 2|v|² (largest drift, of the largest |u|² + 2|v|²)",
        source="after Kunin et al. (2024), here for units of degree two",
        predicted=0.0,
        measured=float(data["balance_drift"].max()),
        tolerance=100 * rtol,
    )


def _judged(
    claim: str,
    predicted: str,
    measured: float | np.ndarray,
    holds: Callable[..., bool],
    source: str,
    *,
    tolerance: str = "",
    correction: str = "",
    note: str = "",
    expected: Verdict = "holds",
) -> Claim:
    """A claim that is an inequality."""
    verdict: Verdict = "does not hold"
    if holds(measured):
        verdict = "holds with a correction" if correction else "holds"
    return Claim(
        experiment=NAME,
        claim=claim,
        source=source,
        predicted=predicted,
        measured=measured,
        tolerance=tolerance,
        verdict=verdict,
        note="; ".join(part for part in (correction, note) if part),
        expected=expected,
    )
