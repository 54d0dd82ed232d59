"""Count the cost of a look-ahead: gradients, and steps of the run that take as long."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ALWAYS = 300.0  # steps of the run that a look-ahead may cost, however little it sees ahead


class Exhausted(Exception):
    """Raised if the look-ahead has spent what it was allowed."""


@dataclass
class Budget:
    """Count gradients, and their price in steps of the run.

    - `most`: gradients that may be spent.
    - `insist`: go on where training on would be cheaper.
    - `fixed`, `per_sample`: price of a gradient in steps of the run, affine in its samples.
    - `gradients`: spent so far, in passes through all samples.
    - `steps`: their price so far.
    - `ahead`: steps of the run that have been looked ahead for it.
    - `begun`: price at the first sample, before which the look-ahead cannot be called dear.
    - `hopeless`: whether no look-ahead can be cheaper than training on.
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
        """Pay for a gradient of so many samples, the given share of all, or raise `Exhausted`."""
        if self.gradients >= self.most or self.dear:
            raise Exhausted
        self.gradients += float(share)
        self.steps += self.price(samples)

    def price(self, samples: int) -> float:
        """Return the steps of the run that take as long as a gradient of so many samples."""
        return self.fixed + self.per_sample * samples

    @property
    def dear(self) -> bool:
        """Whether training on would have been cheaper so far."""
        return not self.insist and (
            self.hopeless or self.steps > max(self.begun + ALWAYS, self.ahead)
        )

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Count gradients without a limit, for questions that cost a known few."""
        kept, self.most, self.insist = (self.most, self.insist), math.inf, True
        try:
            yield
        finally:
            self.most, self.insist = kept
