"""`festina reproduce`."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from festina.papers import Experiment, load, names, sources, unknown

from ._complaint import Complaint, complain, describe
from ._folder import free, make, number, remove_empty, unwritable
from ._options import Debug, Json, Quick, Quiet, Whole
from ._progress import Progress
from ._signals import interruptible, status, undisturbed

if TYPE_CHECKING:
    from festina.papers import Claim


def reproduce(
    source: Annotated[str, Parameter(help="A source, the beginning of names, or `all`.")],
    /,
    *,
    quick: Quick = False,
    seeds: Annotated[Whole | None, Parameter(help="Seeds per experiment, if not its own.")] = None,
    seed: Annotated[Whole | None, Parameter(help="First random seed, if not its own.")] = None,
    out: Annotated[
        Path | None, Parameter(help="Write here instead of ./runs/reproduce-SOURCE/001, 002, …")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Run every experiment of a source, with its defaults and with each of its presets.

    `saddles` is a source; `saddles/figure-1` are all experiments whose names begin like that.
    Each gets its own run folder; one table and one claims.json hold all claims. An experiment that
    fails is reported and the others go on; Ctrl-C keeps what was finished. With --quick each is
    made as cheap as it can be without another verdict, one that is cheap already stays as it is,
    and presets are left out.

    The exit status is 0 when every claim that is known to hold does, 1 when one is broken or an
    experiment failed.
    """
    if not _chosen(source):
        choices = names() if "/" in source else (*sources(), "all")
        raise Complaint(unknown("source", source, choices))
    flags = {k: v for k, v in {"seeds": seeds, "seed": seed}.items() if v is not None}
    top, made = _folder(source, out)
    results = Results()
    interruption = None
    try:
        with interruptible(), Progress(quiet=quiet) as progress:
            _each(source, quick, flags, top, results, progress, debug=debug)
    except KeyboardInterrupt as error:
        interruption = error
    finally:
        with undisturbed():
            _conclude(results, top, made)

    _report(results, top, json=json)
    if interruption is not None:
        kept = f"what was finished is in '{top}'" if results.finished else "nothing was written"
        complain(f"Interrupted; {kept}.", debug=debug)
        return status(interruption)
    return int(bool(results.failures) or any(claim.broken for claim in results.claims))


@dataclass
class Results:
    finished: int = 0
    claims: "list[Claim]" = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, label: str, error: Exception, *, debug: bool) -> None:
        complain(f"{label} failed: {describe(error)}", debug=debug)
        self.failures.append((label, describe(error)))


def _chosen(source: str) -> tuple[str, ...]:
    """Names of the experiments that are meant."""
    beginning = {"all": ""}.get(source, source if "/" in source else f"{source}/")
    return tuple(name for name in names() if name.startswith(beginning))


def _each(
    source: str,
    quick: bool,
    flags: Mapping[str, Any],
    top: Path,
    results: Results,
    progress: Progress,
    *,
    debug: bool,
) -> None:
    from ._parameters import resolve
    from ._perform import labelled, perform

    jobs: list[tuple[Experiment, str | None]] = []
    progress.stage("loading", share=0.0)
    for name in _chosen(source):
        try:
            experiment = load(name)
        except Exception as error:
            results.fail(name, error, debug=debug)
            continue
        resolve(experiment, quick=quick, flags=flags)  # a bad flag is said before anything is run
        jobs += [(experiment, preset) for preset in (None, *(() if quick else experiment.presets))]

    whole, done = sum(experiment.entry.seconds for experiment, _ in jobs), 0.0
    for experiment, preset in jobs:
        label = labelled(experiment.name, preset)
        share = experiment.entry.seconds / whole
        progress.stage(label, start=done, share=share)
        done += share
        folder = experiment.name if source == "all" else experiment.name.split("/", 1)[1]
        try:
            with interruptible():
                _, claims, _ = perform(
                    experiment,
                    resolve(experiment, preset=preset, quick=quick, flags=flags),
                    preset=preset,
                    out=top / (f"{folder}-{preset}" if preset else folder),
                    numbered_in=top,
                    progress=progress,
                )
        except Exception as error:
            results.fail(label, error, debug=debug)
        else:
            results.finished += 1
            results.claims += claims


def _folder(source: str, out: Path | None) -> tuple[Path, list[Path]]:
    """The folder for all runs, and those that were made for it, innermost first."""
    parent = Path("runs", f"reproduce-{source.replace('/', '-')}").absolute()
    made: list[Path] = []
    try:
        if out is None:
            made = make(parent)
            top = number(parent)
            made.insert(0, top)
        else:
            top = free(out)
            made = make(top)
        with tempfile.TemporaryFile(dir=top):  # a folder that exists may still be read-only
            return top, made
    except OSError as error:
        remove_empty(made)
        raise unwritable(out or parent, error) from error


def _conclude(results: Results, top: Path, made: list[Path]) -> None:
    from ._perform import write_claims

    if results.finished:
        write_claims(results.claims, top)
    else:
        remove_empty(made)


def _report(results: Results, top: Path, *, json: bool) -> None:
    if json:
        from ._perform import claims_json

        print(claims_json(results.claims), end="")
    elif results.finished or results.failures:
        from ._run import shorter
        from ._table import print_claims

        print_claims(results.claims, results.failures)
        if results.finished:
            print(f"Figures and runs: {shorter(top)}")
