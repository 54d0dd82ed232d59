r"""Map, loss and representations of a deep linear network whose modes are independent chains.

The layers are $W^l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top$ with $R_0 = V$ and $R_D = U$ (see
`modes`), and the layers are balanced, $|b_{l\alpha}| = |a_\alpha|^{1/D}$ at depth $D$.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._checks import real_array, whole_number
from ..._precision import compiled, is_traced
from ..._types import Array, ArrayLike
from .._modes import Modes
from ._chains import Depth, Values, chain_strength, check_depth


def mode_strengths(
    times: Values,
    modes: Modes,
    initial_strength: Values,
    *,
    depth: Depth = 2,
    tau: Values = 1.0,
) -> Float[Array, "*time mode"]:
    r"""Return the strength of every mode of a deep linear network over time.

    For balanced layers and decoupled modes, the strength $a_\alpha = u_\alpha^\top W v_\alpha$ of
    mode $\alpha$ in the map $W$ follows

    $$\tau\,\dot a_\alpha = D\,|a_\alpha|^{2-2/D}\,(s_\alpha - \lambda_\alpha a_\alpha),$$

    with the singular values $s_\alpha$ and input variances $\lambda_\alpha$ of the modes (Saxe,
    McClelland & Ganguli 2014). `chain_strength` states the solution. The loss is $L =
    \frac12\langle\lVert y - Wx\rVert^2\rangle$, and the gradient flow is $\tau\,\dot W^l =
    -\partial L/\partial W^l$.

    **Arguments:**

    - `times`: times in the units of `tau`.
    - `modes`: the modes of the data, from `modes`.
    - `initial_strength`: $a_\alpha(0)$, one for all modes or one each.
    - `depth`: number of layers $D$, or `math.inf`.
    - `tau`: time constant of one layer; $\tau_\infty = \tau/D$ for infinite depth.

    **Returns:**

    $a_\alpha(t)$ with shape `(time, mode)`, `(mode,)` for a single time.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> linear.mode_strengths([0.0, 1.0, 5.0], modes, 0.01).round(3)
    array([[0.01 , 0.01 ],
           [1.723, 0.069],
           [3.   , 0.996]])

    !!! note "When it stops being exact"

        The result is exact if the layers are decoupled and balanced, which
        `measured_layer_strengths` checks. For small random weights of two layers the result is a
        good approximation with `effective_initial_strengths` as $a_\alpha(0)$.
    """
    _check_modes(modes)
    if not is_traced(initial_strength) and np.shape(initial_strength) not in ((), (len(modes),)):
        raise ValueError(
            f"`initial_strength` must be one number, or one for each of the {len(modes)} modes, "
            f"got shape {np.shape(initial_strength)}."
        )
    return chain_strength(
        times,
        modes.singular_values,
        initial_strength,
        depth=depth,
        input_variance=modes.input_variance,
        tau=tau,
    )


def map_from_modes(strengths: Values, modes: Modes) -> Float[Array, "*time output input"]:
    r"""Return the map of a network from its mode strengths, $W = U\,\mathrm{diag}(a)\,V^\top$.

    **Arguments:**

    - `strengths`: $a_\alpha(t)$ from `mode_strengths`, shape `(time, mode)`, or at one time.
    - `modes`: the modes of the data, with singular vectors $U$ and $V$.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> linear.map_from_modes(linear.mode_strengths(1.0, modes, 0.01), modes).round(3)
    array([[1.723, 0.   ],
           [0.   , 0.069]])
    """
    _check_strengths(strengths, modes)
    return _map(strengths, modes)


def mode_loss(strengths: Values, modes: Modes) -> Float[Array, "*time"]:
    r"""Return the loss above the least-squares loss, from the strengths of all modes.

    $$L(t) - L_\mathrm{min} = \tfrac12\sum_\alpha \lambda_\alpha\Bigl(a_\alpha(t) -
      \frac{s_\alpha}{\lambda_\alpha}\Bigr)^2,\qquad
      L_\mathrm{min} = \tfrac12\,\mathrm{tr}\,\Sigma^{yy} -
      \tfrac12\sum_\alpha\frac{s_\alpha^2}{\lambda_\alpha},$$

    for $L = \frac12\langle\lVert y - Wx\rVert^2\rangle$. The least-squares loss $L_\mathrm{min}$ is
    zero if the targets are linear in the inputs.

    **Arguments:**

    - `strengths`: $a_\alpha(t)$, shape `(time, mode)`, or at one time.
    - `modes`: the modes of the data, with singular values $s_\alpha$ and input variances
      $\lambda_\alpha$.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> linear.mode_loss([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0]], modes)
    array([5. , 0.5, 0. ])
    """
    _check_strengths(strengths, modes)
    return _loss(strengths, modes)


def item_similarity(
    strengths: Values,
    modes: Modes,
    layer: int,
    *,
    depth: int = 2,
    x: ArrayLike | None = None,
) -> Float[Array, "*time item item"]:
    r"""Return the similarity of items in one layer, $h_l = W^l\cdots W^1x$, over time.

    $$h_l^\top h_l = X^\top V\,\mathrm{diag}\bigl(|a_\alpha(t)|^{2l/D}\bigr)\,V^\top X.$$

    The columns of $X$ are the items. In a two-layer network with one-hot items, the similarity in
    the hidden layer is $V\,\mathrm{diag}(a)V^\top$ (Saxe, McClelland & Ganguli 2019). The
    similarity in the last layer is $X^\top W^\top WX$ with $W = W^D\cdots W^1$. The result does not
    depend on the orthonormal frames of the hidden layers.

    **Arguments:**

    - `strengths`: $a_\alpha(t)$ of a balanced network, shape `(time, mode)`, or at one time.
    - `modes`: the modes of the data, with right singular vectors $V$.
    - `layer`: $l$, from 1 to `depth`; `depth` means the output.
    - `depth`: $D$, the number of layers.
    - `x`: $X^\top$, one row for each item; one-hot items by default.

    **Returns:**

    Inner products between items with shape `(time, item, item)`.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> linear.item_similarity([3.0, 0.5], modes, layer=1)
    array([[3. , 0. ],
           [0. , 0.5]])
    """
    _check_strengths(strengths, modes)
    layers, layer = check_depth(depth), whole_number("layer", layer)
    if not 1 <= layer <= layers or not np.isfinite(layers):
        raise ValueError(
            f"`layer` must lie between 1 and a finite `depth`, got {layer} and {depth}."
        )
    size = len(modes.right)
    if x is not None and not is_traced(x):
        shape = np.shape(x)
        if len(shape) != 2 or shape[1] != size:
            raise ValueError(f"`x` must have shape (item, {size}), got {shape}.")
    return _similarity(strengths, modes, 2.0 * layer / layers, x)


@compiled()
def _map(a: Values, modes: Modes) -> Array:
    return jnp.einsum("om,...m,im->...oi", modes.left, jnp.asarray(a), modes.right)


@compiled()
def _loss(a: Values, modes: Modes) -> Array:
    lam = modes.input_variance
    varies = lam > 0
    target = jnp.where(varies, modes.singular_values / jnp.where(varies, lam, 1.0), 0.0)
    return 0.5 * jnp.sum(lam * (jnp.asarray(a) - target) ** 2, axis=-1)


@compiled()
def _similarity(a: Values, modes: Modes, power: float | Array, x: ArrayLike | None) -> Array:
    a = jnp.asarray(a)
    # The derivative of a power below one diverges at zero.
    gain = jnp.where(a == 0, 0.0, jnp.abs(jnp.where(a == 0, 1.0, a)) ** power)
    v = modes.right if x is None else jnp.asarray(x) @ modes.right
    return jnp.einsum("im,...m,jm->...ij", v, gain, v)


def _check_modes(modes: Modes) -> None:
    if not isinstance(modes, Modes):
        raise ValueError(
            f"`modes` must be the `Modes` of the data, got {type(modes).__name__}. For a "
            "correlation (output, input), pass modes(from_moments(correlation))."
        )


def _check_strengths(strengths: Values, modes: Modes) -> None:
    _check_modes(modes)
    if not is_traced(strengths):
        real_array("strengths", strengths)
    shape = np.shape(strengths)
    if len(shape) not in (1, 2) or shape[-1] != len(modes):
        raise ValueError(
            f"`strengths` must be (time, mode) with {len(modes)} modes, got shape {shape}."
        )
