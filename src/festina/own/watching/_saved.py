"""A run of somebody's on disk: losses and weights in the format of `festina.save`, no pickle."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._run import load, save
from .._files import load_weights, named_weights
from .._pytorch import is_tensor
from ._checkpoints import Watched

if TYPE_CHECKING:
    from ._stairs import AbstractRun


def save_run(run: "AbstractRun", path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Save the losses of a run, and weights by their names at the steps that have them."""
    import xarray as xr

    curves = {"loss": run.curve}
    if hasattr(run, "gradient_norm"):
        curves["gradient_norm"] = run.gradient_norm
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


def read_watch(path: str | os.PathLike[str], model: Any = None) -> Watched:
    """Return a run that `watch.save(path)` saved, with `plateaus()`, `stairs(data)` and `draw()`.

    ```python
    watch.save("run.zarr")
    run = festina.own.read_watch("run.zarr", model)
    print(run.stairs((x, y), loss=criterion))
    ```

    Nothing in the folder is executed.

    **Arguments:**

    - `path`: the folder.
    - `model`: a network of the same kind, into copies of which the weights are loaded. Without it
      the run has losses and plateaus, and no widths.
    """
    tree = load(path)
    if "loss" not in tree.children or "weights" not in tree.children:
        raise ValueError(
            f"'{path}' holds no run that `watch.save` saved: expected the nodes 'loss' and "
            f"'weights', got {', '.join(map(repr, tree.children)) or 'none'}."
        )
    losses, kept = tree["loss"], tree["weights"]

    def read(index: int) -> Any:
        weights = {each.attrs["name"]: each.values[index] for each in kept.data_vars.values()}
        return load_weights(model, weights, origin=f"'{path}'")

    steps = kept["step"].values.astype(float).tolist() if model is not None else []
    curve = losses["step"].values.astype(float), losses["loss"].values
    return Watched({step: k for k, step in enumerate(steps)}, curve, tree.attrs.get("epoch"), read)


def _weights(run: "AbstractRun") -> Any:
    import xarray as xr

    steps = list(run.steps_with_weights)
    named = [_arrays(run.network(step)) for step in steps]
    variables = {}
    for number, name in enumerate(named[0] if named else ()):
        values = np.stack([each[name] for each in named])
        axes = [f"axis_{number}_{axis}" for axis in range(values.ndim - 1)]
        variables[f"array_{number}"] = ("step", *axes), values, {"name": name}
    return xr.Dataset(variables, {"step": steps})


def _arrays(network: Any) -> dict[str, np.ndarray]:
    here = lambda each: each.detach().cpu() if is_tensor(each) else each
    plain = lambda each: each.float() if str(each.dtype) == "torch.bfloat16" else each
    return {name: np.asarray(plain(here(w))) for name, w in named_weights(network).items()}
