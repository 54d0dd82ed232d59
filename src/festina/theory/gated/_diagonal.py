"""Find the common singular directions of the data that a group of paths sees."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

from ._common import CommonModes, Frames
from ._paths import PathStatistics

_NOTHING = 1e-9  # relative size below which a number counts as zero


def interacting(seen: PathStatistics) -> list[list[int]]:
    """Group the indices of interacting paths, which share an edge, or an output and examples."""
    edges = sorted({edge for path in seen.paths for edge in path.edges})
    along = np.array([[edge in path.edges for edge in edges] for path in seen.paths], float)
    ends = np.array([path.nodes[-1] for path in seen.paths])
    overlap = (np.abs(seen.gates).T @ np.abs(seen.gates) > 0) & (ends[:, None] == ends)
    _, group = connected_components((along @ along.T > 0) | overlap)
    return [np.flatnonzero(group == k).tolist() for k in range(group.max() + 1)]


def common_modes(
    seen: PathStatistics,
    members: list[int],
    weights: list[list[Float[np.ndarray, "_ _"]]] | None = None,
) -> CommonModes:
    """Return the common directions of a group of paths, and how well they fit.

    The weights decide what the data leave open: the directions of degenerate modes, and which modes
    of two inputs that share an edge but no target are one mode. `weights` lists the products along
    each path, from its first edge to each later edge. Without `weights`, modes are paired by their
    order.
    """
    starts = {p: seen.paths[p].nodes[0] for p in members}
    ends = {p: seen.paths[p].nodes[-1] for p in members}
    sizes = {starts[p]: seen.correlation[p].shape[1] for p in members}
    sizes |= {ends[p]: len(seen.correlation[p]) for p in members}
    frames = {node: np.zeros((size, 0)) for node, size in sizes.items()}
    largest = max(float(np.linalg.norm(seen.correlation[p])) for p in members)
    beyond = lambda node: np.eye(sizes[node]) - frames[node] @ np.linalg.pinv(frames[node])
    for _ in members:  # each round completes at least one path
        left = {p: beyond(ends[p]) @ seen.correlation[p] @ beyond(starts[p]) for p in members}
        first = max(members, key=lambda p: float(np.linalg.norm(left[p])))
        if np.linalg.norm(left[first]) <= _NOTHING * largest:
            break
        axes = _axes(seen, members, starts[first], left, weights, frames)
        found = {node: np.zeros((size, axes.shape[1])) for node, size in sizes.items()}
        found[starts[first]] = axes
        # Propagate along paths in both directions, so that a mode has one index at all nodes.
        reached = -1
        while reached < (reached := sum(np.any(found[node] != 0, axis=0).sum() for node in found)):
            for p in sorted(members, key=lambda p: -float(np.linalg.norm(left[p]))):
                _fill(found, ends[p], left[p] @ found[starts[p]], _NOTHING * largest)
                _fill(found, starts[p], left[p].T @ found[ends[p]], _NOTHING * largest)
        heard = np.any([np.any(found[end] != 0, axis=0) for end in set(ends.values())], axis=0)
        found = {node: columns[:, heard] for node, columns in found.items()}
        alike = np.eye(frames[starts[first]].shape[1], int(heard.sum()))
        if weights is not None:
            alike = np.zeros_like(alike)
            for p in members:
                u, v, w = ends[p], starts[p], weights[p][-1]
                alike += frames[u].T @ w @ found[v] + (found[u].T @ w @ frames[v]).T
        frames = _joined(frames, found, alike)
    return _measured(seen, members, frames, largest)


def _measured(
    seen: PathStatistics, members: list[int], frames: Frames, largest: float
) -> CommonModes:
    """Return S and D in the given directions, and the largest deviation from diagonal form."""
    count = next(iter(frames.values())).shape[1]
    s, d = np.zeros((len(members), count)), np.zeros((len(members), len(members), count))
    widest = max(float(np.linalg.norm(seen.covariance(p, p))) for p in members)
    left = max(slant(frame) for frame in frames.values())
    v = [frames[seen.paths[p].nodes[0]] for p in members]
    u = [frames[seen.paths[p].nodes[-1]] for p in members]
    for a, p in enumerate(members):
        s[a] = np.einsum("om,oi,im->m", u[a], seen.correlation[p], v[a])
        apart = np.linalg.norm(seen.correlation[p] - (u[a] * s[a]) @ v[a].T)
        left = max(left, float(apart) / max(largest, 1e-300))
        for b, j in enumerate(members):
            if seen.paths[j].nodes[-1] == seen.paths[p].nodes[-1]:
                heard = np.any(u[a] != 0, axis=0)  # a mode that reaches no output has no effect
                seen_by = np.where(heard[:, None], v[b].T @ seen.covariance(j, p), 0.0)
                d[b, a] = np.einsum("mi,im->m", seen_by, v[a])
                apart = np.linalg.norm(seen_by - d[b, a][:, None] * v[a].T)
                left = max(left, float(apart) / max(widest, 1e-300))
    opened = frozenset(
        edge for p in members if seen.gates[:, p].any() for edge in seen.paths[p].edges
    )
    return CommonModes(tuple(seen.paths[p] for p in members), frames, s, d, left, opened)


def slant(frame: Float[np.ndarray, "_ mode"]) -> float:
    """Return the largest scalar product between two different directions."""
    gram = frame.T @ frame
    return float(np.abs(gram - np.diag(np.diag(gram))).max(initial=0.0))


def _axes(
    seen: PathStatistics,
    members: list[int],
    node: str,
    left: dict[int, Float[np.ndarray, "_ _"]],
    weights: list[list[Float[np.ndarray, "_ _"]]] | None,
    known: Frames,
) -> Float[np.ndarray, "input mode"]:
    """Return common eigenvectors of the data at one input, as seen by all paths from this input.

    The function computes the eigenvectors of a random mixture of all correlations and covariances.
    """
    here = [p for p in members if seen.paths[p].nodes[0] == node]
    mixture = np.random.default_rng(0)  # generic coefficients avoid accidental degeneracy
    gram = lambda m: mixture.uniform(1, 2) * m.T @ m / max(np.sum(m**2), 1e-300)
    data = sum(gram(left[p]) for p in here)
    for p in here:
        for j in here:
            overlap = seen.covariance(j, p) / max(np.linalg.norm(seen.covariance(j, p)), 1e-300)
            data = data + mixture.uniform(0.01, 0.02) * (overlap + overlap.T)
    values, axes = np.linalg.eigh(data)
    if weights is not None:
        among = sum(gram(each) for p in here for each in weights[p])
        for p in here:  # also use the coupling to the modes found before
            there = known[seen.paths[p].nodes[-1]]
            among = among + gram(
                mixture.uniform(1, 2, there.shape[1])[:, None] * there.T @ weights[p][-1]
            )
        borders = np.flatnonzero(np.diff(values) > _NOTHING * values[-1]) + 1
        for alike in np.split(np.arange(len(values)), borders):
            axes[:, alike] @= np.linalg.eigh(axes[:, alike].T @ among @ axes[:, alike])[1]
    return axes[:, ::-1]


def _joined(known: Frames, new: Frames, alike: Float[np.ndarray, "mode new"]) -> Frames:
    """Merge matching modes if no node has directions for both modes, and append the other modes."""
    there = lambda frames: np.stack([np.any(frame != 0, axis=0) for frame in frames.values()]) * 1
    fits = (there(known).T @ there(new) == 0) * np.abs(alike)
    pairs = zip(*linear_sum_assignment(-fits), strict=True)
    pairs = {int(k): int(m) for m, k in pairs if fits[m, k] > _NOTHING * fits.max()}
    rest = [k for k in range(alike.shape[1]) if k not in pairs]
    joined = {}
    for node, columns in known.items():
        same = columns.copy()
        for k, m in pairs.items():
            same[:, m] += np.sign(alike[m, k]) * new[node][:, k]
        joined[node] = np.hstack((same, new[node][:, rest]))
    return joined


def _fill(found: Frames, node: str, columns: Float[np.ndarray, "_ mode"], least: float) -> None:
    """Fill the missing directions of a node with orthonormalised `columns`, longest first.

    If the data have no common directions, there are more columns than directions.
    """
    frame = found[node].copy()
    for k in np.argsort(-np.linalg.norm(columns, axis=0), kind="stable"):
        if frame[:, k].any():
            continue
        beside = columns[:, k]
        for _ in range(2):  # the second pass removes rounding errors
            beside = beside - frame @ (frame.T @ beside)
        if (length := np.linalg.norm(beside)) > least:
            frame[:, k] = beside / length
    found[node] = frame
