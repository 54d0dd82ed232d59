"""Figure 5E: a linear transformer learns in-context regression with one head, then two.

Behind attention stand two linear layers. At small weights their product with a head is of fifth
order, and escape would take ε⁻³; what starts learning is the residual connection of Eq. (69), which
lets the query through to them, together with its correlation with the target, which is an accident
of a finite data set. Two controls show it: without the residual, or on a data set in which each
sequence also appears with the opposite sign of its task vector, nothing is learned in that time.
When learning starts follows from that correlation and the initial weights (`_figure_5e_escape.py`).

Times: flow of the loss in units of the paper's learning rate, t/η = n; descent is the same here.
"""

from typing import Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ....dynamics import Trajectory, gradient_flow
from ....networks import Stack, linear_transformer
from ....networks._seeds import Keys
from ....tasks import AbstractTask, Task, in_context_regression, task
from ...claims import Claim
from .._comparison import Reported, same_but_for
from ..panels._panel import Panel
from ..panels._reading import PAPER, Reading
from ..panels._structure_claims import active_claims
from ._e_escape import escape, other_sample_claim
from ._panel import DeepPanel, DeepParameters

_DIMENSION = 2

# Another data set and four other seeds, with attention divided by the context length and without.
_DROPS = {True: (44e3, 72e3), False: (3.0e3, 3.8e3)}
_LEVEL = Reported((1.10,), 1, 0.027)
_LEVEL_OF_DATA = 0.022  # by which a data set moves it for all seeds: over 14 of them


class Parameters(DeepParameters):
    """Eq. (69) with two linear layers behind it, on the data of Figure 1F."""

    width: int = Field(default=10, ge=2)
    """Number of heads, and of units in the layer behind them."""

    samples: int | None = Field(default=8192, ge=256)
    """Size of the data set; in the population learning would take ε⁻³."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    per_token: bool = True
    """Divide attention by the context length."""

    method: Literal["descent", "flow"] = "flow"
    """Gradient descent at the learning rate, or gradient flow on the same axis of steps, t/η."""

    max_steps: int = Field(default=5_000_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {"raw": {"per_token": False}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    if parameters.samples is None:
        raise ValueError(
            "`samples` must be a number, for example 8192: learning starts from a correlation that "
            "the population does not have."
        )
    n = parameters.context
    return in_context_regression(_DIMENSION, n, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys, *, residual: bool = True) -> Stack:
    return linear_transformer(
        _DIMENSION,
        parameters.width,
        (parameters.width, 1),
        per_token=parameters.per_token,
        residual=residual,
        scale=parameters.scale,
        key=keys,
    )


def _predict(parameters: Parameters, data: AbstractTask, network: Stack) -> dict[str, Any]:
    assert isinstance(data, Task)
    return escape(data, network, scale=parameters.scale, rate=parameters.learning_rate)


def _controls(
    parameters: Parameters, data: AbstractTask, keys: Keys, trajectory: Trajectory
) -> dict[str, xr.Dataset]:
    """How much of the loss is learned in the same time without what starts learning."""
    assert isinstance(data, Task)
    # By when every seed has made its first drop.
    started = np.argmax(trajectory.loss < 0.5 * trajectory.loss[:, :1], axis=1)
    end = float(trajectory.time[np.arange(len(started)), started].max())
    if parameters.method == "descent":
        end *= parameters.learning_rate
    opposite = data.x * np.array([1.0] * _DIMENSION + [-1.0])[:, None]
    mirrored = task(np.concatenate((data.x, opposite)), np.concatenate((data.y, -data.y)))

    def learned(network: Stack, task: AbstractTask) -> np.ndarray:
        flow = gradient_flow(network, task, loss=parameters.loss, t_end=end)
        return 1 - flow.loss[:, -1] / flow.loss[:, 0]

    alone = _network(parameters, keys, residual=False)
    return {
        "controls": xr.Dataset(
            {
                "without_residual": ("seed", learned(alone, data)),
                "uncorrelated": ("seed", learned(_network(parameters, keys), mirrored)),
            },
            attrs={"steps": end / parameters.learning_rate},
        )
    }


def _structure(reading: Reading) -> list[Claim]:
    controls = reading.run["controls"].to_dataset()
    steps, size = controls.attrs["steps"], float(reading.theory["correlation"])
    return [
        *active_claims(reading),
        reading.compare(
            "without the residual connection of Eq. (69) nothing is learned by the time of the "
            "drops: largest share of the loss",
            0.0,
            float(controls["without_residual"].max()),
            tolerance=1e-3,
            correction="the residual connection is needed",
            source=f"{PAPER}, Figure 5E and Eq. (69)",
            note=f"in {steps:.3g} steps",
        ),
        reading.compare(
            "without a correlation of target and query in the sample, as the population has none, "
            "nothing is learned by the time of the drops: largest share of the loss",
            0.0,
            float(controls["uncorrelated"].max()),
            tolerance=1e-3,
            correction="escape starts from a correlation that is an accident of the sample",
            source=f"{PAPER}, Figure 5E",
            note=f"|⟨y x_q⟩| = {size:.2g} in the data set as drawn",
        ),
        *_reported_claims(reading),
    ]


def _reported_claims(reading: Reading) -> list[Claim]:
    """Numbers of plain gradient descent from other seeds on one other data set."""
    parameters: Any = reading.parameters
    if not same_but_for(parameters, Parameters(), {"seeds", "seed", "max_steps", "per_token"}):
        return []
    source = f"{reading.source}; plain gradient descent, other seeds and data"
    claims = [other_sample_claim(reading, _DROPS[parameters.per_token], source)]
    if reading.staircases:
        claims.append(
            _LEVEL.claim(
                reading.compare,
                "level of the plateau",
                reading.levels,
                common=_LEVEL_OF_DATA,
                source=source,
            )
        )
    return claims


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5e",
        title="linear transformer",
        parameters=Parameters,
        task=_task,
        network=_network,
        predict=_predict,
        structure=_structure,
        count_fraction=0.75,
        drawn={"key_query": 1, "rank": 0},
        symbol="q",
        level_tolerance=0.1,
        level_fraction=0.75,
    ),
    converged=1e-3,
    starts=8,
    also=_controls,
    aligned=True,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
