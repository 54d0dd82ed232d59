"""What stands around the run of every experiment: precision, progress, and its tables."""

import json
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import xarray as xr

from .._precision import float64
from ._keys import Key
from ._parameters import Parameters
from ._registry import Progress as Progress

_Own = TypeVar("_Own", bound=Parameters)
_Given = TypeVar("_Given", bound=Parameters, contravariant=True)

Tables: TypeAlias = Mapping[str, xr.Dataset]
"""The tables of a run by name."""

_Body: TypeAlias = Callable[[_Given, Key, Progress], Tables]


@runtime_checkable  # tests check types at run time
class Run(Protocol[_Given]):
    """How an experiment is called."""

    def __call__(
        self, parameters: _Given, *, key: Key = None, progress: Progress | None = None
    ) -> xr.DataTree: ...


def make_run(name: str) -> Callable[[_Body[_Given]], Run[_Given]]:
    """Make the `run` of an experiment from a body that computes its tables and says how it goes.

    The body is `(parameters, key, say) → {name: table}`; attributes of a table "/" are those of the
    run. The run computes in float64, is silent unless asked for progress, says when it is done, and
    carries its name and the parameters that made it.
    """

    def wrap(body: _Body[_Given]) -> Run[_Given]:
        def run(
            parameters: _Given, *, key: Key = None, progress: Progress | None = None
        ) -> xr.DataTree:
            say = progress or (lambda words, fraction: None)
            tables = body(parameters, key, say)
            say("done", 1.0)
            tree = xr.DataTree.from_dict(
                {f"/{at.strip('/')}": table for at, table in tables.items()}
            )
            made_by = json.dumps(parameters.model_dump(mode="json"))
            tree.attrs = {"experiment": name, "parameters": made_by, **tree.attrs}
            return tree

        # Not `functools.wraps`: `help(run)` is to show these arguments, with the type of the
        # body's.
        run.__module__, run.__qualname__, run.__doc__ = body.__module__, "run", body.__doc__
        run.__annotations__["parameters"] = body.__annotations__["parameters"]
        return float64(run)

    return wrap


def parameters_of_run(run: xr.DataTree, kind: type[_Own]) -> _Own:
    """The parameters that a run was made with, read back from it."""
    return kind(**json.loads(run.attrs["parameters"]))


def part_of(progress: Progress, start: float, share: float) -> Progress:
    """Progress of a piece of work that begins at `start` and is this share of the whole."""
    return lambda words, done: progress(words, start + share * done)
