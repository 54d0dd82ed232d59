"""A claim: what a source asserts, in words, with the judgement of numbers that it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Verdict = Literal["holds", "holds with a correction", "does not hold"]


@dataclass(frozen=True)
class Judgement:
    """What is predicted beside what is measured, and whether the two agree.

    `holds` follows from the numbers alone. `remark` describes how they were judged, such as
    "7 of 8 seeds".
    """

    predicted: Any
    measured: Any
    tolerance: float | int | str
    holds: bool
    remark: str = ""

    @property
    def is_told(self) -> bool:
        """Whether something was measured, without NaN and infinity."""
        flat = _plain(self.measured)
        return flat != [] and None not in (flat if isinstance(flat, list) else [flat])

    def __and__(self, other: "Judgement") -> "Judgement":
        """Return the judgement of a statement in two cases, which holds if both do."""
        listed = lambda value: value if isinstance(value, list) else [value]
        same = self.tolerance == other.tolerance
        return Judgement(
            listed(self.predicted) + listed(other.predicted),
            listed(self.measured) + listed(other.measured),
            self.tolerance if same else f"{self.tolerance}, {other.tolerance}",
            self.holds and other.holds,
            "; ".join(filter(None, (self.remark, other.remark))),
        )

    def __str__(self) -> str:
        shown = lambda value: f"{value:.5g}" if isinstance(value, float) else str(value)
        failed = "" if self.holds else ", which does not hold either"
        return f"{shown(self.predicted)}, measured {shown(self.measured)}{failed}"

    def to_json(self) -> dict[str, object]:
        """Return the numbers as plain JSON, null where nothing was measured."""
        numbers = {"predicted": self.predicted, "measured": self.measured}
        plain = {name: _plain(value) for name, value in numbers.items()}
        return {**plain, "tolerance": _plain(self.tolerance), "holds": self.holds}


@dataclass(frozen=True)
class Claim:
    """What a source asserts, identified by `experiment` and `id`, and what is known beforehand.

    - `id`: kebab-case, unique within the experiment, free of numbers that follow from parameters.
    - `words`: the statement.
    - `source`, `at`: the source and the place in it, such as "Theorem 4".
    - `correction`: the correction under which a statement of the source holds.
    - `wrong`: why a statement of the source is known not to hold. Such a claim is a finding and not
      broken, as long as the judgement of what is right `instead` holds.
    - `note`: a remark for the reader.
    - `headline`: whether this claim stands for its experiment in one line.
    - `preset`: the preset of the run, where it has one.
    """

    experiment: str
    id: str
    words: str
    source: str
    at: str
    judged: Judgement
    correction: str = ""
    wrong: str = ""
    instead: Judgement | None = None
    note: str = ""
    headline: bool = False
    preset: str = ""

    @property
    def name(self) -> str:
        """The full name of the claim, such as `saddles/figure-1b#drop-times`."""
        return f"{self.experiment}#{self.id}"

    @property
    def label(self) -> str:
        """The name of the experiment, with that of the preset in brackets."""
        return labelled(self.experiment, self.preset)

    @property
    def place(self) -> str:
        """The source and the place in it, as one phrase."""
        return ", ".join(filter(None, (self.source, self.at)))

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
        """Whether the verdict is not the expected one.

        A claim known to be wrong is also broken if nothing was measured, or if the judgement of
        what is right instead fails.
        """
        if not self.wrong:
            return not self.judged.holds
        right = self.instead is None or self.instead.holds
        return self.judged.holds or not self.judged.is_told or not right

    @property
    def remarks(self) -> str:
        """Everything that a table shows below the statement, in one line."""
        instead = "" if self.instead is None else f"instead {self.instead}"
        silent = "" if self.judged.is_told else "nothing was measured"
        parts = (self.correction, self.wrong, instead, silent, self.note, self.judged.remark)
        return "; ".join(filter(None, parts))

    def __and__(self, other: "Claim") -> "Claim":
        """Return the claim for two of its cases together, which holds if both do."""
        return replace(
            self,
            judged=self.judged & other.judged,
            correction=self.correction or other.correction,
            instead=self.instead and other.instead and self.instead & other.instead,
            note="; ".join(dict.fromkeys(filter(None, (self.note, other.note)))),
            headline=self.headline or other.headline,
        )

    def to_json(self) -> dict[str, object]:
        """Return the entry of this claim in `claims.json`."""
        return {
            "experiment": self.experiment,
            "preset": self.preset,
            "id": self.id,
            "words": self.words,
            "source": self.source,
            "at": self.at,
            **self.judged.to_json(),
            "verdict": self.verdict,
            "expected": self.expected,
            "broken": self.broken,
            "correction": self.correction,
            "wrong": self.wrong,
            "instead": None if self.instead is None else self.instead.to_json(),
            "note": "; ".join(filter(None, (self.note, self.judged.remark))),
        }


def labelled(experiment: str, preset: str) -> str:
    """Return the name of an experiment, with that of the preset in brackets if there is one."""
    return f"{experiment} ({preset})" if preset else experiment


def headline_claim(claims: Sequence[Claim]) -> Claim | None:
    """Return the claim with `headline=True`, or else the first one."""
    return next((claim for claim in claims if claim.headline), claims[0] if claims else None)


def _plain(value: Any) -> object:
    """Return Python numbers for those of NumPy and JAX, and `None` for NaN, which JSON lacks."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str | int):
        return value
    if isinstance(value, Sequence):
        return [_plain(entry) for entry in value]
    number = float(value)
    return number if math.isfinite(number) else None
