r"""Quadratic networks near zero weights, where units escape at different times.

The module follows Section 5.2 and Appendix H.2 of Zhang, Saxe & Latham. The network is
$f = \sum_i v_i u_i^\top Z u_i$ (Eq. 13). The loss is $L = \frac12\langle(y - f)^2\rangle$, and the
time $t$ is that of gradient flow $\dot\theta = -\partial L/\partial\theta$. Near zero, units do not
interact, and each unit diverges in finite time.

Appendix H.2 measures time as $\tau_{H.2} = 2t$; the functions of this module return $t$. $n$ steps
of size $\eta$ on a loss $cL$ correspond to $t = c\eta n$. On the paper's loss
$\langle(y - f)^2\rangle$ (Eq. 64, $c = 2$) a unit therefore escapes after
$n = t_\infty/(2\eta) = \tau_{\infty}/(4\eta)$ steps.

The module `_unit_ways` sorts units by the shape of their path to infinity, and `_unit_time`
computes their escape times.
"""

import numpy as np
from jaxtyping import Float, Int

from ..._objective import LossConvention, check_kinds, loss_factor, statistics_for
from ...networks import AbstractNetwork, Layer
from ...tasks import AbstractTask
from ._unit_time import travel_time
from ._unit_ways import ROUND_OFF, ways


def blow_up_times(
    network: AbstractNetwork,
    task: AbstractTask,
    *,
    loss: LossConvention = "half",
    tolerance: float = 1e-10,
) -> Float[np.ndarray, "*batch unit"]:
    r"""Predict from the initial weights when each unit of a quadratic network escapes from zero.

    Near zero $\dot v = u^\top\Sigma_{yZ}u$ and $\dot u = 2v\,\Sigma_{yZ}u$ (Eq. 14 of Zhang, Saxe &
    Latham). With the eigenvectors $\Sigma_{yZ}r_k = s_k r_k$, $a_k = r_k^\top u(0)/\sqrt2$ and
    $v_0 = v(0)$ the unit diverges at the time

    $$t_\infty = \frac12\int\frac{dw}{\sqrt{F(w)}},\qquad
      F(w) = v_0^2 + \sum_k a_k^2\left(e^{2 s_k w} - 1\right) = v^2.$$

    The integral starts at $w = 0$ in the direction of the sign of $v_0$. If $F$ has no zero in this
    direction, the integral runs to infinity and equals half of Eq. (56), because
    $t = \tau_{H.2}/2$. (The variable $\pi$ of Eq. (56) is $e^{s_m w}$.) If $F(w_1) = 0$, then $v$
    vanishes at $w_1$ and changes sign. The unit turns back and escapes to infinity on the other
    side: the integral is $2\int_0^{w_1}$ plus $\int_0^{\mp\infty}$.

    **Erratum.** Eqs. (55)–(56) and Proposition 5 assume that $v$ keeps its initial sign. This
    assumption fails for a unit if $v_0$ and $\sum_k s_k a_k^2$ have opposite signs and $F$ has a
    zero: Eq. (56) then contains the root of a negative number. For $s = (1, 0.4, -0.7)$ this
    happens for 19.2 % of Gaussian units. Proposition 5 also requires both signs of $s_k$, but in
    the paper's own example (Figure 1G, $\Sigma_{yZ} = 4I$) all $s_k$ are positive. `blow_up_times`
    does not need both signs.

    **Linear attention.** A rank-one head with one value entry $v$, key $k$ and query $q$ computes
    $v\, k^\top\psi q$. A rank-one head is a quadratic unit with $u = [k, q]$ and
    $Z = \frac12\begin{bmatrix} 0 & \psi \\ \psi^\top & 0\end{bmatrix}$. With
    $M = \langle y\psi\rangle$ call

        sigma = np.block([[zero, M / 2], [M.T / 2, zero]])
        heads = layer_from("quadratic", np.concatenate([k, q], axis=-1), v)
        blow_up_times(heads, from_moments(sigma[None]))

    The result is *wrong* for heads if several entries of the value vector get a gradient. An
    example are the heads of `festina.networks.attention` on in-context regression with inputs
    $x \sim \mathcal N(0, \Lambda)$. The gain of such a head is $(v_y k + k_y v)^\top\Lambda^2 q$,
    where $v_y, k_y$ are the entries of value and key that read the label. With $v_y$ alone and
    $M = \Lambda^2$ the second term is missing. The first escape among five heads is then predicted
    up to 70 % too late (median: about 20 %), and often for the wrong head. `staircase` follows all
    entries.

    **Arguments:**

    - `network`: the initial weights of a layer of quadratic neurons with one output; or a batch of
      them. For units with several outputs, cubic neurons and attention heads use `staircase`.
    - `task`: what is learned; only $\Sigma_{yZ}$ enters.
    - `loss`: the convention of the loss, which sets the unit of time.
    - `tolerance`: a panel of the quadrature is halved until halving changes the time of the unit by
      less than this fraction. The returned times are far more accurate: to about $10^{-14}$, and to
      $3\times10^{-13}$ for the worst of a hundred thousand units.

    **Returns:**

    Times $t_\infty$ with shape `(*batch, unit)`. The time is infinite for a unit that never
    escapes. A unit never escapes if $v_0 < 0$, all $s_k$ with $a_k \ne 0$ are positive, and
    $v_0^2 \ge \sum_k a_k^2$ over $s_k \ne 0$ (or with all signs reversed). A unit also never
    escapes if $\Sigma_{yZ}u = 0$, or if the unit approaches the top of the hill $F = 0$
    asymptotically or rests there.

    **Example:** The third unit never escapes: $v_0 < 0$, and only a positive $s_k$ has $a_k \ne 0$.

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory.saddles import blow_up_times
    >>> task = from_moments(np.diag([1.0, -1.0])[None])
    >>> u, v = [[0.02, 0.01], [0.0, 0.01], [0.01, 0.0]], [0.01, 0.0, -0.02]
    >>> blow_up_times(layer_from("quadratic", u, v), task).round(1)
    array([ 40.2, 111.1,   inf])

    !!! note "When it stops being exact"

        The result is exact for Eq. (14). In the network a unit saturates instead of diverging, and
        escapes later by a time of order one: a relative error of $O(\epsilon)$ for weights of size
        $\epsilon$. Gradient descent is late by one step for each factor $e$ by which a unit grows,
        because $r \leftarrow r + hr^2$ means $1/r \leftarrow 1/r - h + h^2 r - \dots$. The number
        of steps is $n = t_\infty/(c\eta) + \ln(1/\epsilon) + O(1)$.

        A unit that has saturated changes $\Sigma_{yZ}$ for all other units. After the first escape
        (see `first_unit_to_escape`) the times ignore how saturated units change $\Sigma_{yZ}$. A
        unit that escapes by a relative margin below $2\times10^{-15}$ counts as one that never
        escapes. The margin concerns $v_0^2$ against $\sum a_k^2$, and the minimum of $F$ against
        zero.
    """
    u, v, correlation = _quadratic(network, task)
    if not 1e-14 <= tolerance < 1.0:
        raise ValueError(f"`tolerance` must be between 1e-14 (round-off) and 1, got {tolerance!r}.")
    batch = v.shape
    s, r = np.linalg.eigh(0.5 * (correlation + correlation.T))
    a = (u @ r).reshape(-1, s.size) / np.sqrt(2.0)
    v = v.reshape(-1)
    if not s.any() or v.size == 0:
        return np.full(batch, np.inf)

    # t∞ is homogeneous of degree −1 in the weights and in Σ, so both are scaled to order one.
    # Scaling by powers of two avoids rounding, which could decide whether a unit escapes.
    size = _binade(np.maximum(np.abs(v), np.abs(a).max(axis=-1)))
    rate = _binade(np.abs(s).max(keepdims=True))
    v, a, s = v / size, a / size[:, None], s / rate
    moves = np.abs(s) > ROUND_OFF * s.size * np.abs(s).max()
    s, a = s[moves], np.abs(a[:, moves])
    a = np.where(a > ROUND_OFF * np.linalg.norm(a, axis=-1, keepdims=True), a, 0.0)

    tau = np.full(v.size, np.inf)
    for way in ways(s, a, v):
        tau[way.unit] = travel_time(way, tolerance)
    return (0.5 * tau / size / rate).reshape(batch) / loss_factor(loss, task)


def first_unit_to_escape(
    network: AbstractNetwork,
    task: AbstractTask,
    *,
    loss: LossConvention = "half",
    tolerance: float = 1e-10,
) -> tuple[Int[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    r"""Return the index of the unit that escapes from zero first, and its time.

    The function returns $\arg\min_i t_{\infty,i}$ and $\min_i t_{\infty,i}$ of Eq. (57) of Zhang,
    Saxe & Latham, with `blow_up_times` in place of their Eq. (56). At this time all other units are
    still $O(\epsilon)$ for an initial scale $\epsilon$ (Proposition 5). The prefactor of this
    $O(\epsilon)$ has a heavy tail: for ten units as in Figure 1G the size of the second-largest
    unit has a median of 10.5 $\epsilon$, and exceeds 62 $\epsilon$ in one case of ten.

    **Arguments:** as for `blow_up_times`.

    **Returns:**

    `(index, time)`, both with the batch shape; index −1 and infinite time if no unit escapes.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory.saddles import first_unit_to_escape
    >>> network = layer_from("quadratic", [[0.02, 0.01], [0.01, 0.02]], [0.01, 0.01])
    >>> unit, time = first_unit_to_escape(network, from_moments(np.diag([1.0, -1.0])[None]))
    >>> int(unit), float(time)
    (0, 40.2)
    """
    times = blow_up_times(network, task, loss=loss, tolerance=tolerance)
    index, first = np.asarray(times.argmin(axis=-1)), np.asarray(times.min(axis=-1))
    return np.where(np.isfinite(first), index, -1), first


def _quadratic(
    network: AbstractNetwork, task: AbstractTask
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return u, v and Σ_yZ of a layer of quadratic neurons with one output."""
    check_kinds(network, task)
    unit = network.unit if isinstance(network, Layer) else None
    if unit is None or unit.degree != 2 or unit.read_axes or network.outputs > 1:
        raise ValueError(
            "`network` must be a layer of quadratic neurons with one output, got "
            f"{network!r}. For cubic neurons, heads of linear attention and several outputs use "
            "`festina.theory.saddles.staircase`; for two linear layers use `mode_drop_times`."
        )
    seen = statistics_for(network, task)
    u, v = (np.asarray(part, float) for part in network.parts)
    return u, v[..., 0], seen.correlation[0]


def _binade(x: np.ndarray) -> np.ndarray:
    """Return the power of two just above x, and one for x = 0."""
    return np.ldexp(1.0, np.frexp(x)[1])
