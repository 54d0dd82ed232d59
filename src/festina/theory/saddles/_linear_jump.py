"""The way of a linear network from one saddle to the next, and the growth of dormant weights.

Weights are columns Θ = [v; u], one for each unit. Few of them are active and make up W, the others
are small and only carried along: all move by the same matrix, which Σ̃ = Σ_yz − WΣ_zz makes up.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._course import refined
from ._linear_saddles import LinearModes
from ._stairs import root, warn_unless_ended

# A jump has ended when the active columns' gradient is this fraction of that at its start, or this
# fraction of the largest there is, below which an integration is not exact.
_SETTLED = 1e-4
_STILL = 1e-6

# Weights this much larger than learned ones come down so fast that all else cannot be followed.
_STIFF = 100.0

_RTOL = 1e-8
_ROUND_OFF = 1e-13


@dataclass(frozen=True)
class Jump:
    """A part of the flow that is integrated, from one saddle to a later one."""

    start: float
    end: float
    settled: bool
    left: Callable[[float], Float[np.ndarray, "output input"]]
    """Σ̃ at a time."""
    time: Float[np.ndarray, " row"]
    excess: Float[np.ndarray, " row"]
    """Loss above that of least squares."""
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
    """Integrate the active columns until they rest, or until a dormant one has this size.

    Return the jump, and the active and dormant columns at its end. Active columns rest when each of
    them has learned a mode: saddles that they pass before are part of the jump. If nothing drives
    the active columns, the jump ends where it starts, settled.
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
        """`move` by `drive`, written out: most of the time is spent here."""
        v, u = (columns := state.reshape(both.shape))[:outputs], columns[outputs:]
        left = modes.correlation - v[:, :few] @ (u[:, :few].T @ modes.covariance)
        return np.concatenate([left @ u, left.T @ v]).ravel()

    def slopes(state: np.ndarray) -> Float[np.ndarray, "2 *time"]:
        """Return the squared gradient of the active columns and of the dormant ones."""
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
    # Everything that grows does so at the rate of the drive, and what rests is found above. Where
    # the other columns have left no drive, the last one is driven by what it adds itself.
    drives = (np.linalg.norm(modes.drive(part), 2) for part in (active[:, :-1], active))
    fastest = float(next((drive for drive in drives if drive > 0.0), 0.0))
    if (largest := float(np.linalg.norm(active, 2))) > _STIFF * modes.weight > 0.0:
        raise ValueError(
            f"`u` and `v` have weights of size {largest:.3g}, those that are learned "
            f"{modes.weight:.3g}. Start from smaller ones, below {_STIFF:g} times that."
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
    """Return how long until the largest dormant column has this size, and all of them then.

    On a plateau Σ̃ does not change, and columns grow by e^{Mt}. None if nothing grows faster than
    `still`.
    """
    generator = np.block(
        [[np.zeros((len(drive),) * 2), drive], [drive.T, np.zeros((drive.shape[1],) * 2)]]
    )
    rate, basis = np.linalg.eigh(generator)
    amplitude = basis.T @ dormant
    # Column by column: they are orthogonal, and one may be far smaller than another. (It has the
    # rounding of the larger ones from when they were turned, which tells below 1e-30 or so.)
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
    """Return columns turned into each other such that they are orthogonal, the largest first."""
    _, size, turned = np.linalg.svd(dormant, full_matrices=True)
    return dormant @ turned.T, size


def move(
    drive: Float[np.ndarray, "*time output input"], columns: Float[np.ndarray, "*time weight unit"]
) -> Float[np.ndarray, "*time weight unit"]:
    """M Θ."""
    outputs = drive.shape[-2]
    v, u = columns[..., :outputs, :], columns[..., outputs:, :]
    return np.concatenate([drive @ u, drive.swapaxes(-1, -2) @ v], axis=-2)
