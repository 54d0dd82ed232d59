"""Read a user's run that `watch.save` saved."""

import os

from ..._run import load
from .._files import with_weights
from ._checkpoints import CheckpointedRun


def read_watch(path: str | os.PathLike[str], model: object = None) -> CheckpointedRun:
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
    losses, kept = tree.children["loss"].ds, tree.children["weights"].ds

    def read(index: int) -> object:
        weights = {each.attrs["name"]: each.values[index] for each in kept.data_vars.values()}
        return with_weights(model, weights, origin=f"'{path}'")

    steps = kept["step"].values.astype(float).tolist() if model is not None else []
    if steps:
        read(0)  # refuses another model now, not when its weights are asked for
    curve = losses["step"].values.astype(float), losses["loss"].values
    return CheckpointedRun(
        {step: k for k, step in enumerate(steps)}, curve, tree.attrs.get("epoch"), read
    )
