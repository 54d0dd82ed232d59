"""From saddle to saddle, one mode at a time, and when a world's distinctions are learned."""

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
    r"""Result of `saddle_sequence`: the saddles that a deep linear network passes, and when.

    At stage $k$ the first $k$ modes of `order` are learned and the others are not there yet.

    - `order`: the modes that are learned, first to last.
    - `time`: of each mode of `order`, when it is half learned: between stage $k$ and $k + 1$.
    - `loss`: at each stage, above that of least squares.
    - `escape_rate`: at each stage, of the weights that grow fastest.
    """

    order: Int[np.ndarray, " learned"]
    time: Float[np.ndarray, " learned"]
    loss: Float[np.ndarray, " stage"]
    escape_rate: Float[np.ndarray, " stage"]


def saddle_sequence(
    modes: Modes, initial_strength: Values, *, depth: Depth = 2, tau: float = 1.0
) -> SaddleSequence:
    r"""Return the plateaus of learning from small weights, for a network of independent chains.

    Modes $1, \dots, k$ learned, $a_\alpha = s_\alpha/\lambda_\alpha$, and the others zero is a
    stationary point with

    $$L_k - L_\mathrm{min} = \tfrac12\sum_{\alpha > k}\frac{s_\alpha^2}{\lambda_\alpha},$$

    a saddle until nothing is left. With two layers the weights of a mode that is left grow at the
    rate $s_\alpha/\tau$ (its strength at twice that), and it is half learned at

    $$t_\alpha = \frac{\tau}{2s_\alpha}\ln\Bigl(\frac{s_\alpha}{\lambda_\alpha a_{0\alpha}} -
      1\Bigr).$$

    With three and more the saddle is of higher order and nothing grows exponentially: the rate is
    zero, and the times are those of `learning_time` at one half. Saxe, McClelland & Ganguli (2014).

    **Arguments:**

    - `modes`: of the data.
    - `initial_strength`: $a_{0\alpha}$, one for all modes or one each.
    - `depth`: number of layers $D \ge 2$, or `math.inf`.
    - `tau`: time constant of one layer; $\tau_\infty$ for infinite depth.

    **Returns:**

    A `SaddleSequence`, with a stage more than modes learned. Modes without correlation, or with an
    initial strength of zero or less, are never learned: those with correlation stay in the loss of
    the last stage.

    !!! note "When it stops holding"

        The stages are plateaus only if one mode is learned well before the next. Rates are those
        within the decoupled weights; at a saddle that left out a stronger mode than it learned,
        coupled directions may lead away as well.
    """
    if not isinstance(modes, Modes):
        raise ValueError(
            f"`modes` must be those of the data, as `festina.theory.linear.modes` finds them, got "
            f"{type(modes).__name__}. The initial strengths of small random weights are "
            "`effective_initial_strengths`."
        )
    if check_depth(depth) < 2:
        raise ValueError(
            "`depth` must be 2 or more: the loss of a single layer is convex and has no saddles, "
            "`mode_strengths` has its curves."
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
    r"""Return when a network that learns a world's items has half learned each kind of modes.

    With one-hot items and the loss summed over them, $s = \sqrt{Nc}$ and for two layers

    $$t = \frac{\tau}{2s}\ln\Bigl(\frac{s}{a_0} - 1\Bigr):$$

    the levels of a tree one after the other, broad distinctions first (progressive
    differentiation, Saxe, McClelland & Ganguli 2019). A shallow network has the same time constant
    for all modes, and tells everything apart at once.

    **Arguments:**

    - `world`: of `festina.tasks.worlds`.
    - `features`: $N$.
    - `initial_strength`: $a_0$ of all modes.
    - `depth`: number of layers, or `math.inf`.
    - `tau`: time constant of one layer. For a loss averaged over $P$ items: $P$ times that.

    **Returns:**

    One time for each of `world.kinds`: zero for those that start beyond, infinity for kinds that do
    not vary ($c = 0$).
    """
    initial_strength = number("initial_strength", initial_strength)
    first = np.cumsum(world.multiplicities) - world.multiplicities
    s = world.singular_values(features)[first]
    return _half_rise(s, np.full(s.shape, initial_strength), depth, np.ones(len(s)), tau)


def _half_rise(
    s: np.ndarray, a0: np.ndarray, depth: Depth, lam: np.ndarray, tau: float
) -> Float[np.ndarray, " mode"]:
    """Time to half of the target, from below; zero for a start beyond that."""
    time = learning_time(
        s, a0, depth=depth, fraction=0.5, input_variance=lam, tau=tau, never="infinite"
    )
    beyond = (s > 0) & (lam * a0 >= 0.5 * s)
    return np.where(beyond, 0.0, np.asarray(time))
