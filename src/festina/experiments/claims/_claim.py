"""A claim: what a source asserts, in words, with the judgement of numbers that it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["holds", "holds with a correction", "does not hold"]


@dataclass(frozen=True)
class Judgement:
    """What is predicted beside what is measured, and whether the two agree.

    `holds` follows from the numbers alone; `remark` is what the way of judging has to tell.
    """

    predicted: Any
    measured: Any
    tolerance: float | int | str
    holds: bool
    remark: str = ""

    @property
    def is_told(self) -> bool:
        """Whether there is a measurement at all: neither NaN nor infinity."""
        flat = _plain(self.measured)
        return flat != [] and None not in (flat if isinstance(flat, list) else [flat])


@dataclass(frozen=True)
class Claim:
    """A judgement in its place, and what is known about it beforehand.

    - `correction`: under which correction a statement of the source holds.
    - `wrong`: why a statement of the source is known not to hold. That is a finding and not a
      broken claim, and is held to what is right `instead`.
    - `headline`: whether it is the one that stands for its experiment in a line.
    """

    experiment: str
    claim: str
    source: str
    judged: Judgement
    correction: str = ""
    wrong: str = ""
    instead: Judgement | None = None
    note: str = ""
    headline: bool = False

    @property
    def predicted(self) -> Any:
        return self.judged.predicted

    @property
    def measured(self) -> Any:
        return self.judged.measured

    @property
    def tolerance(self) -> float | str:
        return self.judged.tolerance

    @property
    def verdict(self) -> Verdict:
        if not self.judged.holds:
            return "does not hold"
        return "holds with a correction" if self.correction else "holds"

    @property
    def expected(self) -> Verdict:
        """The verdict that is known for this claim."""
        if self.wrong:
            return "does not hold"
        return "holds with a correction" if self.correction else "holds"

    @property
    def broken(self) -> bool:
        """Whether it is not as known.

        Also where a statement known to be wrong suddenly holds, was not measured, or is not wrong
        in the way that is known.
        """
        if not self.wrong:
            return not self.judged.holds
        right = self.instead is None or self.instead.holds
        return self.judged.holds or not self.judged.is_told or not right

    def to_json(self) -> dict[str, object]:
        """The fields of `claims.json`."""
        return {
            "experiment": self.experiment,
            "claim": self.claim,
            "source": self.source,
            "predicted": _plain(self.predicted),
            "measured": _plain(self.measured),
            "tolerance": _plain(self.tolerance),
            "verdict": self.verdict,
            "expected": self.expected,
            "broken": self.broken,
            "note": self.note,
        }


def headline(claims: Sequence[Claim]) -> Claim | None:
    """The claim that stands for its experiment: the one that says so, else the first."""
    return next((claim for claim in claims if claim.headline), claims[0] if claims else None)


def _plain(value: Any) -> object:
    """Python numbers instead of NumPy's and JAX's, null instead of NaN: valid JSON everywhere."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str | int):
        return value
    if isinstance(value, Sequence):
        return [_plain(entry) for entry in value]
    number = float(value)
    return number if math.isfinite(number) else None
