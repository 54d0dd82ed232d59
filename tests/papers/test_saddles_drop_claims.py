"""Test claims on drops if some drops never come."""

import numpy as np
import pytest
import xarray as xr

from festina.experiments.claims import ClaimCollector
from festina.papers.saddles.panels import Reading, falls


@pytest.mark.parametrize(
    ("predicted", "measured", "verdict"),
    [
        # The second drop is predicted never to come, and does not come
        ([100.0, np.inf], [100.5, np.nan], "holds"),
        ([100.0, np.inf], [100.5, 300.0], "does not hold"),
        ([100.0, 200.0], [100.5, np.nan], "does not hold"),
        ([100.0, 200.0], [np.nan, np.nan], "does not hold"),
        ([100.0, 200.0], [100.5, 220.0], "does not hold"),
    ],
)
def test_a_drop_that_never_comes(predicted, measured, verdict):
    reading, say = object.__new__(Reading), ClaimCollector("toy", "somebody", "Figure 1X")
    reading.theory = xr.Dataset({"drop_step": (("seed", "fall"), np.array(predicted)[:, None])})
    reading.drops = xr.Dataset({"step": (("seed", "fall"), np.array(measured)[:, None])})
    falls(reading, say, within=0.01, at="Theorem 4")
    (claim,) = say
    assert claim.verdict == verdict
