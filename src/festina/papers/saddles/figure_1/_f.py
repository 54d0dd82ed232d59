"""Figure 1F: linear attention learns in-context regression with one head, then two.

Eq. (69) as printed does not divide by the context length N. Raw Eq. (69) at (ε, η) is exactly the
model with 1/N at (N^{1/3}ε, N^{2/3}η): weak plateaus and an under-resolved run (preset `raw`). The
printed curve starts at 1 and not at ⟨y²⟩ = D, as it does for tokens of unit trace (`unit-trace`).
"""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field, PositiveFloat

from ....dynamics import loss_factor
from ....networks import Layer, attention
from ....networks._seeds import Keys
from ....tasks import AbstractTask, in_context_regression
from ..panels._head_claims import head_claims
from ..panels._panel import Panel
from ..panels._parameters import PanelParameters
from ..panels._reference import Reference


class Parameters(PanelParameters):
    """Section I, Eq. (69)."""

    width: int = Field(default=10, ge=2)
    """Number of attention heads H."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""

    token_variances: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Variances of the two coordinates of a token."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    rank: int = Field(default=1, ge=1)
    """Rank R of each head's key and query."""

    per_token: bool = True
    """Divide attention by the context length."""

    max_steps: int = Field(default=300_000, ge=1)
    """Most steps of training for each seed; a head that fades out takes very many."""


PRESETS: dict[str, dict[str, Any]] = {
    "unit-trace": {"token_variances": (0.5, 0.5)},
    "raw": {"per_token": False},
}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    return in_context_regression(
        len(parameters.token_variances),
        parameters.context,
        token_covariance=np.diag(parameters.token_variances),
        samples=parameters.samples,
        key=key,
    )


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return attention(
        len(parameters.token_variances),
        parameters.width,
        rank=parameters.rank,
        per_token=parameters.per_token,
        scale=parameters.scale,
        key=keys,
    )


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    """With a set A of directions learned, tr Λ − Σ_A λ/(1 + (1 + tr Λ/λ)/N) is left of the loss."""
    if parameters.samples is not None:
        return {}
    lam, n = np.sort(parameters.token_variances)[::-1], parameters.context
    removed = lam / (1 + (1 + lam.sum() / lam) / n)
    factor = loss_factor(parameters.loss, task) / 2
    predicted = {"closed_form_final": ((), factor * (lam.sum() - removed.sum()))}
    if parameters.rank == 1:
        predicted["closed_form_minimum"] = ((), factor * (lam.sum() - removed.max()))
    return predicted


def _under_resolved(parameters: Parameters) -> str:
    if parameters.per_token:
        return ""
    n = parameters.context
    return (
        f"without 1/N this is the model with 1/N at scale {n ** (1 / 3) * parameters.scale:.3g} "
        f"and learning rate {n ** (2 / 3) * parameters.learning_rate:.3g}: too large for plateaus"
    )


PANEL = Panel(
    name="saddles/figure-1f",
    title="linear self-attention",
    parameters=Parameters,
    task=_task,
    network=_network,
    predict=_predict,
    structure=head_claims,
    level_tolerance=0.02,
    clean=2.0,
    level_fraction=0.9,
    count_fraction=0.75,
    caveat=_under_resolved,
    references=(
        # Three standard errors: single seeds scatter by 500 and 670 steps.
        Reference(Parameters(), (3378.0, 3815.0), drop_tolerance=(0.222, 0.263)),
    ),
    # Dots are the queries; a key that counts lies on the line of its query.
    drawn={"key_query": 1, "rank": 0},
    symbol="q",
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
