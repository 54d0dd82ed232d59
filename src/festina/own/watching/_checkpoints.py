"""Past runs, from a list of checkpoints: of JAX, of PyTorch, of anything."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._checks import real_array, whole_number
from ..._narrowing._pytorch import Function
from ..._types import ArrayLike
from ._record import Curve
from ._stairs import AbstractRun


def from_checkpoints(
    checkpoints: Sequence[object],
    losses: ArrayLike,
    *,
    steps: ArrayLike | None = None,
    at: ArrayLike | None = None,
    epoch: int | None = None,
    read: Function | None = None,
) -> "CheckpointedRun":
    """Return a past run from its checkpoints, with the methods of `watch`; for JAX, of models.

    ```python
    run = festina.own.from_checkpoints(models, losses)
    print(run.stairs((x, y), loss=squared_error))
    ```

    **Arguments:**

    - `checkpoints`: networks along the run, whatever they are: trees of arrays, modules, or, with
      `read`, what it makes networks of.
    - `losses`: the loss at each checkpoint, or at more steps than there are checkpoints.
    - `steps`: the step of each loss, in any order, each step once; 0, 1, 2 … unless said.
    - `at`: when the checkpoints were taken; where losses are, unless said.
    - `epoch`: steps in an epoch, as in `watch`.
    - `read`: makes a network of a checkpoint (a file's name, say) when it is needed.

    **Returns:** the `CheckpointedRun`, which has `plateaus()`, `stairs(data)` and `draw()`.
    """
    if not hasattr(checkpoints, "__len__") or isinstance(checkpoints, str | bytes | Mapping):
        kind = type(checkpoints).__name__
        raise ValueError(f"`checkpoints` must be a list of networks, got {kind}.")
    if read is not None and not callable(read):
        raise ValueError(f"`read` must be a function of a checkpoint, got {type(read).__name__}.")
    values = real_array("losses", losses)
    when = np.arange(float(values.size)) if steps is None else real_array("steps", steps)
    taken = when if at is None else real_array("at", at)
    if values.ndim != 1 or not values.size or values.shape != when.shape:
        raise ValueError(
            f"`losses` has shape {values.shape} and `steps` {when.shape}: expected one number for "
            "each of one or more steps."
        )
    for name, each in (("steps", when), ("at", taken)):
        if not np.isfinite(each).all():
            raise ValueError(f"`{name}` must be finite, got {each[~np.isfinite(each)][0]}.")
    if taken.shape != (len(checkpoints),):
        raise ValueError(
            f"There are {len(checkpoints)} checkpoints and {taken.size} steps at which they were "
            "taken. With `at=[…]` there may be fewer checkpoints than losses."
        )
    for name, each, what in (("steps", when, "loss"), ("at", taken, "checkpoint")):
        single, counts = np.unique(each, return_counts=True)
        if counts.size and counts.max() > 1:
            raise ValueError(
                f"`{name}` has the step {single[counts.argmax()]:g} more than once, expected one "
                f"{what} for each step. If steps restart in each epoch, give steps that count on."
            )
    order = np.argsort(when, kind="stable")
    return CheckpointedRun(
        dict(zip(taken.tolist(), checkpoints, strict=True)),
        (when[order], values[order]),
        None if epoch is None else whole_number("epoch", epoch),
        read,
    )


class CheckpointedRun(AbstractRun):
    """A past run with its checkpoints; see `from_checkpoints`."""

    def __init__(
        self,
        checkpoints: dict[float, object],
        curve: Curve,
        epoch: int | None,
        read: Function | None,
    ) -> None:
        self.epoch = epoch
        self._checkpoints, self._curve, self._read = checkpoints, curve, read

    @property
    def curve(self) -> Curve:
        return self._curve

    @property
    def steps_with_weights(self) -> Sequence[float | int]:
        return sorted(self._checkpoints)

    def network(self, step: float | int) -> Any:
        """Return the network of a checkpoint."""
        if step not in self._checkpoints:
            raise ValueError(
                f"There is no checkpoint of step {step}: `steps_with_weights` says of which."
            )
        found = self._checkpoints[step]
        return found if self._read is None else self._read(found)
