"""`festina reproduce`."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from festina._signals import interruptible, status, undisturbed
from festina.experiments import Progress, experiment_groups, experiment_names, load_experiment

from .._complaint import Complaint, complain
from .._folder import remove_empty, sweep
from .._options import Claims, Debug, Json, Quick, Quiet, Whole, switch
from ._engines import carry_out, usual_processes
from ._jobs import Job, check_identifiers, chosen, jobs_of
from ._overview import Overview
from ._place import clear, place
from ._record import Record
from ._results import Ended, Results

_READ = 1.0  # seconds to read a saved run


def _completed(_: Any) -> tuple[str, ...]:
    return ("all", *experiment_groups(), *experiment_names())


def reproduce(
    *source: Annotated[
        str,
        Parameter(
            help="One or more of: a source, the beginning of experiment names, your own experiment "
            "file, `all`.",
            completer=_completed,
        ),
    ],
    quick: Quick = False,
    seeds: Annotated[
        Whole | None,
        Parameter(help="Number of seeds of every experiment; by default each experiment's own."),
    ] = None,
    seed: Annotated[
        Whole | None,
        Parameter(help="First random seed of every experiment; by default each experiment's own."),
    ] = None,
    processes: Annotated[
        Whole | None,
        Parameter(
            help="Number of runs at the same time, each in its own process; by default one for "
            "each core, at most ten and as many as fit into memory, and one on an accelerator."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Parameter(help="Write to this folder instead of ./runs/reproduce-SOURCE/001, 002, …"),
    ] = None,
    fresh: Annotated[bool, switch("Train everything again, including finished runs.")] = False,
    claims: Claims = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Run every experiment of a source, with its defaults and with each of its presets.

    `saddles` is a source. `saddles/figure-1` selects all experiments whose names begin with this
    text, and `saddles/figure-1 race/xor` selects both groups.

    Several experiments run at once, in processes of their own. Each run gets its own folder and one
    line of output. One claims.json holds all claims; --claims prints all claims, and --claims ID
    prints only the claims with the identifier ID. One report.html shows all claims and figures. If
    an experiment fails, its error is reported and the other experiments still run. Ctrl-C keeps the
    finished runs. --quick runs the quick version of each experiment and skips presets.

    After an interruption, the same command resumes: finished runs with the same parameters and the
    same code are not repeated.

    The exit status is 1 if a claim is broken or an experiment failed, and 0 otherwise.
    """
    if out is not None:
        clear(out.expanduser())
    sweep()
    results, record, made = Results(), None, list[Path]()
    flags = {k: v for k, v in {"seeds": seeds, "seed": seed}.items() if v is not None}
    interruption = None
    with ExitStack() as stack:
        try:
            with interruptible(), Overview(quiet=quiet) as overview:
                jobs = _jobs(source, quick, flags, results, debug=debug)
                check_identifiers(claims or (), jobs)
                count = _count(processes)
                top, made = place(source, out, jobs, stack, fresh=fresh)
                record = Record(top, results)
                _carry_out(jobs, record, count, overview, debug=debug)
        except KeyboardInterrupt as error:
            interruption = error
            results.interrupted = True
        finally:
            with undisturbed():
                if record is not None:
                    record.finish()
                    clear(record.top)
                remove_empty(made)  # folders without a finished run

    top = None if record is None else record.top
    done = results.report(top, claims, json=json)
    if interruption is not None:
        kept = f"finished runs are in '{top}'" if results.done else "nothing was written"
        complain(f"Interrupted; {kept}.", debug=debug)
        return status(interruption)
    broken = any(claim.broken for each in done for claim in each.claims)
    return int(bool(results.failures) or broken)


def _count(processes: str | None) -> int:
    """Return the number of processes."""
    if processes is None:
        return usual_processes()
    if not processes.isdecimal() or int(processes) == 0:
        raise Complaint(
            f"`--processes` must be a whole number of at least 1, got '{processes}'. Leave out "
            "this flag to use all cores."
        )
    return int(processes)


def _jobs(
    sources: tuple[str, ...], quick: bool, flags: dict[str, Any], results: Results, *, debug: bool
) -> list[Job]:
    """Return the requested runs; an invalid flag raises an error before any run."""
    names = chosen(sources)
    alone = "all" not in sources and len({name.partition("/")[0] for name in names}) == 1
    jobs: list[Job] = []
    for name in names:
        try:
            experiment = load_experiment(name)
        except Exception as error:
            results.labels.append(name)
            results.end(name, Ended.failed(error, debug=debug))
            continue
        added = jobs_of(experiment, quick, flags, alone=alone)
        jobs += added
        results.labels += [job.label for job in added]
    results.wanted = len(jobs)
    return jobs


def _carry_out(
    jobs: list[Job], record: Record, processes: int, overview: Overview, *, debug: bool
) -> None:
    """Carry out all runs whose packages are installed, and record each run that has ended."""
    top, results = record.top, record.results
    results.saved = {job.label for job in jobs if job.is_done(top)}
    seconds: dict[str, float] = {}
    for job in jobs:  # report missing packages before any training
        try:
            if job.label not in results.saved:
                job.experiment.check_packages()
        except ValueError as error:
            results.end(job.label, Ended.failed(error, debug=debug))
        else:
            seconds[job.label] = _READ if job.label in results.saved else job.seconds
    possible = [job for job in jobs if job.label in seconds]
    processes = max(1, min(processes, len(possible)))
    # Saved runs come first, because claims.json lacks their claims until they are read. Of the
    # others, long runs start first, so that no process waits for a long run at the end.
    longest_first = lambda job: -seconds[job.label] if processes > 1 else 0.0
    possible.sort(key=lambda job: (job.label not in results.saved, longest_first(job)))

    def begin(job: Job) -> Progress:
        results.begun.add(job.label)
        return overview.begin(job)

    overview.expect(seconds, processes)
    with closing(carry_out(possible, top, processes, begin, debug=debug)) as each_ended:
        for job, ended in each_ended:
            overview.end(job, ended.words)
            results.end(job.label, ended)
            record.write()
