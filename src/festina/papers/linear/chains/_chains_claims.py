"""What whole networks have to do with chains: exactly, nearly, and in stages."""

import json

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim
from .._slides import slide

NAME = "linear/chains"
_CHAINS = slide("Full networks act like several 1D chains")
_STAGES = slide("Depth introduces stage-like transitions")


def claims(run: xr.DataTree) -> list[Claim]:
    """Decoupled weights exactly; small random ones with the error that is left."""
    exact, random = run["decoupled"].to_dataset(), run["random"].to_dataset()
    depths = exact["depth"].values
    return [
        *(_follows(exact.sel(depth=depth)) for depth in depths),
        _decoupled(exact),
        _one_rate(exact.sel(depth=1)),
        _together(exact.sel(depth=1, input="white")),
        *(_stages(exact.sel(depth=depth, input="white")) for depth in depths[1:]),
        *_half_rise(random, json.loads(run.attrs["parameters"])["width"]),
        _balanced_order(random),
        _balanced_better(random),
    ]


def _follows(data: xr.Dataset) -> Claim:
    apart = abs(data["strength"] - data["theory"]) / data["target"]
    return compare(
        experiment=NAME,
        claim=f"depth {int(data['depth'])}, decoupled: every mode follows its chain, on white and "
        "other inputs (largest difference, of the target)",
        source=_CHAINS,
        predicted=[0.0, 0.0],
        measured=apart.max(("sample", "mode")).values,
        tolerance=1e-7,
    )


def _decoupled(data: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim="decoupled weights stay decoupled (largest part of the map outside the modes)",
        source=_CHAINS,
        predicted=0.0,
        measured=float(data["leak"].max()),
        tolerance=1e-7,
        note="rounding there grows along the flow",
    )


def _one_rate(data: xr.Dataset) -> Claim:
    """Slope of the logarithm of what is left to learn."""
    left = (1 - data["strength"] / data["target"]).transpose("input", "mode", "sample").values
    # Up to the last sample at which a hundredth is left; what is less is soon rounding.
    last = np.sum(left > 0.01, axis=-1, keepdims=True) - 1
    fall = left[..., 0] / np.take_along_axis(left, last, axis=-1)[..., 0]
    time = data["time"].transpose("input", "sample").values[:, None]
    rate = np.log(fall) / np.take_along_axis(time, last, axis=-1)[..., 0]
    return compare(
        experiment=NAME,
        claim="shallow: each mode relaxes at the rate of its input's variance, on white inputs "
        "all at one",
        source=_CHAINS,
        predicted=data["input_variance"].transpose("input", "mode").values.ravel(),
        measured=rate.ravel(),
        tolerance=1e-4,
        relative=True,
        note="the singular values do not matter",
    )


def _together(data: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim="shallow, white: when one mode is half learned, so is the next (fraction)",
        source=_STAGES,
        predicted=data["overlap"].values,
        measured=_next_fractions(data),
        tolerance=1e-3,
    )


def _stages(data: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim=f"depth {int(data['depth'])}, white: fraction of the next mode when one is half "
        "learned",
        source=_STAGES,
        predicted=data["overlap"].values,
        measured=_next_fractions(data),
        tolerance=0.05,
        relative=True,
        note="for a shallow network it is one half",
    )


def _next_fractions(data: xr.Dataset) -> np.ndarray:
    """Read off the training curves."""
    learned = (data["strength"] / data["target"]).values
    time = data["time"].values
    halves = [np.interp(0.5, curve, time) for curve in learned.T[:-1]]
    return np.array(
        [np.interp(t, time, curve) for t, curve in zip(halves, learned.T[1:], strict=True)]
    )


def _half_rise(data: xr.Dataset, width: int) -> list[Claim]:
    """Where the weights are small: not even the weakest mode may be there from the start."""
    strength = width * float(data["scale"][-2]) ** 2
    if strength > 0.03 * float(data["singular_value"].min()):
        return []
    late = data["half_time_trained"] - data["half_time"]
    delay = (late * data["singular_value"]).mean(("seed", "mode")).values
    error = abs(late / data["half_time"]).mean(("seed", "mode")).values
    return [
        compare(
            experiment=NAME,
            claim="small random weights: modes come later than their chains, by a time that the "
            "scale does not change (in τ/s)",
            source=_CHAINS,
            predicted=float(delay[-2]),
            measured=float(delay[-1]),
            tolerance=0.15,
            relative=True,
            correction="small weights are chains only nearly: the relative error of half-rise "
            "times falls as 1/ln(1/scale)",
            note="delays at the two smallest scales; that error is " + _listed(error),
        )
    ]


def _balanced_order(data: xr.Dataset) -> Claim:
    error = data["balanced_error"].median("seed").values
    slope = np.polyfit(np.log(data["scale"].values), np.log(error), 1)[0]
    return compare(
        experiment=NAME,
        claim="small random weights: error of the balanced solution, as a power of the scale",
        source=slide("Partitioned solution"),
        predicted=2.0,
        measured=float(slope),
        tolerance=0.2,
        note="median over seeds of the largest error of W₂W₁: " + _listed(error),
    )


def _balanced_better(data: xr.Dataset) -> Claim:
    ratio = (data["balanced_error"] / data["chain_error"]).median("seed").values
    better = bool(np.all(ratio < 0.1))
    return compare(
        experiment=NAME,
        claim="small random weights: which is nearer to training, by ten times at every scale",
        source=slide("Partitioned solution"),
        predicted="balanced solution",
        measured="balanced solution" if better else "not by that much",
        note="its error in units of that of the chains: " + _listed(ratio),
    )


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2g}" for value in values)
