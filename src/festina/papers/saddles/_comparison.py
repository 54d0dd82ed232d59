"""When numbers of another implementation speak of a run, and how far two means may be apart."""

import math

from .._parameters import Parameters


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
