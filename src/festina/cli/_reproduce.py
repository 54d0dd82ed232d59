"""`festina reproduce`."""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from festina._run._beside import held
from festina.experiments import (
    Experiment,
    experiment_groups,
    experiment_names,
    find_entry,
    load_experiment,
    unknown,
)

from ._complaint import Complaint, complain, describe
from ._folder import (
    WITHOUT_IDENTIFIERS,
    free,
    make,
    numbered,
    remove_empty,
    shorter,
    sweep,
    unwritable,
)
from ._options import Claims, Debug, Json, Quick, Quiet, Whole, switch
from ._progress import Progress
from ._signals import interruptible, status, undisturbed

_FORMATS = ("png", "pdf", "svg")
REPORT = "report.html"

if TYPE_CHECKING:
    from festina.experiments import Parameters

    from ._perform import Done


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

    Each run gets its own folder and one line of output. One claims.json holds all claims; --claims
    prints all claims, and --claims ID prints only the claims with the identifier ID. If an
    experiment fails, its error is reported and the other experiments still run. Ctrl-C keeps the
    finished runs. --quick runs the quick version of each experiment and skips presets.

    After an interruption, the same command resumes: finished runs with the same parameters and the
    same code are not repeated.

    The exit status is 1 if a claim is broken or an experiment failed, and 0 otherwise.
    """
    sweep(*([] if out is None else [out.expanduser()]))
    results = Results()
    interruption, top, made = None, None, list[Path]()
    with ExitStack() as stack:
        try:
            with interruptible(), Progress(quiet=quiet) as progress:
                flags = {k: v for k, v in {"seeds": seeds, "seed": seed}.items() if v is not None}
                results.jobs = _jobs(source, quick, flags, results, progress, debug=debug)
                _check_identifiers(claims or (), results.jobs)
                top, made = _folder(source, out, results.jobs, stack, fresh=fresh)
                _each(results, top, progress, debug=debug)
        except KeyboardInterrupt as error:
            interruption = error
        finally:
            with undisturbed():
                if top is not None and results.done:
                    _Reporter(top).write()
                remove_empty(made)  # folders without a finished run

    done = _report(results, top, claims, interrupted=interruption is not None, json=json)
    if interruption is not None:
        kept = f"finished runs are in '{top}'" if results.done else "nothing was written"
        complain(f"Interrupted; {kept}.", debug=debug)
        return status(interruption)
    broken = any(claim.broken for each in done for claim in each.claims)
    return int(bool(results.failures) or broken)


@dataclass(frozen=True)
class Job:
    """A requested run and the name of its folder."""

    experiment: Experiment
    preset: str | None
    parameters: "Parameters"
    label: str
    folder: str

    def is_done(self, top: Path) -> bool:
        from festina.experiments._runner import is_saved

        return is_saved(top / self.folder, self.experiment, self.parameters, self.preset)


@dataclass
class Results:
    jobs: list[Job] = field(default_factory=list)
    done: "list[Done]" = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    there: int = 0
    """Number of runs that an earlier command has finished."""

    def fail(self, label: str, error: Exception, *, debug: bool) -> None:
        complain(f"{label} failed: {describe(error)}", debug=debug)
        self.failures.append((label, describe(error)))

    def to_json(self) -> Iterator[dict[str, Any]]:
        """Yield all claims, and one entry "failed" or "not run" for each run without claims."""
        for done in self.done:
            yield from (claim.to_json() for claim in done.claims)
        ended = {done.label for done in self.done} | {label for label, _ in self.failures}
        for label, reason in self.failures:
            yield _missing(label, "failed", reason)
        for job in self.jobs:
            if job.label not in ended:
                yield _missing(job.label, "not run", "interrupted before it was finished")


def _missing(label: str, verdict: str, note: str) -> dict[str, Any]:
    """Return an entry of claims.json for a run that made no claims."""
    from festina.experiments.claims import Claim, Judgement

    name, _, preset = label.removesuffix(")").partition(" (")
    nothing = Judgement(math.nan, math.nan, math.nan, False)
    claim = Claim(name, "", "", "", "", nothing, note=note, preset=preset)
    return claim.to_json() | {"verdict": verdict, "broken": False}


def _chosen(source: str) -> tuple[str, ...]:
    """Return the names of the experiments of a source, or the names that begin with `source`."""
    if source.endswith(".py"):
        find_entry(source)
        return (source,)
    beginning = {"all": ""}.get(source, source if "/" in source else f"{source}/")
    if chosen := tuple(name for name in experiment_names() if name.startswith(beginning)):
        return chosen
    choices = experiment_names() if "/" in source else (*experiment_groups(), "all")
    _, _, id = source.partition("#")
    hint = f" `--claims {id}` selects a claim." if id else ""
    raise Complaint(unknown("source", source, choices) + hint)


def _jobs(
    source: tuple[str, ...],
    quick: bool,
    flags: Mapping[str, Any],
    results: Results,
    progress: Progress,
    *,
    debug: bool,
) -> list[Job]:
    """Return the requested runs; an invalid flag raises an error before any run."""
    if not source:
        raise Complaint(
            "Missing SOURCE of `festina reproduce`. Sources are: "
            f"{', '.join(experiment_groups())}, all."
        )
    chosen = tuple(dict.fromkeys(name for each in source for name in _chosen(each)))
    alone = "all" not in source and len({name.partition("/")[0] for name in chosen}) == 1
    from festina.experiments.claims._claim import labelled

    from ._parameters import resolve

    jobs: list[Job] = []
    progress.stage("loading", share=0.0)
    for name in chosen:
        try:
            experiment = load_experiment(name)
        except Exception as error:
            results.fail(name, error, debug=debug)
            continue
        own = experiment.name.split("/", 1)[-1] if alone else experiment.name
        for preset in (None, *(() if quick else experiment.presets)):
            parameters = resolve(experiment, preset=preset, quick=quick, flags=flags)
            folder = f"{own}-{preset}" if preset else own
            label = labelled(experiment.name, preset or "")
            jobs.append(Job(experiment, preset, parameters, label, folder))
    return jobs


def _check_identifiers(claims: Sequence[str], jobs: Sequence[Job]) -> None:
    """Raise `ValueError` before any run if an identifier belongs to no claim."""
    from festina.experiments._runner import check_identifiers

    valid: list[str] = []
    for experiment in (job.experiment for job in jobs):
        if experiment.identifiers is None:
            return
        valid += experiment.identifiers
        valid += [f"{experiment.name}#{id}" for id in experiment.identifiers]
    check_identifiers(claims, valid)


def _each(results: Results, top: Path, progress: Progress, *, debug: bool) -> None:
    from festina import _run
    from festina._cache import discard_programs
    from festina.experiments import ExperimentRun
    from festina.experiments._runner import write_claims

    from ._perform import conclude, perform

    possible = []
    for job in results.jobs:  # report missing packages before any training
        try:
            if not job.is_done(top):
                job.experiment.check_packages()
        except ValueError as error:
            results.fail(job.label, error, debug=debug)
        else:
            possible.append(job)
    reporter = _Reporter(top)
    done, whole = 0.0, sum(job.experiment.entry.seconds for job in possible)
    for job in possible:
        share = job.experiment.entry.seconds / whole
        progress.stage(job.label, start=done, share=share)
        done += share
        folder = top / job.folder
        discard_programs()
        try:
            with interruptible():
                if there := folder.exists() and job.is_done(top):
                    run = ExperimentRun(job.experiment, _run.load(folder))
                    result = conclude(
                        run, folder, progress=progress, redraw=False, formats=_FORMATS
                    )
                else:
                    result = perform(
                        job.experiment,
                        job.parameters,
                        preset=job.preset,
                        out=folder,
                        numbered_in=top,
                        progress=progress,
                        formats=_FORMATS,
                    )
        except Exception as error:
            results.fail(job.label, error, debug=debug)
        else:
            results.there += there
            results.done.append(result)
        with undisturbed():
            if results.done:
                write_claims(results.to_json(), top)
                reporter.write()


@dataclass
class _Reporter:
    """Writes the report of finished runs again and again, in a small part of the time."""

    top: Path
    due: float = 0.0

    def write(self) -> None:
        """Write the report, unless it was written a moment ago."""
        start = time.monotonic()
        if start < self.due:
            return
        from festina.report import write_report

        try:
            write_report([self.top], self.top / REPORT)
        except (OSError, ValueError) as error:  # the runs are saved, and training goes on
            complain(f"The report was not written: {describe(error)}")
        end = time.monotonic()
        self.due = end + 20 * (end - start)


def _folder(
    source: tuple[str, ...], out: Path | None, jobs: list[Job], stack: ExitStack, *, fresh: bool
) -> tuple[Path, list[Path]]:
    """Return the locked folder for all runs, and the folders made for it, innermost first.

    The folder of an earlier command is used again if it holds only requested runs.
    """
    called = [find_entry(each).name if each.endswith(".py") else each for each in source]
    parent = Path("runs", f"reproduce-{'-'.join(called).replace('/', '-')}").absolute()
    made: list[Path] = []
    try:
        if out is not None:
            top = Path(os.path.abspath(out.expanduser()))
            if any(_is_old(top, jobs)):
                raise Complaint(f"{_old(top)}; choose another folder.")
            if fresh or not _begun(top, jobs):
                top = free(out)
            made = make(top)
            if stack.enter_context(held(top)) == "theirs":
                raise Complaint(
                    f"Another festina process writes to '{top}'; choose another folder."
                )
            _try(top)
            return top, made
        made = make(parent)
        earlier = numbered(parent)
        for top in () if fresh else reversed(earlier):
            if _begun(top, jobs) and stack.enter_context(held(top)) != "theirs":
                _try(top)
                return top, [top, *made]
        if earlier and any(_is_old(earlier[-1], jobs)):
            complain(f"{_old(earlier[-1])}; all experiments are trained in a new folder.")
        count = int(earlier[-1].name) if earlier else 0
        while True:
            count += 1
            top = parent / f"{count:03d}"
            if make(top) and stack.enter_context(held(top)) != "theirs":
                return top, [top, *made]
    except OSError as error:
        remove_empty(made)
        raise unwritable(out or parent, error) from error


def _begun(top: Path, jobs: list[Job]) -> bool:
    """Return whether a folder is empty or holds only requested runs."""
    if not top.is_dir():
        return False
    expected = {"claims.json", REPORT, *(job.folder.split("/")[0] for job in jobs)}
    if any(path.name not in expected for path in top.iterdir()):
        return False
    return all(job.is_done(top) for job in jobs if (top / job.folder).exists())


def _is_old(top: Path, jobs: list[Job]) -> Iterator[bool]:
    """Yield for a folder, then for each run in it, whether its claims have no identifiers."""
    from festina.experiments._identifiers import is_without_identifiers

    return map(is_without_identifiers, (top, *(top / job.folder for job in jobs)))


def _old(top: Path) -> str:
    return f"'{shorter(top)}' {WITHOUT_IDENTIFIERS}, and is left unchanged"


def _try(folder: Path) -> None:
    """Raise `OSError` if a folder is read-only."""
    import tempfile

    with tempfile.TemporaryFile(dir=folder):
        pass


def _report(
    results: Results,
    top: Path | None,
    claims: Sequence[str] | None,
    *,
    interrupted: bool,
    json: bool,
) -> "list[Done]":
    """Print the results, and return the runs with the requested claims."""
    from festina.experiments._runner import choose, claims_json

    done = results.done
    if claims and done:
        names = {claim.name for claim in choose([c for d in done for c in d.claims], claims)}
        done = [replace(d, claims=[c for c in d.claims if c.name in names]) for d in done]
    if json:
        print(claims_json(replace(results, done=done).to_json()), end="")
        return done
    from ._table import print_results

    finished, wanted = len(results.done), len(results.jobs)
    said = [
        f"Interrupted: {finished} of {wanted} runs are finished, and only finished runs are "
        "counted below. The same command resumes."
        if interrupted
        else f"{finished} of {wanted} run{'s' * (wanted != 1)}.",
    ]
    if results.there:
        said.append(
            f"{results.there} of them {'was' if results.there == 1 else 'were'} already finished, "
            "with the same parameters and the same code: `--fresh` trains again."
        )
    if top is not None and finished:
        said.append(f"All results are in {shorter(top)}: open {REPORT} in a browser.")
    total = " ".join(said) + "\n"
    told = [each for each in done if each.claims]
    print_results(told, results.failures, every_claim=claims is not None, total=total)
    return done
