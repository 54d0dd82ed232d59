"""Compare the claims of two runs of one experiment."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ._section import Section, verdict


@dataclass(frozen=True)
class Change:
    """A claim in two runs.

    - `id`, `words`: identifier and statement of the claim.
    - `before`, `after`: verdicts, or `"not there"` if a run lacks the claim.
    - `values`: measured values of both runs.
    - `moved`: largest change of a measured value in units of the tolerance; NaN if the tolerance
      is a text other than a percentage, or if the numbers of values differ.

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

    @property
    def turned(self) -> bool:
        """Whether the verdict changed."""
        return self.before != self.after


def pairs(sections: list[Section]) -> Iterator[tuple[Section, Section]]:
    """Yield the first run of each experiment with each later run of the same experiment."""
    by_label = lambda section: section.label
    for _, group in groupby(sorted(sections, key=by_label), key=by_label):
        first, *others = group
        yield from ((first, other) for other in others)


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
    return Change(known["id"], known["words"], before, after, values, moved)


def _moved(old: dict[str, Any], new: dict[str, Any]) -> float:
    """Return the largest change of a measured value in units of the tolerance, or NaN."""
    first, second, predicted = map(_listed, (old["measured"], new["measured"], new["predicted"]))
    tolerance = new["tolerance"]
    if isinstance(tolerance, str) and tolerance.endswith(" %") and len(predicted) == len(second):
        units = [float(tolerance[:-2]) / 100 * abs(value) for value in predicted]
    elif isinstance(tolerance, float | int):
        units = [float(tolerance)] * len(second)
    else:
        return math.nan
    if len(first) != len(second):
        return math.nan
    moves = [
        0.0 if a == b else abs(b - a) / unit if unit else math.inf
        for a, b, unit in zip(first, second, units, strict=True)
    ]
    return max(moves, default=math.nan)


def _listed(value: Any) -> list[float]:
    """Return all numbers of a value; an empty list if it contains anything else."""
    flat = [value]
    while any(isinstance(entry, list) for entry in flat):
        flat = [one for entry in flat for one in (entry if isinstance(entry, list) else [entry])]
    numbers = all(isinstance(entry, float | int) for entry in flat)
    return [float(entry) for entry in flat] if numbers else []


def _number(moved: float) -> float:
    return -1.0 if math.isnan(moved) else moved
