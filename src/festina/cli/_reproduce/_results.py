"""Collect the outcomes of all runs, for claims.json and for the printed tables."""

import math
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from festina.experiments._describe import describe

from .._complaint import complain
from .._folder import shorter
from ._place import REPORT

if TYPE_CHECKING:
    from festina.experiments._perform import Done


@dataclass(frozen=True)
class Ended:
    """Outcome of a run: claims and files, or the reason of the failure.

    `reused` is True if an earlier command had finished the run.
    """

    done: "Done | None" = None
    reason: str = ""
    reused: bool = False

    @classmethod
    def failed(cls, error: Exception, *, debug: bool) -> "Ended":
        """Return the failure for the error that is being handled."""
        if debug:
            traceback.print_exc()
        return cls(reason=describe(error))

    @property
    def words(self) -> str:
        """Return the outcome in a few words, such as "3 hold, 1 broken"."""
        from .._table import counted

        if self.done is None:
            return "failed"
        return "already finished, " * self.reused + counted(self.done.claims)


@dataclass
class Results:
    """Outcomes of the requested runs, in the order in which the runs were requested."""

    labels: list[str] = field(default_factory=list)
    ended: dict[str, Ended] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    saved: set[str] = field(default_factory=set)
    """Runs that an earlier command has finished, and that have not been read yet."""
    wanted: int = 0
    """Number of requested runs, without experiments that could not be loaded."""
    interrupted: bool = False

    @property
    def done(self) -> "list[Done]":
        return [each.done for _, each in self._in_order() if each.done is not None]

    @property
    def failures(self) -> list[tuple[str, str]]:
        return [(label, each.reason) for label, each in self._in_order() if each.done is None]

    def _in_order(self) -> list[tuple[str, Ended]]:
        return [(label, self.ended[label]) for label in self.labels if label in self.ended]

    def end(self, label: str, ended: Ended) -> None:
        """Add a run that has ended, and complain if it failed."""
        self.ended[label] = ended
        self.saved.discard(label)
        if ended.done is None:
            complain(f"{label} failed: {ended.reason}")

    def to_json(self) -> Iterator[dict[str, Any]]:
        """Yield all claims, and one entry for each run without claims.

        The verdict of such an entry is "failed", "interrupted" or "not run".
        """
        for label in self.labels:
            ended = self.ended.get(label)
            if ended is None and self.interrupted and label in self.begun:
                yield _missing(label, "interrupted", "the command ended during this run")
            elif ended is None:
                yield _missing(label, "not run", "not finished when claims.json was written")
            elif ended.done is None:
                yield _missing(label, "failed", ended.reason)
            else:
                yield from (claim.to_json() for claim in ended.done.claims)

    def report(self, top: Path | None, claims: Sequence[str] | None, *, json: bool) -> "list[Done]":
        """Print the results, and return the runs with the requested claims."""
        from festina.experiments._runner import choose, claims_json

        done = self.done
        if claims and done:
            names = {claim.name for claim in choose([c for d in done for c in d.claims], claims)}
            done = [replace(d, claims=[c for c in d.claims if c.name in names]) for d in done]
        if json:
            chosen = {each.label: Ended(each) for each in done}
            print(claims_json(replace(self, ended=self.ended | chosen).to_json()), end="")
            return done
        from .._table import print_results

        told = [each for each in done if each.claims]
        words = " ".join(self._words(top)) + "\n"
        print_results(told, self.failures, every_claim=claims is not None, total=words)
        return done

    def _words(self, top: Path | None) -> Iterator[str]:
        """Yield sentences on how many runs are finished, and where."""
        finished = len(self.done) + len(self.saved)
        reused = sum(each.reused for each in self.ended.values())
        if self.interrupted:
            yield (
                f"Interrupted: {finished} of {self.wanted} runs are finished, and only finished "
                "runs are counted below. The same command resumes."
            )
        else:
            yield f"{finished} of {self.wanted} run{'s' * (self.wanted != 1)}."
        if reused:
            yield (
                f"{reused} of them {'was' if reused == 1 else 'were'} already finished, with the "
                "same parameters and the same code: `--fresh` trains again."
            )
        if top is not None and finished:
            yield f"All results are in {shorter(top)}: open {REPORT} in a browser."


def _missing(label: str, verdict: str, note: str) -> dict[str, Any]:
    """Return an entry of claims.json for a run that made no claims."""
    from festina.experiments.claims import Claim, Judgement

    name, _, preset = label.removesuffix(")").partition(" (")
    nothing = Judgement(math.nan, math.nan, math.nan, False)
    claim = Claim(name, "", "", "", "", nothing, note=note, preset=preset)
    return claim.to_json() | {"verdict": verdict, "broken": False}
