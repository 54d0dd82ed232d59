"""A claim: what a source asserts, as an executable statement with a verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["holds", "holds with a correction", "does not hold"]
Value = Any
"""A number, words, or a sequence or array of numbers."""


@dataclass(frozen=True)
class Claim:
    """What a source says, what was predicted, what was measured, and whether the two agree.

    `expected` is the verdict that is known for this claim. A statement of a source that is known
    to be wrong is expected not to hold: that is a finding and not a broken claim.
    """

    experiment: str
    claim: str
    source: str
    predicted: Value
    measured: Value
    tolerance: float | int | str
    verdict: Verdict
    note: str = ""
    expected: Verdict = "holds"

    @property
    def broken(self) -> bool:
        """Whether the claim fails although it is known to hold."""
        return self.verdict == "does not hold" and self.expected != "does not hold"

    def to_json(self) -> dict[str, object]:
        """The eight public fields, in the form of `claims.json`."""
        return {
            "experiment": self.experiment,
            "claim": self.claim,
            "source": self.source,
            "predicted": _plain(self.predicted),
            "measured": _plain(self.measured),
            "tolerance": _plain(self.tolerance),
            "verdict": self.verdict,
            "note": self.note,
        }


def compare(
    *,
    experiment: str,
    claim: str,
    source: str,
    predicted: Value,
    measured: Value,
    tolerance: float | int = 0.0,
    relative: bool = False,
    correction: str = "",
    note: str = "",
    expected: Verdict = "holds",
) -> Claim:
    """A claim whose verdict follows from the numbers.

    **Arguments:**

    - `predicted`, `measured`: numbers, sequences of numbers of one length, or words.
    - `tolerance`: largest |measured − predicted| that still holds, for every entry.
    - `relative`: the tolerance is a fraction of |predicted|.
    - `correction`: the correction under which the claim holds; the verdict then says so.

    A measured value that is not finite never holds, whatever the tolerance.
    """
    agrees = _agrees(predicted, measured, tolerance, relative)
    verdict: Verdict = "does not hold"
    if agrees:
        verdict = "holds with a correction" if correction else "holds"
    return Claim(
        experiment=experiment,
        claim=claim,
        source=source,
        predicted=predicted,
        measured=measured,
        tolerance=f"{100 * tolerance:g} %" if relative else tolerance,
        verdict=verdict,
        note="; ".join(part for part in (correction, note) if part),
        expected=expected,
    )


def _agrees(predicted: Value, measured: Value, tolerance: float | int, relative: bool) -> bool:
    if isinstance(predicted, str) or isinstance(measured, str):
        return predicted == measured
    wanted, seen = _flat(predicted), _flat(measured)
    return len(wanted) == len(seen) and all(
        math.isfinite(b) and abs(b - a) <= tolerance * (abs(a) if relative else 1.0)
        for a, b in zip(wanted, seen, strict=True)
    )


def _flat(value: Any) -> list[float]:
    value = _builtin(value)
    return [float(v) for v in value] if isinstance(value, Sequence) else [float(value)]


def _plain(value: Any) -> object:
    """Python numbers instead of NumPy's, null instead of NaN: valid JSON everywhere."""
    value = _builtin(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, Sequence):
        return [_plain(entry) for entry in value]
    number = float(value)
    return number if math.isfinite(number) else None


def _builtin(value: Any) -> Any:
    """Arrays and array scalars, NumPy's and JAX's, as lists and numbers of Python."""
    return value.tolist() if hasattr(value, "tolist") else value
