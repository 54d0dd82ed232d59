"""Numbers of an independent implementation, and the claims that a run agrees with them."""

from dataclasses import dataclass

from ...claims import Claim
from .._comparison import same_but_for, standard_error
from ._drop_claims import DROPS
from ._parameters import PanelParameters
from ._reading import Reading

_SEEDS = 8


@dataclass(frozen=True)
class Reference:
    """Numbers of a panel at one set of parameters, from an independent float64 implementation.

    Plain gradient descent on population averages, in the mean over eight seeds of its own;
    `parameters` are the ones they belong to, and at any other they say nothing.

    - `mean_drops`: steps at which the loss drops.
    - `drop_tolerance`: how far from these, as a fraction, a mean over eight other seeds may be.
    - `plateau`, `plateau_tolerance`: level of the visited plateau, in units of the loss.
    """

    parameters: PanelParameters
    mean_drops: tuple[float, float]
    drop_tolerance: tuple[float, float] = (0.02, 0.02)
    plateau: float | None = None
    plateau_tolerance: float = 2e-3

    def applies(self, parameters: PanelParameters) -> bool:
        return same_but_for(parameters, self.parameters, {"seeds", "seed", "max_steps"})


def reference_claims(reading: Reading) -> list[Claim]:
    """Agreement in the mean with every reference made at the parameters of this run."""
    claims = []
    for reference in reading.panel.references:
        if not reference.applies(reading.parameters):
            continue
        source = f"{reading.source}; plain gradient descent, population averages, {_SEEDS} seeds"
        claims.extend(_mean_drops(reading, reference, source))
        if reference.plateau is not None and reading.staircases:
            claims.append(
                reading.compare(
                    "mean level of the visited plateau",
                    reference.plateau,
                    float(reading.levels.mean()),
                    tolerance=reference.plateau_tolerance,
                    source=source,
                )
            )
    return claims


def _mean_drops(reading: Reading, reference: Reference, source: str) -> list[Claim]:
    """Mean drop steps, within the tolerance for eight seeds: less for more seeds, as 1/√n has it.

    Fewer seeds than the reference has are not compared: single seeds of 1D and 1E scatter by more
    than the tolerance of their mean, and wider tolerances would say little.
    """
    if reading.seeds < _SEEDS:
        return []
    narrower = standard_error(1.0, reading.seeds, _SEEDS) / standard_error(1.0, _SEEDS, _SEEDS)
    drops = reading.drops["step"].values
    mean, spread = drops.mean(axis=0), drops.std(axis=0)
    return [
        reading.compare(
            f"mean step of the {DROPS[k]} drop",
            expected,
            float(mean[k]),
            tolerance=narrower * reference.drop_tolerance[k] * expected,
            source=source,
            note=f"standard deviation over seeds {spread[k]:.3g}",
        )
        for k, expected in enumerate(reference.mean_drops)
    ]
