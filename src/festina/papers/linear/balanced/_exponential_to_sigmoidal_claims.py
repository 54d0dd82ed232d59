"""What becomes of the learning curve between the two limits."""

import numpy as np
import xarray as xr

from ...claims import Claim
from .._slides import claims_of, slide

NAME = "linear/exponential-to-sigmoidal"
_SLIDE = slide("From exponential to sigmoidal dynamics")
_claim = claims_of(NAME, _SLIDE)


def claims(run: xr.DataTree) -> list[Claim]:
    """Curves, their shape, and how fast the two limits are approached."""
    curves = run["curves"].to_dataset()
    found = [_follows(curves.sel(balance=balance)) for balance in curves["balance"].values]
    found += [_both_signs(curves), _shape(curves)]
    if len(set(curves["singular_value"].values)) > 1:
        found.append(_order(curves))
    return [
        *found,
        _limit(
            run["exponential"].to_dataset()["exponential"],
            "large λ: the curve becomes the exponential s + (a₀ − s) e^{−|λ|t/τ}, with a deviation "
            "that falls as λ⁻² (exponent)",
            -2.0,
        ),
        _limit(
            run["sigmoid"].to_dataset()["logistic"],
            "λ → 0: the curve becomes the sigmoid of two equal layers, with a deviation that falls "
            "as λ² (exponent)",
            2.0,
        ),
    ]


def _follows(curve: xr.Dataset) -> Claim:
    apart = abs(curve["strength"] - curve["theory"]).max()
    return _claim(
        f"λ = {float(curve['balance']):g}: every mode follows its closed form (largest difference)",
        0.0,
        float(max(apart, curve["off_diagonal"])),
        1e-6,
    )


def _both_signs(curves: xr.Dataset) -> Claim:
    one, other = (curves["strength"].sel(sign=sign) for sign in (1.0, -1.0))
    return _claim(
        "a square network learns the same map for λ and −λ (largest difference)",
        0.0,
        float(abs(one - other).max()),
        1e-6,
    )


def reached(curves: xr.Dataset) -> np.ndarray:
    """When training has a fraction of each mode: `(balance, mark, mode)`, by interpolation."""
    strength = curves["strength"].sel(sign=1.0).isel(seed=0).transpose("balance", "sample", "mode")
    time, s = curves["time"].transpose("balance", "sample").values, curves["singular_value"].values
    return np.array(
        [
            [
                [
                    np.interp(mark * s[mode], strength.values[lane, :, mode], time[lane])
                    for mode in range(len(s))
                ]
                for mark in curves["mark"].values
            ]
            for lane in range(len(time))
        ]
    )


def shape_of(times: np.ndarray) -> np.ndarray:
    """Time until 10 % over the time from 10 % to 90 %, for the strongest mode."""
    return times[:, 0, 0] / (times[:, 2, 0] - times[:, 0, 0])


def _shape(curves: xr.Dataset) -> Claim:
    theory = curves["time_to"].transpose("balance", "mark", "mode").values
    exponential = np.log(1 / 0.9) / np.log(9)
    return _claim(
        "wait over rise (time to 10 % over time from 10 % to 90 %) at each λ, strongest mode",
        shape_of(theory),
        shape_of(reached(curves)),
        0.01,
        relative=True,
        note=f"an exponential from zero has {exponential:.3f}",
    )


def _order(curves: xr.Dataset) -> Claim:
    theory = curves["time_to"].transpose("balance", "mark", "mode").values
    ratio = lambda times: times[:, 1, -1] / times[:, 1, 0]
    strong, weak = (float(curves["singular_value"][mode]) for mode in (0, -1))
    return _claim(
        "half-rise time of the weakest mode over that of the strongest, at each λ",
        ratio(theory),
        ratio(reached(curves)),
        0.01,
        relative=True,
        note=f"about s₁/s₂ = {strong / weak:g} for sigmoids, one after the other; 1 for "
        "exponentials, all at once",
    )


def _limit(deviation: xr.DataArray, claim: str, exponent: float) -> Claim:
    slope = np.diff(np.log(deviation.values)) / np.diff(np.log(deviation["balance"].values))
    largest = float(deviation.max())
    return _claim(claim, exponent, float(slope[0]), 0.1, note=f"{largest:.2g} of s at most here")
