"""When the networks of Figure 5 drop in an independent implementation, in the mean over seeds."""

import math
from dataclasses import dataclass

from .._claim import Claim
from ._drop_claims import DROPS
from ._parameters import PanelParameters
from ._reading import Reading

_SIGMAS = 3.0


@dataclass(frozen=True)
class DeepReference:
    """Numbers of an independent float64 implementation at one set of parameters.

    Plain gradient descent from seeds of its own. What is told of them is a mean, or the range,
    whose middle then stands for the mean.

    - `parameters`: the ones they belong to; at any other they say nothing.
    - `drops`: steps at which the loss drops.
    - `spread`: standard deviation of these from seed to seed, as a fraction.
    - `seeds`: over how many of them they were taken.
    - `level`, `level_spread`: of the plateau, and its standard deviation, in units of the loss.
    """

    parameters: PanelParameters
    drops: tuple[float, float]
    spread: tuple[float, float]
    seeds: int = 4
    level: float | None = None
    level_spread: float = 0.0

    def applies(self, parameters: PanelParameters) -> bool:
        varied = {"seeds", "seed", "max_steps", "cleaner"}
        return parameters.model_dump(exclude=varied) == self.parameters.model_dump(exclude=varied)


def reference_claims(reading: Reading, references: tuple[DeepReference, ...]) -> list[Claim]:
    """Agreement in the mean, within three standard errors of the difference of two means."""
    claims = []
    for reference in references:
        if not reference.applies(reading.parameters):
            continue
        source = f"{reading.source}; plain gradient descent, {reference.seeds} seeds"
        standard = _SIGMAS * math.sqrt(1 / reading.seeds + 1 / reference.seeds)
        steps = reading.drops["step"].values
        claims += [
            reading.compare(
                f"mean step of the {DROPS[drop]} drop",
                expected,
                float(steps[:, drop].mean()),
                tolerance=round(standard * reference.spread[drop], 3),
                relative=True,
                source=source,
                note=f"from {steps[:, drop].min():.4g} to {steps[:, drop].max():.4g} over seeds",
            )
            for drop, expected in enumerate(reference.drops)
        ]
        if reference.level is not None and reading.staircases:
            claims.append(
                reading.compare(
                    "mean level of the plateau",
                    reference.level,
                    float(reading.levels.mean()),
                    tolerance=round(standard * reference.level_spread, 5),
                    source=source,
                )
            )
    return claims
