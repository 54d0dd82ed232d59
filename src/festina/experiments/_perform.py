"""Run an experiment into a folder; if that folder cannot be written, save the data elsewhere."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .._run._beside import shorter
from .._run._building import Building, unwritable
from .._signals import interruptible
from ._endings import unconverged
from ._parameters import Parameters
from ._registry import Experiment, Progress
from ._runner import FORMATS, ExperimentRun, run_experiment
from .claims import Claim


@dataclass(frozen=True)
class Done:
    """A finished run: its claims, its files, and a remark on seeds that did not converge."""

    label: str
    shows: str
    claims: list[Claim]
    folder: Path
    pictures: list[Path]
    remark: str = ""


def perform(
    experiment: Experiment,
    parameters: Parameters,
    *,
    preset: str | None,
    out: Path | None,
    numbered_in: Path,
    progress: Progress,
    picture: str | None = None,
    formats: Sequence[str] = FORMATS,
) -> Done:
    """Run an experiment and write its folder.

    If the folder cannot be written, the experiment is not run. The run is saved before claims and
    figures are made, so the run is kept if claims or figures fail. `picture` is the format of the
    requested animation, `gif` or `mp4`; `None` makes no animation.
    """
    with Building(out, numbered_in=numbered_in) as building:
        with _at_work():
            run = run_experiment(experiment, parameters, preset=preset, progress=progress)
        progress("saving the run", 1.0)
        try:
            run.save(building.path, parameters)
            folder = building.finish()
        except OSError as error:  # the disk is full, or the folder was removed
            complaint = unwritable(out or numbered_in, error)
            with contextlib.suppress(OSError):
                elsewhere = Path(tempfile.mkdtemp(prefix="festina-"))
                run.save(elsewhere, parameters)
                complaint.add_note(f"The run is kept: `festina show {elsewhere}` draws it.")
            raise complaint from error
    return conclude(run, folder, progress=progress, picture=picture, formats=formats)


def conclude(
    run: ExperimentRun,
    folder: Path,
    *,
    progress: Progress,
    picture: str | None = None,
    redraw: bool = True,
    formats: Sequence[str] = FORMATS,
) -> Done:
    """Write claims and figures to a run folder; without `redraw`, draw only missing figures."""
    try:
        with _at_work():
            progress("checking the claims", 1.0)
            pictures = [folder / f"figure.{kind}" for kind in formats]
            try:
                run.write_claims(folder)
                if redraw or not all(path.exists() for path in pictures):
                    progress("drawing", 1.0)
                    run.write_figure(folder / "figure", formats)
                if picture is not None:
                    progress("animating", 1.0)
                    moving = folder / f"animation.{picture}"
                    pictures.append(run.write_animation(moving, progress=progress))
            except OSError as error:
                raise unwritable(folder, error) from error
    except BaseException as error:
        error.add_note(kept(folder))
        raise
    return done(run, folder, pictures)


def done(run: ExperimentRun, folder: Path, pictures: list[Path]) -> Done:
    """Return the claims, files and remark on unconverged seeds of a run, for printing."""
    shows, remark = run.experiment.entry.shows, unconverged(run.data)
    return Done(run.label, shows, run.claims, folder, pictures, remark)


def kept(folder: Path) -> str:
    """Return the note that a run is saved although a later step failed."""
    return f"The run is kept: `festina show {shorter(folder)}` draws it."


@contextlib.contextmanager
def _at_work() -> Iterator[None]:
    """Within the block, let Ctrl-C interrupt, and send printed text to standard error."""
    with interruptible(), contextlib.redirect_stdout(sys.stderr):
        yield
