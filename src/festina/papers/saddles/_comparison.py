"""When numbers of another implementation speak of a run, and how far two means may be apart."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._parameters import Parameters
from ..claims import Claim, Judgement

# Some twenty numbers of Figures 4 to 6 are compared in this way: the furthest off of so many normal
# variables is further off than this once in a hundred times.
_SIGMAS = 3.5

# Variance of the middle between the smallest and the largest of n normal variables, in units of
# theirs. Of two it is their mean.
_MIDDLE = {2: 0.5, 3: 0.3622, 4: 0.2982}


class Reported(NamedTuple):
    """What an independent implementation tells of a quantity that scatters from seed to seed.

    - `values`: the mean over its seeds, which for a small spread is that of logarithms, or the
      smallest and the largest of them.
    - `seeds`: how many these are.
    - `spread`: standard deviation of the logarithm from seed to seed, over seeds of this library
      that no run is started from by default, because those of the reference are too few.
    """

    values: tuple[float, ...]
    seeds: int
    spread: float

    def claim(
        self,
        compare: Callable[..., Claim],
        words: str,
        ours: np.ndarray,
        *,
        common: float = 0.0,
        note: str = "",
        **options: Any,
    ) -> Claim:
        """That geometric means here and there differ by no larger factor than chance gives them.

        `common` is a second spread, of what the seeds of either have in common, as a data set.
        """
        there, here = (float(np.mean(np.log(values))) for values in (self.values, ours))
        theirs = 1 / self.seeds if len(self.values) == 1 else _MIDDLE[self.seeds]
        variance = self.spread**2 * (1 / len(ours) + theirs) + 2 * common**2
        allowed = two_digits(_SIGMAS * math.sqrt(variance))
        ranges = f"{_range(ours)} over {len(ours)} seeds; reported {_range(self.values)}"
        judged = compare(
            f"geometric mean {words}",
            0.0,
            here - there,
            tolerance=allowed,
            note="; ".join(filter(None, (ranges, note))),
            **options,
        )
        return dataclasses.replace(
            judged,
            judged=Judgement(
                float(f"{math.exp(there):.6g}"),
                math.exp(here),
                f"factor {math.exp(allowed):.3g}",
                judged.judged.holds,
            ),
        )


def _range(values: Sequence[float] | np.ndarray) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g} to {high:.4g}" if low < high else f"{low:.4g}"


def same_but_for(parameters: Parameters, usual: Parameters, varied: set[str]) -> bool:
    """Whether all parameters but the varied ones are the usual ones."""
    return parameters.model_dump(exclude=varied) == usual.model_dump(exclude=varied)


def standard_error(spread: float, n: int, m: int) -> float:
    """Of the difference of two means, over n and over m seeds that scatter by `spread`."""
    return spread * math.sqrt(1 / n + 1 / m)


def two_digits(tolerance: float) -> float:
    """Rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(tolerance)) - 1)
    return float(f"{math.ceil(tolerance / unit) * unit:.2g}")
