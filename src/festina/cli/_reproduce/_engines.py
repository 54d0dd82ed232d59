"""Carry out runs, in this process or side by side in several processes."""

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from festina._signals import interruptible
from festina.experiments import ExperimentEntry, Progress

from ._jobs import Job
from ._results import Ended

FORMATS = ("png", "pdf", "svg")
Begin = Callable[[Job], Progress]
"""A function that notes the beginning of a run, and returns the function for its progress."""

_MEMORY = 3e9
"""Bytes of memory for each process: the largest experiments need about as much."""
_MOST = 10
"""Largest useful number of processes: the longest experiment takes a tenth of the whole time."""


def usual_processes() -> int:
    """Return how many processes use all cores, but neither share an accelerator nor fill memory."""
    from festina._lanes import accelerated, cores
    from festina._memory import memory

    return 1 if accelerated() else max(1, int(min(cores(), _MOST, memory() / _MEMORY)))


def carry_out(
    jobs: Sequence[Job], top: Path, processes: int, begin: Begin, *, debug: bool
) -> Generator[tuple[Job, Ended]]:
    """Carry out runs, and yield each when it has ended. A single process is this process."""
    if processes > 1:
        yield from _side_by_side(jobs, top, processes, begin, debug=debug)
        return
    for job in jobs:
        yield job, _carried_out(job, top, begin(job), debug=debug)


def _side_by_side(
    jobs: Sequence[Job], top: Path, processes: int, begin: Begin, *, debug: bool
) -> Generator[tuple[Job, Ended]]:
    from festina._processes import Died, Server, side_by_side

    def work(server: Server, job: Job) -> Ended:
        parts = job.experiment.entry, job.preset, job.parameters.model_dump(exclude_unset=True)
        call = (_in_a_process, *parts, job.label, job.folder, top)
        try:
            return server.call(*call, progress=begin(job), debug=debug)
        except Died as death:
            return Ended(
                reason=f"Its process ended unexpectedly, {death}. If the memory is full, use fewer "
                "`--processes`."
            )

    yield from side_by_side(work, jobs, processes)


def _in_a_process(
    entry: ExperimentEntry,
    preset: str | None,
    parameters: Mapping[str, Any],
    label: str,
    folder: str,
    top: Path,
    *,
    progress: Progress,
    debug: bool,
) -> Ended:
    """Carry out a run in a process that has not imported the experiment yet."""
    from festina.experiments._registry import experiment_of

    experiment = experiment_of(entry)
    job = Job(experiment, preset, experiment.parameters(**parameters), label, folder)
    return _carried_out(job, top, progress, debug=debug)


def _carried_out(job: Job, top: Path, progress: Progress, *, debug: bool) -> Ended:
    """Train an experiment, or read its finished run; write its claims and its figure."""
    from festina import _run
    from festina._cache import discard_programs
    from festina.experiments import ExperimentRun
    from festina.experiments._perform import conclude, perform

    folder = top / job.folder
    discard_programs()
    try:
        with interruptible():
            if folder.exists() and job.is_done(top):
                run = ExperimentRun(job.experiment, _run.load(folder))
                done = conclude(run, folder, progress=progress, redraw=False, formats=FORMATS)
                return Ended(done, reused=True)
            done = perform(
                job.experiment,
                job.parameters,
                preset=job.preset,
                out=folder,
                numbered_in=top,
                progress=progress,
                formats=FORMATS,
            )
            return Ended(done)
    except Exception as error:
        return Ended.failed(error, debug=debug)
