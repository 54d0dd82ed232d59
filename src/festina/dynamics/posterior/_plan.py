"""Schedule of sampling: numbers of moves, temperature, and settings of a move."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..._checks import real_number, whole_number

Method = Literal["hmc", "langevin"]

_HOT = 1.0
_NOTES = 40  # number of log entries before sampling


@dataclass(frozen=True)
class Plan:
    """Numbers of moves and settings of each move.

    A chain makes `anneal` moves while the temperature falls from 1, then `burn` moves at the final
    temperature, and then `moves` moves of which every `thin`-th is stored.
    """

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
                f"`moves` must be a multiple of `thin`, got {self.moves} and {self.thin}. Use "
                f"`moves={max(self.moves // self.thin, 1) * self.thin}`."
            )
        for name in ("temperature", "step", "friction", "jitter", "acceptance"):
            object.__setattr__(self, name, real_number(name, getattr(self, name)))
        if not 0 < self.temperature < np.inf:
            raise ValueError(
                f"`temperature` must be positive and finite, got {self.temperature:g}. As "
                "T → 0 the posterior concentrates on a surface on which any step is too large. "
                "Sample at a small T, such as 0.01, and compare with T/2. The functions of "
                "`festina.theory.coding` give the limit."
            )
        highest = {"step": np.inf, "friction": np.inf, "jitter": 1.0, "acceptance": 1.0}
        for name, high in highest.items():
            found = getattr(self, name)
            if not (0 < found < high or (name == "jitter" and found == 0)):
                raise ValueError(f"`{name}` must lie between 0 and {high:g}, got {found:g}.")

    @property
    def hottest(self) -> float:
        """Return the initial temperature: 1, or the final temperature if it is higher."""
        return max(_HOT, self.temperature)

    @property
    def warm(self) -> int:
        """Return the number of moves before the first stored move."""
        return self.anneal + self.burn

    @property
    def end(self) -> int:
        """Return the total number of moves."""
        return self.warm + self.moves

    def stops(self, done: int) -> list[int]:
        """Return the numbers of the remaining moves after which the log gets an entry."""
        every = max(1, -(-self.warm // _NOTES))
        early = [*range(every, self.warm, every), *([self.warm] if self.warm else [])]
        late = range(self.warm + self.thin, self.end + 1, self.thin)
        return [stop for stop in (*early, *late) if stop > done]

    def temperature_at(self, move: int) -> float:
        """Return the temperature during a move."""
        share = min((move + 1) / max(self.anneal, 1), 1.0)
        return float(self.hottest * (self.temperature / self.hottest) ** share)

    def stage(self, move: int) -> str:
        """Return the stage of a move: cooling, settling or sampling."""
        if move < self.anneal:
            return "cooling"
        return "settling" if move < self.warm else "sampling"
