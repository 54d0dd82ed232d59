"""When the networks of Figure 5 drop in independent implementations: from other weights, or these.

Other weights drop at other steps, so that means agree no better than chance lets them. From the
same weights every drop comes at the same step.
"""

from dataclasses import dataclass

import numpy as np

from ...claims import Claim
from .._comparison import Reported, same_but_for
from .._plain_descent import furthest
from ..panels._drop_claims import DROPS
from ..panels._parameters import PanelParameters
from ..panels._reading import Reading


@dataclass(frozen=True)
class DeepReference:
    """Numbers of an independent float64 implementation at one set of parameters.

    Plain gradient descent from seeds of its own.

    - `parameters`: the ones they belong to; at any other they say nothing.
    - `drops`: steps at which the loss drops.
    - `level`: of the plateau.
    """

    parameters: PanelParameters
    drops: tuple[Reported, Reported]
    level: Reported | None = None

    def applies(self, parameters: PanelParameters) -> bool:
        varied = {"seeds", "seed", "max_steps", "cleaner"}
        return same_but_for(parameters, self.parameters, varied)


def reference_claims(reading: Reading, references: tuple[DeepReference, ...]) -> list[Claim]:
    """From the same weights to a tenth of a step, from others in the mean of logarithms."""
    return [
        *_same_weights(reading),
        *(
            claim
            for reference in references
            if reference.applies(reading.parameters)
            for claim in _other_weights(reading, reference)
        ),
    ]


def _same_weights(reading: Reading) -> list[Claim]:
    if "plain_step" not in reading.drops:
        return []
    steps, plain = (reading.drops[name].values for name in ("step", "plain_step"))
    if np.isnan((steps, plain)).all():  # too short a run for both
        return []
    return [
        reading.compare(
            "every drop of every seed comes when a plain loop, its derivatives written out by "
            "hand, has it from the same weights: largest difference in steps",
            0.0,
            furthest(steps, plain),
            tolerance=0.5,
            note=f"{np.isfinite(plain).sum()} drops, from {np.nanmin((steps, plain)):.5g} to "
            f"{np.nanmax((steps, plain)):.5g} steps",
        )
    ]


def _other_weights(reading: Reading, reference: DeepReference) -> list[Claim]:
    steps = reading.drops["step"].values
    compared = [
        (f"step of the {DROPS[drop]} drop", reported, steps[:, drop])
        for drop, reported in enumerate(reference.drops)
    ]
    if reference.level is not None and reading.staircases:
        compared.append(("level of the plateau", reference.level, reading.levels))
    source = f"{reading.source}; plain gradient descent, other seeds"
    return [
        reported.claim(reading.compare, words, ours, source=source)
        for words, reported, ours in compared
    ]
