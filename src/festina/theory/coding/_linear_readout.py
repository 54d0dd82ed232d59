r"""The covariance U of readouts of a linear network, from a concave problem of few unknowns."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar

_STEPS = 200
_CLOSE = 1e-12


def readout_covariance(
    strengths: Float[np.ndarray, " mode"],
    targets: Float[np.ndarray, "mode output"],
    temperature: float,
    variance: float,
) -> Float[np.ndarray, "output output"]:
    r"""U from $T\,t + K_0 t U = Y$ and $1/\sigma_a^2 = U^{-1} + t^\top K_0 t$.

    With t gone these are the conditions for the maximum of a concave function,

    $$J(U) = \log\det U - \mathrm{tr}\,U/\sigma_a^2 - \sum_k y_k^\top(T + \lambda_k U)^{-1} y_k,$$

    λ_k being the eigenvalues of K₀ and y_k the targets along its eigenvectors. At T = 0 it is
    quadratic, $U^2/\sigma_a^2 = U + G$ with $G = Y^\top K_0^{-1} Y$, and otherwise Newton's method
    starts there.
    """
    gram = (targets / strengths[:, None]).T @ targets
    g, axes = np.linalg.eigh(gram)
    g = np.maximum(g, 0.0)
    u = (axes * (variance / 2 * (1 + np.sqrt(1 + 4 * g / variance)))) @ axes.T
    if temperature == 0:
        return u
    one = np.eye(len(u))

    def value(u: np.ndarray) -> float:
        try:
            root = np.linalg.cholesky(u)
        except np.linalg.LinAlgError:
            return -np.inf
        solved = np.linalg.solve(
            temperature * one + strengths[:, None, None] * u, targets[:, :, None]
        )
        kept = np.einsum("kr,kr->", targets, solved[:, :, 0])
        return float(2 * np.log(np.diag(root)).sum() - np.trace(u) / variance - kept)

    best, gain = value(u), np.inf
    for _ in range(_STEPS):
        inverse = np.linalg.inv(u)
        resolvent = np.linalg.inv(temperature * one + strengths[:, None, None] * u)
        v = np.einsum("krs,ks->kr", resolvent, targets)
        outer = v[:, :, None] * v[:, None, :]
        slope = inverse - one / variance + np.einsum("k,krs->rs", strengths, outer)
        mixed = np.einsum("k,kab,kcd->acbd", strengths**2, resolvent, outer)
        m = len(u)
        mixed += mixed.transpose(1, 0, 3, 2).copy()
        curved = np.kron(inverse, inverse) + mixed.reshape(m * m, -1)
        step = np.linalg.solve(curved, slope.ravel()).reshape(u.shape)
        step = (step + step.T) / 2
        gain = float((step * slope).sum())
        length = 1.0
        while (ahead := value(u + length * step)) < best + 0.1 * length * gain - 1e-13 * abs(best):
            length /= 2
            if length < 1e-12:
                break
        u, best = u + length * step, ahead
        if gain < _CLOSE**2 * m or np.abs(step).max() < _CLOSE * np.abs(u).max():
            return u
    raise RuntimeError(f"U was not found in {_STEPS} steps; the last gained {gain:.2g}.")


def two_layers(g: float, variance: float) -> tuple[float, float]:
    r"""(u, M) of one eigenvalue of G for two hidden layers at T = 0.

    $M(1 + gM) = 1/u$ and $u^2/\sigma_a^2 = u + g/(1 + gM)$.
    """
    inner = lambda u: (2 / u) / (1 + np.sqrt(1 + 4 * g / u))
    off = lambda u: u**2 / variance - u - g / (1 + g * inner(u))
    # Without targets u is σ_a²; with them more, and less than one layer would have.
    most = variance / 2 * (1 + np.sqrt(1 + 4 * g / variance))
    if g == 0:
        return variance, 1 / variance
    found = root_scalar(off, bracket=(variance, most * (1 + 1e-12)), xtol=1e-15 * most)
    return float(found.root), float(inner(found.root))
