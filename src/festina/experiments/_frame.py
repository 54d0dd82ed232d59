"""The frame of every run of an experiment: precision, progress, and its tables."""

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
    """The signature of the `run` of an experiment."""

    def __call__(
        self, parameters: _Given, *, key: Key = None, progress: Progress | None = None
    ) -> xr.DataTree: ...


def make_run(name: str) -> Callable[[_Body[_Given]], Run[_Given]]:
    """Make the `run` of an experiment from a body that computes its tables and reports progress.

    The body is `(parameters, key, progress) → {name: table}`; attributes of a table "/" become
    those of the run. The run computes in float64 and records its name and parameters. Without
    `progress` it is silent.
    """

    def wrap(body: _Body[_Given]) -> Run[_Given]:
        def run(
            parameters: _Given, *, key: Key = None, progress: Progress | None = None
        ) -> xr.DataTree:
            progress = progress or (lambda words, fraction: None)
            tables = body(parameters, key, progress)
            progress("done", 1.0)
            tree = xr.DataTree.from_dict(
                {f"/{at.strip('/')}": table for at, table in tables.items()}
            )
            made_by = json.dumps(parameters.model_dump(mode="json"))
            tree.attrs = {"experiment": name, "parameters": made_by, **tree.attrs}
            return tree

        # Not `functools.wraps`: `help(run)` has to show the arguments of `run`, not of the body.
        run.__module__, run.__qualname__, run.__doc__ = body.__module__, "run", body.__doc__
        run.__annotations__["parameters"] = body.__annotations__["parameters"]
        return float64(run)

    return wrap


def parameters_of_run(run: xr.DataTree, kind: type[_Own]) -> _Own:
    """Return the parameters that a run was made with, read from its attributes."""
    return kind(**json.loads(run.attrs["parameters"]))


def part_of(progress: Progress, start: float, share: float) -> Progress:
    """Return the progress of a piece of work: its start and its share of the whole."""
    return lambda words, done: progress(words, start + share * done)
