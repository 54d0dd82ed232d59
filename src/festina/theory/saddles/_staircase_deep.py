r"""Staircase of a deep linear network: what is small blows up in finite time, mode after mode.

Let $W = W_D\cdots W_1$ with $D \ge 3$ layers. Weights that are small feel what is left to learn,
$\tilde\Sigma = \Sigma_{yz} - W\Sigma_{zz}$, and nothing of each other but

$$\dot W_l = W_{>l}^\top\,\tilde\Sigma\,W_{<l}^\top,$$

products of the layers behind and in front of $l$. This is homogeneous: weights reach infinity in a
finite time, which goes as $\epsilon^{2-D}$. What gets there is of rank one, along the top singular
directions of $\tilde\Sigma$; all else is still of order $\epsilon$, since in a product of two or
more layers it comes at second order.

So the network is split at each saddle. In every hidden layer the directions that the learned modes
use are left out; what remains has as many layers, feels $\tilde\Sigma$ of Lemma 6, which is zero
along the modes learned, and blows up in turn. In a jump between saddles the learned directions turn
within inputs and outputs, where those of $\Sigma_{yz}$ and $\Sigma_{zz}$ differ, and take with them
what is small; so all weights are followed there.
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

_SOON = 30.0  # when what waits is followed as a jump: so many natural times before it is infinite
_STILL = 1e-4  # gradient of what is learned at which a jump has ended, in natural units
_RTOL = 1e-8
_LONGEST = 1e3  # way of what waits, in units of its own size, after which it never grows


def deep_staircase(weights: Sequence[np.ndarray], seen: Statistics) -> Staircase:
    """Return the staircase of three or more layers, from the input's side to the output's."""
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
    # Left out is what dormant weights have added to W before a jump is followed, in that time.
    flow = course(modes, first, start, jumps, _SOON ** (1.0 + depth / (2 - depth)))
    return flow.staircase("modes", count, seen.floor)


def _wait(layers: Layers, left: Map, learned: int, enough: float) -> tuple[float, Layers] | None:
    """Return the time until small weights add so much to W, and all weights then; None if never.

    The clock is the way that weights make in units of their size, |dθ|/|θ|: near infinity one unit
    is a factor e.
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
        """dθ/dt, and the clock by the time."""
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
    """Follow all weights until the learned directions rest, so many in every layer.

    Return the jump, and the weights at its end. `steepest` is about the gradient of the jump,
    `fastest` its rate. The flow is integrated in frames in which each layer is diagonal at the
    start, so that errors are relative to small and to large entries separately.
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
        "LSODA" if modes.rate > 30.0 * fastest else "DOP853",  # stiff: the learned ones are fast
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
    """W_D ⋯ W_1."""
    return functools.reduce(lambda below, weight: weight @ below, layers)


def gradient(layers: Layers, drive: Map) -> Layers:
    """W_{>l}ᵀ Σ̃ W_{<l}ᵀ for each layer."""
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
