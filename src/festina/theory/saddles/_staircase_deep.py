r"""Staircase of a deep linear network: small weights diverge in finite time, mode after mode.

Let $W = W_D\cdots W_1$ with $D \ge 3$ layers. Small weights are driven by the correlation that is
not yet learned, $\tilde\Sigma = \Sigma_{yz} - W\Sigma_{zz}$:

$$\dot W_l = W_{>l}^\top\,\tilde\Sigma\,W_{<l}^\top,$$

with the products $W_{>l}$, $W_{<l}$ of the layers above and below layer $l$. On a plateau
$\tilde\Sigma$ is constant. The equation is homogeneous: weights diverge in a finite time of order
$\epsilon^{2-D}$ for an initial scale $\epsilon$. The diverging part has rank one, along the top
singular directions of $\tilde\Sigma$. All other weights are still of order $\epsilon$ then, because
they enter products of two or more layers at second order.

At each saddle the function therefore treats the small weights as a network of their own. Projecting
the directions of the learned modes out of every hidden layer gives this remaining network. The
remaining network has the same number of layers and is driven by the $\tilde\Sigma$ of Lemma 6,
which vanishes along the learned modes. The weights of the remaining network then diverge in the
same way. If $\Sigma_{yz}$ and $\Sigma_{zz}$ do not share their directions, the learned directions
rotate during a jump between saddles and rotate the small weights with them. All weights are
therefore integrated during a jump.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from ...tasks._task import Statistics
from ._course import refined
from ._linear_jump import Jump
from ._linear_saddles import DEGENERACY, LinearModes, linear_modes
from ._staircase_linear import course
from ._stairs import Staircase, warn_unless_ended

Layers: TypeAlias = list[Float[np.ndarray, "_ _"]]
Map: TypeAlias = Float[np.ndarray, "output input"]

_SOON = 30.0  # a jump is integrated from this many natural times before small weights diverge
_STILL = 1e-4  # gradient of the learned directions at the end of a jump, in natural units
_RTOL = 1e-8
_LONGEST = 1e3  # relative path length after which small weights count as never growing


def deep_staircase(weights: Sequence[np.ndarray], seen: Statistics) -> Staircase:
    """Return the staircase of a linear network of three or more layers, first layer first."""
    modes = linear_modes(seen, DEGENERACY)
    layers = [np.asarray(weight, float) for weight in weights]
    count, of_map = len(modes.mu), lambda matrix: np.linalg.svd(matrix, compute_uv=False)
    strengths = of_map(modes.correlation @ modes.inverse)[:count]
    most = min(count, *(min(weight.shape) for weight in layers))
    depth = len(layers)

    initial = modes.left(product(layers))
    first = saddle = modes.nearest(initial)
    start = float(modes.excess(initial)), _norm(gradient(layers, initial)) ** 2
    time, jumps, settled = 0.0, list[Jump](), not first.modes
    while (learned := len(saddle.modes)) < most or not settled:
        wait, strength = 0.0, strengths[min(learned, count - 1)]
        if settled:
            enough = strength * _SOON ** (depth / (2 - depth))
            waited = _wait(layers, saddle.correlation, learned, enough)
            if waited is None:
                break
            wait, layers = waited
        rate = float(of_map(saddle.correlation)[0]) if learned < count else modes.rate
        natural = rate * strength ** (1 - 1 / depth), rate * strength ** (1 - 2 / depth)
        way, layers = _jump(modes, layers, time + wait, learned + settled, *natural)
        saddle = modes.nearest(way.left(way.end))
        if settled and way.settled and not len(saddle.modes) > learned:
            break
        settled, time = True, way.end
        jumps.append(way)
    # The slack is the neglected effect of dormant weights on W before a jump is integrated.
    flow = course(modes, first, start, jumps, _SOON ** (1.0 + depth / (2 - depth)))
    return flow.staircase("modes", count, seen.floor)


def _wait(layers: Layers, left: Map, learned: int, enough: float) -> tuple[float, Layers] | None:
    """Return the time until small weights have added `enough` to W, and the weights at that time.

    Return None if the small weights never add `enough`. The integration variable is the path length
    of the weights relative to their size, ∫|dθ|/|θ|. Near divergence, weights grow by a factor e
    per unit of this variable.
    """
    from scipy.integrate import solve_ivp

    frames = [np.linalg.svd(weight)[0][:, :learned] for weight in layers[:-1]]
    spare = [np.eye(len(frame)) - frame @ frame.T for frame in frames]
    ends = [np.eye(layers[0].shape[1]), *spare, np.eye(len(layers[-1]))]
    small = [out @ w @ into for w, into, out in zip(layers, ends[:-1], ends[1:], strict=True)]
    rest = [weight - part for weight, part in zip(layers, small, strict=True)]
    size, rate, depth = _norm(small), float(np.linalg.norm(left, 2)), len(layers)
    if not size * rate > 0:
        return None
    if np.linalg.norm(product(small), 2) >= enough:
        return 0.0, layers
    shapes = [weight.shape for weight in layers]

    def speed(state: np.ndarray) -> tuple[Layers, float]:
        """Return dθ/dt, and the rate of the integration variable per unit of time."""
        now = _split(state[:-1], shapes)
        pull = gradient(now, left)
        return pull, _norm(pull) / _norm(now)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        pull, pace = speed(state)
        return np.append(_flat(pull), 1.0) / pace

    def grown(_: float, state: np.ndarray) -> float:
        added = np.linalg.norm(product(_split(state[:-1], shapes)), 2)
        return math.log(max(added, 1e-300)) + depth * math.log(size) - math.log(enough)

    def stuck(_: float, state: np.ndarray) -> float:
        growth = _norm(_split(state[:-1], shapes)) ** (depth - 2)
        return speed(state)[1] / (growth * rate) - 1e-12

    grown.terminal = stuck.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    start = np.append(_flat([part / size for part in small]), 0.0)
    if stuck(0.0, start) <= 0.0:
        return None
    solution = solve_ivp(
        flow, (0.0, _LONGEST), start, "DOP853", rtol=_RTOL, atol=1e-14, events=(grown, stuck)
    )
    if not solution.t_events[0].size:
        return None
    *state, time = solution.y[:, -1]
    parts = _split(np.array(state), shapes)
    return time * size ** (2 - depth), [a + size * b for a, b in zip(rest, parts, strict=True)]


def _jump(
    modes: LinearModes, layers: Layers, start: float, learned: int, steepest: float, fastest: float
) -> tuple[Jump, Layers]:
    """Integrate all weights until the first `learned` directions of every layer come to rest.

    Return the jump, and the weights at its end. `steepest` is the approximate size of the gradient
    during the jump, and `fastest` is the approximate growth rate. The integration uses frames in
    which each layer is diagonal at the start, so that errors are relative to small and to large
    entries separately.
    """
    from scipy.integrate import solve_ivp

    singular = [np.linalg.svd(weight) for weight in layers]
    frames = [singular[0][2].T, *(left for left, _, _ in singular)]
    turned = [o.T @ w @ i for w, i, o in zip(layers, frames[:-1], frames[1:], strict=True)]
    turn = lambda matrix, left, right: left.T @ matrix @ right
    inner = replace(
        modes,
        correlation=turn(modes.correlation, frames[-1], frames[0]),
        covariance=turn(modes.covariance, frames[0], frames[0]),
        inverse=turn(modes.inverse, frames[0], frames[0]),
    )
    shapes = [weight.shape for weight in layers]

    def drive(state: np.ndarray) -> Map:
        return inner.left(product(_split(state, shapes)))

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        return _flat(gradient(_split(state, shapes), drive(state)))

    def slope(state: np.ndarray) -> float:
        return float(np.sum(flow(0.0, state) ** 2))

    begin, waits = _flat(turned), [np.ones(shape) for shape in shapes]
    for mask in waits[:-1]:
        mask[:learned] = 0.0
    for mask in waits[1:]:
        mask[:, :learned] = 0.0
    learns = _flat(waits) == 0.0

    def rests(_: float, state: np.ndarray) -> float:
        return float(np.sum(flow(0.0, state)[learns] ** 2)) / (_STILL * steepest) ** 2 - 1.0

    rests.terminal, rests.direction = True, -1  # pyright: ignore[reportFunctionMemberAccess]
    waiting = [s[learned] for _, s, _ in singular if len(s) > learned]
    least = min((s for s in waiting if s > 0), default=1.0)
    solution = solve_ivp(
        flow,
        (0.0, 1e3 / fastest),
        begin,
        "LSODA" if modes.rate > 30.0 * fastest else "DOP853",  # stiff if learned modes are fast
        rtol=_RTOL,
        atol=_RTOL * least,
        events=rests,
        dense_output=True,
    )
    warn_unless_ended(solution)
    final, dense, read = _split(solution.y[:, -1], shapes), solution.sol, refined(solution.t)
    way = Jump(
        start,
        start + float(solution.t[-1]),
        bool(solution.t_events[0].size),
        lambda t: frames[-1] @ drive(dense(t - start)) @ frames[0].T,
        start + read,
        np.array([inner.excess(drive(state)) for state in dense(read).T]),
        np.array([slope(state) for state in dense(read).T]),
        slope(solution.y[:, -1]),
    )
    return way, [o @ w @ i.T for w, i, o in zip(final, frames[:-1], frames[1:], strict=True)]


def product(layers: Layers) -> Map:
    """Return the end-to-end map W_D ⋯ W_1."""
    return functools.reduce(lambda below, weight: weight @ below, layers)


def gradient(layers: Layers, drive: Map) -> Layers:
    """Return W_{>l}ᵀ Σ̃ W_{<l}ᵀ for each layer l; `drive` is Σ̃."""
    below = [np.eye(layers[0].shape[1])]
    for weight in layers[:-1]:
        below.append(weight @ below[-1])
    above, slopes = drive, []
    for weight, under in zip(reversed(layers), reversed(below), strict=True):
        slopes.append(above @ under.T)
        above = weight.T @ above
    return slopes[::-1]


def _flat(layers: Layers) -> Float[np.ndarray, " weight"]:
    return np.concatenate([weight.ravel() for weight in layers])


def _split(flat: Float[np.ndarray, " weight"], shapes: Sequence[tuple[int, ...]]) -> Layers:
    borders = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    return [part.reshape(s) for part, s in zip(np.split(flat, borders), shapes, strict=True)]


def _norm(layers: Layers) -> float:
    return math.sqrt(sum(float(np.sum(weight**2)) for weight in layers))
