"""The second row of Table 1 by the recipe of the text, and by others that might have been meant.

Of 784 pixels some are blank in every image and others almost: Σ_xx has no inverse, and something
has to be put in its place.
"""

import numpy as np
from jaxtyping import Float

CUT_OFFS = (1e-6, 1e-8, 1e-10, 1e-12, 1e-14)
"""Eigenvalues of Σ_xx that a pseudo-inverse leaves out, as fractions of the largest."""

RIDGES = (1e-5, 1e-7, 1e-9)
"""What is added to all of them instead."""

_RIDGE = 1e-7  # where pixels are counted from another origin

RECIPE = "cut-off 1e-10"

_MEAN, _DEVIATION = 0.1307, 0.3081  # of all pixels of MNIST, by which many divide


def second_rows(
    sigma_yx: Float[np.ndarray, "output input"],
    sigma_xx: Float[np.ndarray, "input input"],
    mean_x: Float[np.ndarray, " input"],
    mean_y: Float[np.ndarray, " output"],
) -> dict[str, float]:
    """First singular value of (I − e₁e₁ᵀ) Σ_yx, with e₁ the first eigenvector of
    Σ_yx Σ_xx⁻¹ Σ_xy (Zhang, Saxe & Latham, Appendix B.1 and Lemma 6), for each way to invert, to
    centre or to scale; `RECIPE` is the text's, on raw pixels.
    """

    def counted_from(origin: Float[np.ndarray, " input"]) -> float:
        """With pixels counted from another origin: moments follow from the raw ones."""
        shifted_yx = sigma_yx - np.outer(mean_y, origin)
        cross = np.outer(mean_x, origin)
        shifted_xx = sigma_xx - cross - cross.T + np.outer(origin, origin)
        inverse_times = np.linalg.solve(shifted_xx + _RIDGE * np.eye(len(cross)), shifted_yx.T)
        return _left_over(shifted_yx, shifted_yx @ inverse_times)

    s, axes = np.linalg.eigh(sigma_xx)
    seen = sigma_yx @ axes
    fits = {
        f"cut-off {cut_off:g}": (seen / np.where(s > cut_off * s[-1], s, np.inf)) @ seen.T
        for cut_off in CUT_OFFS
    } | {f"ridge {ridge:g}": (seen / (s + ridge)) @ seen.T for ridge in RIDGES}
    found = {name: _left_over(sigma_yx, fit) for name, fit in fits.items()}
    found["other eigenvector"] = _left_over(sigma_yx, fits[RECIPE], which=0)
    found["centred"] = counted_from(mean_x)
    found["standardised"] = counted_from(np.full_like(mean_x, _MEAN)) / _DEVIATION
    return found


def _left_over(
    sigma_yx: Float[np.ndarray, "output input"],
    fit: Float[np.ndarray, "output output"],
    which: int = -1,
) -> float:
    """First singular value of Σ_yx without the direction of an eigenvector of the fit."""
    _, axes = np.linalg.eigh(fit)
    e = axes[:, which]
    return float(np.linalg.norm(sigma_yx - np.outer(e, e @ sigma_yx), 2))
