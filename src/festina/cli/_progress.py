"""Print progress messages on standard error."""

import math
import sys
import time
from contextlib import ExitStack

_PLAIN_EVERY = 10.0
"""Seconds between lines if standard error is not a terminal."""


class Progress:
    """Progress of a command: a bar on a terminal, otherwise a line from time to time.

    A call takes a description and the fraction done. `stage` names the current one of several
    tasks, and sets its start and its share of the whole. If `quiet`, nothing is printed.
    """

    def __init__(self, *, quiet: bool = False, label: str = ""):
        self._quiet = quiet
        self._label, self._start, self._share = label, 0.0, 1.0
        self._said = -math.inf
        self._stack = ExitStack()
        self._bar = None

    def __enter__(self) -> "Progress":
        if self._quiet or not sys.stderr.isatty():
            return self
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self._bar = self._stack.enter_context(
            Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
        )
        self._task = self._bar.add_task("starting", total=1.0)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def stage(self, label: str, *, start: float = 0.0, share: float = 1.0) -> None:
        """Begin a task that goes from `start` to `start + share` of the whole."""
        self._label, self._start, self._share = label, start, share
        self._said = -math.inf
        self("starting", 0.0)

    def __call__(self, words: str, fraction: float) -> None:
        if self._quiet:
            return
        done = self._start + self._share * min(max(float(fraction), 0.0), 1.0)
        text = f"{self._label}: {words}"
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=done)
        elif time.monotonic() - self._said >= _PLAIN_EVERY:
            self._said = time.monotonic()
            print(f"{text} ({done:.0%})", file=sys.stderr, flush=True)
