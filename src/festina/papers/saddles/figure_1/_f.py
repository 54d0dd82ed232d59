"""Figure 1F: linear attention learns in-context regression with one head, then two.

Eq. (69) as printed does not divide attention by the context length N. Eq. (69) with initial scale ε
and learning rate η equals the model divided by N with (N^{1/3}ε, N^{2/3}η). Gradient descent
oscillates at the learning rate N^{2/3}η (preset `raw`). The printed loss curve starts at 1, not at
⟨y²⟩ = D, as for tokens whose covariance has unit trace (preset `unit-trace`).
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

_USUAL = 0.1  # tolerance at which widths are compared
_LINE = 15.0  # degrees; the queries of the two needed heads are 90 degrees apart
_FAST = 0.1  # learning rate (attention divided by N) above which descent departs from the flow


class Parameters(FewUnitsParameters):
    """Parameters of Figure 1F (paper: Section I, Eq. 69)."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""

    token_variances: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Variances of the two coordinates of a token x."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    rank: int = Field(default=1, ge=1)
    """Rank R of the key and query matrices of each head."""

    per_token: bool = True
    """If true, divide attention by the context length N."""

    max_steps: int = Field(default=300_000, ge=1)
    """Maximal number of training steps per seed; a head that decays slowly needs many."""


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
        instead = most_seeds(rises, 0.75, of="losses increase during training")
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
        "Eq. (69) without division by N is the model with 1/N at initial scale "
        f"{n ** (1 / 3) * parameters.scale:.3g} and learning rate {rate:.3g}, which is too large: "
        "gradient descent oscillates and the loss increases at times"
    )


def _crowds(reading: Reading, claim: ClaimCollector) -> None:
    """Check that two heads share a query wherever three heads are active at the end.

    Heads with one query q sum up to ⟨S, Σ|qᵢ|vᵢkᵢᵀ⟩ q̂ᵀx, where S is symmetric. One head could
    compute the same function as these heads if the symmetric part of Σ|qᵢ|vᵢkᵢᵀ has at most one
    eigenvalue of each sign. Training nevertheless ends with several heads that share a query.
    """
    table = reading.run["widths"].ds.isel(plateau=2).sel(within=_USUAL, method="nearest")
    own, enough = table["width"].min("kind").values, table["fitted"].values
    crowded = np.flatnonzero(reading.clean & (own > enough)).tolist()
    if not crowded or reading.parameters.rank > 1:
        return
    angles = np.array([_nearest_queries(reading, seed, int(own[seed])) for seed in crowded])
    claim(
        "shared-queries",
        "where more heads stay active than are needed, the queries of two of them lie on one line, "
        f"within {_LINE:g} degrees",
        most_seeds(angles <= _LINE, 0.9),
        at="Eq. (69)",
        note=f"angles of {join_numbers(angles, 2)} degrees in seeds "
        f"{join_numbers(reading.names[crowded], 10)}; one head could compute what these two "
        "compute together, although no relation of Theorem 1 merges them",
    )


def _nearest_queries(reading: Reading, seed: int, heads: int) -> float:
    """Return the smallest angle between the query lines of the heads that contribute most."""
    u, v = reading.weights(seed, END)
    most_active = np.argsort(-panels.contributions(u, v))[:heads]
    # The last entry belongs to the label y, which the query token lacks.
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
    # Dots are the queries; the key of an active head lies on the line of its query.
    drawn={"key_query": 1, "rank": 0},
    symbol="query weight q",
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
