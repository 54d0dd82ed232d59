r"""A whole network as independent chains: its map, its loss and what its layers represent.

For layers $W^l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top$ with $R_0 = V$, $R_D = U$, see `modes`, and
balanced strengths, $|b_{l\alpha}| = |a_\alpha|^{1/D}$.
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
    r"""Return the strength of every mode of a deep linear network, $a_\alpha(t) = u_\alpha^\top
    W(t)v_\alpha$.

    $$\tau\,\dot a_\alpha = D\,|a_\alpha|^{2-2/D}\,(s_\alpha - \lambda_\alpha a_\alpha),$$

    Saxe, McClelland & Ganguli (2014), solved by `chain_strength`. Loss
    $\frac12\langle\lVert y - Wx\rVert^2\rangle$, flow $\tau\,\dot W^l = -\partial L/\partial W^l$.

    **Arguments:**

    - `times`: when, in the units of `tau`.
    - `modes`: of the data, from `modes`.
    - `initial_strength`: $a_\alpha(0)$, one for all modes or one each.
    - `depth`: number of layers $D$, or `math.inf`.
    - `tau`: time constant of one layer; $\tau_\infty = \tau/D$ for infinite depth.

    **Returns:**

    $a_\alpha(t)$ with shape `(time, mode)`, `(mode,)` for a single time.

    !!! note "When it stops being exact"

        Exact if the layers are decoupled and balanced (`measured_layer_strengths` tells). Small
        random weights of two layers come near it with `effective_initial_strengths` for
        $a_\alpha(0)$.
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
    r"""Return the network's map over time, $W(t) = U\,\mathrm{diag}(a(t))\,V^\top$.

    **Arguments:**

    - `strengths`: $a_\alpha(t)$, of `mode_strengths`, shape `(time, mode)`, or at one time.
    - `modes`: of the data.
    """
    _check_strengths(strengths, modes)
    return _map(strengths, modes)


def mode_loss(strengths: Values, modes: Modes) -> Float[Array, "*time"]:
    r"""Return the loss above that of least squares over time.

    $$L(t) - L_\mathrm{min} = \tfrac12\sum_\alpha \lambda_\alpha\Bigl(a_\alpha(t) -
      \frac{s_\alpha}{\lambda_\alpha}\Bigr)^2,\qquad
      L_\mathrm{min} = \tfrac12\,\mathrm{tr}\,\Sigma^{yy} -
      \tfrac12\sum_\alpha\frac{s_\alpha^2}{\lambda_\alpha},$$

    for $L = \frac12\langle\lVert y - Wx\rVert^2\rangle$. $L_\mathrm{min}$ is zero where the targets
    are linear in the inputs.

    **Arguments:**

    - `strengths`: $a_\alpha(t)$, shape `(time, mode)`, or at one time.
    - `modes`: of the data.
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
    r"""Return how alike items are to one layer, $h_l = W^l\cdots W^1x$, over time.

    $$h_l^\top h_l = X^\top V\,\mathrm{diag}\bigl(|a_\alpha(t)|^{2l/D}\bigr)\,V^\top X.$$

    Hidden layers of a two-layer network: $V\,\mathrm{diag}(a)V^\top$ for one-hot items (Saxe,
    McClelland & Ganguli 2019); the last layer: $W^\top W$. It does not depend on the frames $R_l$.

    **Arguments:**

    - `strengths`: $a_\alpha(t)$ of a balanced network, shape `(time, mode)`, or at one time.
    - `modes`: of the data.
    - `layer`: $l$, from 1 to `depth`, the output.
    - `depth`: $D$.
    - `x`: $X^\top$, one row for each item; one-hot items by default.

    **Returns:**

    Inner products between items with shape `(time, item, item)`.
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
            raise ValueError(f"`x` must be (item, {size}), got shape {shape}.")
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
    # A power below one has no slope at zero.
    gain = jnp.where(a == 0, 0.0, jnp.abs(jnp.where(a == 0, 1.0, a)) ** power)
    v = modes.right if x is None else jnp.asarray(x) @ modes.right
    return jnp.einsum("im,...m,jm->...ij", v, gain, v)


def _check_modes(modes: Modes) -> None:
    if not isinstance(modes, Modes):
        raise ValueError(
            f"`modes` must be the `Modes` of the data, got {type(modes).__name__}. Of a "
            "correlation (output, input): modes(from_moments(correlation))."
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
