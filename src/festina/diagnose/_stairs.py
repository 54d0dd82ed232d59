"""Effective width along a training run: one for each plateau of its staircase."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from ..dynamics import Trajectory
from ..tasks import AbstractTask
from ..theory.saddles._kinds import EQUATION
from ._plateaus import Plateaus, plateaus
from ._width import EffectiveWidth, effective_width


@dataclass(frozen=True, eq=False)
class Stairs:
    """The plateaus of one trajectory and the effective width of the network on each.

    - `plateaus`: where the loss rests.
    - `clean`: which of them are slow enough to stand for a saddle.
    - `found`: the effective width on each; None where the plateau is not clean, because what the
      weights show there is on its way.
    - `width`: the same as numbers, −1 where there is none.
    - `message`: what is to be said about those that are not clean; empty if all are.
    """

    plateaus: Plateaus
    clean: Bool[np.ndarray, " plateau"]
    found: tuple[EffectiveWidth | None, ...]
    message: str

    @property
    def width(self) -> Int[np.ndarray, " plateau"]:
        return np.array([-1 if each is None else each.width for each in self.found])

    def __str__(self) -> str:
        rows = [f"{'level':>12} {'width':>6}   type"]
        for level, each in zip(self.plateaus.level, self.found, strict=True):
            if each is None:
                rows.append(f"{level:12.6g} {'—':>6}   not clean")
            else:
                types = " ".join(f"({EQUATION[kind]})" for kind in each.ties) or "none"
                rows.append(f"{level:12.6g} {each.width:6d}   {types}")
        return "\n".join([*rows, *((self.message,) if self.message else ())])


def effective_widths(
    trajectory: Trajectory,
    task: AbstractTask,
    *,
    strength: float = 1.0,
    tolerance: float = 0.1,
    angle: float = 0.2,
) -> Stairs:
    """Effective width on every plateau of one trajectory, and where there is no clean one.

    **Arguments:**

    - `trajectory`: of one network, a `Layer`; of a batch take `trajectory.lane(…)`.
    - `task`: what it was trained on.
    - `strength`: decades by which the squared gradient on a plateau must lie below its value at the
      neighbouring drops. A trajectory that slows down less passes its saddle at a distance.
    - `tolerance`, `angle`: as in `effective_width`.

    **Returns:** a `Stairs`. A loss that never drops has no plateau to be told from anything else,
    which its `message` says; for the weights themselves there is `effective_width`.
    """
    if trajectory.batch_shape:
        raise ValueError(
            f"One trajectory at a time, got a batch {trajectory.batch_shape}: trajectory.lane(0)."
        )
    rests = plateaus(
        trajectory.time,
        trajectory.loss,
        trajectory.squared_gradient,
        slope=-trajectory.squared_gradient * trajectory.time_per_step,
    )
    clean = rests.strength >= strength  # NaN, where there is no drop, is not
    found = tuple(
        effective_width(trajectory.network.lane(int(index)), task, tolerance=tolerance, angle=angle)
        if good
        else None
        for index, good in zip(rests.index, clean, strict=True)
    )
    if len(rests) == 1:
        message = (
            "The loss never drops: there is no plateau to be told from the rest. For the weights "
            "at one moment use `effective_width`."
        )
    elif not clean.all():
        weak = ", ".join(f"{level:.4g}" for level in rests.level[~clean])
        message = (
            f"No clean plateau at loss {weak}: it slows down by less than {strength:g} decades "
            "there, so that no width is given."
        )
    else:
        message = ""
    return Stairs(rests, clean, found, message)
