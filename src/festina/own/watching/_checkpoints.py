"""Analyse a finished run from a list of its checkpoints, in JAX, PyTorch or any other library."""

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
    """Return a finished run from its checkpoints and losses, with the methods of `watch`.

    **Arguments:**

    - `checkpoints`: networks along the run: trees of arrays, PyTorch modules, or any arguments of
      `read`.
    - `losses`: the loss at each checkpoint, or at more steps than there are checkpoints.
    - `steps`: the step of each loss, in any order, each step once; by default 0, 1, 2, …
    - `at`: the step of each checkpoint; by default the same as `steps`.
    - `epoch`: number of steps in an epoch, as in `watch`.
    - `read`: function that returns the network of a checkpoint, for example from a file name.
      `read` is called when the network is needed.

    **Returns:** the `CheckpointedRun`, which has `plateaus()`, `stairs(data)` and `draw()`.

    **Example:**

    >>> import numpy as np
    >>> from festina.own import from_checkpoints
    >>> losses = 1 - 0.8 / (1 + np.exp((50 - np.arange(100)) / 3))
    >>> run = from_checkpoints([{"w": 0.0}, {"w": 1.0}], losses, at=[5, 90])
    >>> print(run.stairs())
      level  from  to  strength  type  confirmed  slope
    0.99999     0  41      6.56     —          —      —
        0.2    59  99      6.41     —          —      —
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
            "taken, expected as many of both. Give `at=[…]` for fewer checkpoints than losses."
        )
    for name, each, what in (("steps", when, "loss"), ("at", taken, "checkpoint")):
        single, counts = np.unique(each, return_counts=True)
        if counts.size and counts.max() > 1:
            raise ValueError(
                f"`{name}` has the step {single[counts.argmax()]:g} more than once, expected one "
                f"{what} for each step. If steps restart in each epoch, "
                "give steps that go on rising."
            )
    order = np.argsort(when, kind="stable")
    return CheckpointedRun(
        dict(zip(taken.tolist(), checkpoints, strict=True)),
        (when[order], values[order]),
        None if epoch is None else whole_number("epoch", epoch),
        read,
    )


class CheckpointedRun(AbstractRun):
    """Result of `from_checkpoints` and `read_watch`: a finished run with its checkpoints.

    **Example:**

    >>> from festina.own import from_checkpoints
    >>> run = from_checkpoints([{"w": 0.0}, {"w": 1.0}], [3.0, 1.0], steps=[0, 100])
    >>> run.steps_with_weights, run.network(100)
    ([0.0, 100.0], {'w': 1.0})
    """

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
        """Return the network of the checkpoint at a step."""
        if step not in self._checkpoints:
            raise ValueError(
                f"There is no checkpoint of step {step}, expected one of `steps_with_weights`."
            )
        found = self._checkpoints[step]
        return found if self._read is None else self._read(found)
