"""Effective width along a training run: one for each plateau of its staircase."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from .._checks import check_alone, real_number
from ..dynamics import Trajectory
from ..tasks import AbstractTask
from ..theory.saddles._kinds import EQUATION
from ._fitted import FittedWidth, fitted_width
from ._given import check_trajectory
from ._plateaus import Plateaus, plateaus
from ._width import EffectiveWidth, effective_width

_STARTS = 2  # of a fit; on plateaus few units stand out, and these are near


@dataclass(frozen=True, eq=False)
class PlateauWidths:
    """The plateaus of one trajectory and the effective width of the network on each.

    - `plateaus`: where the loss rests.
    - `clean`: which of them are slow enough to stand for a saddle.
    - `found`: the effective width on each; None where the plateau is not clean, because what the
      weights show there is on its way.
    - `fitted`: how few units would do there with other weights.
    - `width`, `fewest`: `found` and `fitted` as numbers, −1 where there is none.
    - `message`: what is to be said about those that are not clean; empty if all are.
    """

    plateaus: Plateaus
    clean: Bool[np.ndarray, " plateau"]
    found: tuple[EffectiveWidth | None, ...]
    fitted: tuple[FittedWidth | None, ...]
    message: str

    @property
    def width(self) -> Int[np.ndarray, " plateau"]:
        return np.array([-1 if each is None else each.width for each in self.found])

    @property
    def fewest(self) -> Int[np.ndarray, " plateau"]:
        return np.array([-1 if each is None else each.width for each in self.fitted])

    def __str__(self) -> str:
        rows = [f"{'level':>12} {'width':>6} {'fitted':>7}   type"]
        for level, each in zip(self.plateaus.level, self.fitted, strict=True):
            if each is None:
                rows.append(f"{level:12.6g} {'—':>6} {'—':>7}   not clean")
            else:
                types = " ".join(f"({EQUATION[kind]})" for kind in each.merged.ties) or "none"
                fewest = f"{'' if each.complete else '≤ '}{each.width}"
                rows.append(f"{level:12.6g} {each.merged.width:6d} {fewest:>7}   {types}")
        return "\n".join([*rows, *((self.message,) if self.message else ())])


def plateau_widths(
    trajectory: Trajectory,
    task: AbstractTask,
    *,
    strength: float = 1.0,
    tolerance: float = 0.1,
    angle: float = 0.2,
    max_weights: int = 256,
) -> PlateauWidths:
    """Effective width on every plateau of one trajectory, and where there is no clean one.

    **Arguments:**

    - `trajectory`: of one network, a `Layer`; of a batch take `trajectory.lane(…)`.
    - `task`: what it was trained on.
    - `strength`: decades by which the squared gradient on a plateau must lie below its value at the
      neighbouring drops. A trajectory that slows down less passes its saddle at a distance.
    - `tolerance`, `angle`: as in `effective_width`.
    - `max_weights`: of networks that are fitted, as in `fitted_width`; 0 to fit none. Fits are what
      takes long where networks are not small.

    **Returns:** the `PlateauWidths`. A loss that never drops has no plateau to be told from
    anything else, which its `message` says; for the weights themselves there is `effective_width`.
    """
    check_trajectory(trajectory, use=" For the weights at one moment use `effective_width`.")
    check_alone(trajectory.batch_shape, "trajectory")
    rests = plateaus(trajectory)
    # NaN, where there is no drop, is not.
    clean = rests.strength >= real_number("strength", strength)
    found = tuple(
        effective_width(trajectory.network.lane(int(index)), task, tolerance=tolerance, angle=angle)
        if good
        else None
        for index, good in zip(rests.index, clean, strict=True)
    )
    fitted = tuple(
        None if each is None else fitted_width(each, task, starts=_STARTS, max_weights=max_weights)
        for each in found
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
    return PlateauWidths(rests, clean, found, fitted, message)
