"""A claim: a statement of a source, with the judgement of numbers that decides whether it holds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Verdict = Literal["holds", "holds with a correction", "does not hold"]
"""Verdict on a claim.

**Example:**

>>> from typing import get_args
>>> from festina.experiments.claims import Verdict
>>> get_args(Verdict)
('holds', 'holds with a correction', 'does not hold')
"""


@dataclass(frozen=True)
class Judgement:
    """A prediction, the corresponding measurement, and whether the two agree.

    - `predicted`, `measured`: numbers, lists of numbers or texts.
    - `tolerance`: allowed difference, or the name of the test.
    - `holds`: whether prediction and measurement agree.
    - `remark`: details of the comparison, such as "7 of 8 seeds".

    **Example:**

    >>> from festina.experiments.claims import agree
    >>> judgement = agree(0.75, 0.5, within=0.1)
    >>> judgement.predicted, judgement.measured, judgement.holds
    (0.5, 0.75, False)
    """

    predicted: Any
    measured: Any
    tolerance: float | int | str
    holds: bool
    remark: str = ""

    @property
    def is_told(self) -> bool:
        """Whether something was measured: `measured` is not empty, NaN or infinite."""
        flat = _plain(self.measured)
        return flat != [] and None not in (flat if isinstance(flat, list) else [flat])

    def __and__(self, other: "Judgement") -> "Judgement":
        """Return the judgement of two cases of a statement, which holds if both cases hold."""
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
        """Return the numbers as plain JSON, with null for values that were not measured."""
        numbers = {"predicted": self.predicted, "measured": self.measured}
        plain = {name: _plain(value) for name, value in numbers.items()}
        return {**plain, "tolerance": _plain(self.tolerance), "holds": self.holds}


@dataclass(frozen=True)
class Claim:
    """A statement of a source, with its judgement and the verdict that is expected.

    - `experiment`, `id`: name of the experiment and identifier of the claim. The identifier is
      kebab-case, unique within the experiment, and free of numbers that depend on parameters.
    - `words`: statement.
    - `source`, `at`: source and place in it, such as "Theorem 4".
    - `judged`: judgement of the numbers that the statement rests on.
    - `correction`: correction under which the statement holds.
    - `wrong`: reason why the statement is known not to hold. A claim with `wrong` counts as a
      finding and is not broken as long as `instead` holds.
    - `instead`: judgement of the right statement.
    - `note`: remark for the reader.
    - `headline`: whether this claim represents its experiment in one line.
    - `preset`: preset of the run, or `""`.

    **Example:**

    >>> from festina.experiments.claims import Claim, agree
    >>> judgement = agree(1.48, 1.5, within=0.05)
    >>> said = "the loss drops at t = 1.5"
    >>> claim = Claim("mine", "drop-time", said, "My paper", "Eq. (2)", judgement)
    >>> claim.name, claim.verdict, claim.broken
    ('mine#drop-time', 'holds', False)
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
        """Return the full name of the claim, such as `saddles/figure-1b#drop-times`."""
        return f"{self.experiment}#{self.id}"

    @property
    def label(self) -> str:
        """Return the name of the experiment, followed by the preset in brackets if there is one."""
        return labelled(self.experiment, self.preset)

    @property
    def place(self) -> str:
        """Return the source and the place in it as one phrase."""
        return ", ".join(filter(None, (self.source, self.at)))

    @property
    def predicted(self) -> Any:
        """Return the predicted value of the judgement."""
        return self.judged.predicted

    @property
    def measured(self) -> Any:
        """Return the measured value of the judgement."""
        return self.judged.measured

    @property
    def tolerance(self) -> float | str:
        """Return the tolerance of the judgement."""
        return self.judged.tolerance

    @property
    def verdict(self) -> Verdict:
        """Return whether the statement holds, holds with a correction, or does not hold."""
        if not self.judged.holds:
            return "does not hold"
        return "holds with a correction" if self.correction else "holds"

    @property
    def expected(self) -> Verdict:
        """Return the expected verdict, which depends on `wrong` and `correction`."""
        if self.wrong:
            return "does not hold"
        return "holds with a correction" if self.correction else "holds"

    @property
    def broken(self) -> bool:
        """Whether the verdict differs from the expected verdict.

        A claim that is known to be wrong is also broken if nothing was measured, or if the
        judgement `instead` does not hold.
        """
        if not self.wrong:
            return not self.judged.holds
        right = self.instead is None or self.instead.holds
        return self.judged.holds or not self.judged.is_told or not right

    @property
    def remarks(self) -> str:
        """Return all remarks that a table shows below the statement, in one line."""
        instead = "" if self.instead is None else f"instead {self.instead}"
        silent = "" if self.judged.is_told else "nothing was measured"
        parts = (self.correction, self.wrong, instead, silent, self.note, self.judged.remark)
        return "; ".join(filter(None, parts))

    def __and__(self, other: "Claim") -> "Claim":
        """Return one claim for two of its cases, which holds if both cases hold."""
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


def claim_from_json(entry: Mapping[str, Any]) -> Claim:
    """Return the claim of a checked entry of a `claims.json`, which may come from a stranger.

    Characters that control a terminal are removed.
    """
    entry = _printable(entry)
    texts = ("experiment", "id", "words", "source", "at", "correction", "wrong", "note", "preset")
    return Claim(
        judged=_judgement(entry),
        instead=entry["instead"] and _judgement(entry["instead"]),
        **{name: entry[name] for name in texts},
    )


def _judgement(entry: Mapping[str, Any]) -> Judgement:
    names = ("predicted", "measured", "tolerance", "holds")
    return Judgement(**{name: entry[name] for name in names})


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return printable(value) if isinstance(value, str) else value


def printable(text: str) -> str:
    """Return text without characters that control a terminal."""
    return "".join(filter(str.isprintable, text))


def labelled(experiment: str, preset: str) -> str:
    """Return the name of an experiment, followed by the preset in brackets if there is one."""
    return f"{experiment} ({preset})" if preset else experiment


def headline_claim(claims: Sequence[Claim]) -> Claim | None:
    """Return the claim with `headline=True`, or else the first claim, or None without claims.

    **Example:**

    >>> from festina.experiments.claims import Claim, agree, headline_claim
    >>> judgement = agree(1.0, 1.0)
    >>> first = Claim("mine", "first", "one is one", "My paper", "", judgement)
    >>> best = Claim("mine", "best", "one is one", "My paper", "", judgement, headline=True)
    >>> headline_claim([first, best]).id
    'best'
    """
    return next((claim for claim in claims if claim.headline), claims[0] if claims else None)


def _plain(value: Any) -> object:
    """Return a value as plain Python numbers or lists; NaN and infinity become `None` for JSON."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str | int):
        return value
    if isinstance(value, Sequence):
        return [_plain(entry) for entry in value]
    number = float(value)
    return number if math.isfinite(number) else None
