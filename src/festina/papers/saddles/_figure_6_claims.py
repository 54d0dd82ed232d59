"""Claims of Figure 6: skipping more is faster, as fast as without the layers skipped."""

from typing import Any

import numpy as np
import xarray as xr

from .._frame import parameters_of
from .._old import compare
from ..claims import Claim
from ._comparison import same_but_for
from ._figure_6_reference import compared
from ._plain_descent import furthest
from .panels._reading import PAPER

FAMILIES = {"linear": "linear", "relu": "ReLU"}
_SOURCE = f"{PAPER}, Figure 6"


def all_claims(run: xr.DataTree) -> list[Claim]:
    """Both families, one after the other."""
    return [claim for family in FAMILIES for claim in _family(run, family)]


def _family(run: xr.DataTree, family: str) -> list[Claim]:
    return [
        *_order(run, family),
        *_like_shallow(run, family),
        *_skipped_layers(run, family),
        *_final_norms(run, family),
        *_plateaus(run, family),
        *_same_weights(run, family),
        *_reference(run, family),
    ]


def _order(run: xr.DataTree, family: str) -> list[Claim]:
    """No skip is slowest, two layers skipped is fastest, at both drops."""
    claims = []
    for drop, words in enumerate(("first", "second")):
        steps = np.stack([_drops(run, f"{family}_{skipped}")[:, drop] for skipped in range(3)])
        steps = np.nan_to_num(steps, nan=np.inf)  # not come by the end of training: later than any
        medians = np.median(steps, axis=1)
        ordered = np.all(steps[1:] < steps[:-1], axis=0)
        claims.append(
            _share(
                f"{FAMILIES[family]}: the more layers are skipped the sooner comes the {words} "
                "drop, in every seed",
                ordered,
                note=f"median steps {', '.join(f'{step:.4g}' for step in medians)}",
            )
        )
    return claims


def _like_shallow(run: xr.DataTree, family: str) -> list[Claim]:
    """The network that is left without the skipped layers has its first drop at about that time."""
    depth_four = np.median(_drops(run, f"{family}_0")[:, 0])
    claims = []
    for skipped, words in ((1, "three"), (2, "two")):
        deep = np.median(_drops(run, f"{family}_{skipped}")[:, 0])
        shallow = np.median(_drops(run, f"{family}_{skipped}_shallow")[:, 0])
        claims.append(
            _compare(
                f"{FAMILIES[family]}, {skipped} skipped: median step of the first drop is about "
                f"that of the {words}-layer network with the same weights",
                float(shallow),
                float(deep),
                tolerance=0.35,
                relative=True,
                note=f"all four layers in turn take {depth_four:.4g} steps",
            )
        )
    return claims


def _skipped_layers(run: xr.DataTree, family: str) -> list[Claim]:
    """Layers that are skipped hardly move while the others grow to order one."""
    claims = []
    for skipped in (1, 2):
        table = _table(run, f"{family}_{skipped}")
        growth = table["growth"].values
        inside = slice(1, 1 + skipped)
        idle, busy = growth[:, inside].max(axis=1), np.delete(growth, np.r_[inside], axis=1)
        norms = (table[name].values for name in ("initial_norm", "final_norm"))
        before, after = (float(np.median(norm[:, inside])) for norm in norms)
        claims.append(
            _share(
                f"{FAMILIES[family]}, {skipped} skipped: the weights of skipped layers change by "
                "less than half of what those of any other layer do",
                idle < 0.5 * busy.min(axis=1),
                note=f"their operator norm goes from {before:.2g} to {after:.2g}",
            )
        )
    return claims


def _final_norms(run: xr.DataTree, family: str) -> list[Claim]:
    """Layers that nothing skips share the singular values of W* = I equally: all of them one."""
    if family != "linear":
        return []
    norms = _table(run, "linear_0")["final_norm"].values.mean(axis=0)
    return [
        _compare(
            "linear, none skipped: mean operator norm of each layer at the end",
            [1.0] * len(norms),
            norms,
            tolerance=0.02,
            relative=True,
            note="balanced layers share each singular value of the target",
        )
    ]


def _reference(run: xr.DataTree, family: str) -> list[Claim]:
    """Agreement with an independent implementation, at the parameters that it was run at."""
    from ._figure_6 import Parameters

    varied = {"seeds", "seed", "smaller_scale", "max_steps"}
    if not same_but_for(parameters_of(run, Parameters), Parameters(), varied):
        return []
    return [
        number.reported.claim(
            _compare,
            f"{number.quantity.words}: {FAMILIES[family]}, {number.skipped} skipped",
            values,
            source=f"{_SOURCE}; plain gradient descent, other seeds",
        )
        for number, values in compared(run, family)
    ]


def _same_weights(run: xr.DataTree, family: str) -> list[Claim]:
    """An independent implementation of the three networks, from the same weights."""
    tables = [_table(run, f"{family}_{skipped}") for skipped in range(3)]
    return [
        _compare(
            f"{FAMILIES[family]}: every drop of every network comes when a plain loop, its "
            "derivatives written out by hand, has it from the same weights: largest difference in "
            "steps",
            0.0,
            max(furthest(each["drop_step"].values, each["plain_step"].values) for each in tables),
            tolerance=0.1,
            note=f"{sum(int(each['plain_step'].notnull().sum()) for each in tables)} drops",
        )
    ]


def _plateaus(run: xr.DataTree, family: str) -> list[Claim]:
    """Three plateaus: for two skipped layers weak or lost, but not from smaller initial weights."""
    from ._figure_6 import Parameters

    parameters = parameters_of(run, Parameters)
    counts = [_table(run, f"{family}_{skipped}")["count"].values for skipped in range(3)]
    small = _table(run, f"{family}_2_smaller")["count"].values
    return [
        _share(
            f"{FAMILIES[family]}: with no or one layer skipped the loss shows three plateaus",
            np.concatenate(counts[:2]) >= 3,
            share=0.75,
        ),
        _share(
            f"{FAMILIES[family]}: with two layers skipped the loss shows three plateaus, from "
            f"initial weights of {parameters.smaller_scale:g}",
            small >= 3,
            share=0.75,
            correction="with two layers skipped the plateau is weak or lost at an ε that is small "
            "enough without skips",
            note=f"there are three in {np.sum(counts[2] >= 3)} of {len(small)} runs at "
            f"ε = {parameters.scale:g}",
        ),
    ]


def _table(run: xr.DataTree, name: str) -> xr.Dataset:
    return run[name].to_dataset()


def _drops(run: xr.DataTree, name: str) -> np.ndarray:
    return _table(run, name)["drop_step"].values


def _share(claim: str, holds: Any, *, share: float = 1.0, **options: str) -> Claim:
    seen, total = int(np.sum(holds)), len(holds)
    words = f"{seen} of {total} runs"
    note = "; ".join(filter(None, (words, options.pop("note", ""))))
    measured = float(np.mean(holds))
    return _compare(claim, 1.0, measured, tolerance=1.0 - share, note=note, **options)


def _compare(claim: str, predicted: Any, measured: Any, **options: Any) -> Claim:
    from ._figure_6 import NAME

    options.setdefault("source", _SOURCE)
    return compare(
        experiment=NAME,
        claim=claim,
        predicted=predicted,
        measured=measured,
        **options,
    )
