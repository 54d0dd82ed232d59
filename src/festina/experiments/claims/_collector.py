"""Collect the claims of an experiment, each with its own identifier."""

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
    """A list that collects the claims of an experiment: call it once for each claim.

    `festina.experiments.claims.claims_from_source` creates the collector.

    - `experiment`, `source`, `at`: name of the experiment, its source and the default place in it.
    - `note`: text that is added to the note of every claim.

    **Example:**

    >>> from festina.experiments.claims import ClaimCollector, agree
    >>> claim = ClaimCollector("mine", "My paper", "Eq. (1)")
    >>> claim("slope", "the slope is one half", agree(0.51, 0.5, within=0.02))
    >>> claim[0].name, claim[0].verdict
    ('mine#slope', 'holds')
    """

    def __init__(self, experiment: str, source: str, at: str, note: str = ""):
        super().__init__()
        self.experiment, self.source, self.at, self.note = experiment, source, at, note
        self._lines: dict[str, str] = {}
        self._cased: set[str] = set()

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
        """Add a claim, or another case of a claim.

        **Arguments:**

        - `id`: kebab-case identifier, unique within the experiment. The identifier must contain no
          number that depends on a parameter, so that a sweep finds the same claim at every point.
        - `words`: statement of the claim.
        - `judged`: judgement of the numbers that the statement rests on.
        - `at`: place in the source; the default is the place of the experiment.
        - `corrected`: correction under which the statement holds.
        - `wrong`: reason why the statement is known not to hold. `wrong` requires `instead`, the
          judgement of the right statement; the claim is broken if this judgement fails.
        - `note`: further remark, shown before the `note` of `claims_from_source`.
        - `headline`: whether this claim represents the experiment; by default the first claim does.
        - `case`: name of this case, such as "C = 3", for a claim made in a loop over a parameter.
          All cases with the same identifier form one claim, which holds if all cases hold. A
          claim without a case cannot share its identifier.
        """
        caller = sys._getframe(1)
        line = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
        check_identifier(id, line)
        if id in self._lines and not (case and id in self._cased):
            raise ValueError(twice(id, self._lines[id], line, case=case))
        if bool(wrong) != (instead is not None):
            raise TypeError(
                f"'{id}': give both `wrong`, why the statement does not hold, and `instead`, the "
                "judgement of the right statement."
            )
        if case:
            self._cased.add(id)
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
    """Return whether a text is kebab-case and can therefore be the identifier of a claim."""
    return _KEBAB.fullmatch(text) is not None


def check_identifier(id: str, line: str) -> None:
    """Raise `ValueError` unless the identifier of a claim is kebab-case."""
    if not is_identifier(id):
        raise ValueError(
            f"{line}: '{id}' cannot be the identifier of a claim. It must be kebab-case, such as "
            "'drop-times': lower-case letters, digits and single hyphens."
        )


def twice(id: str, first: str, second: str, *, case: str = "") -> str:
    """Return the error message for two claims with the same identifier.

    `case` is the case of the second claim, if only the second one has a case.
    """
    told = f"Two claims are called '{id}': {first} and {second}"
    if case:
        return (
            f"{told}. Only the second one has a `case`, '{case}'. If both are cases of one claim, "
            "give the first one a `case` too. Otherwise rename one of them."
        )
    return f"{told}. Rename one of them."


def claims_from_source(source: str, place: str, *, note: str = "") -> Callable[[Body], Claims]:
    """Return a decorator that makes an experiment's `claims` from a function `(run, claim)`.

    The decorated function calls `claim`, a `ClaimCollector`, once for each claim.

    **Arguments:**

    - `source`: source of the statements.
    - `place`: default place of a statement in the source.
    - `note`: text that is added to the note of every claim.

    **Returns:**

    A decorator. The decorated function maps a run to the list of its claims.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments.claims import claims_from_source, equal_to
    >>> @claims_from_source("My paper", "Table 1")
    ... def claims(run, claim):
    ...     claim("active", "two units are active", equal_to(int(run["active"]), 2))
    >>> [claim.verdict for claim in claims(xr.Dataset({"active": 2}, attrs={"experiment": "mine"}))]
    ['holds']
    """

    def wrap(body: Body) -> Claims:
        @functools.wraps(body)
        def claims(run: "xr.DataTree") -> list[Claim]:
            collector = ClaimCollector(str(run.attrs["experiment"]), source, place, note)
            body(run, collector)
            return list(collector)

        return claims

    return wrap
