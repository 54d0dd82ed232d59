"""Keep claims.json and the report up to date while runs end."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from festina.experiments._describe import describe

from .._complaint import complain
from ._place import REPORT
from ._results import Results

_SHARE = 0.05  # largest share of the time that writing the report takes


@dataclass
class Record:
    """claims.json and the report in the folder of all runs.

    If one of the two cannot be written, training goes on, and the reason is printed once.
    """

    top: Path
    results: Results
    due: float = 0.0
    complaints: set[str] = field(default_factory=set)

    def write(self) -> None:
        """Write claims.json, and the report if it was not written a moment ago."""
        from festina.experiments._runner import write_claims

        finished = len(self.results.done)
        if self.results.saved or not finished:  # the files of the earlier command know more
            return
        try:
            write_claims(self.results.to_json(), self.top)
        except OSError as error:
            self._complain(f"claims.json was not written: {describe(error)}")
        start = time.monotonic()
        if start < self.due:
            return
        from festina.report import write_report

        wanted = self.results.wanted
        remark = f"{finished} of {wanted} runs are finished." * (finished < wanted)
        try:
            write_report([self.top], self.top / REPORT, remark=remark)
        except (OSError, ValueError) as error:
            self._complain(f"The report was not written: {describe(error)}")
        end = time.monotonic()
        self.due = end + (end - start) / _SHARE

    def finish(self) -> None:
        """Write claims.json and the report for the last time."""
        self.due = 0.0
        self.write()

    def _complain(self, words: str) -> None:
        if words not in self.complaints:
            self.complaints.add(words)
            complain(words)
