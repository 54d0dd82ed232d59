"""Pieces in processes of this machine, or in this one.

A process is sent pieces over its standard input and ends when that does: also when the one that
started it is killed. Pieces of one kind go to the same process where they can, since it has
compiled what they need.
"""

import contextlib
import functools
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import IO, Any

from ._grid import Grid, Index
from ._work import Outcome, computed, packed

_DEATHS = 3
"""How many processes may die over a piece before it counts as failed."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve()"


Finished = Generator[tuple[Index, Outcome]]
Engine = Callable[[Grid, Sequence[Index]], Finished]
"""Computes pieces of a grid, and has each when it is finished."""


def here(function: Callable[..., Any]) -> Engine:
    """Pieces one after another, in this process."""

    def engine(grid: Grid, todo: Sequence[Index]) -> Finished:
        for index in todo:
            yield index, computed(function, grid.point(index), grid.count)

    return engine


def side_by_side(function: Callable[..., Any], *, processes: int) -> Engine:
    """Pieces in so many processes."""
    return functools.partial(_side_by_side, packed(function), processes)


def _side_by_side(work: bytes, processes: int, grid: Grid, todo: Sequence[Index]) -> Finished:
    waiting, deaths = _Waiting(grid, todo), Counter[Index]()
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    gates = [threading.Semaphore(0) for _ in range(min(processes, len(todo)))]
    running: set[subprocess.Popen[bytes]] = set()
    stopped = threading.Event()

    def look_after(gate: threading.Semaphore) -> None:
        """Keep a process busy, and start another when it dies.

        It gets the next piece when the last one is written: so much at most is lost with us.
        """
        index = waiting.take(None)
        try:
            while index is not None:
                with _started(running) as process:
                    while index is not None and process.poll() is None:
                        message = work, grid.point(index), grid.count
                        if (outcome := _asked(process, message)) is None:
                            deaths[index] += 1
                            if stopped.is_set() or deaths[index] < _DEATHS:
                                break
                            reason = f"{_DEATHS} processes ended over it, {_ending(process)}"
                            outcome = Outcome(reason=reason)
                        finished.put((index, outcome, gate))
                        gate.acquire()
                        index = None if stopped.is_set() else waiting.take(grid.kind(index))
                    if stopped.is_set():
                        return
        except BaseException as error:  # no process can be started, say
            finished.put(error)

    threads = [threading.Thread(target=look_after, args=(gate,), daemon=True) for gate in gates]
    try:
        for thread in threads:
            thread.start()
        for _ in todo:
            if isinstance(result := finished.get(), BaseException):
                raise result
            *piece, gate = result
            yield tuple(piece)
            gate.release()
    finally:
        stopped.set()
        for process in list(running):
            process.kill()
        for thread, gate in zip(threads, gates, strict=True):
            gate.release()
            thread.join(timeout=10)


class _Waiting:
    """Pieces that nobody has taken yet, those of one kind in a row."""

    def __init__(self, grid: Grid, todo: Sequence[Index]):
        self._lock = threading.Lock()
        self._kinds: dict[tuple[Any, ...], deque[Index]] = defaultdict(deque)
        for index in todo:
            self._kinds[grid.kind(index)].append(index)

    def take(self, kind: tuple[Any, ...] | None) -> Index | None:
        """One of this kind, else of that of which most are left."""
        with self._lock:
            same = self._kinds.get(kind) if kind is not None else None
            pieces = same or max(self._kinds.values(), key=len)
            return pieces.popleft() if pieces else None


@contextlib.contextmanager
def _started(running: set[subprocess.Popen[bytes]]) -> Iterator[subprocess.Popen[bytes]]:
    program = _PROGRAM.format(path=sys.path, module=__name__)
    # Several processes on one accelerator: none may take all of its memory.
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | dict(os.environ)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C is for the one who started it
    )
    running.add(process)
    try:
        yield process
    finally:
        running.discard(process)
        process.kill()
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(OSError):
                stream.close()


def _asked(process: subprocess.Popen[bytes], message: tuple[Any, ...]) -> Outcome | None:
    """What a process answers; nothing if it is dead."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, message)
        return pickle.load(process.stdout)
    except (OSError, EOFError, pickle.UnpicklingError, ValueError):
        return None


def _send(stream: IO[bytes], message: Any) -> None:
    stream.write(pickle.dumps(message))
    stream.flush()


def _ending(process: subprocess.Popen[bytes]) -> str:
    status = process.wait()
    return f"by signal {-status}" if status < 0 else f"with exit status {status}"


def serve() -> None:
    """A process that computes pieces: what it is asked comes in, what comes of it goes out."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints belongs to standard error
    asked: queue.SimpleQueue[tuple[bytes, Mapping[str, Any], int]] = queue.SimpleQueue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                asked.put(pickle.load(sys.stdin.buffer))
        os._exit(0)  # nobody wants to know any more, however long a piece still takes

    threading.Thread(target=listen, daemon=True).start()
    while True:
        outcome = computed(*asked.get())
        try:
            _send(out, outcome)
        except OSError:
            os._exit(0)
