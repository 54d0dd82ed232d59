"""Run experiments one after another, in a process of their own.

The process is started when the first page of an experiment is opened, and imports the experiment
while the reader looks at the page. A run that is cancelled is killed with its process, and a new
process is started.
"""

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from .._processes import Died, Server
from .._run._beside import left_over
from .._run._building import numbered, remove_empty
from ..experiments import Experiment, ExperimentEntry, Parameters
from ..experiments._describe import describe
from ..experiments.claims._claim import labelled
from ._work import Ended, carry_out, prepare

_IDLE = 60.0  # seconds after which the process is stopped if no page of an experiment is open
_MOST = 20  # runs that may wait

State = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclasses.dataclass(eq=False)
class Job:
    """A requested run, and its progress.

    - `tell`: function that is called, in any thread, when something has changed; `None` while no
      page shows the run.
    - `keep`: whether the run goes on if its page is closed.
    """

    experiment: Experiment
    parameters: Parameters
    preset: str
    shell: str
    tell: Callable[[], object] | None = None
    keep: bool = False
    state: State = "waiting"
    place: int = 0
    words: str = ""
    fraction: float = 0.0
    folder: Path | None = None
    since: float = 0.0
    cancelled: bool = False

    @property
    def ended(self) -> bool:
        """Return whether the run is done, failed or cancelled."""
        return self.state in ("done", "failed", "cancelled")

    def progress(self, words: str, fraction: float) -> None:
        """Note the progress of the run."""
        self.change(words=words, fraction=min(max(0.0, fraction), 1.0))

    def change(self, **values: Any) -> None:
        """Change attributes, and tell the page."""
        for name, value in values.items():
            setattr(self, name, value)
        if (tell := self.tell) is not None:
            tell()

    def to_json(self) -> dict[str, Any]:
        """Return what the page shows."""
        return {
            "label": labelled(self.experiment.name, self.preset),
            "state": self.state,
            "place": self.place,
            "words": self.words,
            "fraction": self.fraction,
            "seconds": round(time.monotonic() - self.since, 1) if self.since else 0.0,
            "keep": self.keep,
            "shell": self.shell,
        }


class Runner:
    """The process of the experiments, and the runs that wait for it. Any thread may call this."""

    def __init__(self, runs: Path):
        self._runs = runs.absolute()
        self._condition = threading.Condition(threading.RLock())
        self._todo: list[Job] = []
        self._current: Job | None = None
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._open: list[ExperimentEntry] = []
        self._imported: set[str] = set()
        self._failed: set[str] = set()  # experiments whose import ended the process
        self._stopped = False

    def open(self, entry: ExperimentEntry) -> None:
        """Start the process if necessary, because a page of this experiment was opened."""
        with self._condition:
            self._open.append(entry)
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._work, name="runs", daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self, entry: ExperimentEntry) -> None:
        """Note that a page of this experiment was closed."""
        with self._condition:
            self._open.remove(entry)
            self._condition.notify()

    def submit(self, job: Job) -> None:
        """Run a job when all earlier ones have ended."""
        with self._condition:
            if len(self._todo) >= _MOST:
                raise ValueError(f"{_MOST} runs are waiting already. Wait until some have ended.")
            self._todo.append(job)
            self._say_places()
            self._condition.notify()

    def cancel(self, job: Job) -> None:
        """Remove a waiting job, or kill the process of the running one."""
        with self._condition:
            job.cancelled = True
            if job in self._todo:
                self._todo.remove(job)
                job.change(state="cancelled", words="Cancelled before it began.")
                self._say_places()
            elif job is self._current and self._server is not None:
                self._server.stop()

    def unattended(self, name: str) -> Job | None:
        """Return an unfinished run of an experiment that no page shows, if there is one."""
        with self._condition:
            jobs = [*([self._current] if self._current else []), *self._todo]
            for job in jobs:
                if job.experiment.name == name and job.tell is None and not job.ended:
                    return job
            return None

    def stop(self) -> None:
        """Kill the process and drop all runs, because the explorer ends."""
        with self._condition:
            self._stopped = True
            self._todo.clear()
            if self._server is not None:
                self._server.stop()
            self._condition.notify()
            thread = self._thread
        if thread is not None:
            thread.join(5)

    def _say_places(self) -> None:
        for place, job in enumerate(self._todo, 1):
            job.change(place=place)

    def _work(self) -> None:
        """Take the next run; if there is none, import the experiments of the open pages."""
        while True:
            job, entry = self._next()
            if job is not None:
                try:
                    self._run(job)
                except OSError as error:  # the folder of runs cannot be read
                    job.change(state="failed", words=describe(error, ""))
                finally:
                    with self._condition:
                        self._current = None
            elif entry is not None:
                self._prepare(entry)
            elif self._stopped:
                self._end_process()
                return
            else:
                self._end_process()  # nobody has looked at an experiment for a while

    def _next(self) -> tuple[Job | None, ExperimentEntry | None]:
        with self._condition:
            while not self._stopped:
                if self._todo:
                    self._current = self._todo.pop(0)
                    self._say_places()
                    return self._current, None
                for entry in reversed(self._open):
                    if entry.name not in self._imported | self._failed:
                        return None, entry
                idle = not self._open and self._server is not None
                if not self._condition.wait(_IDLE if idle else None) and idle:
                    break
            return None, None

    def _prepare(self, entry: ExperimentEntry) -> None:
        self._imported.add(entry.name)
        if self._call(prepare, entry) is not None:
            self._failed.add(entry.name)

    def _run(self, job: Job) -> None:
        name = job.experiment.name
        parent = self._runs / name
        missing = [path for path in (parent, *parent.parents) if not path.exists()]
        before = set(_numbered(parent))
        job.change(state="running", words="starting", since=time.monotonic())
        list(_left_over(parent))
        values = job.parameters.model_dump()
        call = (carry_out, job.experiment.entry, job.preset, values, parent)
        ended = None if job.cancelled else self._call(*call, progress=job.progress, job=job)
        self._imported.add(name)
        if isinstance(ended, Ended):
            words, folder = ended.reason, ended.folder
            job.change(state="done" if folder else "failed", words=words, folder=folder)
            return
        list(_left_over(parent))
        remove_empty(missing)
        kept = [path for path in _numbered(parent) if path not in before]
        note = f" Training had ended, and its run is kept in '{kept[-1]}'." if kept else ""
        if job.cancelled or self._stopped:
            job.change(state="cancelled", words=f"Cancelled.{note}")
        else:
            words = f"The process of the run ended unexpectedly, {ended}."
            job.change(state="failed", words=f"{words} It may have run out of memory.{note}")

    def _call(self, *call: Any, job: Job | None = None, **named: Any) -> Any:
        """Return the result of a call in the process, or how the process ended, such as "by …"."""
        with self._condition:
            if self._server is not None and self._server.stopped:
                self._end_process()
            if self._stopped or (job is not None and job.cancelled):
                return None
            server = self._server = self._server or Server()
        try:
            return server.call(*call, **named)
        except Died as death:
            self._end_process()
            return str(death)

    def _end_process(self) -> None:
        with self._condition:
            server, self._server = self._server, None
            self._imported.clear()
        if server is not None:
            server.stop()
            server.close()


def _numbered(parent: Path) -> list[Path]:
    return numbered(parent) if parent.is_dir() else []


def _left_over(parent: Path) -> list[Path]:
    """Remove files that killed processes left in a folder of runs, and in its runs."""
    folders = [parent, *parent.glob("*/")]
    return [path for folder in folders for path in left_over(folder)]
