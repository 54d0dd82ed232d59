r"""The staircase of a training run, predicted from data statistics and initial weights.

Four settings: linear networks whose correlation and covariance share their directions (a power law)
and do not (10–10–10), a diagonal network on correlated features, and linear attention on tokens of
unequal variance, the example of Kunin et al. (2025). Loss ½⟨‖y − f‖²⟩ and the time of its flow.
"""

from typing import Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, PositiveFloat, model_validator

from ....dynamics import gradient_flow
from ....networks import AbstractNetwork, attention, diagonal_linear, fully_connected, seeds
from ....tasks import AbstractTask, in_context_regression, linear_teacher
from ....theory.saddles import Staircase, staircase
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._staircase_claims import staircase_claims
from ._staircase_draw import draw as draw
from ._staircase_measure import measured

NAME = "saddles/staircase"
claims = staircase_claims

Panel = Literal["power", "mixed", "diagonal", "attention"]


class Parameters(BaseParameters):
    """Four networks. The seed also draws the data of the first three."""

    seeds: int = Field(default=16, ge=2)
    """Initialisations of the attention heads, whose later jumps are compared as distributions."""

    repeats: int = Field(default=4, ge=1)
    """Initialisations of each of the other networks."""

    scales: tuple[PositiveFloat, ...] = (1e-3, 1e-5, 1e-8, 1e-12)
    """Standard deviations ε of their initial weights, falling."""

    dimension: int = Field(default=10, ge=3)
    """Inputs, hidden units and outputs of the linear networks."""

    modes: int = Field(default=4, ge=2)
    """Modes that there are to learn."""

    decay: float = Field(default=1.5, gt=0)
    """Exponent of the power law of the modes' strengths."""

    features: int = Field(default=8, ge=4)
    """Inputs of the diagonal network."""

    correlated: float = Field(default=0.5, ge=0, lt=1)
    """How much of the features' covariance is that of random directions."""

    coefficients: tuple[float, ...] = (2.0, -1.2, 0.8, 0.5)
    """Target coefficients of the diagonal network that are not zero."""

    token_dimension: int = Field(default=4, ge=1)
    """Dimension D of a token; variances fall as 1/d and sum to 2."""

    context: int = Field(default=32, ge=1)
    """Labelled tokens N in a sequence."""

    heads: int = Field(default=5, ge=1)
    """Attention heads of rank one."""

    attention_scale: float = Field(default=1e-3, gt=0, le=1e-2)
    """Standard deviation of the heads' initial weights."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if len(self.scales) < 2 or list(self.scales) != sorted(set(self.scales), reverse=True):
            raise ValueError(f"`scales` must be two or more falling numbers, got {self.scales}.")
        if self.scales[0] > 1e-3:
            raise ValueError(
                f"`scales` must not exceed 1e-3, got {self.scales[0]:g}: there are no plateaus."
            )
        if self.modes > self.dimension:
            raise ValueError(
                f"`modes` is {self.modes}, above the `dimension` {self.dimension} of the networks."
            )
        if not 1 <= len(self.coefficients) <= self.features or 0.0 in self.coefficients:
            raise ValueError(
                f"`coefficients` must be 1 to {self.features} numbers other than zero, as many as "
                f"`features` at most, got {self.coefficients}."
            )
        return self

    @property
    def token_variances(self) -> np.ndarray:
        variances = 1.0 / np.arange(1, self.token_dimension + 1)
        return 2.0 * variances / variances.sum()


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {
    "seeds": 6,
    "repeats": 2,
    "scales": (1e-3, 1e-8),
    "token_dimension": 2,
    "heads": 4,
    "attention_scale": 5e-3,
}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train every network, and predict its staircase from its initial weights."""
    groups = {}
    for index, (name, words) in enumerate(_WORDS.items()):
        say(words, index / len(_WORDS))
        network, task = _setting(parameters, name)
        predicted = [
            staircase(network.lane(*lane), task) for lane in np.ndindex(*network.batch_shape)
        ]
        trajectory = gradient_flow(
            network,
            task,
            t_end=_horizon(predicted) if name == "attention" else None,
            rtol=1e-6 if name == "attention" else 1e-8,
            max_steps=1_000_000,
        )
        groups[name] = measured(network, predicted, trajectory, parameters.scales)
    lam, n = parameters.token_variances, parameters.context
    groups["attention"]["closed_form"] = (
        "learned",
        0.5 * (lam.sum() - np.cumsum([0.0, *(lam / (1 + (1 + lam.sum() / lam) / n))])),
    )
    return run_tree(NAME, parameters, **groups)


def _horizon(predicted: list[Staircase]) -> float:
    """Until when heads are trained: one that is left may take a hundred times as long."""
    return 2.0 * float(np.median([each.times[-1] for each in predicted if each.times.size]))


_WORDS: dict[Panel, str] = {
    "power": "linear networks on a power law",
    "mixed": "linear networks whose modes mix",
    "diagonal": "diagonal networks",
    "attention": "attention heads",
}


def _setting(parameters: Parameters, name: Panel) -> tuple[AbstractNetwork, AbstractTask]:
    """Networks, by scale and seed or by seed, and what they learn."""
    if name == "attention":
        d = parameters.token_dimension
        task = in_context_regression(
            d, parameters.context, token_covariance=np.diag(parameters.token_variances)
        )
        keys = seeds(parameters.seeds, first=parameters.seed)
        return attention(d, parameters.heads, scale=parameters.attention_scale, key=keys), task

    rng = np.random.default_rng([parameters.seed, list(_WORDS).index(name)])
    keys = seeds(parameters.repeats, first=parameters.seed)
    scale = np.array(parameters.scales)[:, None]
    if name == "diagonal":
        n = parameters.features
        directions = rng.normal(size=(n, n)) / np.sqrt(n)
        mixed = directions @ directions.T
        variances = np.sqrt(np.diag(mixed))
        c = parameters.correlated * mixed / np.outer(variances, variances)
        weights = np.zeros(n)
        weights[rng.permutation(n)[: len(parameters.coefficients)]] = parameters.coefficients
        task = linear_teacher(weights[None], c + (1 - parameters.correlated) * np.eye(n))
        return diagonal_linear(n, scale=scale, key=keys), task

    n = parameters.dimension
    left, right, basis = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(3))
    rank = np.arange(1.0, n + 1.0)
    strength = np.where(rank <= parameters.modes, rank**-parameters.decay, 0.0)
    variance = rank**-0.5
    if name == "power":  # Σ_yx = Σ s q rᵀ and Σ_xx = Σ λ r rᵀ
        weights, covariance = (left * strength / variance) @ right.T, (right * variance) @ right.T
    else:
        weights, covariance = (left * strength) @ right.T, (basis * variance) @ basis.T
    return fully_connected(n, n, n, scale=scale, key=keys), linear_teacher(weights, covariance)
