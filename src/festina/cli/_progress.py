"""Print progress messages on standard error."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

_PLAIN_EVERY = 10.0
"""Seconds between lines if standard error is not a terminal."""


@contextmanager
def bars(*, quiet: bool = False) -> "Iterator[rich.progress.Progress | None]":
    """Show progress bars on a terminal within the block; elsewhere, yield `None`."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield shown


class Progress:
    """Progress of a command: a bar on a terminal, otherwise a line from time to time.

    A call takes a description and the fraction done. `stage` names the task. If `quiet`, nothing is
    printed.
    """

    def __init__(self, *, quiet: bool = False, label: str = ""):
        self._quiet, self._label = quiet, label
        self._said = -math.inf
        self._stack = ExitStack()
        self._bar = None

    def __enter__(self) -> "Progress":
        self._bar = self._stack.enter_context(bars(quiet=self._quiet))
        if self._bar is not None:
            self._task = self._bar.add_task("starting", total=1.0)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def stage(self, label: str) -> None:
        """Begin the task with this name."""
        self._label = label
        self._said = -math.inf
        self("starting", 0.0)

    def __call__(self, words: str, fraction: float) -> None:
        if self._quiet:
            return
        done = min(max(float(fraction), 0.0), 1.0)
        text = f"{self._label}: {words}"
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=done)
        elif time.monotonic() - self._said >= _PLAIN_EVERY:
            self._said = time.monotonic()
            print(f"{text} ({done:.0%})", file=sys.stderr, flush=True)
