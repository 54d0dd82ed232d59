"""Claims about the heads of Figure 1F: which are active, and why at times there are three."""

import numpy as np

from ...claims import Claim
from ._reading import END, PAPER, Reading
from ._structure_claims import active_claims, contributions

_USUAL = 0.1  # the tolerance at which widths are compared
_LINE = 15.0  # degrees; heads that are needed have queries 90 apart


def head_claims(reading: Reading) -> list[Claim]:
    """One head on the plateau, two at the end, or three of which two share their query.

    Heads with one query q sum up to ⟨S, Σ|qᵢ|vᵢkᵢᵀ⟩ q̂ᵀx, where S is symmetric: if its symmetric
    part has at most one eigenvalue of each sign, one head could do it, and yet none vanishes.
    """
    claims = active_claims(reading)
    table = reading.widths.isel(plateau=slice(3)).sel(within=_USUAL, method="nearest")
    own, enough = table["width"].min("kind").values[:, END], table["fitted"].values[:, END]
    crowded = np.flatnonzero(reading.clean & (own > enough))
    if crowded.size and reading.simulation.sizes["rank"] == 1:
        angles = [_nearest_queries(reading, seed, int(own[seed])) for seed in crowded.tolist()]
        names = reading.simulation["seed"].values[crowded]
        claims.append(
            reading.at_least(
                "where more heads stay active than are needed, two of them share the line of their "
                f"query, within {_LINE:g} degrees",
                0.9,
                np.array(angles) <= _LINE,
                source=f"{PAPER}, Eq. (69)",
                note=f"{', '.join(f'{angle:.2g}' for angle in angles)} degrees in seeds "
                f"{', '.join(map(str, names))}; together they do what one head could, "
                "although no kind of Theorem 1 merges them",
            )
        )
    return claims


def _nearest_queries(reading: Reading, seed: int, heads: int) -> float:
    """Smallest angle between the queries of the heads that contribute most, as lines."""
    u, v = reading.weights(seed, END)
    most = np.argsort(-contributions(u, v))[:heads]
    # The last entry is for the label, which the query token has none of.
    queries = u.isel(unit=most, key_query=1, rank=0).values[:, :-1]
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    cosine = np.abs(queries @ queries.T)[np.triu_indices(heads, 1)]
    return float(np.degrees(np.arccos(min(cosine.max(), 1.0))))
