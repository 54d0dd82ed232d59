"""Measure when a mode is half learned."""

import numpy as np
from jaxtyping import Float

from ...diagnose import passage_time


def half_times(
    times: Float[np.ndarray, " time"], share: Float[np.ndarray, "*lane time"]
) -> Float[np.ndarray, "*lane"]:
    """Return when curves that rise from near 0 to 1 first cross one half; NaN if they never do.

    Samples are interpolated linearly in the logit, which is exact for logistic curves.
    """
    share = np.clip(share, 1e-12, 1 - 1e-12)
    falling = np.log1p(-share) - np.log(share)
    return passage_time(times, falling, 0.0)
