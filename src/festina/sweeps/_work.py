"""Compute one piece of a sweep, in any process, and return its outcome."""

import functools
import itertools
import pickle
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._cache import discard_programs, switched_on
from ._grid import TEXT

if TYPE_CHECKING:
    import xarray as xr

Table = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Arrays with the names of their axes."""

_LONGEST = 500  # most characters of a reason


@dataclass(frozen=True)
class Outcome:
    """The outcome of a piece: arrays, or the `reason` of a failure.

    `misfit` is the reason why the store cannot hold the results.
    """

    values: Table = field(default_factory=dict)
    coordinates: dict[str, np.ndarray] = field(default_factory=dict)
    seconds: float = float("nan")
    reason: str = ""
    misfit: str = ""


def packed(function: Callable[..., Any]) -> bytes:
    """Return a function as bytes, for processes that cannot import the script of the function."""
    import cloudpickle

    # A module beside the script is sent as a whole, because other machines may lack its file.
    home = sys.modules.get(getattr(getattr(function, "func", function), "__module__", None) or "")
    file = Path(getattr(home, "__file__", None) or __file__)
    installed = (*sysconfig.get_paths().values(), Path(__file__).parents[1])
    own = None if any(file.is_relative_to(path) for path in installed) else home
    try:
        if own is not None:
            cloudpickle.register_pickle_by_value(own)
        return cloudpickle.dumps(function)
    except Exception as error:
        raise ValueError(
            f"`{getattr(function, '__name__', function)}` cannot be sent to another process: "
            f"{type(error).__name__}: {error}. `processes=0` computes in this process."
        ) from error
    finally:
        if own is not None:
            cloudpickle.unregister_pickle_by_value(own)


def computed(work: bytes | Callable[..., Any], point: Mapping[str, Any], count: int) -> Outcome:
    """Compute a piece; with `count` points in it, the first axis of results is the point."""
    start = time.perf_counter()
    try:
        function = _unpacked(work) if isinstance(work, bytes) else work
        result = function(**point)
    except (Exception, SystemExit) as error:
        return Outcome(seconds=time.perf_counter() - start, reason=_reason(error))
    seconds = time.perf_counter() - start
    try:
        return Outcome(*_table(result, count), seconds)
    except (TypeError, ValueError) as error:
        return Outcome(seconds=seconds, misfit=str(error))


def claims_at(name: str, /, **point: Any) -> "xr.Dataset":
    """Run an experiment at a point; return prediction, measurement and verdict of each claim."""
    import xarray as xr

    from ..experiments import load_experiment, run_experiment

    discard_programs()
    experiment = load_experiment(name)
    claims = run_experiment(experiment, experiment.parameters(**point)).claims
    numbers = _rows([c.predicted for c in claims] + [c.measured for c in claims])
    table = {
        "holds": ("claim", [float(claim.judged.holds) for claim in claims]),
        "predicted": (("claim", "entry"), numbers[: len(claims)]),
        "measured": (("claim", "entry"), numbers[len(claims) :]),
    }
    return xr.Dataset(table, {"claim": [claim.id for claim in claims]})


def _rows(values: list[Any]) -> np.ndarray:
    """Return a row for each value, padded with NaN; the row of a text is empty."""
    rows = [np.ravel(v) if np.asarray(v).dtype.kind in "biuf" else [] for v in values]
    columns = [*itertools.zip_longest(*rows, fillvalue=np.nan)]
    return np.array(columns, float).reshape(len(columns), len(rows)).T


@functools.lru_cache(maxsize=4)
def _unpacked(work: bytes) -> Callable[..., Any]:
    function = pickle.loads(work)
    if "jax" in sys.modules:
        switched_on()  # processes share compiled programs on disk
    return function


def _table(result: Any, count: int) -> tuple[Table, dict[str, np.ndarray]]:
    labelled = result if hasattr(result, "data_vars") else {}  # a Dataset
    result = getattr(result, "data_vars", result)
    if not isinstance(result, Mapping):
        raise TypeError(
            "the function must return a dictionary of numbers and arrays, or an xarray.Dataset; "
            f"it returned {type(result).__name__}"
        )
    values: Table = {}
    for name, value in result.items():
        array = _plain(name, value)
        dims = getattr(value, "dims", None) or [f"{name}_{k}" for k in range(array.ndim)]
        if count and array.shape[:1] != (count,):
            raise ValueError(
                f"`{name}` has shape {array.shape}, expected {count} entries along its first axis, "
                "one for each point of the axes in `together`"
            )
        values[str(name)] = tuple(map(str, dims))[bool(count) :], array
    lengths = lengths_of(values)
    used = dict(lengths)
    if len(used) < len(lengths):
        raise ValueError(
            "two results have axes of the same name and different lengths: rename one axis"
        )
    return values, {dim: _plain(dim, labelled[dim].values) for dim in used if dim in labelled}


def lengths_of(values: Table) -> set[tuple[str, int]]:
    """Return the axes of a result with their lengths, without the axis of points."""
    shapes = ((dims, array.shape[array.ndim - len(dims) :]) for dims, array in values.values())
    return {pair for dims, shape in shapes for pair in zip(dims, shape, strict=True)}


def _plain(name: object, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        if array.dtype.kind in "iu" and array.size and np.abs(array.astype(float)).max() > 2.0**53:
            raise ValueError(f"`{name}` has whole numbers above 2⁵³, which are not kept exactly")
        return array.astype(float)
    if array.dtype.kind in "UT" or all(isinstance(entry, str) for entry in array.flat):
        return array.astype(TEXT)
    raise TypeError(f"`{name}` is of type {array.dtype}, expected real numbers or text")


def _reason(error: BaseException) -> str:
    """Return an error in one line, with the file and line that raised the error."""
    from ..experiments._invalid import told

    text = " ".join(f"{type(error).__name__}: {told(error)}".split())[:_LONGEST]
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(last.filename) == Path(__file__)
    return text if ours else f"{text} ({Path(last.filename).name}, line {last.lineno})"
