"""Estimate the remaining time of several runs."""

from dataclasses import dataclass, field

_TRUST = 30.0
"""Expected seconds of ended runs from which their measured times count half."""


@dataclass
class TimeLeft:
    """The remaining time of all runs, from the expected seconds of each.

    Expected times are multiplied by the ratio of measured to expected times of the runs that have
    ended.
    """

    waiting: dict[str, float]
    processes: int = 1
    running: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Start and expected seconds of each run that is under way."""
    measured: float = _TRUST
    expected: float = _TRUST

    def begin(self, label: str, now: float) -> None:
        self.running[label] = now, self.waiting.pop(label)

    def end(self, label: str, now: float) -> float:
        """Return the seconds that a run took."""
        start, expected = self.running.pop(label)
        self.measured += now - start
        self.expected += expected
        return now - start

    def seconds(self, now: float) -> float:
        """Return the remaining seconds.

        A run that takes longer than expected needs, at a guess, another tenth of its time.
        """
        ratio = self.measured / self.expected
        times = [ratio * expected for expected in self.waiting.values()]
        for start, expected in self.running.values():
            spent = now - start
            times.append(max(ratio * expected - spent, spent / 10))
        return max([sum(times) / self.processes, *times])
