"""Effective widths on the plateaus of every seed of a panel, as a table."""

import numpy as np
import xarray as xr

from ....diagnose import effective_widths
from ....dynamics import Trajectory
from ....tasks import AbstractTask
from ....theory.saddles import mechanism
from ._parameters import PanelParameters

TOLERANCES = (0.02, 0.05, 0.1, 0.2)
"""Of the reduction error, in units of the root mean square target."""


def width_table(
    parameters: PanelParameters, trajectory: Trajectory, task: AbstractTask
) -> xr.Dataset:
    """Widths by kind and tolerance; NaN where a plateau is not clean or a kind has no answer.

    `fitted` is how few units do with other weights, `short` what the best network of one unit less
    leaves.
    """
    stairs = [effective_widths(trajectory.lane(seed), task) for seed in range(parameters.seeds)]
    expected = mechanism(trajectory.network.unit)
    kinds = expected.kinds
    shape = (len(stairs), max(3, *(len(each.found) for each in stairs)))
    clean = np.zeros(shape, int)
    widths = np.full((*shape, len(TOLERANCES), len(kinds)), np.nan)
    fewest, short = np.full((2, *shape, len(TOLERANCES)), np.nan)
    for seed, each in enumerate(stairs):
        for plateau, fitted in enumerate(each.fitted):
            if fitted is None:
                continue
            clean[seed, plateau] = 1
            for row, tolerance in enumerate(TOLERANCES):
                found = fitted.at(tolerance)
                answer = found.merged.widths
                widths[seed, plateau, row] = [
                    np.nan if answer[kind] is None else answer[kind] for kind in kinds
                ]
                fewest[seed, plateau, row], short[seed, plateau, row] = found.width, found.short
    return xr.Dataset(
        {
            "clean": (("seed", "plateau"), clean),
            "width": (("seed", "plateau", "within", "kind"), widths),
            "fitted": (("seed", "plateau", "within"), fewest),
            "short": (("seed", "plateau", "within"), short),
        },
        {"within": list(TOLERANCES), "kind": list(kinds)},
        {"expected_kind": expected.expected or ""},
    )
