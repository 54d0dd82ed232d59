"""Figure 4B: a sigmoid network drops at once, rests near one unit's fixed point, and goes on.

φ does not vanish at u = 0: the network's output grows from the first step, and there is no initial
plateau. Zero weights embed no fixed point (Eq. 5 needs φ(z; 0) = 0); equal ones do (Eq. 4).
"""

from typing import Any

import numpy as np
from pydantic import Field

from ...claims import Claim
from .._comparison import Reported, same_but_for
from ..panels._reading import PAPER, PLATEAU, Reading
from ._claims import FIGURE
from ._panel import OtherPanel
from ._teacher import TeacherParameters, fixed_points, teacher_panel


class Parameters(TeacherParameters):
    """φ(x; u) = sigmoid(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    seeds: int = Field(default=3, ge=1)
    """How many independent initialisations are trained."""

    max_steps: int = Field(default=120_000, ge=1)
    """Most steps of training for each seed."""


# Of one seed, to two digits and to one: what rounding may have moved is part of the spread.
_FIRST_REST, _SECOND_REST = Reported((0.0056,), 1, 0.012), Reported((5e-4,), 1, 0.11)

_REST, _AFTER = 1e4, 2e4
"""By when the loss has come to its first rest, and how much later its fall is looked at again."""

PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 1}


def _structure(reading: Reading) -> list[Claim]:
    first = reading.plateaus["drop_step"].values[:, 0]
    claims = [
        reading.at_least(
            "there is no initial plateau: the loss drops within the first thousandth of training",
            1.0,
            first < 1e-3 * reading.parameters.max_steps,
            source=f"{FIGURE}B; φ is of order zero",
            note=f"median step {np.median(first):.3g}",
        )
    ]
    seeds = np.flatnonzero(reading.counts >= 2)
    if not len(seeds):
        return claims
    critical = reading.theory["width_one_level"].values
    levels = reading.plateaus["level"].values[seeds, PLATEAU]
    last = reading.simulation["loss"].values[:, -1]
    spread = np.array([_spread(reading, seed) for seed in seeds.tolist()])
    return [
        *claims,
        reading.compare(
            "after its first drop the loss rests near the fixed point of one unit: median level",
            float(critical[0]),
            float(np.median(levels)),
            tolerance=0.1,
            relative=True,
            source=f"{PAPER}, Theorem 1, Eq. (4)",
        ),
        reading.compare(
            "where the loss rests first all units are alike: spread of u about its mean, relative, "
            "in the median",
            0.0,
            float(np.median(spread)),
            tolerance=0.02,
            source=f"{PAPER}, Theorem 1, Eq. (4)",
        ),
        reading.at_least(
            "in the end the loss is below the lowest of one unit by more than a tenth",
            0.75,
            last < 0.9 * critical[0],
            source=f"{FIGURE}B",
            note=f"median {np.median(last):.2g}",
        ),
        *_reported_claims(reading),
    ]


def _reported_claims(reading: Reading) -> list[Claim]:
    """Levels that plain gradient descent has come to, at the parameters that it was run at."""
    if not same_but_for(reading.parameters, Parameters(), {"seeds", "seed", "max_steps"}):
        return []
    return [*_descent_claims(reading), *_tail_claims(reading)]


def _descent_claims(reading: Reading) -> list[Claim]:
    """By step 10,000 plain gradient descent has a loss of 0.0056."""
    curves = _curves(reading)
    if any(steps[-1] < _REST for steps, _ in curves):
        return []
    losses = np.array([np.interp(_REST, *curve) for curve in curves])
    return [
        _FIRST_REST.claim(
            reading.compare,
            "loss where it rests first, at step 10,000",
            losses,
            source=f"{FIGURE}B; plain gradient descent, other seeds",
        )
    ]


def _tail_claims(reading: Reading) -> list[Claim]:
    """A second drop ends near 5·10⁻⁴; what is left goes slowly."""
    found = [_tail(steps, loss) for steps, loss in _curves(reading)]
    tails = np.array([each for each in found if each is not None])
    if not len(tails):
        return []
    return [
        _SECOND_REST.claim(
            reading.compare,
            "loss where a second drop ends, and it falls ten times more slowly than in that drop",
            tails[:, 0],
            source=f"{FIGURE}B; plain gradient descent, other seeds",
            note=f"at steps {tails[:, 1].min():.3g} to {tails[:, 1].max():.3g}",
        ),
        reading.compare(
            f"from there it is slow: factor by which the loss falls in {_AFTER:g} more steps, "
            "median",
            1.0,
            float(np.median(tails[:, 2])),
            tolerance=0.25,
            source=f"{FIGURE}B; plain gradient descent, other seeds",
            note=f"in as many steps before by {np.median(tails[:, 3]):.2g}",
        ),
    ]


def _tail(steps: np.ndarray, loss: np.ndarray) -> tuple[float, float, float, float] | None:
    """Loss and step where the second drop ends, and how much the loss falls after and before.

    None where training ends too soon to tell.
    """
    if steps[-1] < _REST + _AFTER:
        return None
    grid = np.arange(_REST, steps[-1], 100.0)
    log_loss = np.interp(grid, steps, np.log(loss))
    rate = -np.gradient(log_loss, grid)
    fastest = int(np.argmax(rate))
    slow = np.flatnonzero(rate[fastest:] < 0.1 * rate[fastest])
    if not len(slow) or grid[fastest + slow[0]] + _AFTER > steps[-1]:
        return None
    end = float(grid[fastest + slow[0]])
    here, later, earlier = (
        float(np.exp(np.interp(at, grid, log_loss))) for at in (end, end + _AFTER, end - _AFTER)
    )
    return here, end, here / later, earlier / here


def _curves(reading: Reading) -> list[tuple[np.ndarray, np.ndarray]]:
    """Steps and losses of every seed."""
    simulation = reading.simulation
    saves = simulation["saves"].values
    return [
        (simulation["step"].values[seed, :count], simulation["loss"].values[seed, :count])
        for seed, count in enumerate(saves.tolist())
    ]


def _spread(reading: Reading, seed: int) -> float:
    """Root mean square of |u_i − ū|, weighted by v, over |ū|, right after the drop."""
    u, v = (part.values for part in reading.weights(int(seed), PLATEAU))
    share = np.abs(v[:, 0]) / np.abs(v).sum()
    mean = share @ u
    return float(np.sqrt(share @ np.sum((u - mean) ** 2, axis=1)) / np.linalg.norm(mean))


PANEL = OtherPanel(
    panel=teacher_panel(
        name="saddles/figure-4b",
        title="sigmoid(u·x)",
        parameters=Parameters,
        activation="sigmoid",
        structure=_structure,
    ),
    order=0,
    known=fixed_points,
    axes=("log", "log"),
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
