"""Figure 4A: softmax attention first learns with uniform attention, a fit to the sample alone.

At u = 0 softmax is uniform and not zero: φ is of order zero, and the values v at once learn what
the mean token explains of the target. In the population that is nothing, so that the first drop is
an effect of the sample that falls as 1/P; what follows starts from it, at times that depend on the
data set. The paper has H = 50 heads and P = 8192 sequences. Cost grows with P and with H², so that
ten heads and 256 sequences are the default here.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field, field_validator

from ....networks import Layer, attention
from ....networks._seeds import Keys
from ....tasks import AbstractTask, in_context_regression
from ...claims import Claim
from ..panels._panel import Panel
from ..panels._reading import PLATEAU, Reading
from ._claims import FIGURE
from ._panel import Levels, OtherPanel, OtherParameters

_MORE = 16  # times the samples, to see how the first drop depends on their number
_DATA_SETS = 8


class Parameters(OtherParameters):
    """Softmax attention on the in-context regression of Figure 1F."""

    seeds: int = Field(default=1, ge=1)
    """How many independent initialisations are trained."""

    width: int = Field(default=10, ge=2)
    """Number of attention heads H; the paper has 50."""

    samples: int | None = Field(default=256, ge=8)
    """Number P of sequences; the paper has 8192, at as many times the cost."""

    dimension: int = Field(default=2, ge=2)
    """Dimension of a token."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    max_steps: int = Field(default=6_000, ge=1)
    """Most steps of training for each seed."""

    @field_validator("samples")
    @classmethod
    def _finite(cls, samples: int | None) -> int | None:
        if samples is None:
            raise ValueError(
                "softmax attention has no population in closed form; give a number of sequences"
            )
        return samples


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"samples": 128, "max_steps": 1_500}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    return in_context_regression(
        parameters.dimension, parameters.context, samples=parameters.samples, key=key
    )


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return attention(
        parameters.dimension, parameters.width, softmax=True, scale=parameters.scale, key=keys
    )


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Least squares on the mean token, for the data set and for larger ones."""
    samples = parameters.samples or 0
    rest, _ = _uniform_fit(task, network)
    keys = jax.random.split(jax.random.key(parameters.seed), 2 * _DATA_SETS)
    gains = [
        _uniform_fit(_task(parameters.model_copy(update={"samples": size}), key), network)[1]
        for size, half in ((samples, keys[:_DATA_SETS]), (_MORE * samples, keys[_DATA_SETS:]))
        for key in half
    ]
    return Levels(
        rest=rest,
        tables={"gain": (("size", "data_set"), np.reshape(gains, (2, _DATA_SETS)))},
    )


def _uniform_fit(task: AbstractTask, network: Layer) -> tuple[float, float]:
    """Loss that the best values leave if attention is uniform, and the fraction they take away."""
    statistics = task.statistics(network.unit)
    mean, y = statistics.psi.mean(axis=-1), statistics.y
    fit, *_ = np.linalg.lstsq(mean, y, rcond=None)
    left, all_of_it = np.mean(np.sum((y - mean @ fit) ** 2, axis=1)), np.mean(np.sum(y**2, axis=1))
    return float(left), float(1 - left / all_of_it)


def _structure(reading: Reading) -> list[Claim]:
    gain = reading.theory["gain"].values.mean(axis=1)
    claims = [
        reading.compare(
            "the first drop is an effect of the sample: exponent with which it falls with the "
            "number of sequences",
            -1.0,
            float(np.log(gain[1] / gain[0]) / np.log(_MORE)),
            tolerance=0.4,
            source=f"{FIGURE}A; in the population the mean token does not correlate with the "
            "target",
            note=f"{100 * gain[0]:.2g} % and {100 * gain[1]:.2g} % of the loss with "
            f"{reading.parameters.samples} sequences and with {_MORE} times as many",
        )
    ]
    if (reading.counts >= 2).all():
        levels = reading.plateaus["level"].values[:, PLATEAU]
        fit = float(reading.theory["level"][1])
        claims.append(
            reading.compare(
                "the second plateau is the least-squares fit of uniform attention: largest "
                "relative difference over seeds",
                0.0,
                float(np.max(np.abs(levels / fit - 1))),
                tolerance=1e-4,
                source=f"{FIGURE}A; φ is of order zero",
                note=f"level {fit:.6g}",
            )
        )
    return claims


PANEL = OtherPanel(
    panel=Panel(
        name="saddles/figure-4a",
        title="softmax attention",
        parameters=Parameters,
        task=_task,
        network=_network,
        structure=_structure,
        # Dots are the queries.
        drawn={"key_query": 1, "rank": 0},
        symbol="q",
    ),
    order=0,
    known=_known,
    merge=1e-5,
    axes=("log", "linear"),
    end=None,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
