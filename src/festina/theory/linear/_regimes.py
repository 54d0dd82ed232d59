"""Lazy, rich, or rich with a delay: what balance does to how a network learns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..._result import Result
from ..._types import Array
from ._balanced import BalancedFlow

Kind: TypeAlias = Literal["rich", "lazy", "delayed rich"]

_POINTS = 128  # on a grid of times, refined ever more
_FOREVER = 1e200


@dataclass(frozen=True, repr=False)
class LearningRegime(Result):
    """Result of `learning_regime`: how a balanced network learns, in numbers.

    **Attributes:**

    - `kind`: `"rich"` while |λ|/2 is below the largest singular value; beyond it `"lazy"` or, where
      the larger layer has fewer hidden units than neurons on its side, `"delayed rich"`.
    - `rate_gap`: how much faster the weakest mode grows that is learned than the strongest
      direction that is not. That is S_λ − |λ|/2, about s²/|λ|, beside a direction without a mode;
      with fewer units than modes it is the difference between the S_λ of two modes. Its inverse is
      the delay until the kernel has turned to the end; beside two modes of nearly the same strength
      most of the way lies behind long before, see `half_change_time`.
    - `kernel_distance`: how far the tangent kernel moves in all, 1 − cos(K(0), K(∞)).
    - `half_change_time`: when it has first moved half as far; None if it does not move.
    - `half_loss_time`: when the loss has fallen to half; None if it does not.
    """

    kind: Kind
    rate_gap: float
    kernel_distance: float
    half_change_time: float | None
    half_loss_time: float | None


def learning_regime(flow: BalancedFlow) -> LearningRegime:
    r"""Return the regime of a balanced network on its task (Dominé et al., 2025).

    Where $|\lambda|$ dominates the singular values one layer is much larger than the other, and the
    loss falls on the scale $\tau/|\lambda|$. What becomes of the kernel depends on the shape. If
    there are as many hidden units as outputs ($\lambda > 0$; as inputs for $\lambda < 0$) the large
    layer spans all of its side and serves any task as it is: the kernel stays, up to a fraction of
    order $\lambda^{-2}$ (its distance, a cosine, is of order $\lambda^{-4}$). With as many units as
    the narrower side has neurons that is a square network, for $\lambda > 0$ one with more inputs
    than outputs (funnel), for $\lambda < 0$ one with more outputs (inverted funnel). Otherwise, and
    at any bottleneck, the large layer spans $N_h$ directions of its side, in general not those that
    the task needs, and the loss halts on a plateau. Directions without a mode grow at
    $|\lambda|/2$ and those with one at $S_\lambda = \sqrt{s^2 + \lambda^2/4}$: only after a time of
    order $1/(S_\lambda - |\lambda|/2) \approx |\lambda|/s^2$ has the kernel turned, and then by as
    much as in the rich regime. With fewer units than modes these compete too, and the last of them
    gives way after $|\lambda|/(s_h^2 - s_{h+1}^2)$. Half of the way may lie behind
    much earlier, and weights that are near the modes they learn hardly turn, whatever the kind.

    **Arguments:**

    - `flow`: see `balanced_flow`; one network, with weights that are not all zero.
    """
    if np.ndim(flow.first) > 2:
        raise ValueError(
            f"`flow` is a batch of networks, {np.shape(flow.first)[:-2]}: ask for one at a time."
        )
    singular_values = np.linalg.svd(np.asarray(flow.correlation), compute_uv=False)
    lam, tau = float(np.asarray(flow.balance)), float(np.asarray(flow.tau))
    modes = singular_values[singular_values > 1e-12 * singular_values[0]]
    if not len(modes):
        raise ValueError("`flow` has a correlation of zero: there is nothing to learn.")
    (outputs, inputs), hidden = flow.correlation.shape, flow.first.shape[-2]
    if abs(lam) / 2 <= modes[0]:
        kind: Kind = "rich"
    else:
        kind = "delayed rich" if hidden < (outputs if lam > 0 else inputs) else "lazy"
    weakest = modes[:hidden][-1]
    below = modes[modes < (1 - 1e-12) * weakest]
    rival = below[0] if hidden < len(modes) and len(below) else 0.0
    rates = np.hypot([weakest, rival], lam / 2)
    gap = float((weakest - rival) * (weakest + rival) / rates.sum())
    fastest = tau / float(np.hypot(modes[0], lam / 2))
    scale = float(np.sum(np.asarray(flow.first) ** 2) + np.sum(np.asarray(flow.second) ** 2))
    if not scale:
        raise ValueError("`flow` starts from weights that are zero, and nothing ever changes.")
    latest = tau / gap * (10.0 + abs(np.log(max(scale, 1e-300))))

    end, half = flow.limit(), float(flow([0.0]).loss()[0]) / 2
    moved = float(end.kernel_distance()[0])
    change = lambda times: flow(times).kernel_distance() - moved / 2
    fallen = lambda times: half - flow(times).loss()
    return LearningRegime(
        kind,
        gap,
        moved,
        _first_crossing(change, 1e-3 * fastest, latest) if moved > 1e-14 else None,
        _first_crossing(fallen, 1e-3 * fastest, latest) if end.loss()[0] < half else None,
    )


def _first_crossing(
    function: Callable[[np.ndarray], Array], earliest: float, latest: float
) -> float | None:
    """Where a function of time turns positive, by grids ever finer, logarithmic at first.

    Weights may hold next to nothing of what grows, and then the time is any number.
    """
    while function(np.array([latest]))[0] < 0 and latest < _FOREVER:
        latest *= 100.0
    times = np.concatenate([[0.0], np.geomspace(earliest, latest, _POINTS - 1)])
    for _ in range(7):  # each pass divides the interval by 127
        index = int(np.argmax(function(times) >= 0))
        if index == 0:
            return None
        times = np.linspace(times[index - 1], times[index], _POINTS)
    return float(times[_POINTS // 2])
