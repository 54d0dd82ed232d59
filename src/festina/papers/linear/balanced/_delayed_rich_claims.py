"""A fast drop of the loss and a slow turn of the kernel, on times that separate with |λ|."""

import numpy as np
import xarray as xr

from ....diagnose import passage_time
from ...claims import Claim
from .._slides import claims_of, slide

NAME = "linear/delayed-rich"
_SLIDE = slide("Delayed rich regime")
_claim = claims_of(NAME, _SLIDE)


def claims(run: xr.DataTree) -> list[Claim]:
    """Curves against the exact solution, the two times, and the plateau between them."""
    curves, slow = run["curves"].to_dataset(), run["slow"].to_dataset()
    drop, turn = drop_times(curves, slow), turn_times(curves)
    balance = curves["balance"].values
    # What the limit of large |λ| leaves out is of order (s/λ)², s all that is to be learned: the
    # task, and of the initial map what does not belong to it.
    last, before = (8 * (slow.attrs["unlearned"] / balance[at]) ** 2 for at in (-1, -2))
    return [
        *_follow(curves),
        _claim(
            "the loss drops on the time 1/|λ| (exponent of its time, median over seeds)",
            -1.0,
            _exponent(drop, balance),
            0.02 + before,
        ),
        _claim(
            "time at which the loss is halfway to its plateau, times |λ| (median)",
            float(np.log(2) / 2),
            float(np.median(drop[-1]) * balance[-1]),
            0.02 + last,
            relative=True,
            note="at the largest |λ|: the second layer relaxes at the rate |λ|",
        ),
        _plateau(curves, slow, 0.01 + last),
        _claim(
            "the kernel turns on a time proportional to |λ| (exponent, median over seeds)",
            1.0,
            _exponent(turn, balance),
            0.02 + before,
        ),
        _claim(
            "half-change time of the kernel over |λ|, each seed, by the slow law",
            slow_turn_times(slow),
            turn[-1] / balance[-1],
            0.02 + last,
            relative=True,
            note="at the largest |λ|; directions with a mode outgrow those without one at the rate "
            "S_λ − |λ|/2 ≈ s²/|λ|",
        ),
    ]


def _follow(curves: xr.Dataset) -> list[Claim]:
    pairs = (("loss", "loss_theory"), ("kernel_distance", "kernel_theory"))
    words = ("the loss", "the tangent kernel's distance from its start")
    return [
        _claim(
            f"{name} follows the exact solution, every λ and seed (largest difference)",
            0.0,
            float(abs(curves[trained] - curves[theory]).max()),
            1e-6,
        )
        for name, (trained, theory) in zip(words, pairs, strict=True)
    ]


def _plateau(curves: xr.Dataset, slow: xr.Dataset, tolerance: float) -> Claim:
    """The loss after ten relaxation times, before the subspace has turned."""
    last = curves.isel(balance=-1)
    height = _at(last["time"].values, last["loss"].values, 5 / float(last["balance"]))
    return _claim(
        "the loss then halts at the part of the task that hidden units cannot see (each seed)",
        slow["plateau"].values / last["loss"].isel(sample=0).values,
        height / last["loss"].isel(sample=0).values,
        tolerance,
        note="½‖Σ(1 − P)‖² as a fraction of the initial loss, at the largest |λ|",
    )


def _at(time: np.ndarray, values: np.ndarray, when: float) -> np.ndarray:
    return np.array([np.interp(when, time, each) for each in values])


def _exponent(times: np.ndarray, balance: np.ndarray) -> float:
    """Between the two largest |λ|."""
    middle = np.median(times, axis=1)
    return float(np.diff(np.log(middle[-2:]))[0] / np.diff(np.log(balance[-2:]))[0])


def drop_times(curves: xr.Dataset, slow: xr.Dataset) -> np.ndarray:
    """When the loss has gone half of the way to the plateau, `(balance, seed)`."""
    loss = curves["loss"].transpose("balance", "seed", "sample").values
    level = (loss[..., 0] + slow["plateau"].values) / 2
    return _crossings(curves, -loss, -level)


def turn_times(curves: xr.Dataset) -> np.ndarray:
    """When the kernel has gone half of its way, `(balance, seed)`."""
    moved = curves["kernel_distance"].transpose("balance", "seed", "sample").values
    return _crossings(curves, moved, moved[..., -1] / 2)


def _crossings(curves: xr.Dataset, values: np.ndarray, level: np.ndarray) -> np.ndarray:
    times = curves["time"].transpose("balance", "sample").values
    return np.array(
        [
            [passage_time(time, -each, -mark) for each, mark in zip(of_balance, marks, strict=True)]
            for time, of_balance, marks in zip(times, values, level, strict=True)
        ]
    )


def slow_turn_times(slow: xr.Dataset) -> np.ndarray:
    """The same by the slow law, in units of |λ|."""
    time = slow["time"].values
    moved = slow["kernel_distance"].transpose("seed", "time").values
    return np.array([passage_time(time, -each, -each[-1] / 2) for each in moved])
