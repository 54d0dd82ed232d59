"""Figure 1F: linear attention learns in-context regression with one head, then two.

Eq. (69) as printed does not divide by the context length N. Raw Eq. (69) at (ε, η) is exactly the
model with 1/N at (N^{1/3}ε, N^{2/3}η): a rate at which descent goes to and fro (preset `raw`). The
printed curve starts at 1 and not at ⟨y²⟩ = D, as it does for tokens of unit trace (`unit-trace`).
"""

from typing import Any

import numpy as np
from pydantic import Field, PositiveFloat

from ...._types import Keys
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, join_numbers, most_seeds
from ....networks import Layer, attention
from ....tasks import AbstractTask, in_context_regression
from .. import panels
from ..panels import END, FewUnitsParameters, Panel, Reading, staircase

_USUAL = 0.1  # the tolerance at which widths are compared
_LINE = 15.0  # degrees; heads that are needed have queries 90 apart
_FAST = 0.1  # rate with 1/N from which on descent is far from the flow


class Parameters(FewUnitsParameters):
    """Section I, Eq. (69)."""

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


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    tokens, n, samples = parameters.token_variances, parameters.context, parameters.samples
    return in_context_regression(2, n, token_covariance=np.diag(tokens), samples=samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    heads = {"rank": parameters.rank, "per_token": parameters.per_token}
    return attention(2, parameters.width, **heads, scale=parameters.scale, key=keys)


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    if words := _too_fast(reading.parameters):
        rises = [np.diff(loss).max() > 1e-3 * loss[0] for loss in reading.curves[1]]
        instead = most_seeds(rises, 0.75, of="losses rise on the way")
        panels.count(reading, claim, 0.75, wrong=words, instead=instead)
        panels.active(reading, claim, 0.75, (END,))
        return
    panels.count(reading, claim, 0.75)
    panels.level(reading, claim, order=2)
    panels.active(reading, claim, 0.75)
    _crowds(reading, claim)
    panels.widths(reading, claim, 0.75)


def _too_fast(parameters: Parameters) -> str:
    n = 1 if parameters.per_token else parameters.context
    rate = n ** (2 / 3) * parameters.learning_rate
    if rate < _FAST or parameters.method == "flow":
        return ""
    return (
        f"this is the model with 1/N at scale {n ** (1 / 3) * parameters.scale:.3g} and learning "
        f"rate {rate:.3g}: too large, descent goes to and fro and the loss rises on the way"
    )


def _crowds(reading: Reading, claim: ClaimCollector) -> None:
    """Why at times three heads are active at the end: two of them share their query.

    Heads with one query q sum up to ⟨S, Σ|qᵢ|vᵢkᵢᵀ⟩ q̂ᵀx, where S is symmetric: if its symmetric
    part has at most one eigenvalue of each sign, one head could do it, and yet none vanishes.
    """
    table = reading.run["widths"].ds.isel(plateau=2).sel(within=_USUAL, method="nearest")
    own, enough = table["width"].min("kind").values, table["fitted"].values
    crowded = np.flatnonzero(reading.clean & (own > enough)).tolist()
    if not crowded or reading.parameters.rank > 1:
        return
    angles = np.array([_nearest_queries(reading, seed, int(own[seed])) for seed in crowded])
    claim(
        "shared-queries",
        "where more heads stay active than are needed, two of them share the line of their query, "
        f"within {_LINE:g} degrees",
        most_seeds(angles <= _LINE, 0.9),
        at="Eq. (69)",
        note=f"{join_numbers(angles, 2)} degrees in seeds "
        f"{join_numbers(reading.names[crowded], 10)}; together they do what one head could, "
        "although no kind of Theorem 1 merges them",
    )


def _nearest_queries(reading: Reading, seed: int, heads: int) -> float:
    """Smallest angle between the queries of the heads that contribute most, as lines."""
    u, v = reading.weights(seed, END)
    most_active = np.argsort(-panels.contributions(u, v))[:heads]
    # The last entry is for the label, which the query token has none of.
    queries = u.isel(unit=most_active, key_query=1, rank=0).values[:, :-1]
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    cosine = np.abs(queries @ queries.T)[np.triu_indices(heads, 1)]
    return float(np.degrees(np.arccos(min(cosine.max(), 1.0))))


PANEL = Panel(
    "1F",
    "linear self-attention",
    Parameters,
    _task,
    _network,
    staircase(),
    _asserts,
    # Dots are the queries; a key that counts lies on the line of its query.
    drawn={"key_query": 1, "rank": 0},
    symbol="q",
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
