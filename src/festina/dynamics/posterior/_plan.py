"""How long chains are cooled, left to settle and sampled."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..._checks import real_number, whole_number

Method = Literal["hmc", "langevin"]

_HOT = 1.0
_NOTES = 40  # of what happens before sampling


@dataclass(frozen=True)
class Plan:
    """Moves, in this order: `anneal` from T = 1 down, `burn` at T, then `moves` of which every
    `thin`-th is kept."""

    temperature: float
    anneal: int
    burn: int
    moves: int
    thin: int
    leapfrog: int
    method: Method
    step: float
    jitter: float
    friction: float
    acceptance: float

    def __post_init__(self) -> None:
        if self.method not in ("hmc", "langevin"):
            raise ValueError(f'`method` must be "hmc" or "langevin", got {self.method!r}.')
        for name, least in (("anneal", 0), ("burn", 0), ("moves", 1), ("thin", 1), ("leapfrog", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least=least))
        if self.moves % self.thin:
            raise ValueError(
                f"`moves` must be a multiple of `thin`, so that every move is of some use: got "
                f"{self.moves} and {self.thin}. Take {max(self.moves // self.thin, 1) * self.thin}."
            )
        for name in ("temperature", "step", "friction", "jitter", "acceptance"):
            object.__setattr__(self, name, real_number(name, getattr(self, name)))
        if not 0 < self.temperature < np.inf:
            raise ValueError(
                "`temperature` must be positive and finite to sample at, got "
                f"{self.temperature:g}: as T → 0 the posterior is a surface without width, on "
                "which no step is small enough. Sample at a small T (0.01, say) and compare with "
                "T/2; `theory.coding` knows the limit."
            )
        highest = {"step": np.inf, "friction": np.inf, "jitter": 1.0, "acceptance": 1.0}
        for name, high in highest.items():
            found = getattr(self, name)
            if not (0 < found < high or (name == "jitter" and found == 0)):
                raise ValueError(f"`{name}` must lie between 0 and {high:g}, got {found:g}.")

    @property
    def hottest(self) -> float:
        return max(_HOT, self.temperature)

    @property
    def warm(self) -> int:
        """Moves before the first that counts."""
        return self.anneal + self.burn

    @property
    def end(self) -> int:
        return self.warm + self.moves

    def stops(self, done: int) -> list[int]:
        """Moves after which something is written down, beyond those done."""
        every = max(1, -(-self.warm // _NOTES))
        early = [*range(every, self.warm, every), *([self.warm] if self.warm else [])]
        late = range(self.warm + self.thin, self.end + 1, self.thin)
        return [stop for stop in (*early, *late) if stop > done]

    def temperature_at(self, move: int) -> float:
        share = min((move + 1) / max(self.anneal, 1), 1.0)
        return float(self.hottest * (self.temperature / self.hottest) ** share)

    def stage(self, move: int) -> str:
        if move < self.anneal:
            return "cooling"
        return "settling" if move < self.warm else "sampling"
