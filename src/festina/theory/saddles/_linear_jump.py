"""Integration of a linear network from one saddle to the next, with growth of dormant weights.

The weights are columns Θ = [v; u], one for each unit. A few active columns make up the end-to-end
map W. The dormant columns are small and have a negligible effect on W. All columns obey the same
linear equation, whose matrix consists of Σ̃ = Σ_yz − WΣ_zz and its transpose.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._course import refined
from ._linear_saddles import LinearModes
from ._stairs import root, warn_unless_ended

# A jump ends when the gradient of the active columns falls to `_SETTLED` times its value at the
# start of the jump, or to `_STILL` times the largest possible gradient. Smaller gradients are
# inaccurate.
_SETTLED = 1e-4
_STILL = 1e-6

# Weights more than this many times larger than learned weights decay too fast for the integration
# of the remaining weights.
_STIFF = 100.0

_RTOL = 1e-8
_ROUND_OFF = 1e-13


@dataclass(frozen=True)
class Jump:
    """An integrated part of the flow, from one saddle to a later saddle."""

    start: float
    end: float
    settled: bool
    left: Callable[[float], Float[np.ndarray, "output input"]]
    """Function that returns Σ̃ = Σ_yz − WΣ_zz at a time."""
    time: Float[np.ndarray, " row"]
    excess: Float[np.ndarray, " row"]
    """Loss above the least-squares loss."""
    squared_gradient: Float[np.ndarray, " row"]
    resting: float
    """Squared gradient of the dormant weights alone, at the end of the jump."""


def jump(
    modes: LinearModes,
    active: Float[np.ndarray, "weight unit"],
    dormant: Float[np.ndarray, "weight waiting"],
    start: float,
    size: float,
) -> tuple[Jump, Float[np.ndarray, "weight unit"], Float[np.ndarray, "weight waiting"]]:
    """Integrate the weights until active columns come to rest or a dormant column reaches `size`.

    Return the jump, and the active and dormant columns at its end. Active columns count as at rest
    only if each of them has learned a mode; any saddle that the active columns pass earlier is part
    of the jump. If nothing drives the active columns, the jump ends at its start and counts as
    settled.
    """
    from scipy.integrate import solve_ivp

    scale = float(np.abs(dormant).max(initial=0.0)) or 1.0
    both = np.concatenate([active, dormant / scale], axis=1)
    few = active.shape[1]
    most = min(few, len(modes.mu))

    def drive(state: np.ndarray) -> Float[np.ndarray, "*time output input"]:
        return modes.drive(state.reshape(*state.shape[:-1], *both.shape)[..., :few])

    outputs = len(modes.correlation)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        """Return dΘ/dt = M Θ, as `move` but faster: most of the time is spent here."""
        v, u = (columns := state.reshape(both.shape))[:outputs], columns[outputs:]
        left = modes.correlation - v[:, :few] @ (u[:, :few].T @ modes.covariance)
        return np.concatenate([left @ u, left.T @ v]).ravel()

    def slopes(state: np.ndarray) -> Float[np.ndarray, "2 *time"]:
        """Return the squared gradient of the active and of the dormant columns."""
        columns = state.reshape(*state.shape[:-1], *both.shape)
        squares = np.sum(move(drive(state), columns) ** 2, axis=-2)
        dormant = scale**2 * squares[..., few:].sum(axis=-1)
        return np.array([squares[..., :few].sum(axis=-1), dormant])

    at_start = float(slopes(both.ravel())[0])
    slowest = (_STILL * modes.rate * modes.weight) ** 2 or 1.0
    at_rest = max(_SETTLED**2 * at_start, slowest)

    def rests(_: float, state: np.ndarray) -> float:
        slope = float(slopes(state)[0])
        waits = slowest < slope <= at_rest and len(modes.nearest(drive(state)).modes) < most
        return 1.0 if waits else slope / at_rest - 1.0

    def wakes(_: float, state: np.ndarray) -> float:
        largest = np.linalg.norm(state.reshape(both.shape)[:, few:], 2) if dormant.size else 0.0
        return scale * float(largest) / size - 1.0

    rests.terminal = wakes.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    rests.direction, wakes.direction = -1, 1  # pyright: ignore[reportFunctionMemberAccess]
    # The time limit of the integration follows from the largest growth rate: the norm of Σ̃ without
    # the last active column or, if that norm is zero, of Σ̃ with all active columns.
    drives = (np.linalg.norm(modes.drive(part), 2) for part in (active[:, :-1], active))
    fastest = float(next((drive for drive in drives if drive > 0.0), 0.0))
    if (largest := float(np.linalg.norm(active, 2))) > _STIFF * modes.weight > 0.0:
        raise ValueError(
            f"`u` and `v` have weights of size {largest:.3g}, more than {_STIFF:g} times the size "
            f"{modes.weight:.3g} of learned weights. Start from smaller weights."
        )
    solution = solve_ivp(
        flow,
        (0.0, 1e4 / fastest if at_start > at_rest else 0.0),
        both.ravel(),
        method="DOP853",
        rtol=_RTOL,
        atol=_RTOL * size,
        events=(rests, wakes),
        dense_output=True,
    )
    if at_start > at_rest:
        warn_unless_ended(solution)
    final = solution.y[:, -1]
    dense, read = solution.sol, refined(solution.t)
    states = dense(read).T
    way = Jump(
        start,
        start + float(solution.t[-1]),
        not solution.t_events[1].size and (at_start <= at_rest or bool(solution.t_events[0].size)),
        lambda t: drive(dense(t - start)),
        start + read,
        modes.excess(drive(states)),
        slopes(states).sum(axis=0),
        float(slopes(final)[1]),
    )
    columns = final.reshape(both.shape)
    return way, columns[:, :few], scale * columns[:, few:]


def grow(
    dormant: Float[np.ndarray, "weight unit"],
    drive: Float[np.ndarray, "output input"],
    size: float,
    still: float,
) -> tuple[float, Float[np.ndarray, "weight unit"]] | None:
    """Return when the largest dormant column reaches `size`, and all dormant columns at that time.

    On a plateau Σ̃ is constant, and columns grow by e^{Mt} with M = [[0, Σ̃], [Σ̃ᵀ, 0]]. Return
    None if nothing grows faster than `still`.
    """
    generator = np.block(
        [[np.zeros((len(drive),) * 2), drive], [drive.T, np.zeros((drive.shape[1],) * 2)]]
    )
    rate, basis = np.linalg.eigh(generator)
    amplitude = basis.T @ dormant
    # The threshold is relative to each column: columns are orthogonal, and their sizes may differ
    # by many decades. (Rotating the columns has left rounding errors of larger columns in smaller
    # columns. These errors matter for weights below about 1e-30.)
    amplitude[np.abs(amplitude) <= _ROUND_OFF * np.abs(amplitude).max(axis=0)] = 0.0
    grown = lambda t: np.exp(rate * t)[:, None] * amplitude
    largest = lambda t: float(np.linalg.norm(grown(t), 2))
    if largest(0.0) >= size:
        return 0.0, dormant
    norm = np.linalg.norm(amplitude, axis=1)
    grows = (rate > still) & (norm > 0.0)
    if not grows.any():
        return None
    latest = float(np.min(np.log(size / norm[grows]) / rate[grows]))
    wait = root(lambda t: np.log(largest(t) / size), 0.0, latest * (1.0 + 1e-9))
    return wait, basis @ grown(wait)


def turn(
    dormant: Float[np.ndarray, "weight unit"],
) -> tuple[Float[np.ndarray, "weight unit"], Float[np.ndarray, " unit"]]:
    """Return the columns rotated over units to be orthogonal, and their norms, largest first."""
    _, size, turned = np.linalg.svd(dormant, full_matrices=True)
    return dormant @ turned.T, size


def move(
    drive: Float[np.ndarray, "*time output input"], columns: Float[np.ndarray, "*time weight unit"]
) -> Float[np.ndarray, "*time weight unit"]:
    """Return M Θ, with M = [[0, Σ̃], [Σ̃ᵀ, 0]] made of the drive Σ̃."""
    outputs = drive.shape[-2]
    v, u = columns[..., :outputs, :], columns[..., outputs:, :]
    return np.concatenate([drive @ u, drive.swapaxes(-1, -2) @ v], axis=-2)
