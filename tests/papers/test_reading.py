"""How a share of seeds is judged."""

import pytest
from scipy import stats

from festina.papers.saddles.panels._reading import _at_most


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
@pytest.mark.parametrize(("seen", "total"), [(0, 8), (7, 8), (8, 8), (1780, 2000), (1900, 2000)])
def test_probability_of_so_few_seeds(seen, total, share):
    expected = stats.binom.cdf(seen, total, share)
    assert _at_most(seen, total, share) == pytest.approx(expected, rel=1e-9, abs=1e-12)
