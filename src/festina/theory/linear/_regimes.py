"""Learning regimes of balanced two-layer networks: lazy, rich, or rich with a delay."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..._result import Result
from ..._types import Array
from ._balanced import BalancedFlow

Kind: TypeAlias = Literal["rich", "lazy", "delayed rich"]

_POINTS = 128  # points of each grid of times in the search for a crossing
_FOREVER = 1e200


@dataclass(frozen=True, repr=False)
class LearningRegime(Result):
    r"""Result of `learning_regime`: the learning regime of a balanced network, and its time scales.

    **Attributes:**

    - `kind`: `"rich"` if |λ|/2 is at most the largest singular value. For larger |λ| the kind is
      `"delayed rich"` if there are fewer hidden units than neurons on the side of the layer with
      larger weights (outputs for λ > 0, inputs for λ < 0), and `"lazy"` otherwise.
    - `rate_gap`: growth rate of the weakest learned mode minus the growth rate of the strongest
      direction that is not learned. If that direction has no mode, the gap is
      $S_\lambda - |\lambda|/2$ with $S_\lambda = \sqrt{s^2 + \lambda^2/4}$, about $s^2/|\lambda|$
      for large $|\lambda|$. With fewer hidden units than modes, the gap is the difference between
      the rates $S_\lambda$ of two modes. The inverse of the gap sets the time, in units of τ, until
      the kernel stops changing. The kernel may have completed most of its change long before that
      time, see `half_change_time`.
    - `kernel_distance`: total change of the tangent kernel, 1 − cos(K(0), K(∞)).
    - `half_change_time`: time at which the kernel first reaches half of its final distance; None
      if the kernel does not change.
    - `half_loss_time`: time at which the loss first reaches half of its initial value; None if the
      loss never does.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.1]]])
    >>> flow = linear.balanced_flow(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> regime = linear.learning_regime(flow)
    >>> regime.kind, round(regime.half_loss_time, 3)
    ('rich', 0.831)
    """

    kind: Kind
    rate_gap: float
    kernel_distance: float
    half_change_time: float | None
    half_loss_time: float | None


def learning_regime(flow: BalancedFlow) -> LearningRegime:
    r"""Return the learning regime of a balanced network on its task: rich, lazy or delayed rich.

    If $|\lambda|$ is much larger than the singular values $s$ of the task, one layer has much
    larger weights than the other, and the loss falls within a time of order $\tau/|\lambda|$. The
    second layer has the larger weights for $\lambda > 0$, and the first layer for $\lambda < 0$.
    The change of the tangent kernel then depends on the shape of the network (Dominé et al., 2025):

    - *Lazy*: there are as many hidden units as outputs ($\lambda > 0$) or as inputs ($\lambda <
      0$). The large layer spans all directions of its side, so the small layer can learn any task.
      For $\lambda > 0$ the term with $W_2W_2^\top \approx \lambda I$ dominates the kernel. The
      hidden features $W_1^\top W_1$ may change by a large factor, but hardly affect the kernel.
      The kernel changes only by a fraction of order $\lambda^{-2}$, and its distance $1 - \cos$ is
      of order $\lambda^{-4}$. Examples with $N_h = \min(N_i, N_o)$ hidden units are square
      networks, networks with more inputs than outputs and $\lambda > 0$ (funnel), and networks with
      more outputs than inputs and $\lambda < 0$ (inverted funnel).
    - *Delayed rich*: there are fewer hidden units than outputs ($\lambda > 0$) or inputs ($\lambda
      < 0$). The large layer spans only $N_h$ directions. In general these directions do not contain
      the modes of the task, and the loss stops at a plateau. Directions without a mode grow at rate
      $|\lambda|/2$, and modes grow at rate $S_\lambda = \sqrt{s^2 + \lambda^2/4}$, in units of
      $1/\tau$. The kernel rotates after a time of order $\tau/(S_\lambda - |\lambda|/2) \approx
      \tau|\lambda|/s^2$, and finally changes as much as in the rich regime.

    With fewer hidden units than modes, modes compete for units as well. The last competition ends
    after a time of order $\tau|\lambda|/(s_h^2 - s_{h+1}^2)$, where $s_h$ is the singular value of
    the weakest learned mode, and $s_{h+1}$ that of the next mode.
    The kernel may complete half of its change much earlier. If the initial weights already lie
    close to the learned modes, the kernel hardly changes in any regime.

    **Arguments:**

    - `flow`: the `BalancedFlow` of one network whose weights are not all zero.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[1.0, 0.0], [0.0, 1.0]], [[9.0, 0.0], [0.0, 9.0]]])
    >>> flow = linear.balanced_flow(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> linear.learning_regime(flow).kind
    'lazy'
    """
    if np.ndim(flow.first) > 2:
        raise ValueError(
            f"`flow` must be a single network, got a batch of networks, "
            f"{np.shape(flow.first)[:-2]}: call `learning_regime` for one network at a time."
        )
    singular_values = np.linalg.svd(np.asarray(flow.correlation), compute_uv=False)
    lam, tau = float(np.asarray(flow.balance)), float(np.asarray(flow.tau))
    modes = singular_values[singular_values > 1e-12 * singular_values[0]]
    if not len(modes):
        raise ValueError(
            "`flow` must have a nonzero correlation: otherwise there is nothing to learn."
        )
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
        raise ValueError(
            "`flow` starts from weights that are zero, which never change: use other weights."
        )
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
    """Return the time at which a function turns positive, from grids of decreasing spacing.

    The first grid is logarithmic. The crossing may be very late, because growing components of the
    initial weights may be tiny; `latest` is therefore increased until the function is positive.
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
