"""Count the gradients of a look-ahead, and the steps of the run that take the same time."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ALWAYS = 300.0  # any look-ahead may take as long as this many steps of the run


class Exhausted(Exception):
    """Raised if the look-ahead has spent its budget."""


@dataclass
class Budget:
    """Count the gradients of a forecast, and convert their cost to training steps.

    - `most`: largest number of gradients.
    - `insist`: continue even if training itself would be cheaper.
    - `fixed`, `per_sample`: price of a gradient in steps of the run, an affine function of its
      number of samples.
    - `gradients`: number of gradients so far, in passes through all samples.
    - `steps`: price of these gradients.
    - `ahead`: length of the look-ahead so far, in steps of the run.
    - `begun`: price before the first sample of the look-ahead, which `dear` disregards.
    - `hopeless`: whether no look-ahead can be cheaper than training.
    """

    most: float = math.inf
    insist: bool = True
    fixed: float = 0.0
    per_sample: float = 0.0
    gradients: float = 0.0
    steps: float = 0.0
    ahead: float = 0.0
    begun: float = math.inf
    hopeless: bool = False

    def charge(self, samples: int, share: float) -> None:
        """Count a gradient on `samples`, the given share of all samples, or raise `Exhausted`."""
        if self.gradients >= self.most or self.dear:
            raise Exhausted
        self.gradients += float(share)
        self.steps += self.price(samples)

    def price(self, samples: int) -> float:
        """Return the duration of a gradient on so many samples, in steps of the run."""
        return self.fixed + self.per_sample * samples

    @property
    def dear(self) -> bool:
        """Whether training itself would have been cheaper so far."""
        return not self.insist and (
            self.hopeless or self.steps > max(self.begun + ALWAYS, self.ahead)
        )

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Count gradients without a limit, for computations with few gradients."""
        kept, self.most, self.insist = (self.most, self.insist), math.inf, True
        try:
            yield
        finally:
            self.most, self.insist = kept
