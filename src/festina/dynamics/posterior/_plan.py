"""How long chains are cooled, left to settle and sampled."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...networks._given import real_number, whole_number

Method = Literal["hmc", "langevin"]

_HOT = 1.0
_NOTES = 40  # of what happens before sampling
_ACCEPTANCE = {"hmc": 0.8, "langevin": 0.99}


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
        share = min((move + 1) / self.anneal, 1.0) if self.anneal else 1.0
        return float(self.hottest * (self.temperature / self.hottest) ** share)

    def stage(self, move: int) -> str:
        if move < self.anneal:
            return "cooling"
        return "settling" if move < self.warm else "sampling"


def plan(
    *,
    temperature: object,
    anneal: int,
    burn: int,
    moves: int,
    thin: int,
    leapfrog: int,
    method: object,
    step: float,
    jitter: float,
    friction: float,
    acceptance: float | None,
) -> Plan:
    """Checked."""
    if method not in ("hmc", "langevin"):
        raise ValueError(f'`method` must be "hmc" or "langevin", got {method!r}.')
    moves, thin = whole_number("moves", moves), whole_number("thin", thin)
    if moves % thin:
        raise ValueError(
            f"`moves` must be a multiple of `thin`, so that every move is of some use: got "
            f"{moves} and {thin}. Take {max(moves // thin, 1) * thin}."
        )
    wanted = _ACCEPTANCE[method] if acceptance is None else acceptance
    return Plan(
        temperature=positive_temperature(temperature),
        anneal=whole_number("anneal", anneal, least=0),
        burn=whole_number("burn", burn, least=0),
        moves=moves,
        thin=thin,
        leapfrog=whole_number("leapfrog", leapfrog),
        method=method,
        step=_between("step", step, 0.0, np.inf),
        jitter=_between("jitter", jitter, -np.finfo(float).tiny, 1.0),
        friction=_between("friction", friction, 0.0, np.inf),
        acceptance=_between("acceptance", wanted, 0.0, 1.0),
    )


def positive_temperature(value: object) -> float:
    found = real_number("temperature", value)
    if not 0 < found < np.inf:
        raise ValueError(
            f"`temperature` must be positive and finite to sample at, got {found:g}: as T → 0 the "
            "posterior is a surface without width, on which no step is small enough. Sample at a "
            "small T (0.01, say) and compare with T/2; `theory.coding` knows the limit itself."
        )
    return found


def _between(name: str, value: object, low: float, high: float) -> float:
    found = real_number(name, value)
    if not low < found < high:
        raise ValueError(
            f"`{name}` must lie between {max(low, 0.0):g} and {high:g}, got {found:g}."
        )
    return found
