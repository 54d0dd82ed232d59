"""The way in which experiments were written before there was a vocabulary; goes with the last."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from .._precision import float64
from ._frame import Run
from ._parameters import Parameters
from ._registry import Progress
from .claims import Claim, Judgement, Verdict, agree, same

_Own = TypeVar("_Own", bound=Parameters, contravariant=True)


def experiment(body: Callable[[_Own, PRNGKeyArray | None, Progress], xr.DataTree]) -> Run[_Own]:
    def run(
        parameters: _Own,
        *,
        key: PRNGKeyArray | None = None,
        progress: Progress | None = None,
    ) -> xr.DataTree:
        say = progress or (lambda words, fraction: None)
        tree = body(parameters, key, say)
        say("done", 1.0)
        return tree

    run.__module__, run.__qualname__, run.__doc__ = body.__module__, "run", body.__doc__
    run.__annotations__["parameters"] = body.__annotations__["parameters"]
    return float64(run)


def run_tree(
    name: str, parameters: Parameters, attrs: Mapping[str, Any] = {}, /, **groups: xr.Dataset
) -> xr.DataTree:
    tree = xr.DataTree.from_dict({f"/{group}": table for group, table in groups.items()})
    made_by = json.dumps(parameters.model_dump(mode="json"))
    tree.attrs = {"experiment": name, "parameters": made_by, **attrs}
    return tree


def compare(
    *,
    experiment: str,
    claim: str,
    source: str,
    predicted: Any,
    measured: Any,
    tolerance: float = 0.0,
    relative: bool = False,
    correction: str = "",
    note: str = "",
    expected: Verdict = "holds",
) -> Claim:
    if isinstance(predicted, str) or isinstance(measured, str):
        judged = same(measured, predicted)
    elif np.size(predicted) != np.size(measured):
        judged = Judgement(predicted, measured, tolerance, False)
    elif np.ndim(predicted) == 0 and np.ndim(measured) == 0:
        judged = agree(measured, predicted, within=tolerance, relative=relative)
    else:
        judged = agree(np.ravel(measured), np.ravel(predicted), within=tolerance, relative=relative)
    known = expected == "does not hold" and not judged.holds
    wrong = (note or "known") if known else ""
    words = "; ".join(filter(None, (correction, note)))
    return Claim(experiment, claim, source, judged, correction, wrong, None, words)
