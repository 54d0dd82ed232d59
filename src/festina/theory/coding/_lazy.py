"""The lazy network of infinite width, which is a Gaussian process: what codes are held against."""

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
    r"""Return $E[\phi(z)\phi(z')]$ for $z \sim N(0, K_0)$, $K_0 = XX^\top/D$, the prior's kernel.

    Closed forms for `"linear"`, `"erf"`, `"erf-sigmoid"` and `"relu"`. Any other bounded function
    is expanded in Hermite polynomials, $E[\phi\phi'] = \sum_n c_n c'_n\rho^n$ with ρ the
    correlation of z and z′ (Mehler's formula). The coefficients come from quadrature on panels that
    are halved around kinks and jumps. A warning gives the error where the sum converges too slowly,
    which happens for discontinuous functions of inputs that are nearly parallel.

    **Arguments:**

    - `x`, `other`: inputs, `(sample, input)`; `other` is `x` where it is not given.
    """
    x = finite_matrix("x", x, "sample", "input")
    if other is not None:
        other = finite_matrix("other", other, "sample", "input", x.shape[1])
    return _kernel(tilt(activation), x, x if other is None else other)


def _kernel(unit: Tilt, x: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return E[φφ′] of all pairs of inputs."""
    own = lambda x: (x**2).mean(axis=1)
    return _average(unit, x @ other.T / x.shape[1], own(x)[:, None], own(other))


def _average(unit: Tilt, both: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return E[φφ′] from E[zz′] and the variances of z and of z′, which broadcast."""
    if unit.name == "linear":
        return both
    if unit.function in (unit_slope_erf, erf_sigmoid):
        scale = np.pi / 4  # of erf(√(π/4) z)
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
    r"""Return mean and variance of $f = N^{-1/2}\sum_i a_i\phi(z_i)$ with likelihood
    $e^{-|Y-f|^2/2T}$.

    As N → ∞ this is a Gaussian process with the kernel $\sigma_a^2 K$ of `lazy_kernel`:
    $\langle f\rangle = k(K + T/\sigma_a^2)^{-1}Y$ and, for every output alike, $\mathrm{Var} f =
    \sigma_a^2[k_{**} - k(K + T/\sigma_a^2)^{-1}k^\top]$. The variance is as large as the σ_a that
    one chooses, and does not fall with N: hence `readout_variance` has no default.

    **Arguments:**

    - `task`: finite, the examples. `x`: new inputs.
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
            "At T = 0 every target has to be met, but the kernel is singular along some of them: "
            "do inputs occur twice, or are there more of them than a linear network can tell "
            "apart? Give a `temperature`."
        )
    size = (new**2).mean(axis=1)
    cross = _kernel(unit, new, inputs) @ vectors
    ridge = strengths + temperature / readout_variance
    itself = _average(unit, size, size, size)
    left = readout_variance * np.maximum(itself - (cross**2 / ridge).sum(axis=1), 0.0)
    variance = np.repeat(left[:, None], y.shape[1], axis=1)
    mean = cross @ (along / ridge[:, None])
    return Predictor(mean, variance, f"lazy, σ_a² = {readout_variance:g}")
