r"""Where learning rests: stationary points of the mean field, one for each set of active lines."""

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

# β grows from 0, where the equations are linear, in steps that Newton's method can follow.
_FIRST_STEP = 0.5
_SMALLEST_STEP = 1e-4
_NEWTON_STEPS = 12
_CONVERGED = 1e-11

# Of eigenvalues: those of the neutral directions are zero up to rounding.
_NEUTRAL = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class StationaryPoint(Result):
    r"""A point at which the mean field rests, and how it is left.

    - `active`: the lines in use, as names of `("left", "right", "constant")`.
    - `products`: $W_{ai}$, zero for silent lines.
    - `loss`: $\frac12 E_c\sum_a\pi_a(\bar r_a - Q_a)^2$.
    - `right_probability`: $P(R\mid c)$, the psychometric curve.
    - `escape_rates`: for each silent line the rate at which it grows if it is small.
    - `eigenvalues`: of the Jacobian of the flow, at the point with balanced weights
      $v_i^2 = \sum_a u_{ai}^2$; real parts falling.
    - `index`: how many of them have a positive real part; 0 is stable.
    """

    active: tuple[str, ...]
    products: Float[np.ndarray, "action line"]
    loss: float
    right_probability: Float[np.ndarray, " contrast"]
    escape_rates: dict[str, float]
    eigenvalues: Complex[np.ndarray, " unknown"]

    @property
    def index(self) -> int:
        return int((np.real(self.eigenvalues) > _NEUTRAL).sum())

    @property
    def animals(self) -> AnimalWeights:
        """An animal that rests at this point, with balanced weights."""
        v = np.sqrt(np.linalg.norm(self.products, axis=0))
        return AnimalWeights(v, self.products / np.where(v > 0, v, 1.0))


def stationary_points(model: ContrastChoiceLearner) -> tuple[StationaryPoint, ...]:
    r"""Return the stationary points of the mean field: the hierarchy of saddle points.

    A deep animal with `total` teaching obeys, with $g_{ai} = E_c\,\pi_a\delta^{tot}_a x_i$,

    $$\tau\dot v_i = \sum_a g_{ai} u_{ai},\qquad \tau\dot u_{ai} = g_{ai} v_i.$$

    So each line is either *active*, with $g_{\cdot i} = 0$, or *silent*, with $W_{\cdot i} = 0$:
    $2^3$ points, from nothing learned to all. A silent line has the eigenvalues $\pm|g_i|/\tau$ and
    0, where $|g_i|^2 = \sum_a g_{ai}^2$, and to first order does not touch the others, so that a
    point whose active lines are stable has as many unstable directions as silent lines. Active
    lines have one neutral direction each (a larger gain, a smaller weight).

    Here a silent line has $u_i = 0$ too. Points with $v_i = 0$ and $u_i \perp g_i$ also rest; their
    behaviour and their index are the same.

    **Random choices** ($\beta = 0$): $g_{aA} = 0$ is least squares on the active lines alone.
    **On policy** ($\beta > 0$) the policy depends on the weights. The point is followed from
    $\beta = 0$ by Newton's method. For the default contrasts no other was found (observed, not
    proved), but it is not so in general: with contrasts -1, -½, ⅛, ½ and all lines active there are
    two stable points at $\beta = 2$, and the one that comes from $\beta = 0$ ends at 2.15. Nor need
    an animal arrive in any time that counts: one that starts out thinking little of an action all
    but never takes it, and learns nothing about it for a time of order $\tau e^{\beta\Delta Q}$.

    **The loss** is the expected squared error of the chosen action about the *expected* reward,
    $L = \frac12 E_c\sum_a\pi_a(\bar r_a - Q_a)^2$. About the reward itself it is larger by the
    constant $\frac12 E_c\sum_a\pi_a\bar r_a(1-\bar r_a)$, 0.025 for the default contrasts. The flow
    is $-\partial L/\partial\theta$ *with the policy held*: it leaves out
    $-\frac12 E_c\sum_a(\partial\pi_a/\partial\theta)(\bar r_a-Q_a)^2$. If $\beta = 0$ it descends
    $L$; if $\beta > 0$ its stationary points are not those of $L$, and $L$ may rise.

    With `heterogeneous` teaching only the five points remain at which no stimulus is active
    together with the constant line (there $\delta^{stim}$ or $\delta^{const}$ is $\delta^{tot}$). A
    silent line leaves at the rate $\sqrt{g_i\cdot g_i'}/\tau$, $g'$ being $g$ with the line's own
    error. After the last of them nothing rests, see `asymptotic_weights`. A shallow animal has one
    point, with all lines active.

    **Arguments:**

    - `model`: task, architecture and teaching.

    **Returns:**

    The points, those with fewer active lines first. Raises `RuntimeError` where one cannot be
    followed up to $\beta$.
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
    """W for which the lines' own errors vanish on the active lines, zero on the silent ones."""
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
            f"The stationary point could be followed up to an `inverse_temperature` of {beta:.4g}, "
            f"not to {task.beta:g}: it meets another one there, or some action is as good as never "
            "chosen. Try a smaller one, or `mean_field_learning` up to a late time."
        )
    return w


def _newton(w: np.ndarray, task: Task, active: np.ndarray, teaching: Teaching) -> np.ndarray | None:
    """The stationary point near `w`, if Newton's method comes to one."""
    unknown = np.tile(active, len(ACTIONS))
    w = w.copy()
    for _ in range(_NEWTON_STEPS):
        pull, slope, scale = _linearised(w, task, teaching)
        if not np.min(scale) > np.finfo(float).tiny:
            return None
        # An action that is hardly ever chosen pulls as little: judge it by its own scale.
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
    """The lines' own pull g', its derivative, and what it is per unit of W: E π_a x_i²."""
    own = lambda w: _own_pull(w, task, teaching)
    policy = action_probabilities(w, task)
    scale = policy.T @ jnp.asarray(task.stimuli) ** 2 / len(policy)
    return own(w), jax.jacfwd(own)(w), scale


def _own_pull(
    w: Float[Array, "action line"], task: Task, teaching: Teaching
) -> Float[Array, "action line"]:
    """g'_ai, with the error that teaches line i: what moves W if all gains are one and fixed."""
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
    """Of the flow of (v, u), or of W alone if the animal is shallow; not divided by τ."""
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
