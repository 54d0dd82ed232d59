"""Save losses and weights of a run in the format of `festina.save`, without pickle."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..._run import save
from .._files import plain_weights

if TYPE_CHECKING:
    import xarray as xr

    from ._stairs import AbstractRun


def save_run(run: "AbstractRun", path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Save the losses of a run, and the weights by name at `steps_with_weights`."""
    import xarray as xr

    curves = {"loss": run.curve}
    if (norm := getattr(run, "gradient_norm", None)) is not None:
        curves["gradient_norm"] = norm
    tree = {
        name: xr.Dataset({name: ("step", values)}, {"step": steps})
        for name, (steps, values) in curves.items()
    }
    tree["weights"] = _weights(run)
    attributes = {} if run.epoch is None else {"epoch": run.epoch}
    return save(
        xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes), **tree}),
        path,
        overwrite=overwrite,
    )


def _weights(run: "AbstractRun") -> "xr.Dataset":
    import xarray as xr

    steps = list(run.steps_with_weights)
    named = [plain_weights(run.network(step)) for step in steps]
    variables = {}
    for number, name in enumerate(named[0] if named else ()):
        values = np.stack([each[name] for each in named])
        axes = [f"axis_{number}_{axis}" for axis in range(values.ndim - 1)]
        variables[f"array_{number}"] = ("step", *axes), values, {"name": name}
    return xr.Dataset(variables, {"step": steps})
