"""Compute pieces in processes of this machine, or in this process.

A process receives pieces over its standard input. The process ends when its standard input is
closed, also if its parent is killed. Programs compiled by one process are read from disk by the
others.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import IO, Any

from ._grid import Grid, Index
from ._work import Outcome, computed

_DEATHS = 3
"""How many processes may die while computing a piece before the piece counts as failed."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve()"

Work = bytes | Callable[..., Any]
Finished = Generator[tuple[Index, Outcome]]
Engine = Callable[[Work, Grid, Sequence[Index]], Finished]
"""A function that computes pieces of a grid and yields each piece when it is finished."""


def here(work: Work, grid: Grid, todo: Sequence[Index]) -> Finished:
    """Compute pieces one after another, in this process."""
    for index in todo:
        yield index, computed(work, grid.point(index), grid.count)


def side_by_side(work: Work, grid: Grid, todo: Sequence[Index], *, processes: int) -> Finished:
    """Compute pieces in this number of processes."""
    waiting = iter(todo)
    pending: dict[Future[Outcome], tuple[_Server, Index]] = {}

    def hand(server: "_Server") -> None:
        if (index := next(waiting, None)) is not None:
            message = work, grid.point(index), grid.count
            pending[pool.submit(server.computed, message)] = server, index

    threads, stack = ThreadPoolExecutor(max(1, processes)), contextlib.ExitStack
    # Processes are stopped before the threads end, because each thread waits for a process.
    # Processes are closed after all threads.
    with stack() as closed, threads as pool, stack() as stopped:
        for _ in range(min(processes, len(todo))):
            server = _Server()
            closed.callback(server.close)
            stopped.callback(server.stop)
            hand(server)
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                server, index = pending.pop(future)
                yield index, future.result()
                hand(server)  # the piece is written by now: a kill loses one piece per process


class _Server:
    """A process that computes pieces. If the process dies, a new one takes its place."""

    def __init__(self):
        self._stopped, self._process = False, _started()

    def computed(self, message: tuple[Any, ...]) -> Outcome:
        ending = ""
        for _ in range(_DEATHS):
            if self._process.poll() is not None:
                self.close()
                self._process = _started()
                if self._stopped:  # `stop` was called in the meantime
                    self._process.kill()
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                _send(self._process.stdin, message)
                return pickle.load(self._process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError):
                status = self._process.wait()
                ending = f"by signal {-status}" if status < 0 else f"with exit status {status}"
            if self._stopped:
                break
        return Outcome(reason=f"{_DEATHS} processes died while computing it, the last {ending}")

    def stop(self) -> None:
        self._stopped = True
        self._process.kill()

    def close(self) -> None:
        self._process.wait()
        for stream in filter(None, (self._process.stdin, self._process.stdout)):
            with contextlib.suppress(OSError):
                stream.close()


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(path=sys.path, module=__name__)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Several processes share an accelerator, so none may reserve all of its memory.
        env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | dict(os.environ),
        start_new_session=True,  # Ctrl-C interrupts the parent alone
    )


def _send(stream: IO[bytes], message: Any) -> None:
    stream.write(pickle.dumps(message))
    stream.flush()


def serve() -> None:
    """Compute pieces: read them from standard input, and write outcomes to standard output."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # text printed by a function goes to standard error
    asked: queue.SimpleQueue[tuple[bytes, Mapping[str, Any], int]] = queue.SimpleQueue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                asked.put(pickle.load(sys.stdin.buffer))
        os._exit(0)  # the parent has ended: do not finish the piece

    threading.Thread(target=listen, daemon=True).start()
    while True:
        outcome = computed(*asked.get())
        try:
            _send(out, outcome)
        except OSError:
            os._exit(0)
