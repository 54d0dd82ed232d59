"""Ctrl-C and termination, also in the middle of compiled code."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous if previous is not None else signal.SIG_DFL)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, SIGINT and SIGTERM end in `KeyboardInterrupt(signal number)`.

    An interruption that lands inside a callback of compiled code comes back as some other error,
    or not at all; both are turned into what they were.
    """
    seen: list[int] = []

    def note(number: int, _: object) -> None:
        seen.append(number)
        raise KeyboardInterrupt(number)

    with _handled_by(note):
        try:
            yield
        except Exception as error:
            if seen:
                raise KeyboardInterrupt(seen[0]) from error
            raise
        if seen:
            raise KeyboardInterrupt(seen[0])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within, SIGINT and SIGTERM are ignored: for clearing away and moving into place."""
    with _handled_by(signal.SIG_IGN):
        yield


def status(interruption: KeyboardInterrupt) -> int:
    """The exit status that shells expect: 128 plus the number of the signal."""
    number = interruption.args[0] if interruption.args else signal.SIGINT
    return 128 + int(number)
