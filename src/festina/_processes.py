"""Compute in other processes of this machine.

A process receives calls over its standard input. The process ends when its standard input is
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
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import IO, Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[str, float], None]
Call = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any], bool]
"""A function, its arguments, and whether the caller wants to know its progress."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve()"
_OFTEN = 0.1  # seconds between two messages about progress


class Died(Exception):
    """A process ended before it returned a result; the text says how, such as "by signal 9"."""


class Server:
    """A process that carries out calls. If the process dies, the next call starts a new one."""

    def __init__(self):
        self._stopped, self._process = False, _started()

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        progress: Progress | None = None,
        **named: Any,
    ) -> Any:
        """Return the result of a function that the process can import.

        With `progress`, the function receives an argument `progress`, and what it reports arrives
        here. `Died` is raised if the process ends.
        """
        if self._process.poll() is not None:
            self.close()
            self._process = _started()
            if self._stopped:  # `stop` was called in the meantime
                self._process.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, (function, arguments, named, progress is not None))
            while True:
                ended, message = pickle.load(self._process.stdout)
                if ended:
                    return message
                assert progress is not None
                progress(*message)
        except (OSError, EOFError, pickle.UnpicklingError):
            status = self._process.wait()
            how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
            raise Died(how) from None

    @property
    def stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Kill the process; a call that another thread waits for raises `Died`."""
        self._stopped = True
        self._process.kill()

    def close(self) -> None:
        """Wait until the process has ended, and close the pipes to it."""
        self._process.wait()
        for stream in filter(None, (self._process.stdin, self._process.stdout)):
            with contextlib.suppress(OSError):
                stream.close()


def side_by_side(
    work: Callable[[Server, T], R], todo: Sequence[T], processes: int
) -> Generator[tuple[T, R]]:
    """Do tasks in this number of processes; yield each task with its result when it is done.

    `work` does a task in a process. A process receives its next task when the caller has taken the
    result of its last one, so a caller that is killed loses one task per process.
    """
    waiting = iter(todo)
    pending: dict[Future[R], tuple[Server, T]] = {}

    def hand(server: Server) -> None:
        for task in waiting:
            pending[pool.submit(work, server, task)] = server, task
            return

    threads, stack = ThreadPoolExecutor(max(1, processes)), contextlib.ExitStack
    # Processes are stopped before the threads end, because each thread waits for a process.
    # Processes are closed after all threads.
    with stack() as closed, threads as pool, stack() as stopped:
        for _ in range(min(processes, len(todo))):
            server = Server()
            closed.callback(server.close)
            stopped.callback(server.stop)
            hand(server)
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                server, task = pending.pop(future)
                yield task, future.result()
                hand(server)


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
    """Carry out calls: read them from standard input, and write results to standard output."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # text printed by a function goes to standard error
    asked: queue.SimpleQueue[Call] = queue.SimpleQueue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                asked.put(pickle.load(sys.stdin.buffer))
        os._exit(0)  # the parent has ended: do not finish the call

    due = 0.0

    def progress(words: str, fraction: float) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + _OFTEN
            _send(out, (False, (words, float(fraction))))

    threading.Thread(target=listen, daemon=True).start()
    while True:
        function, arguments, named, tells = asked.get()
        result = function(*arguments, **named, **({"progress": progress} if tells else {}))
        try:
            _send(out, (True, result))
        except OSError:
            os._exit(0)
