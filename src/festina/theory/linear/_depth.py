r"""Training time against depth: small weights, greedy pretraining, orthogonal layers.

All with the learning rate that a deep network needs to stay stable, $1/D$, that is $\tau = D$ per
layer, and layers of one singular value $b_0$ along the mode: $a_0 = b_0^D$.
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
    r"""Return the time to learn a mode at each of some depths, at a learning rate of $1/D$.

    The balanced chain of `learning_time` from $a_0 = b_0^D$ with $\tau = D$. Two starts matter:

    - *small weights*, $b_0 < 1$: exponential in depth,
      $$T \to \frac{D}{D-2}\,\frac{1}{s\,b_0^{D-2}}.$$
      The slides give $O(1/s b_0^D)$, which is the formula of infinite depth with $a_0 = b_0^D$ put
      into it: the same rate, a prefactor too large by about $b_0^{-2}$.
    - *orthogonal layers*, $b_0 = 1$: bounded, with a limit as $D \to\infty$. It does not depend on
      depth because of the learning rate; at a fixed one the time falls as $1/D$. And it takes
      layers whose singular directions follow those of the data.

    **Arguments:**

    - `depths`: $D$, a list of them; `math.inf` is allowed and is infinite unless $b_0 = 1$.
    - `layer_strength`: $b_0$, initial singular value of each layer.
    - `correlation`, `input_variance`: $s$ and $\lambda_x$ of the mode.
    - `fraction`: how much of the target $s/\lambda_x$ is to be learned: within `1 - fraction` of
      it from whichever side the mode starts.

    **Returns:**

    $T$, one for each depth; zero where the mode is learned from the start, infinity where the
    time or $1/b_0^D$ is beyond a double.
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
    r"""Return the time at each depth if layers are first pretrained one by one as autoencoders.

    $D$ autoencoders, each a chain of `module_depth` layers that learns $s = \lambda_x = 1$ from
    $b_0$ with $\tau = 1$; one layer of each is kept. Their stack starts from
    $a_0 = f^{D/m}$ with $f$ the `module_fraction` and $m$ the `module_depth`, nearly orthogonal,
    and is tuned as in `learning_time_by_depth`. Modules that start above their target end at
    $2 - f$, and those that start between the two stay as they are:

    $$T = D\,T_m(b_0) + T_D\left(f^{1/m}\right),\qquad
      T_2 \approx \ln\frac{1}{b_0},\quad T_4 \approx \frac{1}{2b_0^2}.$$

    Linear in depth. The slides' $O(D/b_0^2)$ is what modules of four layers take; two layers, as
    an autoencoder has, take $O(D\ln(1/b_0))$.

    **Arguments:**

    - `depths`: $D$, a list of them.
    - `layer_strength`: $b_0$, initial singular value of each layer of a module.
    - `module_depth`: $m$, layers of an autoencoder.
    - `module_fraction`: $f$, how far each is trained.
    - `correlation`, `input_variance`, `fraction`: as in `learning_time_by_depth`, for the tuning.

    **Returns:**

    $T$, one for each depth.
    """
    layer_strength = number("layer_strength", layer_strength)
    check_positive("layer_strength", layer_strength)
    module_fraction = number("module_fraction", module_fraction)
    layers = check_depth(module_depth)
    start = _product(layer_strength, layers)
    # Its own clock is that of one layer.
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
    r"""Return the learning time of a chain as its weights become small, to leading order.

    $$\frac{\tau}{s}\ln\frac{1}{b_0}\quad(D = 2),\qquad
      \frac{\tau}{s\,(D-2)\,b_0^{D-2}}\quad(2 < D < \infty),\qquad
      \frac{\tau_\infty}{s\,a_0}\quad(D = \infty).$$

    Whatever fraction is to be learned: that changes the next order, a constant. One layer has no
    such law.

    **Arguments:**

    - `layer_strength`: $b_0$, with $a_0 = b_0^D$, below one.
    - `depth`: $D$, two or more, or `math.inf`.
    - `initial_strength`: $a_0$ instead of $b_0$, also below one; infinite depth has only this.
    - `correlation`: $s$.
    - `tau`: time constant of a layer; `depth_scaled_time_constant(depth)` for a learning rate of
      $1/D$. For infinite depth $\tau_\infty$.
    """
    depth = check_depth(depth)
    if depth < 2:
        raise ValueError(f"`depth` must be two or more for this law, got {depth:g}.")
    if (layer_strength is None) == (initial_strength is None):
        raise ValueError("Give either `layer_strength` or `initial_strength`, their product.")
    if math.isinf(depth) and initial_strength is None:
        raise ValueError(
            "`layer_strength` to the power of infinity is no number: give `initial_strength`, the "
            "product of all layers."
        )
    name = "layer_strength" if initial_strength is None else "initial_strength"
    given = layer_strength if initial_strength is None else initial_strength
    for each, value in ((name, given), ("correlation", correlation), ("tau", tau)):
        check_positive(each, value)
    check_modes(**{name: given}, correlation=correlation, tau=tau)
    b0, s, tau = (np.asarray(value, dtype=float) for value in (given, correlation, tau))
    if (b0 >= 1).any():
        raise ValueError(
            f"`{name}` must be below one, got {b0.max():g}: this is the law of small weights. The "
            "time itself, for weights of any size, is `learning_time`."
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
            f"`layer_strength` {layer_strength:g} to the power of the depth {depth:g} is too large "
            "a number. Use weights of size one or below, or fewer layers."
        )
    return product if product >= SMALLEST else 0.0
