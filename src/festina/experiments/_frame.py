"""The frame of every run of an experiment: precision, progress, tables and attributes."""

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
"""Tables of a run by name, each an `xarray.Dataset`.

**Example:**

>>> import xarray as xr
>>> from festina.experiments import Tables
>>> tables: Tables = {"theory": xr.Dataset({"loss": 0.5})}
>>> float(tables["theory"]["loss"])
0.5
"""

_Body: TypeAlias = Callable[[_Given, Key, Progress], Tables]


@runtime_checkable  # tests check types at run time
class Run(Protocol[_Given]):
    """The signature of an experiment's function `run`."""

    def __call__(
        self, parameters: _Given, *, key: Key = None, progress: Progress | None = None
    ) -> xr.DataTree: ...


def make_run(name: str) -> Callable[[_Body[_Given]], Run[_Given]]:
    """Return a decorator that makes an experiment's `run` from a function that computes tables.

    The decorated function takes `(parameters, key, progress)` and returns tables by name. The run
    computes in float64 and records its name and its parameters as attributes. Attributes of a table
    called "/" become attributes of the run. Without `progress` the run is silent.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments import Key, Parameters, Progress, Tables, make_run
    >>> @make_run("mine")
    ... def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    ...     return {"theory": xr.Dataset({"twice": 2 * parameters.seeds})}
    >>> int(run(Parameters(seeds=3))["theory/twice"])
    6
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

        # `functools.wraps` would make `help(run)` show the arguments of the body, not of `run`.
        run.__module__, run.__qualname__, run.__doc__ = body.__module__, "run", body.__doc__
        run.__annotations__["parameters"] = body.__annotations__["parameters"]
        return float64(run)

    return wrap


def parameters_of_run(run: xr.DataTree, kind: type[_Own]) -> _Own:
    """Return the parameters that a run was made with, read from its attributes.

    **Arguments:**

    - `run`: run of an experiment, new or loaded from disk.
    - `kind`: class of the experiment's parameters.

    **Returns:**

    An instance of `kind`.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments import Parameters, parameters_of_run
    >>> run = xr.DataTree(xr.Dataset(attrs={"parameters": '{"seeds": 3, "seed": 1}'}))
    >>> parameters_of_run(run, Parameters)
    Parameters(seeds=3, seed=1)
    """
    return kind(**json.loads(run.attrs["parameters"]))


def part_of(progress: Progress, start: float, share: float) -> Progress:
    """Return a progress function for a part of the work, from the fraction `start` of the whole."""
    return lambda words, done: progress(words, start + share * done)
