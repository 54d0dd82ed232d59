"""Read a run that `watch.save` saved."""

import os

from ..._run import load
from .._files import with_weights
from ._checkpoints import CheckpointedRun


def read_watch(path: str | os.PathLike[str], model: object = None) -> CheckpointedRun:
    """Return a run that `watch.save(path)` saved, with `plateaus()`, `stairs(data)` and `draw()`.

    No code in the folder is executed.

    **Arguments:**

    - `path`: the folder.
    - `model`: a network of the same kind; the weights are loaded into copies of `model`. Without
      `model` the run has losses and plateaus, but no effective widths.

    **Example:**

    >>> import tempfile
    >>> from festina.own import from_checkpoints, read_watch
    >>> run = from_checkpoints([{"w": 0.0}, {"w": 1.0}], [3.0, 1.0], steps=[0, 100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = run.save(f"{folder}/run.zarr")
    ...     losses = read_watch(path).curve[1]
    >>> losses
    array([3., 1.])
    """
    tree = load(path)
    if "loss" not in tree.children or "weights" not in tree.children:
        raise ValueError(
            f"'{path}' holds no run that `watch.save` saved: expected the nodes 'loss' and "
            f"'weights', got {', '.join(map(repr, tree.children)) or 'none'}. `festina.load` reads "
            "other runs."
        )
    losses, kept = tree.children["loss"].ds, tree.children["weights"].ds

    def read(index: int) -> object:
        weights = {each.attrs["name"]: each.values[index] for each in kept.data_vars.values()}
        return with_weights(model, weights, origin=f"'{path}'")

    steps = kept["step"].values.astype(float).tolist() if model is not None else []
    if steps:
        read(0)  # raise an error for another model at once, not at the first use of weights
    curve = losses["step"].values.astype(float), losses["loss"].values
    return CheckpointedRun(
        {step: k for k, step in enumerate(steps)}, curve, tree.attrs.get("epoch"), read
    )
