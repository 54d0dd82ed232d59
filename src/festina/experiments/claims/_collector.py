"""How an experiment makes its claims, one by one, each under an identifier of its own."""

import functools
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ._claim import Claim, Judgement

if TYPE_CHECKING:
    import xarray as xr

Claims: TypeAlias = "Callable[[xr.DataTree], list[Claim]]"
Body: TypeAlias = "Callable[[xr.DataTree, ClaimCollector], None]"

_KEBAB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class ClaimCollector(list[Claim]):
    """Collects the claims of an experiment: `claim("drop-times", "both drops …", judgement)`."""

    def __init__(self, experiment: str, source: str, at: str, note: str = ""):
        super().__init__()
        self.experiment, self.source, self.at, self.note = experiment, source, at, note
        self._lines: dict[str, str] = {}

    def __call__(
        self,
        id: str,
        words: str,
        judged: Judgement,
        *,
        at: str = "",
        corrected: str = "",
        wrong: str = "",
        instead: Judgement | None = None,
        note: str = "",
        headline: bool = False,
        case: str = "",
    ) -> None:
        """Add a claim.

        **Arguments:**

        - `id`: the identifier, kebab-case and unique within the experiment. It contains no number
          that follows from a parameter, so that a sweep finds the same claim at every point.
        - `words`: the statement.
        - `judged`: the judgement of numbers that it rests on.
        - `at`: the place in the source, by default that of the experiment.
        - `corrected`: the correction under which the statement holds.
        - `wrong`: why it is known not to hold; `instead` is then the judgement of what is right,
          which must hold for the claim not to be broken.
        - `note`: what else a reader wants to know, before the `note` of `claims_from_source`.
        - `headline`: whether this claim stands for the experiment in one line; by default the first
          claim does.
        - `case`: where the claim is made in a loop over a parameter, what this case is called, such
          as "C = 3". Cases of one identifier are one claim, which holds where all of them do.
        """
        caller = sys._getframe(1)
        line = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
        check_identifier(id, line)
        if id in self._lines and not case:
            raise ValueError(twice(id, self._lines[id], line))
        if bool(wrong) != (instead is not None):
            raise TypeError(f"'{id}': a claim that is `wrong` needs what is right `instead`.")
        if case:
            judged = replace(judged, remark=": ".join(filter(None, (case, judged.remark))))
        made = Claim(
            self.experiment,
            id,
            words,
            self.source,
            at or self.at,
            judged,
            corrected,
            wrong,
            instead,
            "; ".join(filter(None, (note, self.note))),
            headline,
        )
        if id in self._lines:
            self[[claim.id for claim in self].index(id)] &= made
        else:
            self._lines[id] = line
            self.append(made)


def is_identifier(text: str) -> bool:
    """Return whether a text can be the identifier of a claim: kebab-case."""
    return _KEBAB.fullmatch(text) is not None


def check_identifier(id: str, line: str) -> None:
    """Raise `ValueError` unless the identifier of a claim is kebab-case."""
    if not is_identifier(id):
        raise ValueError(
            f"{line}: '{id}' is no identifier of a claim: it must be kebab-case, such as "
            "'drop-times': lower-case letters, digits and single hyphens."
        )


def twice(id: str, first: str, second: str) -> str:
    """Return the message for two claims with one identifier."""
    return f"Two claims are called '{id}': {first} and {second}. Rename one of them."


def claims_from_source(source: str, place: str, *, note: str = "") -> Callable[[Body], Claims]:
    """Make the `claims` of an experiment from a body `(run, claim)` that makes them one by one.

    `note` is added to the note of every claim.
    """

    def wrap(body: Body) -> Claims:
        @functools.wraps(body)
        def claims(run: "xr.DataTree") -> list[Claim]:
            collector = ClaimCollector(str(run.attrs["experiment"]), source, place, note)
            body(run, collector)
            return list(collector)

        return claims

    return wrap
