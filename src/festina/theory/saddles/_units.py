r"""Quadratic case: the timescales that separate units (Zhang, Saxe and Latham, Section 5.2, H.2).

The network is $f = \sum_i v_i u_i^\top Z u_i$ (Eq. 13), the loss
$L = \frac12\langle(y - f)^2\rangle$, the time $t$ that of $\dot\theta = -\partial
L/\partial\theta$. Near zero every unit moves by itself and in finite time runs off to infinity.
H.2 has another clock, $\tau_{H.2} = 2t$; what comes out here is $t$. $n$ steps of size $\eta$ on a
loss $cL$ are $t = c\eta n$, so on the paper's $\langle(y - f)^2\rangle$ (Eq. 64, $c = 2$) a unit
escapes after $n = t_\infty/(2\eta) = \tau_{\infty}/(4\eta)$ steps.

How it is computed: `_unit_ways` sorts units by the way they take, `_unit_time` says how long.
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
    r"""When each unit of a quadratic network leaves zero, from its initial weights alone.

    Near zero $\dot v = u^\top\Sigma_{yZ}u$, $\dot u = 2v\,\Sigma_{yZ}u$ (Eq. 14 of Zhang, Saxe and
    Latham). With the eigenvectors $\Sigma_{yZ}r_k = s_k r_k$, $a_k = r_k^\top u(0)/\sqrt2$ and
    $v_0 = v(0)$ the unit reaches infinity at

    $$t_\infty = \frac12\int\frac{dw}{\sqrt{F(w)}},\qquad
      F(w) = v_0^2 + \sum_k a_k^2\left(e^{2 s_k w} - 1\right) = v^2.$$

    The integral starts at $w = 0$ in the direction of $v_0$. If $F$ has no zero that way it runs
    to infinity and is Eq. (56) (with $\pi = e^{s_m w}$, and half of it: $t = \tau_{H.2}/2$). If
    $F(w_1) = 0$, then $v$ stops there, changes sign, and the way goes on from $w_1$ to infinity on
    the other side: $2\int_0^{w_1}$ plus $\int_0^{\mp\infty}$.

    **Erratum.** Eqs. (55)–(56) and Proposition 5 take the sign of $v$ to be that of $v_0$ for
    ever. This fails for a unit whose $v_0$ and $\sum_k s_k a_k^2$ disagree in sign and whose $F$
    has a zero: Eq. (56) then takes the root of a negative number. These are 19.2 % of
    Gaussian units for $s = (1, 0.4, -0.7)$. Proposition 5 also asks for both signs of $s_k$, which
    the paper's own example (Figure 1G, $\Sigma_{yZ} = 4I$) does not have; not needed here.

    **Linear attention.** A rank-one head with one value entry $v$, key $k$ and query $q$ is $v\,
    k^\top\psi q$: a quadratic unit with $u = [k, q]$ and $Z = \frac12\begin{bmatrix} 0 & \psi \\
    \psi^\top & 0\end{bmatrix}$. With $M = \langle y\psi\rangle$ call

        sigma = np.block([[zero, M / 2], [M.T / 2, zero]])
        heads = layer_from("quadratic", np.concatenate([k, q], axis=-1), v)
        blow_up_times(heads, from_moments(sigma[None]))

    This is *not* right for heads whose value is a vector with more entries that get a gradient.
    Those of `festina.networks.attention` on in-context regression, $x \sim \mathcal N(0, \Lambda)$,
    gain $(v_y k + k_y v)^\top\Lambda^2 q$, with $v_y, k_y$ the entries of value and key that read
    the label. With $v_y$ alone and $M = \Lambda^2$ the second half is missing: the first of five
    heads to leave comes out up to 70 % late (a median of some 20 %), often the wrong head.
    `staircase` follows all entries.

    **Arguments:**

    - `network`: the initial weights of a layer of quadratic neurons with one output; or a batch of
      them. Units with more outputs, cubic ones and heads of attention have a `staircase`, whose
      first jump this is.
    - `task`: what is learned; only $\Sigma_{yZ}$ enters.
    - `loss`: the convention, which sets the clock.
    - `tolerance`: a panel of the quadrature is halved until that changes the unit's time by less
      than this fraction. The last value is returned, far better: good to about $10^{-14}$, in
      the worst of a hundred thousand units to $3\times10^{-13}$.

    **Returns:**

    $t_\infty$ with shape `(*batch, unit)`. Infinity for a unit that never escapes: all $s_k$
    it touches are positive, $v_0 < 0$ and $v_0^2 \ge \sum_k a_k^2$ over $s_k \ne 0$ (or the mirror
    image); $\Sigma_{yZ}u = 0$; or it creeps up to the top of the hill or rests there.

    !!! note "When it stops being exact"

        Exact for Eq. (14). In the network a unit saturates instead of diverging, $O(1)$ later: a
        relative error $O(\epsilon)$ for weights of size $\epsilon$. Gradient descent is late by
        one step for each factor $e$ that a unit grows, because $r \leftarrow r + hr^2$ means
        $1/r \leftarrow 1/r - h + h^2 r - \dots$: $n = t_\infty/(c\eta) + \ln(1/\epsilon) + O(1)$
        steps. A unit that has saturated changes $\Sigma_{yZ}$ for the others: beyond the first, see
        `first_unit_to_escape`, these are times without competition.
        A unit within round-off of never escaping ($v_0^2$ against $\sum a_k^2$, or $F$ against zero
        at its minimum, to $2\times10^{-15}$) counts as one that does not.
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

    # t∞ is homogeneous of degree −1 in the weights and in Σ: make all of order one. Powers of two,
    # because rounding would move units that are close to never escaping.
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
    r"""The unit that leaves zero first, and when.

    $\arg\min_i t_{\infty,i}$ and $\min_i t_{\infty,i}$ of Eq. (57) of Zhang, Saxe and Latham, with
    `blow_up_times` in place of their Eq. (56). All other units are still $O(\epsilon)$ then
    (Proposition 5; with a heavy tail: the second largest has a median of 10.5 $\epsilon$, and one
    time in ten is beyond 62 $\epsilon$, for ten units as in Figure 1G).

    **Arguments:** as for `blow_up_times`.

    **Returns:**

    `(index, time)`, both with the batch shape; index −1 and infinite time if no unit escapes.
    """
    times = blow_up_times(network, task, loss=loss, tolerance=tolerance)
    index, first = np.asarray(times.argmin(axis=-1)), np.asarray(times.min(axis=-1))
    return np.where(np.isfinite(first), index, -1), first


def _quadratic(
    network: AbstractNetwork, task: AbstractTask
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """u, v and Σ_yZ of a layer of quadratic neurons with one output."""
    check_kinds(network, task)
    unit = network.unit if isinstance(network, Layer) else None
    if unit is None or unit.degree != 2 or unit.read_axes or network.outputs > 1:
        raise ValueError(
            "`network` must be a layer of quadratic neurons with one output, got "
            f"{network!r}. For cubic neurons, heads of linear attention and several outputs see "
            "`festina.theory.saddles.staircase`; two linear layers have `mode_drop_times`."
        )
    seen = statistics_for(network, task)
    u, v = (np.asarray(part, float) for part in network.parts)
    return u, v[..., 0], seen.correlation[0]


def _binade(x: np.ndarray) -> np.ndarray:
    """The power of two just above x, one for x = 0."""
    return np.ldexp(1.0, np.frexp(x)[1])
