"""Claims about when the loss drops, predicted from the initial weights alone, seed by seed."""

import numpy as np

from ...claims import Claim
from ._reading import Reading

DROPS = ("first", "second")


def drop_claims(reading: Reading) -> list[Claim]:
    """Every drop that theory speaks about; a panel's `drop_step` is NaN where it is silent."""
    if "drop_step" not in reading.theory:
        return []
    prediction = reading.theory["drop_step"]
    claims = []
    for drop in np.flatnonzero(np.isfinite(prediction.values).any(axis=0)):
        measured = reading.drops["step"].values[:, drop]
        predicted = prediction.values[:, drop]
        with np.errstate(divide="ignore"):  # large initial weights are past a drop from the start
            error = np.abs(measured / predicted - 1)
        error[np.isinf(predicted) & np.isnan(measured)] = 0.0  # it never comes, as it should be
        claims.append(
            reading.compare(
                f"{DROPS[drop]} drop predicted from the initial weights: "
                "largest relative error over seeds",
                0.0,
                float(np.max(error)),
                tolerance=float(prediction.attrs["tolerance"]),
                source=str(prediction.attrs["source"]),
                correction=str(prediction.attrs["correction"]),
                note=_in_the_mean(measured[np.isfinite(measured)]),
            )
        )
    return claims


def _in_the_mean(steps: np.ndarray) -> str:
    return f"steps {steps.mean():.4g} ± {steps.std():.2g} in the mean" if steps.size else "no drop"
