"""Claims about drops, where some never come."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from festina.papers.saddles.panels._drop_claims import drop_claims
from festina.papers.saddles.panels._reading import Reading


@pytest.mark.parametrize(
    ("predicted", "measured", "verdict"),
    [
        ([100.0, np.inf], [100.5, np.nan], "holds"),  # the second never comes, and does not
        ([100.0, np.inf], [100.5, 300.0], "does not hold"),
        ([100.0, 200.0], [100.5, np.nan], "does not hold"),
        ([100.0, 200.0], [np.nan, np.nan], "does not hold"),
        ([100.0, 200.0], [100.5, 220.0], "does not hold"),
    ],
)
def test_a_drop_that_never_comes(predicted, measured, verdict):
    attributes = {"tolerance": 0.01, "source": "somebody", "correction": ""}
    theory = {"drop_step": (("seed", "drop"), np.array(predicted)[:, None], attributes)}
    reading = object.__new__(Reading)
    reading.panel = SimpleNamespace(name="toy", number="1X")
    reading.theory = xr.Dataset(theory)
    reading.drops = xr.Dataset({"step": (("seed", "drop"), np.array(measured)[:, None])})
    (claim,) = drop_claims(reading)
    assert claim.verdict == verdict
