r"""Linear case: the timescales that separate directions (Zhang, Saxe and Latham, Section 5.1, G).

The network is $f = \sum_i v_i u_i^\top z = Wz$ (Eq. 8). Its loss is
$L = \frac12\langle\lVert y - f\rVert^2\rangle$ and its time is that of $\dot\theta = -\partial
L/\partial\theta$, so that (Eq. 9)

$$\dot v_i = (\Sigma_{yz} - W\Sigma_{zz})\,u_i,\qquad
  \dot u_i = (\Sigma_{yz} - W\Sigma_{zz})^\top v_i.$$

The paper's experiments use $\langle\lVert y - f\rVert^2\rangle = 2L$ (Eq. 64): $n$ steps of size
$\eta$ on a loss $cL$ are time $t = c\eta n$. Everywhere $\Sigma_{yz} = \sum_k s_k q_k r_k^\top$, of
shape `(N_v, N_u)`, with $s_1 \ge s_2 \ge \dots$
"""

import numpy as np
from jaxtyping import Float

from ..._checks import finite, number
from ..._objective import LossConvention, loss_factor
from ..._types import ArrayLike
from ...networks import AbstractNetwork
from ...networks._network import Network
from ...tasks import AbstractTask
from .._modes import equals
from ._linear_layer import as_layer, linear_layer


def initial_mode_amplitudes(
    network: AbstractNetwork, task: AbstractTask
) -> Float[np.ndarray, "*batch mode"]:
    r"""Return how much of each growing mode the initial weights hold.

    $$a_k(0) = \sum_i c_{ki}^2,\qquad
      c_{ki} = \tfrac12\left(q_k^\top v_i(0) + r_k^\top u_i(0)\right),$$

    with $c_{ki}$ from Eq. (35a) of Zhang, Saxe and Latham: the part of unit $i$ that grows as
    $e^{s_k t}$ near zero. Once the decaying part is gone $q_k^\top W r_k = a_k(0)\,e^{2 s_k t}$.
    Weights drawn from $\mathcal N(0, \epsilon^2)$ have mean $H\epsilon^2/2$.

    **Arguments:**

    - `network`: a linear layer, or a `DeepLinear` of two layers; or a batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ enters.

    **Returns:**

    $a_k(0)$ with shape `(*batch, mode)`, $k = 1, \dots, \min(N_v, N_u)$, largest $s_k$ first.

    !!! note "When it is not defined"

        If singular values coincide the vectors $q_k, r_k$ are a choice, and so is how the total of
        their $a_k(0)$ is divided. `mode_drop_times` does not depend on that choice.
    """
    u, v, correlation, _ = linear_layer(network, task)
    q, _, rt = np.linalg.svd(correlation, full_matrices=False)
    return np.sum(growing(u, v, q, rt.T) ** 2, axis=-2)


def linear_phase(
    network: Network,
    task: AbstractTask,
    times: ArrayLike,
    *,
    loss: LossConvention = "half",
) -> Network:
    r"""Return weights of a linear network near zero, as long as its output is negligible.

    Exact solution of $\dot v_i = \Sigma_{yz} u_i$, $\dot u_i = \Sigma_{yz}^\top v_i$ (Eq. 10 of
    Zhang, Saxe and Latham), which is their Eq. (34),

    $$\begin{bmatrix} v_i \\ u_i \end{bmatrix}(t) = \sum_k \left(c_{ki} e^{s_k t}
      \begin{bmatrix} q_k \\ r_k \end{bmatrix} + b_{ki} e^{-s_k t}
      \begin{bmatrix} q_k \\ -r_k \end{bmatrix}\right) + \xi_i,$$

    with $c_{ki}, b_{ki} = \frac12(q_k^\top v_i(0) \pm r_k^\top u_i(0))$ and $\xi_i$ what is left of
    the initial weights.

    **Arguments:**

    - `network`: the initial weights of a linear layer or of a `DeepLinear` of two layers; or a
      batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ enters.
    - `times`: when, shape `(time,)`, or one time.
    - `loss`: the convention, which sets the clock.

    **Returns:**

    Networks of the same kind, a batch `(*batch, time)`; without the axis of time for a single one.

    !!! note "When it stops being exact"

        Eq. (10) leaves out $W\Sigma_{zz}$: good while $\lVert W\Sigma_{zz}\rVert \ll s_1$, that is
        up to the first drop of the loss.
    """
    u, v, correlation, _ = linear_layer(network, task)
    times = loss_factor(loss, task) * finite("times", times)
    if times.ndim > 1:
        raise ValueError(f"`times` must be a time or a list of them, got shape {times.shape}.")
    q, s, rt = np.linalg.svd(correlation, full_matrices=False)
    qv, ru = v @ q, u @ rt.T
    t = times.reshape(-1, 1, 1)
    grow = (0.5 * (qv + ru))[..., None, :, :] * np.exp(s * t)
    decay = (0.5 * (qv - ru))[..., None, :, :] * np.exp(-s * t)
    rest_u, rest_v = u - ru @ rt, v - qv @ q.T
    u = (grow - decay) @ rt + rest_u[..., None, :, :]
    v = (grow + decay) @ q.T + rest_v[..., None, :, :]
    if not times.ndim:
        u, v = u[..., 0, :, :], v[..., 0, :, :]
    deep = as_layer(network) is not network
    return network.with_parts(u, v.swapaxes(-1, -2) if deep else v)


def unit_growth_times(
    network: AbstractNetwork,
    task: AbstractTask,
    *,
    size: float = 1.0,
    loss: LossConvention = "half",
    degeneracy: float = 1e-9,
) -> Float[np.ndarray, "*batch unit"]:
    r"""Return when the growing part of each unit reaches a given size in the linear phase.

    $$T_i = \frac{1}{s_1}\ln\frac{\text{size}}{\lVert P\theta_i(0)\rVert},\qquad
      \lVert P\theta_i(0)\rVert^2 = 2\sum_{k\le r} c_{ki}^2,$$

    Eq. (37) of Zhang, Saxe and Latham (Theorem 4), with $P$ (Eq. 11) the projection on the $r$ top
    singular directions, $r$ the multiplicity of $s_1$. At $T_i$ the rest of the unit is
    $O(\epsilon^{1 - s_{r+1}/s_1})$, see `residual_exponent`.

    **Arguments:**

    - `network`: the initial weights of a linear layer or of a `DeepLinear` of two layers; or a
      batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ enters.
    - `size`: what counts as $O(1)$.
    - `loss`: the convention, which sets the clock.
    - `degeneracy`: singular values closer than this fraction of $s_1$ count as equal.

    **Returns:**

    $T_i$ with shape `(*batch, unit)`: zero for a unit that starts beyond `size`, infinity for
    one that holds nothing of the top directions, or if the correlation is zero.

    !!! note "When it stops being exact"

        Exact for the linear system (10). In the network all units saturate together, when
        $\sum_i c_{1i}^2 e^{2s_1t}$ is of order $s_1/\lambda_1$: see `mode_drop_times`.
    """
    u, v, correlation, _ = linear_layer(network, task)
    if not (size := number("size", size)) > 0:
        raise ValueError(f"`size` must be a positive number, got {size!r}.")
    q, s, rt = np.linalg.svd(correlation, full_matrices=False)
    if s[0] == 0.0:
        return np.full(u.shape[:-1], np.inf)
    top = equals(s, degeneracy)[0]
    held = np.sqrt(2.0 * np.sum(growing(u, v, q[:, top], rt[top].T) ** 2, axis=-1))
    with np.errstate(divide="ignore"):
        times = np.maximum(np.log(size / held) / s[0], 0.0)
    return times / loss_factor(loss, task)


def residual_exponent(singular_values: ArrayLike, *, degeneracy: float = 1e-9) -> float:
    r"""Return the power of the initial scale that remains outside the top directions at escape.

    Theorem 4 of Zhang, Saxe and Latham (Eq. 39): when the part of a unit along the top singular
    directions is $O(1)$, the rest is $O(\epsilon^p)$ with

    $$p = 1 - s_{r+1}/s_1,$$

    $r$ the multiplicity of $s_1$. The larger the exponent, the closer to rank $r$ the weights are,
    and the cleaner the plateau that follows.

    **Arguments:**

    - `singular_values`: $s_k$ of $\Sigma_{yz}$, in any order, shape `(mode,)`.
    - `degeneracy`: values closer than this fraction of $s_1$ count as equal.

    **Returns:**

    $p$ between 0 and 1. If no smaller singular value exists ($r = D$, which the theorem leaves out)
    the rest does not grow and $p = 1$.
    """
    s = finite("singular_values", singular_values)
    if s.ndim != 1 or s.size == 0 or s.min() < 0 or s.max() == 0:
        raise ValueError(
            "`singular_values` must be a non-empty list of numbers ≥ 0, not all zero, "
            f"got {np.array2string(s, threshold=8)}."
        )
    s = np.sort(s)[::-1]
    rest = s[equals(s, degeneracy)[0].stop :]
    return 1.0 - float(rest[0] / s[0]) if rest.size else 1.0


def growing(u: np.ndarray, v: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """c_ki of Eq. (35a), shape (..., unit, mode)."""
    return 0.5 * (v @ q + u @ r)
