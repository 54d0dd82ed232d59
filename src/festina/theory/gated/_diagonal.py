"""Whether what paths see of the data has common singular directions, and which."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._paths import PathStatistics

_NOTHING = 1e-9  # relative size of what is taken for zero


@dataclass(frozen=True)
class CommonModes:
    """Directions in which some paths, that have to do with each other, see numbers.

    Σ^yx(p) = U S(p) Vᵀ and Σ^x(j, p) = V D(j, p) Vᵀ with diagonal S and D, where U and V are those
    of the path's output and input. `residual` is the largest part that is not so, relative to the
    largest of all.
    """

    members: tuple[int, ...]
    """Which paths."""
    inputs: dict[str, Float[np.ndarray, "input mode"]]
    outputs: dict[str, Float[np.ndarray, "output mode"]]
    s: Float[np.ndarray, "path mode"]
    d: Float[np.ndarray, "path path mode"]
    """Zero between paths that end at different outputs."""
    residual: float


def interacting(seen: PathStatistics) -> list[list[int]]:
    """Paths that share an edge, or an output and examples, in groups."""
    groups: list[set[int]] = []
    for p in range(len(seen.paths)):
        linked = {p} | {j for j in range(p) if _linked(seen, j, p)}
        for group in [group for group in groups if group & linked]:
            groups.remove(group)
            linked |= group
        groups.append(linked)
    return [sorted(group) for group in groups]


def _linked(seen: PathStatistics, j: int, p: int) -> bool:
    one, other = seen.paths[j], seen.paths[p]
    if set(one.edges) & set(other.edges):
        return True
    meet = one.nodes[-1] == other.nodes[-1]
    return meet and bool(np.any(seen.gates[:, j] * seen.gates[:, p]))


def common_modes(seen: PathStatistics, members: list[int]) -> CommonModes:
    """Directions of a group of paths, with how well they serve."""
    starts = {p: seen.paths[p].nodes[0] for p in members}
    ends = {p: seen.paths[p].nodes[-1] for p in members}
    first = max(members, key=lambda p: float(np.linalg.norm(seen.correlation[p])))
    inputs = {starts[first]: _axes(seen, members, starts[first])}
    outputs: dict[str, np.ndarray] = {}
    # From one input to all that paths lead to and back: degenerate directions stay the same ones.
    for _ in members:
        for p in members:
            if starts[p] in inputs:
                seen_there = seen.correlation[p] @ inputs[starts[p]]
                outputs[ends[p]] = _stronger(outputs.get(ends[p]), seen_there)
            if ends[p] in outputs and starts[p] != starts[first]:
                back = seen.correlation[p].T @ outputs[ends[p]]
                inputs[starts[p]] = _stronger(inputs.get(starts[p]), back)
        if len(inputs) == len(set(starts.values())) and len(outputs) == len(set(ends.values())):
            break
    largest = max(float(np.linalg.norm(seen.correlation[p])) for p in members)
    u = {node: _unit(columns, largest) for node, columns in outputs.items()}
    v = {node: _unit(columns, 0.0) for node, columns in inputs.items()}
    count = next(iter(v.values())).shape[1]
    s, d = np.zeros((len(members), count)), np.zeros((len(members), len(members), count))
    left = 0.0
    widest = max(np.linalg.norm(seen.covariance(p, p)) for p in members)
    for a, p in enumerate(members):
        inside = u[ends[p]].T @ seen.correlation[p] @ v[starts[p]]
        s[a] = np.diag(inside)
        whole = u[ends[p]] @ np.diag(s[a]) @ v[starts[p]].T
        left = max(left, np.linalg.norm(seen.correlation[p] - whole) / max(largest, 1e-300))
        for b, j in enumerate(members):
            if ends[j] != ends[p]:
                continue
            covariance = v[starts[j]].T @ seen.covariance(j, p) @ v[starts[p]]
            # A mode that reaches no output disturbs none.
            heard = np.any(u[ends[p]] != 0, axis=0)
            d[b, a] = np.where(heard, np.diag(covariance), 0.0)
            covariance = covariance[np.ix_(heard, heard)]
            off = covariance - np.diag(np.diag(covariance))
            left = max(left, np.linalg.norm(off) / max(widest, 1e-300))
    return CommonModes(tuple(members), v, u, s, d, float(left))


def _axes(seen: PathStatistics, members: list[int], node: str) -> Float[np.ndarray, "input mode"]:
    """Eigenvectors of all that paths from one input see of it, in no special proportion."""
    here = [p for p in members if seen.paths[p].nodes[0] == node]
    mixture = np.random.default_rng(0)  # any that favours no coincidence
    total = np.zeros((seen.correlation[here[0]].shape[1],) * 2)
    for p in here:
        power = seen.correlation[p].T @ seen.correlation[p]
        total += mixture.uniform(1, 2) * power / max(np.trace(power), 1e-300)
        for j in here:
            overlap = seen.covariance(j, p)
            weight = mixture.uniform(0.01, 0.02) / max(np.linalg.norm(overlap), 1e-300)
            total += weight * (overlap + overlap.T) / 2
    return np.linalg.eigh(total)[1][:, ::-1]


def _stronger(
    known: Float[np.ndarray, "n mode"] | None, found: Float[np.ndarray, "n mode"]
) -> Float[np.ndarray, "n mode"]:
    """Of each direction the longer of two vectors."""
    if known is None:
        return found
    longer = np.linalg.norm(found, axis=0) > np.linalg.norm(known, axis=0) * (1 + 1e-6)
    return np.where(longer, found, known)


def _unit(columns: Float[np.ndarray, "n mode"], scale: float) -> Float[np.ndarray, "n mode"]:
    length = np.linalg.norm(columns, axis=0)
    here = length > _NOTHING * max(scale, float(length.max(initial=0.0)))
    return np.where(here, columns / np.where(here, length, 1.0), 0.0)
