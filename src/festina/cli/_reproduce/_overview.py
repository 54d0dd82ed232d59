"""Show on standard error which runs are under way, which have ended, and the time left."""

import math
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack

from festina.experiments import Progress

from .._progress import bars
from ._jobs import Job
from ._time_left import TimeLeft

_PLAIN_EVERY = 60.0
"""Seconds between lines on progress if standard error is not a terminal."""


class Overview:
    """Overview of all runs: a bar for each run under way, and a line for each run that has ended.

    Without a terminal, the overview prints a line when a run begins, and further lines from time to
    time. If `quiet`, nothing is printed. Several threads may report at once.
    """

    def __init__(self, *, quiet: bool = False):
        self._quiet = quiet
        self._stack, self._lock = ExitStack(), threading.Lock()
        self._rows = {}
        self._said = -math.inf
        self._count, self._start = 0, 0.0
        self._left = TimeLeft({})

    def __enter__(self) -> "Overview":
        self._bars = self._stack.enter_context(bars(quiet=self._quiet))
        if self._bars is not None:
            self._whole = self._bars.add_task("loading experiments", total=None)
        else:
            self._print("loading experiments")
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def expect(self, seconds: Mapping[str, float], processes: int) -> None:
        """Announce the runs that will be carried out, with the expected seconds of each."""
        self._count, self._start = len(seconds), time.monotonic()
        self._left = TimeLeft(dict(seconds), processes)
        self._show_whole()

    def begin(self, job: Job) -> Progress:
        """Note that a run begins, and return the function that shows its progress."""
        with self._lock:
            self._left.begin(job.label, time.monotonic())
            if self._bars is not None:
                self._rows[job.label] = self._bars.add_task(f"{job.label}: starting", total=1.0)
            else:
                self._print(f"{job.label}: starting")
                self._said = time.monotonic()

        def progress(words: str, fraction: float) -> None:
            done = min(max(float(fraction), 0.0), 1.0)
            with self._lock:
                text = f"{job.label}: {words}"
                if self._bars is not None:
                    self._bars.update(self._rows[job.label], description=text, completed=done)
                    self._show_whole()
                elif time.monotonic() - self._said >= _PLAIN_EVERY:
                    self._said = time.monotonic()
                    self._print(f"{text} ({done:.0%}). {self._remaining()}.")

        return progress

    def end(self, job: Job, words: str) -> None:
        """Print a line about a run that has ended."""
        with self._lock:
            seconds = self._left.end(job.label, time.monotonic())
            if self._bars is not None:
                self._bars.remove_task(self._rows.pop(job.label))
                self._show_whole()
            self._print(f"{job.label}: {words} ({_duration(seconds)}). {self._remaining()}.")

    def _remaining(self) -> str:
        ended = self._count - len(self._left.waiting) - len(self._left.running)
        words = f"{ended} of {self._count} run{'s' * (self._count != 1)}"
        left = f", about {_duration(self._left.seconds(time.monotonic()))} left"
        return words + left * (ended < self._count)

    def _show_whole(self) -> None:
        if self._bars is not None:
            now = time.monotonic()
            spent, left = now - self._start, self._left.seconds(now)
            done = spent / (spent + left) if spent else 0.0
            self._bars.update(self._whole, description=self._remaining(), total=1.0, completed=done)

    def _print(self, text: str) -> None:
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    from festina.sweeps._grid import duration  # imports NumPy

    return duration(seconds)
