r"""The law of one neuron's readout, for classes of orthogonal inputs, on a lattice that adapts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._tilt import Tilt

_DEPTH = 24.0  # logarithms below the highest point that still count
_FINE = 1.1  # spacing in prior deviations: the trapezoidal rule errs by 5e-6 in second moments
_MOST = 2_000_000


@dataclass(frozen=True, eq=False)
class Classes:
    """The problem: groups c of n_c orthogonal inputs with common targets, in few dimensions.

    Outputs that no target reaches are prior draws and carry nothing: `basis` spans the rest, and
    all else here is in its coordinates.
    """

    sizes: Float[np.ndarray, " group"]
    targets: Float[np.ndarray, "group direction"]
    basis: Float[np.ndarray, "output direction"]
    variance: float
    tilt: Tilt

    @property
    def fine(self) -> float:
        """Spacing of the lattice. Nothing is narrower than the prior, because g is convex."""
        return _FINE * float(np.sqrt(self.variance))

    def lift(
        self, a: Float[np.ndarray, "point direction"], t: Float[np.ndarray, "group direction"]
    ) -> Float[np.ndarray, "point direction"]:
        """Where a would be at rest if its neuron went on answering as it does: uphill, always."""
        _, first, _ = self.tilt.cumulants(a @ t.T)
        return self.variance * (first * self.sizes) @ t


@dataclass(frozen=True, eq=False)
class Law:
    r"""p(a) at one t on the points that carry its mass.

    $$\log p(a) = -\frac{|a|^2}{2\sigma_a^2} + \sum_c n_c\, g(a\cdot t_c) - \log Z(t)$$

    - `points`, `weight`: a and its probability.
    - `first`, `second`: g′ and g″ at a·t_c, mean and variance of what the neuron answers.
    """

    log_z: float
    points: Float[np.ndarray, "point direction"]
    weight: Float[np.ndarray, " point"]
    first: Float[np.ndarray, "point group"]
    second: Float[np.ndarray, "point group"]

    @property
    def outputs(self) -> Float[np.ndarray, "group direction"]:
        """E[a φ] of each group."""
        return (self.first * self.weight[:, None]).T @ self.points

    @property
    def kernel(self) -> Float[np.ndarray, "group group"]:
        """E[φ φ′] of two different examples."""
        return (self.first * self.weight[:, None]).T @ self.first

    @property
    def kernel_diagonal(self) -> Float[np.ndarray, " group"]:
        """E[φ²] of an example."""
        return self.weight @ (self.first**2 + self.second)

    def curvature(self, sizes: Float[np.ndarray, " group"]) -> Float[np.ndarray, "k k"]:
        """∂² log Z in √n_c t_c: Cov(aφ) of all examples, folded to groups."""
        groups, directions = self.first.shape[1], self.points.shape[1]
        pulled = np.sqrt(sizes)[:, None] * self.first[:, :, None] * self.points[:, None, :]
        flat = pulled.reshape(len(pulled), -1)
        mean = self.weight @ flat
        found = (flat * self.weight[:, None]).T @ flat - np.outer(mean, mean)
        squares = (self.points[:, :, None] * self.points[:, None, :]).reshape(len(flat), -1)
        own = (self.second * self.weight[:, None]).T @ squares
        for c in range(groups):
            block = slice(c * directions, (c + 1) * directions)
            found[block, block] += own[c].reshape(directions, directions)
        return found


def law(problem: Classes, t: Float[np.ndarray, "group direction"]) -> Law:
    """The law at t, on the points of a lattice where it is above e^{-24} of its largest value.

    Cells are halved only where the law can be of any size: the cost does not grow with P.
    """
    sizes, variance, size = problem.sizes, problem.variance, problem.tilt.size
    # No branch is farther out than if all examples pulled at full strength.
    reach = variance * size * (sizes @ np.abs(t)) + 7 * np.sqrt(variance)
    levels = max(int(np.ceil(np.log2(reach.max() / (4 * problem.fine)))), 0)
    step = problem.fine * 2.0**levels
    points = _grid([step * (np.arange(-n, n) + 0.5) for n in np.ceil(reach / step).astype(int)])
    directions = points.shape[1]
    # A bounded answer varies by at most a quarter of its range squared.
    spread = (problem.tilt.highest - problem.tilt.lowest) ** 2 / 4
    curved = float(np.linalg.eigvalsh((t * sizes[:, None]).T @ t)[-1]) * spread - 1 / variance
    corners = _grid([np.array([-0.25, 0.25])] * directions)
    for _ in range(levels):
        g, first, _ = problem.tilt.cumulants(points @ t.T)
        height = g @ sizes - (points**2).sum(axis=1) / (2 * variance)
        slope = np.abs((first * sizes) @ t - points / variance).sum(axis=1)
        rise = slope * step / 2 + max(curved, 0.0) * directions * step**2 / 8
        points = points[height + rise > height.max() - _DEPTH]
        if len(points) * len(corners) > _MOST:
            raise RuntimeError(
                f"The law of a neuron needs more than {_MOST:,} points in {directions} dimensions: "
                "so many examples push it too far out. Use fewer, or a larger `readout_variance`."
            )
        points = (points[:, None, :] + step * corners).reshape(-1, directions)
        step /= 2
    return on_points(problem, t, points)


def on_points(
    problem: Classes,
    t: Float[np.ndarray, "group direction"],
    points: Float[np.ndarray, "point direction"],
) -> Law:
    """The law on the points of a lattice, without those that carry nothing."""
    g, first, second = problem.tilt.cumulants(points @ t.T)
    height = g @ problem.sizes - (points**2).sum(axis=1) / (2 * problem.variance)
    if not len(points) or not np.isfinite(height).all():
        raise RuntimeError(
            "The law of a neuron leaves what numbers can hold: `sizes`, `targets` or "
            "`readout_variance` are too large or too small. Targets of order 1 and a variance of "
            "about one over the number of examples are what the theory is made for."
        )
    top = height.max()
    seen = height > top - _DEPTH
    weight = np.exp(height[seen] - top)
    total = weight.sum()
    cell = points.shape[1] * np.log(_FINE / np.sqrt(2 * np.pi))
    log_z = float(top + np.log(total) + cell)
    return Law(log_z, points[seen], weight / total, first[seen], second[seen])


def _grid(axes: list[np.ndarray]) -> np.ndarray:
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def box(
    problem: Classes, low: Float[np.ndarray, " direction"], high: Float[np.ndarray, " direction"]
) -> Float[np.ndarray, "point direction"]:
    """All points of the lattice between two corners."""
    step = problem.fine
    ends = zip(np.floor(low / step), np.ceil(high / step), strict=True)
    return _grid([step * (np.arange(first, last) + 0.5) for first, last in ends])
