"""Neural race reduction: describe a gated network by one number for each edge and mode."""

import itertools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times, real_number
from ..._numerics._integrate import integrate
from ..._result import Result
from ..._types import ArrayLike
from ...networks import Gated
from ...tasks import Task
from ._alone import alone
from ._common import CommonModes, Frames
from ._diagonal import common_modes, interacting, slant
from ._path_strengths import PathStrengths
from ._paths import path_statistics
from ._settle import settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SWEEPS = 200  # largest number of sweeps through the graph; random weights need a few dozen
_MOST_TIMES = 2000


class ReductionWarning(UserWarning):
    """Warning of `race_reduction` that data or weights are not diagonal in common directions.

    **Example:**

    >>> import warnings
    >>> from festina.networks import gated_from
    >>> from festina.tasks import from_arrays
    >>> from festina.theory.gated import ReductionWarning, race_reduction
    >>> network = gated_from({"x-h": [[0.1, 0.0]], "h-y": [[0.1]]})  # the target is x₁ + x₂
    >>> task = from_arrays([[1.0, 0.0], [0.0, 1.0]], [[1.0], [1.0]])
    >>> with warnings.catch_warnings(action="always", record=True) as caught:
    ...     reduced = race_reduction(network, task)
    >>> caught[0].category is ReductionWarning, reduced.weight_residual
    (True, 0.7071)
    """


@dataclass(frozen=True, eq=False, repr=False)
class RaceReduction(Result):
    r"""Result of `race_reduction`: predicts the strengths of all paths when called with times.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import from_arrays
    >>> from festina.theory.gated import race_reduction
    >>> network = gated_from({"x-a": [[0.1]], "a-y": [[0.1]], "x-b": [[0.2]], "b-y": [[0.2]]})
    >>> reduced = race_reduction(network, from_arrays([[1.0]], [[1.0]]))
    >>> reduced([0.0, 2.0, 10.0]).loss.round(4)
    array([0.4512, 0.0333, 0.    ])
    """

    network: Gated
    """Network with the initial weights."""
    groups: tuple[CommonModes, ...]
    """Groups of interacting paths with their common modes."""
    initial: dict[str, Float[np.ndarray, " _mode"]]
    """Initial strengths B_e of every edge."""
    frames: Frames
    """Directions R_v of every hidden node, as columns."""
    data_residual: float
    """Deviation of the data statistics from diagonal form, relative to their size."""
    weight_residual: float
    """Largest relative deviation of weights from R B Rᵀ, or of R from orthonormal columns."""
    power: float
    """Mean squared norm of the targets, ⟨‖y‖²⟩."""

    def __str__(self) -> str:
        paths = sum(len(group.paths) for group in self.groups)
        return (
            f"Reduction(paths: {paths} in {len(self.groups)} groups, residual of the data "
            f"{self.data_residual:.2g}, of the weights {self.weight_residual:.2g})"
        )

    def __call__(
        self, times: ArrayLike | None = None, *, tau: float = 1.0, rtol: float = 1e-10
    ) -> PathStrengths:
        """Return the strengths of all paths over time; without `times`, until convergence.

        - `times`: times in the units of `tau`.
        - `tau`: time constant of the flow.
        - `rtol`: relative tolerance of the integrator; it also sets the absolute tolerance.
        """
        check_positive("tau", tau)
        check_positive("rtol", rtol)
        starts = {
            group: np.concatenate([self.initial[edge] for edge in group.edges])
            for group in self.groups
        }
        smallest = min(1e-3, *(np.abs(b).max(initial=0.0) or 1.0 for b in starts.values()))
        atol = rtol * float(smallest)
        drive = lambda group: lambda _, b: group.velocity(b) / tau
        # Not DOP853: its interpolation is inaccurate where stability limits the steps.
        method = "RK45"
        if times is None:
            method = "LSODA"  # a stiff solver, for long phases in which hardly anything changes
            ways = [
                settle(drive(group), b, np.abs, rate=group.s.max() / tau, rtol=rtol, atol=atol)[0]
                for group, b in starts.items()
                if b.size
            ]
            times = np.unique(np.concatenate([np.zeros(1), *ways]))
            times = times[:: max(1, len(times) // _MOST_TIMES)]
        check_times(times)
        times = np.asarray(times, float).reshape(-1)
        edges = {}
        for group, b in starts.items():
            rows = integrate(drive(group), times, b, method=method, rtol=rtol, atol=atol)
            rows = rows.reshape(len(times), len(group.edges), -1)
            edges |= {edge: rows[:, k] for k, edge in enumerate(group.edges)}
        return self._path_strengths(times, {edge: edges[edge] for edge in self.initial})

    def alone(
        self, times: ArrayLike, *, tau: float = 1.0
    ) -> dict[str, Float[np.ndarray, "*time _"]]:
        r"""Return the strength of every path without the other paths, in closed form.

        A path of N balanced edges with correlation S(p) and input variance D(p, p) obeys
        $\tau\dot\pi = N\pi^{2-2/N}(S - D\pi)$ (`festina.theory.linear.chain_strength`). The edges
        of a path of two edges may have different strengths (`unbalanced_strength`); longer paths
        raise `ValueError` if their edges differ. A path without interactions follows this solution
        exactly. For other paths, the difference from the reduction is the effect of the race.
        """
        return {
            str(path): alone(times, path, group, self.initial, tau)
            for group in self.groups
            for path in group.paths
        }

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the strength of each path until convergence. `style` is passed to `Axes.plot`."""
        return self().draw(ax, **style)

    def _path_strengths(
        self, times: Float[np.ndarray, " time"], edges: dict[str, Float[np.ndarray, "time _"]]
    ) -> PathStrengths:
        strengths = {
            str(path): np.prod([edges[edge] for edge in path.edges], axis=0)
            for group in self.groups
            for path in group.paths
        }
        loss = np.full(len(times), self.power / 2)
        for group in self.groups:
            loss -= group.explained(strengths)
        parts = dict(zip(self.initial, map(np.asarray, self.network.parts), strict=True))
        for group in self.groups:
            frames = self.frames | group.frames
            for edge in group.edges:
                source, target = (frames[name] for name in edge.split("-"))
                # Non-diagonal parts of the weights stay constant.
                grown = edges[edge] - self.initial[edge]
                parts[edge] = parts[edge] + (target * grown[:, None, :]) @ source.T
        network = self.network.with_parts(*parts.values())
        return PathStrengths(times, edges, strengths, loss, network)


def race_reduction(network: Gated, task: Task, *, tolerance: float = 1e-6) -> RaceReduction:
    r"""Reduce a gated network to a race between its paths, starting from its weights.

    The reduction is exact under two conditions:

    - Weights are *decoupled*: $W_e = R_{t(e)} B_e R_{s(e)}^\top$ for each edge e from node s(e) to
      node t(e), with diagonal $B_e$ and orthonormal R.
    - Data are diagonal in common directions: $\Sigma^{yx}(p) = U\,S(p)\,V^\top$ and
      $\Sigma^x(j, p) = V\,D(j, p)\,V^\top$ with diagonal S and D for all paths (see
      `path_statistics`), where $R = V$ at inputs and $R = U$ at outputs.

    Gradient flow on $\frac12\langle\lVert y - f\rVert^2\rangle$ is then

    $$\tau\dot B_e = \sum_{p \ni e} B_{p \setminus e}\,\Big[S(p) - \sum_j B_j D(j, p)\Big],$$

    with sums over the paths p through e and the paths j with the same output as p (Saxe, Sodhani &
    Lewallen 2022). Modes do not interact. Directions of inputs and outputs come from the data.
    At a hidden node v the weights determine the direction along which weights grow: $r_v \propto
    \sum_{e \to v} W_e r_s + \sum_{e \leftarrow v} W_e^\top r_t$.

    For weights or data that violate these conditions the result is an approximation, with errors in
    the weights of first order in `weight_residual` and `data_residual`.

    **Arguments:**

    - `tolerance`: residual above which a `ReductionWarning` is issued.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import xor
    >>> from festina.theory.gated import race_reduction
    >>> weights = {"x-a": [[0, -0.1]], "a-y": [[0.1]], "x-b": [[0, 0.1]], "b-y": [[0.1]]}
    >>> gates = {"a": lambda x: x[0] > 0, "b": lambda x: x[0] < 0}
    >>> reduced = race_reduction(gated_from(weights, gates=gates), xor())
    >>> reduced([0.0, 5.0, 20.0]).loss.round(4)
    array([0.49  , 0.0801, 0.    ])
    """
    tolerance = real_number("tolerance", tolerance)
    seen = path_statistics(network, task)
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    products = [
        list(itertools.accumulate((weights[e] for e in p.edges), lambda w, after: after @ w))
        for p in seen.paths
    ]
    groups = tuple(common_modes(seen, members, products) for members in interacting(seen))
    frames, initial, left = {}, {}, 0.0
    for group in groups:
        found = _frames({edge: weights[edge] for edge in group.edges}, group)
        hidden = {node: found[node] for node in found if node not in group.frames}
        frames |= hidden
        for edge in group.edges:
            source, target = (found[name] for name in edge.split("-"))
            b = initial[edge] = np.einsum("om,oi,im->m", target, weights[edge], source)
            if edge in group.opened:
                apart = np.linalg.norm(weights[edge] - (target * b) @ source.T)
                left = max(left, float(apart / max(np.linalg.norm(weights[edge]), 1e-300)))
        left = max([left, *map(slant, hidden.values())])
    residual = max(group.residual for group in groups)
    if residual > tolerance or left > tolerance:
        warnings.warn(
            "The reduction is approximate. Relative to their size, data statistics deviate by "
            f"{residual:.2g} and weights by {left:.2g} from diagonal form in common directions. "
            "For an exact result use `festina.gradient_flow`.",
            ReductionWarning,
            stacklevel=2,
        )
    initial = {edge: initial[edge] for edge in weights}
    return RaceReduction(network, groups, initial, frames, residual, left, seen.power)


def path_directions(network: Gated, task: Task) -> Frames:
    """Return singular directions of the task at the inputs and outputs of a gated network.

    With these directions `festina.networks.with_decoupled_weights` makes weights for which
    `race_reduction` is exact. The result maps each input node to a matrix V and each output node to
    a matrix U, with modes as columns. If several groups of paths meet at a node, the result also
    contains a matrix for each of their edges at this node. `race_reduction` checks whether the data
    are diagonal in these directions.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import gated_from
    >>> from festina.tasks import from_arrays
    >>> from festina.theory.gated import path_directions
    >>> network = gated_from({"x-h": np.eye(2), "h-y": np.eye(2)})
    >>> path_directions(network, from_arrays([[1.0, 0.0], [0.0, 1.0]], [[0.0, 3.0], [1.0, 0.0]]))
    {'x': array([[1., 0.],
           [0., 1.]]), 'y': array([[0., 1.],
           [1., 0.]])}
    """
    seen = path_statistics(network, task)
    groups = [common_modes(seen, members) for members in interacting(seen)]
    count = max(1, *(group.s.shape[1] for group in groups))
    found: Frames = {}
    for node in (*dict(network.plan.inputs), *network.plan.outputs):
        here = [group for group in groups if group.frames.get(node, np.zeros(0)).any()]
        # Nodes without data get arbitrary directions.
        found[node] = np.eye(network.plan.widths[node], count)
        for k, group in enumerate(here):
            frame = group.frames[node]
            frame = np.pad(frame, ((0, 0), (0, count - frame.shape[1])))
            edges = [edge for edge in group.edges if node in edge.split("-")]
            found |= dict.fromkeys((edges if len(here) > 1 else []), frame)
            found |= {node: frame} if k == 0 else {}
    return found


def _frames(weights: dict[str, Float[np.ndarray, "_ _"]], group: CommonModes) -> Frames:
    """Return directions R_v of all nodes; at hidden nodes the weights determine the directions."""
    frames = dict(group.frames)
    pairs = {edge: edge.split("-") for edge in weights}
    hidden = dict.fromkeys(node for ends in pairs.values() for node in ends if node not in frames)
    for _ in range(_SWEEPS):
        before = {node: frames.get(node) for node in hidden}
        for node in hidden:
            ways = [
                (weights[edge].T if end else weights[edge]) @ frames[ends[end]]
                for edge, ends in pairs.items()
                for end in (0, 1)
                if ends[1 - end] == node and ends[end] in frames
            ]
            sizes = np.linalg.norm(ways, axis=1)
            longest = np.take_along_axis(np.array(ways), sizes.argmax(0)[None, None], axis=0)[0]
            total = np.sum(ways, axis=0)
            # If contributions of edges cancel, only the longest contribution is used.
            weak = np.linalg.norm(total, axis=0) < 1e-6 * sizes.sum(axis=0)
            total = np.where(weak, longest, total)
            length = np.linalg.norm(total, axis=0)
            frames[node] = total / np.where(length > 0, length, 1.0)
        if all(r is not None and np.allclose(r, frames[n], 0, 1e-14) for n, r in before.items()):
            break
    return frames
