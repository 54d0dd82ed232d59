"""When the networks of Figure 5 drop in an independent implementation, in the mean over seeds."""

from dataclasses import dataclass

from .._claim import Claim
from ._comparison import same_but_for, standard_error, two_digits
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
    - `spread`: standard deviation of such steps from seed to seed, as a fraction; over eight seeds
      of this library, because those of the reference are too few to have one.
    - `seeds`: over how many of its own seeds the reference was taken.
    - `level`: of the plateau, in units of the loss; `level_spread`: as `spread`, in these units.
    """

    parameters: PanelParameters
    drops: tuple[float, float]
    spread: tuple[float, float]
    seeds: int = 4
    level: float | None = None
    level_spread: float = 0.0

    def applies(self, parameters: PanelParameters) -> bool:
        varied = {"seeds", "seed", "max_steps", "cleaner"}
        return same_but_for(parameters, self.parameters, varied)

    def tolerance(self, spread: float, seeds: int) -> float:
        """Three standard errors of the difference between this mean and one over so many seeds."""
        return two_digits(_SIGMAS * standard_error(spread, seeds, self.seeds))


def reference_claims(reading: Reading, references: tuple[DeepReference, ...]) -> list[Claim]:
    """Agreement in the mean, within three standard errors of the difference of two means."""
    claims = []
    for reference in references:
        if not reference.applies(reading.parameters):
            continue
        seeds = f"{reference.seeds} seed{'s' if reference.seeds > 1 else ''}"
        source = f"{reading.source}; plain gradient descent, {seeds}"
        steps = reading.drops["step"].values
        claims += [
            reading.compare(
                f"mean step of the {DROPS[drop]} drop",
                expected,
                float(steps[:, drop].mean()),
                tolerance=reference.tolerance(reference.spread[drop], reading.seeds),
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
                    tolerance=reference.tolerance(reference.level_spread, reading.seeds),
                    source=source,
                )
            )
    return claims
