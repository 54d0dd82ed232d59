"""The live part of an experiment's page: values are checked, and a run is started and watched.

The page sends the values of its form as JSON, to check them or to run the experiment with them. It
receives, as JSON, the meaning of the values and the progress of its run.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..experiments import Experiment, experiment_names, load_experiment
from ._form import checked
from ._runner import Job, Runner

_GRACE = 3.0  # seconds after which the run of a closed page is cancelled; a reload takes less

_Text = Annotated[str, pydantic.StringConstraints(max_length=10_000)]


class Wish(pydantic.BaseModel):
    """A message of the page.

    - `kind`: check the values, run the experiment with them, cancel the run, or only set `keep`.
    - `n`: number of the message, which its answer repeats.
    - `values`: texts and ticks of the form.
    - `keep`: whether the run goes on if the page is closed.
    """

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    kind: Literal["check", "run", "cancel", "keep"]
    n: int = 0
    values: dict[_Text, bool | _Text] = {}
    keep: bool = False


class RunPage:
    """One open page of an experiment."""

    def __init__(self, experiment: Experiment, runner: Runner, runs: Path):
        self._experiment, self._runner, self._runs = experiment, runner, runs
        self._loop = asyncio.get_running_loop()
        self._answers: dict[str, dict[str, Any]] = {}
        self._job: Job | None = None
        self._news = asyncio.Event()
        if job := runner.unattended(experiment.name):  # the page was loaded again
            self._watch(job)

    async def take(self, text: str) -> None:
        """Carry out a message of the page."""
        try:
            wish = Wish.model_validate_json(text)
        except pydantic.ValidationError:
            self._error("The page sent a message that the explorer does not understand.")
            return
        match wish.kind:
            case "cancel":
                if self._job is not None:
                    self._runner.cancel(self._job)
            case "keep":
                if self._job is not None:
                    self._job.change(keep=wish.keep)
            case "check" | "run":
                found = await run_in_threadpool(checked, self._experiment, wish.values)
                told = {"problems": found.problems, "shell": found.shell, "python": found.python}
                self._answer("checked", n=wish.n, **told)
                if wish.kind == "run" and found.parameters is not None:
                    job = Job(self._experiment, found.parameters, found.preset, found.shell)
                    self._run(job, keep=wish.keep)

    def _run(self, job: Job, *, keep: bool) -> None:
        if self._job is not None and not self._job.ended:
            self._error("A run of this page is under way: cancel it, or wait until it has ended.")
            return
        job.keep = keep
        try:
            self._experiment.check_packages()
            self._runner.submit(job)
        except ValueError as error:
            self._error(str(error))
        else:
            self._watch(job)

    def _watch(self, job: Job) -> None:
        """Show the progress of a run."""
        self._job = job
        job.tell = lambda: self._loop.call_soon_threadsafe(self._news.set)
        self._news.set()

    def leave(self) -> None:
        """Note that the page was closed: cancel its run soon, unless it should go on."""
        job = self._job
        if job is None:
            return
        job.tell = None
        if not job.ended:
            self._loop.call_later(_GRACE, self._abandon, job)

    def _abandon(self, job: Job) -> None:
        if job.tell is None and not job.keep:  # no page shows it by now
            self._runner.cancel(job)

    def _answer(self, kind: str, **values: Any) -> None:
        self._answers[kind] = {"kind": kind, **values}
        self._news.set()

    def _error(self, words: str) -> None:
        self._answer("error", words=words)

    async def send(self, socket: WebSocket) -> None:
        """Send answers, and the latest state of the run; a slow page misses states in between."""
        while True:
            await self._news.wait()
            self._news.clear()
            answers, self._answers = [*self._answers.values()], {}
            if self._job is not None:
                answers.append({"kind": "run", **self._job.to_json(), "run": self._saved()})
            for answer in answers:
                await socket.send_text(json.dumps(answer, allow_nan=False))

    def _saved(self) -> str:
        """Return the path of the saved run below the folder of runs."""
        folder = None if self._job is None else self._job.folder
        return "" if folder is None else folder.relative_to(self._runs.absolute()).as_posix()


async def live_run(socket: WebSocket) -> None:
    """Serve one page of an experiment until the page is closed."""
    state, name = socket.app.state, socket.query_params.get("experiment", "")
    if name not in experiment_names():
        await socket.close(4404)
        return
    experiment = await run_in_threadpool(load_experiment, name)
    await socket.accept()
    runner: Runner = state.runner
    runner.open(experiment.entry)
    page = RunPage(experiment, runner, state.runs)
    sending = asyncio.create_task(page.send(socket))
    try:
        while True:
            await page.take(await socket.receive_text())
    except (WebSocketDisconnect, RuntimeError, KeyError):  # closed, or sent bytes
        pass
    finally:
        sending.cancel()
        page.leave()
        runner.close(experiment.entry)
