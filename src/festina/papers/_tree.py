"""What every run of an experiment carries with it."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import xarray as xr

from ._parameters import Parameters

_Own = TypeVar("_Own", bound=Parameters)


def run_tree(
    name: str, parameters: Parameters, attrs: Mapping[str, Any] = {}, /, **groups: xr.Dataset
) -> xr.DataTree:
    """The tables of a run under their names, with the parameters that made them and `attrs`."""
    tree = xr.DataTree.from_dict({f"/{group}": table for group, table in groups.items()})
    tree.attrs = {
        "experiment": name,
        "parameters": json.dumps(parameters.model_dump(mode="json")),
        **attrs,
    }
    return tree


def parameters_of(run: xr.DataTree, kind: type[_Own]) -> _Own:
    """The parameters that made a run, read back from it."""
    return kind(**json.loads(run.attrs["parameters"]))
