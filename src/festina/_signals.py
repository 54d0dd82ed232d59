"""Handle Ctrl-C and termination, even while compiled code runs."""

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
    """Within the block, turn SIGINT and SIGTERM into `KeyboardInterrupt(signal number)`.

    Compiled code may turn an interruption inside its callback into another error, or drop the
    interruption. The block raises `KeyboardInterrupt` nevertheless.
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
    """Within the block, ignore SIGINT and SIGTERM, for example while files are moved."""
    with _handled_by(signal.SIG_IGN):
        yield


def status(interruption: KeyboardInterrupt) -> int:
    """Return the exit status that shells expect: 128 plus the number of the signal."""
    number = interruption.args[0] if interruption.args else signal.SIGINT
    return 128 + int(number)
