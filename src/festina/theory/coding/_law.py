"""Integrate the distribution of one neuron's readout on an adaptive lattice."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._tilt import Tilt

_DEPTH = 24.0  # points this far below the maximal log density are dropped
_FINE = 1.1  # lattice spacing in prior standard deviations; second moments are off by 5e-6
_MOST = 2_000_000  # largest number of lattice points


@dataclass(frozen=True, eq=False)
class Classes:
    """Classification problem: groups c of $n_c$ orthogonal inputs, with one target for each group.

    Arrays with the axis `direction` hold coordinates in the space that the targets span. The
    columns of `basis` span this space of the targets. Readouts orthogonal to the targets keep their
    prior and carry no information.
    """

    sizes: Float[np.ndarray, " group"]
    targets: Float[np.ndarray, "group direction"]
    basis: Float[np.ndarray, "output direction"]
    variance: float
    tilt: Tilt

    @property
    def fine(self) -> float:
        """Return the spacing of the lattice.

        No mode of the distribution is narrower than the prior, because the cumulant function g is
        convex.
        """
        return _FINE * float(np.sqrt(self.variance))

    def lift(
        self, a: Float[np.ndarray, "point direction"], t: Float[np.ndarray, "group direction"]
    ) -> Float[np.ndarray, "point direction"]:
        r"""Return the next point of the fixed-point iteration for modes of p(a).

        The iteration is $a \mapsto \sigma_a^2\sum_c n_c t_c\, g'(a\cdot t_c)$. Each step increases
        the density p(a), and the stable fixed points are the modes of p.
        """
        _, first, _ = self.tilt.cumulants(a @ t.T)
        return self.variance * (first * self.sizes) @ t


@dataclass(frozen=True, eq=False)
class Law:
    r"""Distribution p(a) of a neuron's readout at a dual variable t, on points that carry its mass.

    $$\log p(a) = -\frac{|a|^2}{2\sigma_a^2} + \sum_c n_c\, g(a\cdot t_c) - \log Z(t)$$

    - `log_z`: $\log Z(t)$.
    - `points`, `weight`: readouts a, and the probability of each.
    - `first`, `second`: $g'$ and $g''$ at $a\cdot t_c$, the mean and variance of the neuron's
      response to an example of group c.
    """

    log_z: float
    points: Float[np.ndarray, "point direction"]
    weight: Float[np.ndarray, " point"]
    first: Float[np.ndarray, "point group"]
    second: Float[np.ndarray, "point group"]

    @property
    def outputs(self) -> Float[np.ndarray, "group direction"]:
        r"""Return the mean output $E[a\phi]$ for each group."""
        return (self.first * self.weight[:, None]).T @ self.points

    @property
    def kernel(self) -> Float[np.ndarray, "group group"]:
        r"""Return the kernel $E[\phi\phi']$ of two different examples, by their groups."""
        return (self.first * self.weight[:, None]).T @ self.first

    @property
    def kernel_diagonal(self) -> Float[np.ndarray, " group"]:
        r"""Return the kernel $E[\phi^2]$ of one example of each group with itself."""
        return self.weight @ (self.first**2 + self.second)

    def curvature(self, sizes: Float[np.ndarray, " group"]) -> Float[np.ndarray, "k k"]:
        r"""Return the second derivative of $\log Z$ in the coordinates $\sqrt{n_c}\,t_c$.

        The second derivative is the covariance of $a\phi$ over all examples, summed within groups.
        """
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
    """Return the distribution of readouts at t, on lattice points above $e^{-24}$ of its maximum.

    The lattice starts coarse and is refined only where the density may exceed $e^{-24}$ of its
    maximum. The cost therefore does not grow with the number P of examples.
    """
    sizes, variance, size = problem.sizes, problem.variance, problem.tilt.size
    # All modes lie within σ_a² Σ_c n_c |t_c| times the largest response.
    reach = variance * size * (sizes @ np.abs(t)) + 7 * np.sqrt(variance)
    levels = max(int(np.ceil(np.log2(reach.max() / (4 * problem.fine)))), 0)
    step = problem.fine * 2.0**levels
    points = _grid([step * (np.arange(-n, n) + 0.5) for n in np.ceil(reach / step).astype(int)])
    directions = points.shape[1]
    # The variance of a bounded response is at most a quarter of its squared range.
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
                f"The distribution of readouts needs more than {_MOST:,} lattice points in "
                f"{directions} dimensions. Use fewer examples or a larger `readout_variance`."
            )
        points = (points[:, None, :] + step * corners).reshape(-1, directions)
        step /= 2
    return on_points(problem, t, points)


def on_points(
    problem: Classes,
    t: Float[np.ndarray, "group direction"],
    points: Float[np.ndarray, "point direction"],
) -> Law:
    """Return the distribution of readouts on the given points; drop points of negligible weight."""
    g, first, second = problem.tilt.cumulants(points @ t.T)
    height = g @ problem.sizes - (points**2).sum(axis=1) / (2 * problem.variance)
    if not len(points) or not np.isfinite(height).all():
        raise RuntimeError(
            "The distribution of readouts exceeds the range of floating-point numbers: `sizes`, "
            "`targets` or `readout_variance` are too large or too small. Use targets of order 1 "
            "and a `readout_variance` of about one over the number of examples."
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
    """Return all lattice points in the box between the corners `low` and `high`."""
    step = problem.fine
    ends = zip(np.floor(low / step), np.ceil(high / step), strict=True)
    return _grid([step * (np.arange(first, last) + 0.5) for first, last in ends])
