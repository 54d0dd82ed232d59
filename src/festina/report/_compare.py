"""Compare the claims of two runs of one experiment."""

import math
import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ._section import Section, verdict

_MOST = 100
"""Largest number of comparisons in a report."""


@dataclass(frozen=True)
class Change:
    """A claim in two runs.

    - `id`, `words`: identifier and statement of the claim.
    - `before`, `after`: verdicts, or `"not there"` if a run lacks the claim.
    - `values`: measured values of both runs.
    - `moved`: largest change of a measured value in units of the tolerance; NaN if the tolerance
      is a text other than a percentage, or if the numbers of values differ.
    - `predictions`: predicted values of both runs, which differ if parameters do.

    **Example:**

    >>> from festina.report import Change
    >>> Change("drop", "the loss drops", "holds", "broken", (1.0, 1.2), 4.0).turned
    True
    """

    id: str
    words: str
    before: str
    after: str
    values: tuple[Any, Any]
    moved: float
    predictions: tuple[Any, Any] = (None, None)

    @property
    def turned(self) -> bool:
        """Whether the verdict changed."""
        return self.before != self.after


@dataclass(frozen=True)
class Comparison:
    """Two runs of one experiment: their claims, and the settings in which the runs differ."""

    before: Section
    after: Section
    changes: list[Change]

    @property
    def turned(self) -> int:
        """Number of claims whose verdict changed."""
        return sum(change.turned for change in self.changes)

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """Name and both values of each parameter and version in which the runs differ."""
        settings = [
            {name: value for name, value, _ in each.parameters} | each.made
            for each in (self.before, self.after)
        ]
        names = [name for name in dict.fromkeys([*settings[0], *settings[1]]) if name != "date"]
        both = ((name, *(each.get(name, "–") for each in settings)) for name in names)
        return [(name, old, new) for name, old, new in both if old != new]


def compared(sections: list[Section]) -> tuple[list[Comparison], int]:
    """Compare the first run of each experiment with the later runs of the same experiment.

    Returns the comparisons, and the number of further runs that are left out.
    """
    by_label = lambda section: section.label
    found: list[tuple[Section, Section]] = []
    with_claims = [section for section in sections if section.claims]
    for _, group in groupby(sorted(with_claims, key=by_label), key=by_label):
        first, *others = group
        found += ((first, other) for other in others)
    shown = [Comparison(old, new, changes(old, new)) for old, new in found[:_MOST]]
    return shown, len(found[_MOST:])


def changes(before: Section, after: Section) -> list[Change]:
    """Return every claim of two runs: changed verdicts first, then the largest changes of values.

    **Arguments:**

    - `before`, `after`: sections of `read_sections`.

    **Returns:**

    A `Change` for each identifier that occurs in one of the runs.

    **Example:**

    >>> from pathlib import Path
    >>> from festina.report import Section, changes
    >>> claim = {"id": "drop", "words": "the loss drops", "verdict": "holds", "broken": False,
    ...          "predicted": 1.0, "measured": 1.0, "tolerance": 0.1}
    >>> before = Section("mine", "", Path("a"), claims=(claim,))
    >>> after = Section("mine", "", Path("b"), claims=(claim | {"measured": 1.05},))
    >>> [change.moved for change in changes(before, after)]
    [0.5]
    """
    old, new = ({claim["id"]: claim for claim in each.claims} for each in (before, after))
    found = [_change(old.get(id), new.get(id)) for id in dict.fromkeys([*old, *new])]
    return sorted(found, key=lambda change: (not change.turned, -_number(change.moved)))


def _change(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Change:
    known = new or old
    assert known is not None
    before, after = (verdict(each) if each else "not there" for each in (old, new))
    values = ((old or {}).get("measured"), (new or {}).get("measured"))
    moved = _moved(old, new) if old and new else math.nan
    predictions = ((old or {}).get("predicted"), (new or {}).get("predicted"))
    return Change(known["id"], known["words"], before, after, values, moved, predictions)


def _moved(old: dict[str, Any], new: dict[str, Any]) -> float:
    """Return the largest change of a measured value in units of the tolerance, or NaN."""
    first, second, predicted = map(_listed, (old["measured"], new["measured"], new["predicted"]))
    units = _units(new["tolerance"], predicted, len(second))
    if units is None or len(first) != len(second):
        return math.nan
    moves = [
        0.0 if a == b else abs(b - a) / unit if unit else math.inf
        for a, b, unit in zip(first, second, units, strict=True)
    ]
    return max(moves, default=math.nan)


def _units(tolerance: Any, predicted: list[float], count: int) -> list[float] | None:
    """Return the tolerance of each of `count` values, or `None` if it is not a number."""
    if isinstance(tolerance, float | int):
        return [float(tolerance)] * count
    percentage = re.fullmatch(r"([\d.e+-]+) %", tolerance or "")
    if percentage is None or len(predicted) != count:
        return None
    try:
        return [float(percentage[1]) / 100 * abs(value) for value in predicted]
    except ValueError:
        return None


def _listed(value: Any) -> list[float]:
    """Return all numbers of a value; an empty list if it contains anything else."""
    flat = [value]
    while any(isinstance(entry, list) for entry in flat):
        flat = [one for entry in flat for one in (entry if isinstance(entry, list) else [entry])]
    if not all(isinstance(entry, float | int) for entry in flat):
        return []
    try:
        return [float(entry) for entry in flat]
    except OverflowError:  # a whole number beyond all floats
        return []


def _number(moved: float) -> float:
    return -1.0 if math.isnan(moved) else moved
