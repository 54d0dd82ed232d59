r"""Learning time as a function of depth: small weights, greedy pretraining, orthogonal layers.

Deep networks of $D$ layers need a learning rate proportional to $1/D$ to stay stable, that is
$\tau = D$ for each layer. Every layer has the same initial singular value $b_0$ along the mode, and
the strength of the mode starts at $a_0 = b_0^D$.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..._checks import LARGEST, check_modes, check_positive, number, real_array
from ..._types import Array
from ._chains import SMALLEST, Depth, Values, check_depth, depth_scaled_time_constant
from ._learning_time import learning_time


def learning_time_by_depth(
    depths: Depth | Sequence[Depth] | Array,
    layer_strength: float,
    *,
    correlation: float = 1.0,
    input_variance: float = 1.0,
    fraction: float = 0.9,
) -> Float[np.ndarray, " depth"]:
    r"""Return the learning time of a mode for several depths $D$, at a learning rate of $1/D$.

    The time is the `learning_time` of a balanced chain with $a_0 = b_0^D$ and $\tau = D$. Two
    initialisations are of interest:

    - *Small weights*, $b_0 < 1$: the time grows exponentially with depth,
      $$T \to \frac{D}{D-2}\,\frac{1}{s\,b_0^{D-2}}.$$
      The slides give $O(1/s b_0^D)$, the formula of infinite depth with $a_0 = b_0^D$. The formula
      of infinite depth grows at the same rate, but its prefactor is too large by about $b_0^{-2}$.
    - *Orthogonal layers*, $b_0 = 1$: the time is bounded and has a limit as $D \to\infty$. This
      limit results from the learning rate $1/D$; at a fixed learning rate the time falls as
      $1/D$. The singular directions of the layers must agree with those of the data.

    **Arguments:**

    - `depths`: one depth $D$ or a list of depths. The time at `math.inf` is infinite unless
      $b_0 = 1$.
    - `layer_strength`: $b_0$, initial singular value of each layer.
    - `correlation`, `input_variance`: $s$ and $\lambda_x$ of the mode.
    - `fraction`: the mode counts as learned if its strength deviates from the target $s/\lambda_x$
      by less than `1 - fraction` of the target, from above or below.

    **Returns:**

    Learning time $T$, one for each depth. $T$ is zero if the mode is learned from the start, and
    infinite if the time or $1/b_0^D$ overflows a double.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.learning_time_by_depth([2, 3, 4], 0.1).round(1)
    array([  6.8,  29.9, 201.5])
    """
    layer_strength = number("layer_strength", layer_strength)
    check_positive("layer_strength", layer_strength)
    depths = [check_depth(depth) for depth in np.atleast_1d(real_array("depths", depths))]
    starts = [_product(layer_strength, depth) for depth in depths]
    return _times(depths, starts, correlation, input_variance, fraction)


def pretrained_learning_time_by_depth(
    depths: Depth | Sequence[Depth] | Array,
    layer_strength: float,
    *,
    module_depth: int = 2,
    module_fraction: float = 0.99,
    correlation: float = 1.0,
    input_variance: float = 1.0,
    fraction: float = 0.9,
) -> Float[np.ndarray, " depth"]:
    r"""Return the learning time for several depths with greedy pretraining as autoencoders.

    Pretraining trains $D$ autoencoders, one after the other. Each autoencoder is a chain of $m$
    layers that learns $s = \lambda_x = 1$ from $b_0$ with $\tau = 1$, up to a fraction $f$ of its
    target. One layer of each autoencoder becomes a layer of the network. The network starts nearly
    orthogonal, from $a_0 = f^{D/m}$, and then learns as in `learning_time_by_depth`:

    $$T = D\,T_m(b_0) + T_D\left(f^{1/m}\right),\qquad
      T_2 \approx \ln\frac{1}{b_0},\quad T_4 \approx \frac{1}{2b_0^2},$$

    where $T_m(b_0)$ is the time of an autoencoder and $T_D(b)$ the time of the network with layers
    of strength $b$. An autoencoder that starts above its target ends at $2 - f$. An autoencoder
    that starts between $f$ and $2 - f$ does not change.

    The total time is linear in depth: $O(D\ln(1/b_0))$ for autoencoders of two layers. The
    $O(D/b_0^2)$ of the slides holds for autoencoders of four layers.

    **Arguments:**

    - `depths`: one depth $D$ or a list of depths.
    - `layer_strength`: $b_0$, initial singular value of each layer of an autoencoder.
    - `module_depth`: $m$, number of layers of an autoencoder.
    - `module_fraction`: $f$, the fraction of its target up to which each autoencoder is trained.
    - `correlation`, `input_variance`, `fraction`: as in `learning_time_by_depth`, for the network.

    **Returns:**

    Learning time $T$, one for each depth.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.pretrained_learning_time_by_depth([2, 4, 8], 0.1).round(1)
    array([ 9.2, 18.4, 36.8])
    """
    layer_strength = number("layer_strength", layer_strength)
    check_positive("layer_strength", layer_strength)
    module_fraction = number("module_fraction", module_fraction)
    layers = check_depth(module_depth)
    start = _product(layer_strength, layers)
    # `_times` scales τ with depth; the autoencoder has τ = 1.
    module = _times([layers], [start], 1.0, 1.0, module_fraction)
    module = module / depth_scaled_time_constant(layers)
    depths = [check_depth(depth) for depth in np.atleast_1d(real_array("depths", depths))]
    end = float(np.clip(start, module_fraction, 2.0 - module_fraction))
    kept = end ** (1.0 / layers)
    starts = [_product(kept, depth) for depth in depths]
    tuning = _times(depths, starts, correlation, input_variance, fraction)
    return np.array(depths) * module + tuning


def small_weight_law(
    layer_strength: Values | None = None,
    *,
    depth: Depth,
    initial_strength: Values | None = None,
    correlation: Values = 1.0,
    tau: Values = 1.0,
) -> Float[np.ndarray, "..."]:
    r"""Return the learning time of a balanced chain with small weights, to leading order.

    The time is

    $$\frac{\tau}{s}\ln\frac{1}{b_0}\quad(D = 2),\qquad
      \frac{\tau}{s\,(D-2)\,b_0^{D-2}}\quad(2 < D < \infty),\qquad
      \frac{\tau_\infty}{s\,a_0}\quad(D = \infty).$$

    where the $D$ layers start from the weight $b_0$, their product starts from $a_0$, and $s$ is
    the correlation. To leading order the time does not depend on the fraction that is to be
    learned. The law does not exist for a single layer.

    **Arguments:**

    - `layer_strength`: $b_0$, initial weight of each layer, below one; $a_0 = b_0^D$.
    - `depth`: $D$, two or more, or `math.inf`.
    - `initial_strength`: $a_0$ instead of $b_0$, also below one; required for infinite depth.
    - `correlation`: $s$.
    - `tau`: time constant of a layer; `depth_scaled_time_constant(depth)` for a learning rate of
      $1/D$. For infinite depth $\tau_\infty$.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.small_weight_law(0.1, depth=4)
    array(50.)
    >>> linear.learning_time(1.0, 0.1**4, depth=4)  # exact
    array(50.4)
    """
    depth = check_depth(depth)
    if depth < 2:
        raise ValueError(f"`depth` must be two or more for the small-weight law, got {depth:g}.")
    if (layer_strength is None) == (initial_strength is None):
        raise ValueError(
            "Give either `layer_strength`, the weight of each layer, or `initial_strength`, the "
            "product of all layers."
        )
    if math.isinf(depth) and initial_strength is None:
        raise ValueError(
            "`layer_strength` does not define a start at infinite depth: give `initial_strength`, "
            "the product of all layers."
        )
    name = "layer_strength" if initial_strength is None else "initial_strength"
    given = layer_strength if initial_strength is None else initial_strength
    for each, value in ((name, given), ("correlation", correlation), ("tau", tau)):
        check_positive(each, value)
    check_modes(**{name: given}, correlation=correlation, tau=tau)
    b0, s, tau = (np.asarray(value, dtype=float) for value in (given, correlation, tau))
    if (b0 >= 1).any():
        raise ValueError(
            f"`{name}` must be below one, got {b0.max():g}: this law is for small weights. For "
            "weights of any size use `learning_time`."
        )
    if math.isinf(depth):
        return np.asarray(tau / (s * b0))
    b0 = b0 if initial_strength is None else b0 ** (1.0 / depth)
    if depth == 2:
        return np.asarray(tau / s * np.log(1.0 / b0))
    return np.asarray(tau / (s * (depth - 2.0)) * b0 ** (2.0 - depth))


def _times(
    depths: list[float], starts: list[float], s: float, lam: float, fraction: float
) -> Float[np.ndarray, " depth"]:
    s, lam = number("correlation", s), number("input_variance", lam)
    fraction = number("fraction", fraction)
    check_positive("correlation", s)
    check_positive("input_variance", lam)
    if not 0 < fraction < 1:
        raise ValueError(f"`fraction` must be between 0 and 1, got {fraction:g}.")
    target = s / lam
    return np.array(
        [
            learning_time(
                s,
                a0,
                depth=depth,
                strength=(fraction if a0 <= target else 2.0 - fraction) * target,
                input_variance=lam,
                tau=depth_scaled_time_constant(depth),
                never="infinite",
            )
            for depth, a0 in zip(depths, starts, strict=True)
        ],
        dtype=float,
    )


def _product(layer_strength: float, depth: float) -> float:
    with np.errstate(over="ignore"):
        product = float(np.float64(layer_strength) ** depth)
    if product > LARGEST:
        raise ValueError(
            f"`layer_strength` {layer_strength:g} to the power of the depth {depth:g} overflows. "
            "Use a `layer_strength` of at most one, or fewer layers."
        )
    return product if product >= SMALLEST else 0.0
