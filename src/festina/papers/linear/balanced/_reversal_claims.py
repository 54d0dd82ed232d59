"""What reversal learning does at each balance, and at none."""

import math

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim
from .._slides import slide

NAME = "linear/reversal"
_SLIDE = slide("Exact continual learning dynamics")


def claims(run: xr.DataTree) -> list[Claim]:
    """Crossing times against the closed form, the trap at balance 0, and the ways out of it."""
    converged, early = run["converged"].to_dataset(), run["early"].to_dataset()
    return [
        _follows(converged),
        *(_crossing(converged.sel(mode=mode)) for mode in converged["mode"].values),
        *_limits(converged),
        *_trapped(run["trapped"].to_dataset()),
        _shallow(run["shallow"].to_dataset()),
        _early(early),
        *_slopes(early),
    ]


def _follows(data: xr.Dataset) -> Claim:
    apart = abs(data["strength"] - data["theory"]) / data["mode"]
    return compare(
        experiment=NAME,
        claim="after the reversal every mode follows its closed form, at every balance (largest "
        "difference, of s)",
        source=_SLIDE,
        predicted=0.0,
        measured=float(apart.max()),
        tolerance=1e-5,
        note="networks had come within "
        f"{float(data['left_to_learn'].max()):.1g} of Σ before the reversal",
    )


def _crossing(data: xr.Dataset) -> Claim:
    listed = ", ".join(f"{value:g}" for value in data["balance"].values)
    return compare(
        experiment=NAME,
        claim=f"s = {float(data['mode']):g}: time until the mode passes through zero, at balances "
        f"{listed}",
        source=_SLIDE,
        predicted=data["crossing_theory"].values,
        measured=data["crossing"].median("seed").values,
        tolerance=1e-4,
        relative=True,
    )


def _limits(data: xr.Dataset) -> list[Claim]:
    """Where the balances go far enough to either side, the two laws."""
    found = []
    mode, lam = data["mode"].values, data["balance"].values
    smallest, largest = lam[0], lam[-1]
    if smallest <= 0.05 * mode[-1]:
        law = np.log(2 * mode / smallest) / (2 * mode)
        found.append(
            compare(
                experiment=NAME,
                claim=f"weak balance {smallest:g}: the time is τ/2s ln(2s/λ), logarithmic in λ",
                source=_SLIDE,
                predicted=law,
                measured=data["crossing"].isel(balance=0).median("seed").values,
                tolerance=0.02,
                relative=True,
            )
        )
    if largest >= 5 * mode[0]:
        found.append(
            compare(
                experiment=NAME,
                claim=f"strong balance {largest:g}: the time is τ ln 2/λ for every mode",
                source=_SLIDE,
                predicted=np.full(len(mode), math.log(2) / largest),
                measured=data["crossing"].isel(balance=-1).median("seed").values,
                tolerance=0.05,
                relative=True,
            )
        )
    return found


def _trapped(data: xr.Dataset) -> list[Claim]:
    strength = data["strength"].values
    return [
        compare(
            experiment=NAME,
            claim="balance 0: the mode creeps to the saddle at zero along its closed form (largest "
            "difference)",
            source=_SLIDE,
            predicted=0.0,
            measured=float(abs(data["strength"] - data["theory"]).max()),
            tolerance=1e-7,
        ),
        compare(
            experiment=NAME,
            claim="balance 0: its strength never changes sign",
            source=_SLIDE,
            predicted="trapped",
            measured="trapped" if (strength >= 0).all() and strength[-1] < 1e-12 else "escaped",
            note=f"from {strength[0]:g} to {strength[-1]:.1g} in {data['time'].values[-1]:.3g} τ",
        ),
    ]


def _shallow(data: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim="shallow: every mode passes through zero after τ ln 2",
        source=_SLIDE,
        predicted=np.full(data.sizes["mode"], math.log(2)),
        measured=data["crossing"].values,
        tolerance=1e-5,
    )


def _early(data: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim="balance 0, stopped early: what is relearned follows the closed form (largest "
        "difference)",
        source=_SLIDE,
        predicted=0.0,
        measured=float(abs(data["part"] - data["part_theory"]).max()),
        tolerance=1e-4,
        note="the saddle magnifies errors of the integrator",
    )


def _slopes(data: xr.Dataset) -> list[Claim]:
    """Between the two latest stops, where the law is nearest."""
    span = float(data["stop"][-1] - data["stop"][-2])
    return [
        compare(
            experiment=NAME,
            claim=f"balance 0, stopped early at T: {what} a time later that grows as {law}",
            source=_SLIDE,
            predicted=float(slope),
            measured=float(data[name].diff("stop").isel(stop=-1).median("seed") / span),
            tolerance=0.05 * slope,
            note="the better it was learned, the longer it takes to unlearn",
        )
        for name, what, slope, law in (
            ("crossing", "the map changes its sign", 1, "T"),
            ("relearned", "half of the new map is learned", 2, "2T"),
        )
    ]
