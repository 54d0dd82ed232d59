r"""Linear networks near zero weights, where directions of the weights grow at different rates.

The module follows Section 5.1 and Appendix G of Zhang, Saxe & Latham. The network is
$f = \sum_i v_i u_i^\top z = Wz$ (Eq. 8). The loss is
$L = \frac12\langle\lVert y - f\rVert^2\rangle$. Time is that of gradient flow
$\dot\theta = -\partial L/\partial\theta$, so that (Eq. 9)

$$\dot v_i = (\Sigma_{yz} - W\Sigma_{zz})\,u_i,\qquad
  \dot u_i = (\Sigma_{yz} - W\Sigma_{zz})^\top v_i.$$

The paper's experiments use $\langle\lVert y - f\rVert^2\rangle = 2L$ (Eq. 64): $n$ steps of size
$\eta$ on a loss $cL$ correspond to the time $t = c\eta n$. The correlation has the singular values
$s_1 \ge s_2 \ge \dots$ of $\Sigma_{yz} = \sum_k s_k q_k r_k^\top$, which has shape `(N_v, N_u)`
(outputs, inputs).
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
    r"""Return the squared amplitude of each growing mode in the initial weights.

    $$a_k(0) = \sum_i c_{ki}^2,\qquad
      c_{ki} = \tfrac12\left(q_k^\top v_i(0) + r_k^\top u_i(0)\right),$$

    with $c_{ki}$ from Eq. (35a) of Zhang, Saxe & Latham: the part of unit $i$ that grows as
    $e^{s_k t}$ near zero. Here $s_k, q_k, r_k$ are the singular values and vectors of
    $\Sigma_{yz}$. Once the decaying part is negligible, the strength of mode $k$ is
    $q_k^\top W r_k = a_k(0)\,e^{2 s_k t}$. For $H$ units with weights from
    $\mathcal N(0, \epsilon^2)$, the mean of $a_k(0)$ is $H\epsilon^2/2$.

    **Arguments:**

    - `network`: a linear layer, or a `DeepLinear` of two layers; or a batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ enters.

    **Returns:**

    $a_k(0)$ with shape `(*batch, mode)`, $k = 1, \dots, \min(N_v, N_u)$, largest $s_k$ first.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import initial_mode_amplitudes
    >>> task = linear_teacher(np.diag([2.0, 1.0]))
    >>> network = layer_from("linear", [[0.3, 0.1], [0.0, 0.2]], [[0.1, 0.1], [0.2, 0.0]])
    >>> initial_mode_amplitudes(network, task)  # 0.2² + 0.1² and 0.1² + 0.1²
    array([0.05, 0.02])

    !!! note "When the amplitudes are not defined"

        If singular values coincide, the vectors $q_k, r_k$ are arbitrary within a subspace. Only
        the sum of the $a_k(0)$ of the coinciding modes is then defined. `mode_drop_times` does not
        depend on the choice of these vectors.
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
    r"""Return the weights of a linear network near zero, while its output is negligible.

    The function evaluates the exact solution of $\dot v_i = \Sigma_{yz} u_i$,
    $\dot u_i = \Sigma_{yz}^\top v_i$ (Eq. 10 of Zhang, Saxe & Latham), which is their Eq. (34),

    $$\begin{bmatrix} v_i \\ u_i \end{bmatrix}(t) = \sum_k \left(c_{ki} e^{s_k t}
      \begin{bmatrix} q_k \\ r_k \end{bmatrix} + b_{ki} e^{-s_k t}
      \begin{bmatrix} q_k \\ -r_k \end{bmatrix}\right) + \xi_i.$$

    Here $s_k, q_k, r_k$ are the singular values and vectors of $\Sigma_{yz}$, the amplitudes are
    $c_{ki}, b_{ki} = \frac12(q_k^\top v_i(0) \pm r_k^\top u_i(0))$, and $\xi_i$ is the constant
    remainder of the initial weights.

    **Arguments:**

    - `network`: the initial weights of a linear layer or of a `DeepLinear` of two layers; or a
      batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ enters.
    - `times`: one time, or times of shape `(time,)`.
    - `loss`: the convention of the loss, which sets the unit of time.

    **Returns:**

    Networks of the same kind, a batch `(*batch, time)`; for a single time, without the axis `time`.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import linear_phase
    >>> task = linear_teacher(np.diag([2.0, 1.0]))
    >>> network = layer_from("linear", [[1e-3, 0.0]], [[0.0, 1e-3]])
    >>> grown = linear_phase(network, task, [0.0, 1.0, 2.0])
    >>> grown.batch_shape
    (3,)
    >>> grown.u[-1].round(4), grown.v[-1].round(4)  # aligned with the first mode
    (array([[0.0273, 0.0036]]), array([[0.0273, 0.0038]]))

    !!! note "When it stops being exact"

        Eq. (10) leaves out the term $W\Sigma_{zz}$. The solution holds while
        $\lVert W\Sigma_{zz}\rVert \ll s_1$, that is, up to the first drop of the loss.
    """
    u, v, correlation, _ = linear_layer(network, task)
    times = loss_factor(loss, task) * finite("times", times)
    if times.ndim > 1:
        raise ValueError(f"`times` must be one time or a list of times, got shape {times.shape}.")
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

    which is Eq. (37) of Zhang, Saxe & Latham (Theorem 4). $P$ (Eq. 11) projects on the $r$ top
    singular directions of $\Sigma_{yz}$, $r$ is the multiplicity of the largest singular value
    $s_1$, and $c_{ki}$ is the amplitude of mode $k$ in unit $i$ (Eq. 35a). At $T_i$ the components
    of unit $i$ outside the top directions are $O(\epsilon^{1 - s_{r+1}/s_1})$ for an initial scale
    $\epsilon$ (`residual_exponent`).

    **Arguments:**

    - `network`: the initial weights of a linear layer or of a `DeepLinear` of two layers; or a
      batch of them.
    - `task`: what is learned; only $\Sigma_{yz}$ enters.
    - `size`: the norm of the growing part that counts as $O(1)$.
    - `loss`: the convention of the loss, which sets the unit of time.
    - `degeneracy`: singular values closer than this fraction of $s_1$ count as equal.

    **Returns:**

    Times $T_i$ with shape `(*batch, unit)`. The time is zero for a unit that starts beyond `size`.
    The time is infinite for a unit without a component along the top directions, or if the
    correlation is zero.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import unit_growth_times
    >>> task = linear_teacher(np.diag([2.0, 1.0]))
    >>> network = layer_from("linear", [[1e-3, 0.0], [1e-4, 0.0]], [[1e-3, 0.0], [1e-4, 0.0]])
    >>> unit_growth_times(network, task)  # a unit ten times smaller needs ln(10)/2 longer
    array([3.281, 4.432])

    !!! note "When it stops being exact"

        The result is exact for the linear system (10). In the network all units saturate together,
        when $\sum_i c_{1i}^2 e^{2s_1t}$ is of order $s_1/\lambda_1$, with $\lambda_1$ the variance
        of the input along the first mode: see `mode_drop_times`.
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
    r"""Return the exponent $p$ with which weights outside the top directions scale at escape.

    Theorem 4 of Zhang, Saxe & Latham (Eq. 39): when the part of a unit along the top singular
    directions is $O(1)$, its part outside these directions is $O(\epsilon^p)$ for an initial scale
    $\epsilon$, with

    $$p = 1 - s_{r+1}/s_1$$

    and $r$ the multiplicity of $s_1$. With a larger exponent $p$ the weights at escape are closer
    to rank $r$, and training passes closer to the next saddle.

    **Arguments:**

    - `singular_values`: $s_k$ of $\Sigma_{yz}$, in any order, shape `(mode,)`.
    - `degeneracy`: values closer than this fraction of $s_1$ count as equal.

    **Returns:**

    $p$ between 0 and 1. If all singular values are equal (a case that the theorem leaves out),
    weights outside the top directions do not grow, and $p = 1$.

    **Example:**

    >>> from festina.theory.saddles import residual_exponent
    >>> residual_exponent([3.0, 1.0, 0.5])
    0.667
    >>> residual_exponent([3.0, 3.0, 1.5])
    0.5
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
    """Return c_ki of Eq. (35a), shape (..., unit, mode)."""
    return 0.5 * (v @ q + u @ r)
