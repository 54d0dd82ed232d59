"""Predict with the lazy network of infinite width, which is a Gaussian process."""

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, finite_matrix, number
from ..._types import ArrayLike
from ...networks._code_activations import CodeActivation, erf_sigmoid, unit_slope_erf
from ...tasks import AbstractTask
from ...tasks._classes import examples_of
from ._given import temperature_of
from ._predictor import Predictor
from ._quadrature import gaussian_kernel
from ._tilt import Tilt, tilt


def lazy_kernel(
    x: ArrayLike, other: ArrayLike | None = None, *, activation: CodeActivation = "linear"
) -> Float[np.ndarray, "sample other"]:
    r"""Return the prior kernel $E[\phi(z)\phi(z')]$, for $z \sim N(0, K_0)$ and $K_0 = XX^\top/D$.

    `"linear"`, `"erf"`, `"erf-sigmoid"` and `"relu"` have closed forms. Any other bounded function
    is expanded in Hermite polynomials, $E[\phi\phi'] = \sum_n c_n c'_n\rho^n$, with ρ the
    correlation of z and z′ (Mehler's formula). A warning reports the error if it may exceed
    $10^{-6}$ of the kernel. The expansion converges slowly for discontinuous functions and nearly
    parallel inputs.

    **Arguments:**

    - `x`: inputs, `(sample, input)`.
    - `other`: inputs along the second axis of the kernel, `(sample, input)`; by default `x`.
    - `activation`: activation φ, one of these four names or a bounded function.

    **Returns:** the kernel, `(sample, other)`.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.coding import lazy_kernel
    >>> orthogonal = np.sqrt(2) * np.eye(2)
    >>> lazy_kernel(orthogonal, activation="relu").round(3)
    array([[0.5  , 0.159],
           [0.159, 0.5  ]])
    """
    x = finite_matrix("x", x, "sample", "input")
    if other is not None:
        other = finite_matrix("other", other, "sample", "input", x.shape[1])
    return _kernel(tilt(activation), x, x if other is None else other)


def _kernel(unit: Tilt, x: np.ndarray, other: np.ndarray) -> np.ndarray:
    r"""Return the kernel $E[\phi\phi']$ of all pairs of inputs."""
    own = lambda x: (x**2).mean(axis=1)
    return _average(unit, x @ other.T / x.shape[1], own(x)[:, None], own(other))


def _average(unit: Tilt, both: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    r"""Return the kernel $E[\phi\phi']$ from $E[zz']$ and the variances of z and z′.

    The three arrays broadcast against each other.
    """
    if unit.name == "linear":
        return both
    if unit.function in (unit_slope_erf, erf_sigmoid):
        scale = np.pi / 4  # the activation is erf(√(π/4) z)
        norm = np.sqrt((1 + 2 * scale * rows) * (1 + 2 * scale * columns))
        odd = 2 / np.pi * np.arcsin(np.clip(2 * scale * both / norm, -1, 1))
        return odd if unit.function is unit_slope_erf else (1 + odd) / 4
    size = np.sqrt(rows * columns)
    cosine = np.clip(both / np.where(size > 0, size, 1.0), -1, 1)
    if unit.name == "relu":
        angle = np.arccos(cosine)
        return size * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)
    return gaussian_kernel(unit.function, cosine, np.sqrt(rows), np.sqrt(columns))


def lazy_predictor(
    task: AbstractTask,
    x: ArrayLike,
    *,
    readout_variance: float,
    activation: CodeActivation = "linear",
    temperature: float = 0.0,
) -> Predictor:
    r"""Return mean and variance of the predictions of a lazy network of infinite width.

    The network is $f = N^{-1/2}\sum_i a_i\phi(z_i)$, and the likelihood is $e^{-|Y-f|^2/2T}$.
    As N → ∞ the network is a Gaussian process with the kernel $\sigma_a^2 K$, where K is the
    `lazy_kernel`:

    $$\langle f\rangle = k(K + T/\sigma_a^2)^{-1}Y,\qquad
      \mathrm{Var} f = \sigma_a^2[k_{**} - k(K + T/\sigma_a^2)^{-1}k^\top],$$

    with the same variance for every output. The argument `readout_variance` has no default, because
    $\sigma_a^2$ sets the variance of the predictions, which does not fall with N.

    **Arguments:**

    - `task`: the training examples; their number must be finite.
    - `x`: new inputs, `(sample, input)`.
    - `readout_variance`: prior variance $\sigma_a^2$ of readouts.
    - `activation`: activation φ, with the same choices as in `lazy_kernel`.
    - `temperature`: T ≥ 0.

    **Returns:** a `Predictor`.

    **Example:**

    >>> from festina.tasks import from_arrays
    >>> from festina.theory.coding import lazy_predictor
    >>> task = from_arrays([[2, 0, 0, 0], [0, 2, 0, 0]], [1, -1])
    >>> predicted = lazy_predictor(task, [[2, 1, 0, 0]], readout_variance=1.0, temperature=0.1)
    >>> predicted.mean.round(3), predicted.variance.round(3)
    (array([[0.455]]), array([[0.114]]))
    """
    inputs, y = examples_of(task)
    new = finite_matrix("x", x, "sample", "input", inputs.shape[1])
    temperature = temperature_of(temperature)
    check_positive("readout_variance", number("readout_variance", readout_variance))
    unit = tilt(activation)
    strengths, vectors = np.linalg.eigh(_kernel(unit, inputs, inputs))
    seen = strengths > 1e-11 * strengths[-1]
    strengths, vectors = strengths[seen], vectors[:, seen]
    along = vectors.T @ y
    if temperature == 0 and ((y - vectors @ along) ** 2).sum() > 1e-9 * (y**2).sum():
        raise ValueError(
            "At temperature 0 the network must fit every target exactly, but the kernel is "
            "singular and the targets cannot be fitted: do inputs occur twice, or has a linear "
            "network more examples than input dimensions? Give a positive `temperature`."
        )
    size = (new**2).mean(axis=1)
    cross = _kernel(unit, new, inputs) @ vectors
    ridge = strengths + temperature / readout_variance
    itself = _average(unit, size, size, size)
    left = readout_variance * np.maximum(itself - (cross**2 / ridge).sum(axis=1), 0.0)
    variance = np.repeat(left[:, None], y.shape[1], axis=1)
    mean = cross @ (along / ridge[:, None])
    return Predictor(mean, variance, f"lazy, σ_a² = {readout_variance:g}")
