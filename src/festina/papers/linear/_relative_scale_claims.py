"""What the runs of the relative scale show, seed against seed.

A network that has not grokked by the end counts as grokking then, so that every factor by which it
is later than another is at least the one stated.
"""

import json
from collections.abc import Callable

import numpy as np
import xarray as xr

from .._claim import Claim, Verdict, compare
from ._slides import slide

NAME = "linear/relative-scale"
_SLIDE = slide("Impact of relative scale initializations in practice")
_KUNIN = "Kunin et al. (2024), grokking in modular arithmetic"
_HERE = "this experiment"
# Where seeds differ by tens of percent, less is no difference.
_NO_LESS = 1.2


def claims(run: xr.DataTree) -> list[Claim]:
    """Whether networks grok, and whether relative scale makes it sooner."""
    data = run["simulation"].to_dataset()
    parameters = json.loads(run.attrs["parameters"])
    grok = data["grok_time"].fillna(parameters["t_end"])
    start = grok.sel(way="embedding", factor=1.0, drop=True)
    smallest = grok.isel(factor=-1, drop=True)
    return [
        _fits(data),
        _memorises(data),
        _groks(data, grok),
        _smaller_embedding(start, grok.sel(way="embedding")),
        _delay(data, grok),
        _upstream(smallest),
        _balanced(smallest),
        _alone(start, smallest),
        _conserved(data, parameters["rtol"]),
    ]


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
    sooner = (start / grok).isel(factor=slice(1, None))
    wins = int((sooner.isel(factor=-1) > 1).sum())
    return _judged(
        "with a smaller embedding grokking comes sooner (median factor, for each size)",
        "> 1",
        sooner.median("seed").values,
        lambda x: bool(np.all(x > 1)),
        f"{_SLIDE}; {_KUNIN}",
        correction="the function at the start is smaller too, and with both layers smaller "
        "instead, balanced, it comes about as soon",
        note=f"sooner in {wins} of {start.size} seeds at the smallest",
    )


def _delay(data: xr.Dataset, grok: xr.DataArray) -> Claim:
    """The same without a clock: a parametrisation can be faster at everything."""
    late = (grok / data["fit_time"]).sel(way="embedding").median("seed").values
    return _judged(
        "with a smaller embedding the delay, in units of the time to fit, falls (median)",
        "falls",
        late,
        lambda x: bool(np.all(np.diff(x) < 0)),
        f"{_SLIDE}; {_KUNIN}",
        note="so that it is no matter of the clock",
    )


def _upstream(grok: xr.DataArray) -> Claim:
    later = grok.sel(way="readout", drop=True) / grok.sel(way="embedding", drop=True)
    wins = int((later > 1).sum())
    return _judged(
        "equal function: sooner with a small embedding than with a small readout (median factor)",
        "> 1",
        float(later.median()),
        lambda x: x > 1,
        _KUNIN,
        note=f"in {wins} of {later.size} seeds; by how much differs widely between them",
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
        tolerance="",
        verdict=verdict,
        note="; ".join(part for part in (correction, note) if part),
        expected=expected,
    )
