"""Figure 1C: a linear convolutional network learns one direction of kernels, then two.

The saddles are those of matrix sensing, which Lemma 6 does not cover. A single unit that leaves
zero along the strongest direction comes to rest at a saddle whose loss is 1 % above the width-1
minimum. The single unit would reach the minimum ten times later. A wide network learns the second
direction long before that time.
"""

from typing import Any

import numpy as np

from ...._types import Keys
from ....diagnose import plateaus_of_batch
from ....dynamics import gradient_flow
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector
from ....networks import Layer, convolutional_1d, layer_from
from ....tasks import AbstractTask, figure_1c_teacher
from .. import panels
from ..panels import Panel, PanelParameters, Reading, staircase

_SMALL = 1e-4  # initial scale of the unit that leaves zero exactly along its strongest direction


class Parameters(PanelParameters):
    """Parameters of Figure 1C (paper: Section I, Eq. 66)."""


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    return figure_1c_teacher(samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return convolutional_1d(
        4, parameters.width, kernel=2, stride=2, scale=parameters.scale, key=keys
    )


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    """Predict the plateau level from training one unit, and the final singular values √(2s).

    The final map Σ v_i u_iᵀ over (position, tap) is the teacher. For balanced weights, the stacked
    weights Θ then have singular values √(2s), where s are the singular values of the map.
    """
    statistics = task.statistics(network.unit)
    sigma_yx, sigma_xx = statistics.correlation, statistics.covariance
    best = np.linalg.lstsq(sigma_xx, sigma_yx.ravel(), rcond=None)[0].reshape(2, 2)
    position, _, tap = np.linalg.svd(sigma_yx.reshape(2, 2))
    one = layer_from(network.unit, _SMALL * tap[:1], _SMALL * position[None, None, :, 0])
    alone = plateaus_of_batch(gradient_flow(one, task, loss=parameters.loss))
    return {
        "fixed_point": ("point", alone["level"].values[1:2]),
        "final_singular_values": ("mode", np.sqrt(2 * np.linalg.svd(best, compute_uv=False))),
    }


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    panels.count(reading, claim)
    lowest = float(reading.theory["narrow_minimum"][0])
    corrected = (
        "the fixed point is the saddle that one unit reaches from zero, above the width-1 minimum "
        f"{lowest:.6g}"
    )
    if reading.parameters.samples is None:  # on a finite sample one unit only slows down
        panels.level(reading, claim, corrected=corrected)
    panels.ranks(reading, claim)
    panels.widths(reading, claim)


PANEL = Panel(
    "1C", "linear convolutional", Parameters, _task, _network, staircase(_predict), _asserts
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
