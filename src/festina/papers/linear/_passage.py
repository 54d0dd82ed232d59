"""When a mode is half learned."""

import numpy as np
from jaxtyping import Float

from ...diagnose import passage_time


def half_times(
    times: Float[np.ndarray, " time"], share: Float[np.ndarray, "*lane time"]
) -> Float[np.ndarray, "*lane"]:
    """When curves that rise from near 0 to 1 first pass one half; NaN for those that do not.

    The logit of a logistic curve is a straight line, also between samples.
    """
    share = np.clip(share, 1e-12, 1 - 1e-12)
    falling = np.log1p(-share) - np.log(share)
    return passage_time(times, falling, 0.0)
