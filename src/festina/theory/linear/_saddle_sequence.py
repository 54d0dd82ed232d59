"""Sequence of saddles in deep linear networks, and learning times of the levels of a world."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..._checks import finite, number
from ..._result import Result
from ...tasks.worlds import World
from .._modes import Modes
from ._chains import Depth, Values, check_depth
from ._learning_time import learning_time


@dataclass(frozen=True, eq=False, repr=False)
class SaddleSequence(Result, drawn="loss"):
    r"""Result of `saddle_sequence`: plateaus of a deep linear network and the times of its drops.

    At stage $k$ the first $k$ modes of `order` are learned and the strengths of the other modes are
    zero.

    - `order`: indices of the learned modes, first to last.
    - `time`: time at which each mode of `order` is half learned. `time[k]` lies between the stages
      $k$ and $k + 1$.
    - `loss`: loss of each stage above the least-squares loss.
    - `escape_rate`: growth rate of the fastest growing weights at each stage.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> stages = linear.saddle_sequence(modes, 0.01)
    >>> stages.loss, stages.escape_rate
    (array([5. , 0.5, 0. ]), array([3., 1., 0.]))
    """

    order: Int[np.ndarray, " learned"]
    time: Float[np.ndarray, " learned"]
    loss: Float[np.ndarray, " stage"]
    escape_rate: Float[np.ndarray, " stage"]


def saddle_sequence(
    modes: Modes, initial_strength: Values, *, depth: Depth = 2, tau: float = 1.0
) -> SaddleSequence:
    r"""Return the plateaus of a deep linear network that learns from small weights, mode by mode.

    The modes of the network are independent chains with strengths $a_\alpha$, singular values
    $s_\alpha$ and input variances $\lambda_\alpha$. The state in which modes $1, \dots, k$ are
    learned, $a_\alpha = s_\alpha/\lambda_\alpha$, and all other strengths are zero is a fixed point
    with the loss

    $$L_k - L_\mathrm{min} = \tfrac12\sum_{\alpha > k}\frac{s_\alpha^2}{\lambda_\alpha}.$$

    The fixed point of a stage is a saddle as long as modes remain to be learned. In a two-layer
    network the weights of a mode that is not yet learned grow at the rate $s_\alpha/\tau$ and its
    strength at twice that rate. The mode is half learned at

    $$t_\alpha = \frac{\tau}{2s_\alpha}\ln\Bigl(\frac{s_\alpha}{\lambda_\alpha a_{0\alpha}} -
      1\Bigr).$$

    In a network of three or more layers the saddle is of higher order: no weights grow
    exponentially, so the escape rate is zero. The times are the `learning_time` of half the target
    (Saxe, McClelland & Ganguli 2014).

    **Arguments:**

    - `modes`: the modes of the data.
    - `initial_strength`: $a_{0\alpha}$, one for all modes or one each.
    - `depth`: number of layers $D \ge 2$, or `math.inf`.
    - `tau`: time constant of one layer; $\tau_\infty$ for infinite depth.

    **Returns:**

    A `SaddleSequence` with one stage more than learned modes. Modes without correlation, or with
    an initial strength of zero or less, are never learned. The loss of the last stage includes
    modes with a correlation that are never learned.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> linear.saddle_sequence(modes, 0.01).time.round(2)
    array([0.95, 2.3 ])

    !!! note "When it stops holding"

        The stages are plateaus only if one mode is learned well before the next. The escape rates
        hold for decoupled weights. If a weaker mode is learned before a stronger one, directions
        that couple modes may also lead away from the saddle.
    """
    if not isinstance(modes, Modes):
        raise ValueError(
            f"`modes` must be the `Modes` of the data from `festina.theory.linear.modes`, got "
            f"{type(modes).__name__}. For the initial strengths of small random weights use "
            "`effective_initial_strengths`."
        )
    if check_depth(depth) < 2:
        raise ValueError(
            "`depth` must be 2 or more: the loss of a single layer is convex and has no saddles. "
            "`mode_strengths` computes the learning curves of a single layer."
        )
    s, lam = np.asarray(modes.singular_values), np.asarray(modes.input_variance)
    a0 = finite("initial_strength", initial_strength)
    if a0.shape not in ((), s.shape):
        raise ValueError(
            f"`initial_strength` must be one number, or one for each of the {len(s)} modes, got "
            f"shape {a0.shape}."
        )
    half = _half_rise(s, np.broadcast_to(a0, s.shape), depth, lam, tau)
    order = np.argsort(half, kind="stable")[: np.sum(np.isfinite(half))]

    share = 0.5 * s**2 / np.where(lam > 0, lam, 1.0)
    waiting = np.ones((len(order) + 1, len(s)))
    for stage, learned in enumerate(order, start=1):
        waiting[stage:, learned] = 0.0
    rate = (waiting * s).max(axis=1) / tau if depth == 2 else np.zeros(len(waiting))
    return SaddleSequence(order, half[order], waiting @ share, rate)


def differentiation_times(
    world: World,
    features: int,
    initial_strength: float,
    *,
    depth: Depth = 2,
    tau: float = 1.0,
) -> Float[np.ndarray, " kind"]:
    r"""Return the times at which a deep linear network half learns each kind of modes of a world.

    With one-hot items and a loss that is summed over items, a mode has the singular value $s =
    \sqrt{Nc}$, where $N$ is the number of features and $c$ the eigenvalue of its kind. A network of
    two layers has half learned the mode at

    $$t = \frac{\tau}{2s}\ln\Bigl(\frac{s}{a_0} - 1\Bigr).$$

    A deep network learns the levels of a tree one after the other, broad distinctions first
    (progressive differentiation, Saxe, McClelland & Ganguli 2019). A shallow network has the same
    time constant for all modes and learns all distinctions at once.

    **Arguments:**

    - `world`: a world from `festina.tasks.worlds`.
    - `features`: $N$, the number of features of each item.
    - `initial_strength`: $a_0$ of all modes.
    - `depth`: number of layers, or `math.inf`.
    - `tau`: time constant of one layer. For a loss that is averaged over $P$ items, multiply `tau`
      by $P$.

    **Returns:**

    One time for each of `world.kinds`. The time is zero for kinds that start above half of their
    target, and infinite for kinds that do not vary ($c = 0$).

    **Example:**

    >>> from festina.tasks.worlds import tree
    >>> from festina.theory import linear
    >>> world = tree([2, 2], 0.1)
    >>> linear.differentiation_times(world, features=100, initial_strength=0.01).round(3)
    array([0.235, 0.376, 0.533])
    """
    initial_strength = number("initial_strength", initial_strength)
    first = np.cumsum(world.multiplicities) - world.multiplicities
    s = world.singular_values(features)[first]
    return _half_rise(s, np.full(s.shape, initial_strength), depth, np.ones(len(s)), tau)


def _half_rise(
    s: np.ndarray, a0: np.ndarray, depth: Depth, lam: np.ndarray, tau: float
) -> Float[np.ndarray, " mode"]:
    """Return the time to reach half of the target from below; zero for starts above half."""
    time = learning_time(
        s, a0, depth=depth, fraction=0.5, input_variance=lam, tau=tau, never="infinite"
    )
    beyond = (s > 0) & (lam * a0 >= 0.5 * s)
    return np.where(beyond, 0.0, np.asarray(time))
