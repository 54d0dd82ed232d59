"""When a mode is half learned."""

import numpy as np
from jaxtyping import Float


def passage_times(
    times: Float[np.ndarray, " time"], share: Float[np.ndarray, "*lane time"]
) -> Float[np.ndarray, "*lane"]:
    """When curves that rise from near 0 to 1 first pass one half; NaN for those that do not.

    Between samples the logit of a logistic curve is a straight line.
    """
    share = np.clip(share, 1e-12, 1 - 1e-12)
    logit = np.log(share) - np.log1p(-share)
    above = logit >= 0
    after = np.argmax(above, axis=-1)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(logit, i[..., None], -1)[..., 0] for i in (before, after))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, -low / (high - low), 0.0)
    found = times[before] + part * (times[after] - times[before])
    return np.where(above.any(axis=-1), found, np.nan)
