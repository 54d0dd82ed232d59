"""What Lemma 6 asserts, for every set of modes."""

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim

NAME = "saddles/lemma-6"
_LEMMA = "Zhang, Saxe & Latham, Lemma 6"


def claims(run: xr.DataTree) -> list[Claim]:
    """Sufficiency and the rates hold, necessity of the spans does not."""
    points, leaving = run["points"].to_dataset(), run["leaving"].to_dataset()
    return [*_sufficient(points), *_rates(points, leaving), *_necessary(points)]


def _sufficient(points: xr.Dataset) -> list[Claim]:
    count = points.sizes["point"]
    return [
        compare(
            experiment=NAME,
            claim=f"weights with Eq. (40) are a fixed point, for all {count} sets of modes "
            "(largest |∂L/∂θ|)",
            source=f"{_LEMMA}, Eq. (40)",
            predicted=0.0,
            measured=float(points["gradient"].max()),
            tolerance=1e-12,
        ),
        compare(
            experiment=NAME,
            claim="the loss at each is that at zero less the eigenvalues learned, "
            "½(⟨‖y‖²⟩ − Σ_{k∈A} μ_k)",
            source=_LEMMA,
            predicted=np.round(points["loss"].values, 12).tolist(),
            measured=np.round(points["measured_loss"].values, 12).tolist(),
            tolerance=1e-10,
        ),
        compare(
            experiment=NAME,
            claim="directions of negative curvature: (H − r)(D − r), and one for each mode learned "
            "in place of one that explains more",
            source=_LEMMA,
            predicted=points["index"].values.tolist(),
            measured=points["measured_index"].values.tolist(),
            note="ours: the paper gives no number; all but the last are saddles",
        ),
    ]


def growth_rates(leaving: xr.Dataset) -> np.ndarray:
    """Slopes of the logarithm of the distance, from twice the kick on, while all is linear."""
    rates = []
    for point in leaving["point"].values:
        distance = leaving["distance"].sel(point=point).values
        first = distance[0]
        close = np.cumprod((distance < 1e4 * first) | (np.arange(len(distance)) < 2)).astype(bool)
        rates.append(np.polyfit(leaving["time"].values[close], np.log(distance[close]), 1)[0])
    return np.array(rates)


def _rates(points: xr.Dataset, leaving: xr.Dataset) -> list[Claim]:
    saddles = points.isel(point=slice(None, -1))
    return [
        compare(
            experiment=NAME,
            claim="nothing leaves a saddle faster than the largest singular value of Σ̃_yz "
            "(Hessian's most negative eigenvalue, largest relative difference)",
            source="Zhang, Saxe & Latham, Eqs. (41) and (42)",
            predicted=0.0,
            measured=float(np.abs(saddles["measured_rate"] / saddles["rate"] - 1).max()),
            tolerance=1e-8,
        ),
        compare(
            experiment=NAME,
            claim="training leaves each saddle at that rate",
            source="Zhang, Saxe & Latham, Eqs. (41) and (42)",
            predicted=np.round(leaving["rate"].values, 6).tolist(),
            measured=np.round(growth_rates(leaving), 6).tolist(),
            tolerance=0.005,
            relative=True,
        ),
    ]


def _necessary(points: xr.Dataset) -> list[Claim]:
    if not np.isfinite(points["unread_gradient"].values).all():
        return []  # as many inputs as outputs: the kernels are filled by the spans
    gradient = float(points["unread_gradient"].max())
    return [
        compare(
            experiment=NAME,
            claim="Eq. (40) is necessary: at a fixed point no u_i or v_i has a part outside its "
            "span (smallest such part, over sets of modes)",
            source=_LEMMA,
            predicted=0.0,
            measured=float(points["unread_outside"].min()),
            tolerance=1e-10,
            expected="does not hold",
            note=f"at these weights |∂L/∂θ| is at most {gradient:.1e}: components in the kernel of "
            "Σ̃_yz that no other weight reads, or of Σ̃_yzᵀ that none drives, are free",
        ),
        compare(
            experiment=NAME,
            claim="fixed points have u_i in the kernel of Σ̃_yz, v_i in that of its transpose, and "
            "Σ v_i u_iᵀ = Π_A Σ_yz Σ_zz⁻¹ (largest |∂L/∂θ| of such weights)",
            source=_LEMMA,
            predicted=0.0,
            measured=gradient,
            tolerance=1e-12,
            correction="kernels in place of the spans of Eq. (40)",
            note="their loss differs by "
            f"{float(np.abs(points['unread_loss'] - points['loss']).max()):.1e}",
        ),
    ]
