r"""Stationary points of mean-field learning, one for each set of active lines."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Float

from ..._precision import compiled
from ..._result import Result
from ..._types import Array
from ._animals import AnimalWeights
from ._equations import Task, action_probabilities, behaviour, task_of, velocity
from ._learner import (
    ACTIONS,
    LINES,
    Architecture,
    ContrastChoiceLearner,
    Teaching,
    check_distinguishable,
)
from ._mean_field_learning import column_velocity

# β increases from 0, where the equations are linear, in steps that Newton's method can follow.
_FIRST_STEP = 0.5
_SMALLEST_STEP = 1e-4
_NEWTON_STEPS = 12
_CONVERGED = 1e-11

# Eigenvalues below this count as zero, because zero eigenvalues have rounding errors.
_NEUTRAL = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class StationaryPoint(Result):
    r"""Stationary point of mean-field learning, with its behaviour and its escape rates.

    - `active`: names of the active lines, from `("left", "right", "constant")`.
    - `products`: products $W_{ai}$; zero for silent lines.
    - `loss`: expected squared error $\frac12 E_c\sum_a\pi_a(\bar r_a - Q_a)^2$.
    - `right_probability`: psychometric curve $P(R\mid c)$.
    - `escape_rates`: growth rate of each silent line while it is small.
    - `eigenvalues`: eigenvalues of the Jacobian of the flow at balanced weights,
      $v_i^2 = \sum_a u_{ai}^2$, with decreasing real parts.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner, stationary_points
    >>> start = stationary_points(ContrastChoiceLearner())[0]
    >>> start.active, start.index
    ((), 3)
    >>> start.escape_rates
    {'left': 0.15, 'right': 0.15, 'constant': 0.3536}
    """

    active: tuple[str, ...]
    products: Float[np.ndarray, "action line"]
    loss: float
    right_probability: Float[np.ndarray, " contrast"]
    escape_rates: dict[str, float]
    eigenvalues: Complex[np.ndarray, " unknown"]

    @property
    def index(self) -> int:
        """Number of eigenvalues with a positive real part; 0 for a stable point."""
        return int((np.real(self.eigenvalues) > _NEUTRAL).sum())

    @property
    def animals(self) -> AnimalWeights:
        """Animal at this point, with balanced weights."""
        v = np.sqrt(np.linalg.norm(self.products, axis=0))
        return AnimalWeights(v, self.products / np.where(v > 0, v, 1.0))


def stationary_points(model: ContrastChoiceLearner) -> tuple[StationaryPoint, ...]:
    r"""Return the stationary points of the mean field: the hierarchy of saddle points.

    A deep animal with `total` teaching obeys, with $g_{ai} = E_c\,\pi_a\delta^{tot}_a x_i$,

    $$\tau\dot v_i = \sum_a g_{ai} u_{ai},\qquad \tau\dot u_{ai} = g_{ai} v_i.$$

    At a stationary point each line i is *active*, with $g_{\cdot i} = 0$, or *silent*, with
    $W_{\cdot i} = 0$. The hierarchy has $2^3$ points, from nothing learned to everything learned. A
    silent line has the eigenvalues $\pm|g_i|/\tau$ and 0, with $|g_i|^2 = \sum_a g_{ai}^2$. To
    first order a silent line does not affect the other lines. A point with stable active lines
    therefore has one unstable direction for each silent line. Each active line has one neutral
    direction (a larger gain with smaller striatal weights).

    Silent lines are returned with $u_i = 0$. Points with $v_i = 0$ and $u_i \perp g_i$ are also
    stationary; their behaviour and their index are the same.

    **Random choices** ($\beta = 0$): $g_{\cdot i} = 0$ gives the least-squares solution on the
    active lines. **Choices by value** ($\beta > 0$): the policy depends on the weights. Newton's
    method follows each point from $\beta = 0$. For the default contrasts no other points were
    found, but this is not proved. Other contrasts may have more points: with contrasts -1, -½, ⅛, ½
    and all lines active there are two stable points at $\beta = 2$, and the point that continues
    from $\beta = 0$ ends at $\beta = 2.15$. An animal may also take very long to reach a point: if
    it initially underestimates the value of an action by ΔQ, it hardly ever chooses this action and
    learns nothing about it for a time of order $\tau e^{\beta\Delta Q}$.

    **The loss** is the expected squared error of the chosen action about the *expected* reward,
    $L = \frac12 E_c\sum_a\pi_a(\bar r_a - Q_a)^2$. The squared error about the *drawn* reward is
    larger by the constant $\frac12 E_c\sum_a\pi_a\bar r_a(1-\bar r_a)$, 0.025 for the default
    contrasts. The flow is $-\partial L/\partial\theta$ *at a fixed policy*: the flow lacks the term
    $-\frac12 E_c\sum_a(\partial\pi_a/\partial\theta)(\bar r_a-Q_a)^2$. If $\beta = 0$ the flow
    descends $L$. If $\beta > 0$ the stationary points of the flow differ from the stationary points
    of $L$, and $L$ may rise.

    With `heterogeneous` teaching only five points remain: no stimulus is active together with the
    constant line, so that $\delta^{stim}$ or $\delta^{const}$ equals $\delta^{tot}$. A silent line
    grows at the rate $\sqrt{g_i\cdot g_i'}/\tau$, where $g'$ is $g$ with the error that teaches the
    line in place of $\delta^{tot}$. After the last of the five points the weights never rest
    (`asymptotic_weights`). A shallow animal has one point, with all lines active.

    **Arguments:**

    - `model`: task, architecture and teaching.

    **Returns:**

    The points, in order of the number of active lines. Raises `RuntimeError` if Newton's method
    cannot follow a point up to $\beta$.

    **Example:**

    >>> from festina.theory.decisions import ContrastChoiceLearner, stationary_points
    >>> for point in stationary_points(ContrastChoiceLearner(teaching="heterogeneous")):
    ...     print(f"{point.loss:.4f} {point.index} {', '.join(point.active)}")
    0.2250 3
    0.1442 2 left
    0.1442 2 right
    0.1000 2 constant
    0.0634 1 left, right
    """
    check_distinguishable(model)
    task = task_of(model)
    kinds = (model.architecture, model.teaching)
    points = []
    for active in _active_sets(*kinds):
        w = _solve(task, np.array([line in active for line in LINES]), model.teaching)
        _, policy, loss, _ = _behave(w, task)
        pull, own = _pulls(w, task, model.teaching)
        rates = np.sqrt(np.maximum((pull * own).sum(axis=0), 0.0)) / model.tau
        points.append(
            StationaryPoint(
                active=active,
                products=w,
                loss=float(loss),
                right_probability=np.asarray(policy[:, 1]),
                escape_rates={
                    line: rate
                    for line, rate in zip(LINES, rates.tolist(), strict=True)
                    if line not in active
                },
                eigenvalues=_eigenvalues(w, task, *kinds) / model.tau,
            )
        )
    return tuple(points)


def _active_sets(architecture: Architecture, teaching: Teaching) -> list[tuple[str, ...]]:
    if architecture == "shallow":
        return [LINES]
    sets = itertools.chain.from_iterable(
        itertools.combinations(LINES, size) for size in range(len(LINES) + 1)
    )
    return [s for s in sets if teaching == "total" or "constant" not in s or len(s) == 1]


def _solve(task: Task, active: np.ndarray, teaching: Teaching) -> np.ndarray:
    """Return W with zero weights on silent lines and vanishing drive g' on active lines."""
    start = np.zeros((len(ACTIONS), len(LINES)))
    if not active.any():
        return start
    w, beta, step = _newton(start, task._replace(beta=0.0), active, teaching), 0.0, _FIRST_STEP
    while w is not None and beta < task.beta and step > _SMALLEST_STEP:
        ahead = min(beta + step, float(task.beta))
        found = _newton(w, task._replace(beta=ahead), active, teaching)
        w, beta, step = (w, beta, step / 2) if found is None else (found, ahead, step * 1.5)
    if w is None or beta < task.beta:
        raise RuntimeError(
            "Newton's method followed a stationary point up to an `inverse_temperature` of "
            f"{beta:.4g}, not to {task.beta:g}: stationary points merge there, or an action is "
            "almost never chosen. Use a lower value, or `mean_field_learning` up to a late time."
        )
    return w


def _newton(w: np.ndarray, task: Task, active: np.ndarray, teaching: Teaching) -> np.ndarray | None:
    """Return the stationary point near `w`, or None if Newton's method does not converge."""
    unknown = np.tile(active, len(ACTIONS))
    w = w.copy()
    for _ in range(_NEWTON_STEPS):
        pull, slope, scale = _linearised(w, task, teaching)
        if not np.min(scale) > np.finfo(float).tiny:
            return None
        # The gradient of a rarely chosen action is small, so the error is relative to its scale.
        error = (pull / scale).ravel()[unknown]
        if np.abs(error).max() < _CONVERGED:
            return w
        rows = slope.reshape(unknown.size, unknown.size) / scale.reshape(-1, 1)
        try:
            w.reshape(-1)[unknown] -= np.linalg.solve(rows[np.ix_(unknown, unknown)], error)
        except np.linalg.LinAlgError:
            return None
    return None


@compiled("teaching")
def _linearised(
    w: Float[Array, "action line"], task: Task, teaching: Teaching
) -> tuple[Float[Array, "..."], ...]:
    """Return the lines' own drive g', its derivative, and its scale E π_a x_i²."""
    own = lambda w: _own_pull(w, task, teaching)
    policy = action_probabilities(w, task)
    scale = policy.T @ jnp.asarray(task.stimuli) ** 2 / len(policy)
    return own(w), jax.jacfwd(own)(w), scale


def _own_pull(
    w: Float[Array, "action line"], task: Task, teaching: Teaching
) -> Float[Array, "action line"]:
    """Return g'_ai, the velocity of W from the error that teaches line i, at fixed gains of 1."""
    return velocity(jnp.ones(len(LINES), w.dtype), w, task, "shallow", teaching)[1]


@compiled("teaching")
def _pulls(
    w: Float[Array, "action line"], task: Task, teaching: Teaching
) -> tuple[Float[Array, "action line"], Float[Array, "action line"]]:
    return _own_pull(w, task, "total"), _own_pull(w, task, teaching)


_behave = compiled()(behaviour)


def _eigenvalues(
    w: np.ndarray, task: Task, architecture: Architecture, teaching: Teaching
) -> np.ndarray:
    """Return the eigenvalues of the flow of (v, u), or of W if shallow, times τ."""
    if architecture == "shallow":
        column = np.concatenate([np.ones(len(LINES)), w.ravel()])
        jacobian = _jacobian(column, task, architecture, teaching)[len(LINES) :, len(LINES) :]
    else:
        v = np.sqrt(np.linalg.norm(w, axis=0))
        column = np.concatenate([v, (w / np.where(v > 0, v, 1.0)).ravel()])
        jacobian = _jacobian(column, task, architecture, teaching)
    values = np.linalg.eigvals(jacobian).astype(complex)
    return values[np.argsort(-np.real(values))]


@compiled("architecture", "teaching")
def _jacobian(
    column: Float[Array, " unknown"], task: Task, architecture: Architecture, teaching: Teaching
) -> Float[Array, "unknown unknown"]:
    flow = lambda theta: column_velocity(theta[None], task, architecture, teaching)[0]
    return jax.jacfwd(flow)(column)
