"""What Figure 3 asserts, held against the saved run."""

from typing import Any

import numpy as np
import xarray as xr

from ..._frame import parameters_of
from ..._old import compare
from ...claims import Claim
from ..panels._reading import PAPER
from ._figure_3_measure import passage
from ._figure_3_parameters import Parameters

_NAME = "saddles/figure-3"
_SOURCE = f"{PAPER}, Figure 3"
_WORDS = {"linear": "linear", "relu": "ReLU"}
_TOLERANCE = 0.1
"""Largest error in function space, targets having size one, at which two networks are alike."""

# Plain mini-batch descent of an independent implementation, width 1000, ε = 10⁻⁶, η = 0.01,
# batches of 64: loss on the plateau, and steps at which the first and second singular values of U
# of the linear network pass 0.24 and 0.2; of the first, the end of the ten steps in which it does.
_REFERENCE = {
    "0/1": (0.54, 120, 202),
    "0/8": (0.52, 100, 238),
    "5/7": (0.52, 130, 299),
    "3/5": (0.52, 110, 446),
}
_THRESHOLDS = (0.24, 0.2)
_GRID = 10


def claims(run: xr.DataTree) -> list[Claim]:
    """Drops, singular values, effective widths, for linear and for ReLU networks."""
    data = {name: run[name].to_dataset() for name in ("simulation", "theory", "reduction")}
    found = []
    for kind in _WORDS:
        simulation, theory, reduction = (each.sel(network=kind) for each in data.values())
        found.append(_count(kind, simulation))
        if not (simulation["count"] == 3).all():
            continue  # of a curve without the two drops there is nothing else to say
        found += [*_coinciding(kind, simulation), *_third(kind, simulation)]
        if kind == "linear":
            found += [*_predicted(simulation, theory), *_reference(run, simulation)]
            found += _difficulty(simulation, theory, reduction)
        else:
            found += _alike(data["simulation"])
        found += _widths(kind, reduction)
    return found


def _claim(claim: str, predicted: Any, measured: Any, **options: Any) -> Claim:
    options.setdefault("source", _SOURCE)
    return compare(experiment=_NAME, claim=claim, predicted=predicted, measured=measured, **options)


def _each(values: xr.DataArray) -> list[float]:
    """All networks after each other: pair by pair, then seed by seed."""
    return [float(value) for value in values.transpose("pair", "seed", ...).values.ravel()]


def _pairs(data: xr.Dataset) -> str:
    return ", ".join(map(str, data["pair"].values))


def _count(kind: str, simulation: xr.Dataset) -> Claim:
    counts = [int(count) for count in _each(simulation["count"])]
    return _claim(
        f"{_WORDS[kind]}: the loss falls in two drops ({_pairs(simulation)})",
        [3] * len(counts),
        counts,
        note="plateaus found from the loss alone",
    )


def _coinciding(kind: str, simulation: xr.Dataset) -> list[Claim]:
    return [
        _claim(
            f"{_WORDS[kind]}: the {order} singular value of U grows where the {order} drop is "
            "(step of the drop; step at which it passes 0.1)",
            _each(simulation["drop_step"].sel(mode=mode)),
            _each(simulation["passage"].sel(mode=mode)),
            tolerance=0.2,
            relative=True,
        )
        for mode, order in enumerate(("first", "second"))
    ]


def _third(kind: str, simulation: xr.Dataset) -> list[Claim]:
    third = simulation["singular_value"].sel(rank=3)
    noise = float(third.isel(save=0).max())
    if kind == "linear":
        return [
            _claim(
                "linear: the third singular value of U stays close to zero (largest)",
                0.0,
                float(third.max()),
                # From larger initial weights the noise that they are is more than that.
                tolerance=max(5e-4, 1.5 * noise),
            )
        ]
    plateau = simulation["step"] <= simulation["end"].sel(plateau=1)
    at_end = third.isel(save=-1) / simulation["singular_value"].sel(rank=2).isel(save=-1)
    return [
        _claim(
            "ReLU: on the plateau the third singular value of U is close to zero (largest)",
            0.0,
            float(third.where(plateau).max()),
            tolerance=max(0.01, 10 * noise),
        ),
        _claim(
            "ReLU: the third singular value of U is close to zero to the end (as a fraction of the "
            f"second; {_pairs(simulation)})",
            [0.0] * at_end.size,
            _each(at_end),
            tolerance=0.1,
            expected="does not hold",
            note="it starts to grow with the second drop, slowly",
        ),
    ]


def _predicted(simulation: xr.Dataset, theory: xr.Dataset) -> list[Claim]:
    found = []
    for mode, order, correction in (
        (0, "first", ""),
        (1, "second", "with the second singular value of Σ_yx, not with Table 1's second row"),
    ):
        found += [
            _claim(
                f"linear: growth rate of the {order} singular value of U ({_pairs(simulation)})",
                _each(theory["growth"].sel(mode=mode)),
                _each(simulation["growth"].sel(mode=mode)),
                tolerance=0.04,
                relative=True,
                source=f"{PAPER}, Theorem 4 and Table 1",
                correction=correction,
                note="ln(1 + 2ηs)/2η, as gradient descent has it",
            ),
            _claim(
                f"linear: step at which the {order} singular value of U passes 0.1, from the "
                "initial weights and Σ_yx alone",
                _each(theory["passage"].sel(mode=mode)),
                _each(simulation["passage"].sel(mode=mode)),
                tolerance=0.03,
                relative=True,
                source=f"{PAPER}, Theorem 4 and Eq. (35)",
                correction=correction,
            ),
        ]
    return found


def _reference(run: xr.DataTree, simulation: xr.Dataset) -> list[Claim]:
    parameters = parameters_of(run, Parameters)
    varied = {"seeds", "seed", "pairs", "judged", "steps"}
    usual = Parameters().model_dump(exclude=varied) == parameters.model_dump(exclude=varied)
    pairs = [pair for pair in parameters.pairs if pair in _REFERENCE]
    if not usual or not pairs:
        return []
    here = simulation.sel(pair=pairs)
    source = f"{_SOURCE}; plain mini-batch descent of an independent implementation"
    level = here["level"].sel(plateau=1).mean("seed").values
    middle = np.array([_REFERENCE[pair][1] - _GRID / 2 for pair in pairs])
    end = np.array([_REFERENCE[pair][2] for pair in pairs])
    first, second = (
        np.array([passage(here["step"].values, values, threshold) for values in each.values])
        for each, threshold in zip(
            here["singular_value"].mean("seed").sel(rank=[1, 2]).transpose("rank", "pair", "save"),
            _THRESHOLDS,
            strict=True,
        )
    )
    return [
        _claim(
            f"linear: loss on the plateau ({', '.join(pairs)})",
            [_REFERENCE[pair][0] for pair in pairs],
            level,
            tolerance=0.012,
            source=source,
        ),
        _claim(
            f"linear: step at which the first singular value of U passes {_THRESHOLDS[0]}",
            middle,
            first,
            tolerance=0.08,
            relative=True,
            source=f"{source}, the middle of {_GRID} steps",
        ),
        _claim(
            f"linear: step at which the second singular value of U passes {_THRESHOLDS[1]}",
            end,
            second,
            tolerance=0.08,
            relative=True,
            source=source,
        ),
        _claim(
            "linear: length of the plateau, in steps from where the first singular value of U "
            f"passes {_THRESHOLDS[0]} to where the second passes {_THRESHOLDS[1]}",
            end - middle,
            second - first,
            tolerance=_GRID,
            source=source,
            note=f"there the first of the two is known to {_GRID} steps",
        ),
    ]


def _difficulty(simulation: xr.Dataset, theory: xr.Dataset, reduction: xr.Dataset) -> list[Claim]:
    """Of the paper's pairs: others may be as hard as each other."""
    pairs = [str(pair) for pair in simulation["pair"].values if str(pair) in _REFERENCE]
    if len(pairs) < 2:
        return []
    length = (simulation["end"] - simulation["start"]).sel(plateau=1, pair=pairs).mean("seed")
    s = theory["singular_value"].sel(mode=1, pair=pairs).mean("seed").values
    mistakes = 1 - reduction["accuracy"].sel(stage="end", pair=pairs).mean("seed").values
    note = f"plateaus of {', '.join(f'{steps:.0f}' for steps in length.values)} steps"
    return [
        _claim(
            "linear: the pair that is hardest to tell apart, by mistakes on the test set, has the "
            "longest plateau",
            pairs[int(np.argmax(mistakes))],
            pairs[int(np.argmax(length.values))],
            note=f"{note}; mistakes {', '.join(f'{share:.2%}' for share in mistakes)}",
        ),
        _claim(
            "linear: pairs in the order of their plateaus' lengths, by the second singular value "
            "of Σ_yx",
            _ordered(pairs, -s),
            _ordered(pairs, length.values),
            source=f"{PAPER}, Table 1",
            correction="by its second singular value, not by Table 1's second row",
            note=note,
        ),
    ]


def _ordered(pairs: list[str], values: np.ndarray) -> str:
    return " < ".join(pairs[i] for i in np.argsort(values))


def _alike(simulation: xr.Dataset) -> list[Claim]:
    passage = simulation["passage"]
    return [
        _claim(
            f"ReLU: the {order} singular value grows when the linear network's does (steps)",
            _each(passage.sel(mode=mode, network="linear")),
            _each(passage.sel(mode=mode, network="relu")),
            tolerance=0.08,
            relative=True,
        )
        for mode, order in enumerate(("first", "second"))
    ]


def _widths(kind: str, reduction: xr.Dataset) -> list[Claim]:
    """The smallest width whose network comes close enough, and how close that of width two is."""
    source = f"{PAPER}, Figure 3 and F.3"
    close = reduction["error"] <= _TOLERANCE
    smallest = xr.where(close.any("width"), close.argmax("width"), np.inf)
    found = []
    for stage, words, expected in (
        ("plateau", "on the plateau", 1),
        ("second drop", "after the second drop", 2),
    ):
        here = _each(smallest.sel(stage=stage))
        rays = ", ".join(f"{width:g}" for width in _each(reduction["ray_width"].sel(stage=stage)))
        found.append(
            _claim(
                f"{_WORDS[kind]}: effective width {words}",
                [expected] * len(here),
                here,
                source=source,
                correction=(
                    f"for units that are optimised; those of the network lie in a fan, and {rays} "
                    "rays are left when they are merged"
                    if kind == "relu" and stage == "second drop"
                    else ""
                ),
            )
        )
    late = reduction.sel(stage="second drop")
    found += [
        _claim(
            f"{_WORDS[kind]}: after the second drop a network of width two predicts the same on "
            "the test set (root mean square of the difference, targets having size one)",
            [0.0] * late["test_error"].size,
            _each(late["test_error"]),
            tolerance=_TOLERANCE,
            source=source,
            note="at the end of training "
            + ", ".join(
                f"{error:.2g}" for error in _each(reduction["test_error"].sel(stage="end"))
            ),
        ),
        _claim(
            f"{_WORDS[kind]}: after the second drop a network of width two has the same accuracy "
            f"on the test set ({_pairs(reduction)})",
            _each(late["accuracy"]),
            _each(late["narrow_accuracy"]),
            tolerance=0.01,
            source=source,
        ),
    ]
    return found
