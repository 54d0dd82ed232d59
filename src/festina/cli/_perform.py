"""One experiment from parameters to a complete run folder."""

import contextlib
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from festina._run._beside import replacing
from festina._run._code import code
from festina.experiments import Claim, Experiment, Parameters, Progress

from ._complaint import Complaint
from ._endings import unconverged
from ._folder import Building, shorter, unwritable
from ._own_file import recorded
from ._parameters import in_force, to_toml
from ._signals import interruptible

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf")
"""What a figure is written as, if nothing else is asked for."""


@dataclass(frozen=True)
class Done:
    """An experiment that was run: its claims, its files, and a line on seeds that broke off."""

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
) -> Done:
    """Run an experiment and write its folder. Where that cannot be written, nothing is run.

    The run is saved first of all: whatever fails afterwards, nothing is trained again. `picture` is
    how the animation is written, `gif` or `mp4`, where one is wanted.
    """
    with Building(out, numbered_in=numbered_in) as building:
        from festina._cache import compilation_cache

        compilation_cache()
        # Standard output is for the claims.
        with interruptible(), contextlib.redirect_stdout(sys.stderr):
            run = experiment.run(parameters, key=None, progress=progress)
        preset = in_force(experiment, preset, parameters)
        run.attrs |= {"experiment": experiment.name, "preset": preset or ""}
        run.attrs |= {"code": code(experiment.entry.file), **recorded(experiment.entry.file)}
        run.attrs.setdefault("parameters", parameters.model_dump(mode="json"))
        progress("saving the run", 1.0)
        text = to_toml(parameters, experiment.entry)
        try:
            _save(run, text, building.path)
            folder = building.finish()
        except OSError as error:  # the disk is full, or the folder went away
            raise _elsewhere(run, text, unwritable(out or numbered_in, error)) from error
    return conclude(experiment, run, folder, progress=progress, picture=picture)


def conclude(
    experiment: Experiment,
    run: "xr.DataTree",
    folder: Path,
    *,
    progress: Progress,
    picture: str | None = None,
    redraw: bool = True,
) -> Done:
    """Claims and figures of a run, into its folder; without `redraw` only those that lack."""
    try:
        with interruptible(), contextlib.redirect_stdout(sys.stderr):
            progress("checking the claims", 1.0)
            claims = claims_of(experiment, run)
            pictures = [folder / f"figure.{kind}" for kind in FORMATS]
            try:
                write_claims(map(Claim.to_json, claims), folder)
                if redraw or not all(path.exists() for path in pictures):
                    progress("drawing", 1.0)
                    save_figure(experiment.draw(run), folder / "figure")
                if picture is not None:
                    progress("animating", 1.0)
                    moving = folder / f"animation.{picture}"
                    pictures.append(save_picture(experiment, run, moving))
            except OSError as error:
                raise unwritable(folder, error) from error
    except BaseException as error:
        error.add_note(f"The run is kept: `festina show {shorter(folder)}` draws it.")
        raise
    label = labelled(experiment.name, run.attrs.get("preset") or None)
    return Done(label, experiment.entry.shows, claims, folder, pictures, unconverged(run))


def is_done(
    folder: Path, experiment: Experiment, parameters: Parameters, preset: str | None
) -> bool:
    """Whether the run in a folder is the one that would be made: same parameters, same festina."""
    import pydantic

    import festina
    from festina import _run

    try:
        made = _run.attributes(folder)
        stored = made["parameters"]
        stored = json.loads(stored) if isinstance(stored, str) else stored
        same = experiment.parameters(**stored) == parameters
    except (_run.RunError, OSError, LookupError, TypeError, pydantic.ValidationError):
        return False
    wanted = {
        "experiment": experiment.name,
        "preset": in_force(experiment, preset, parameters) or "",
        "festina_version": festina.__version__,
        "code": code(experiment.entry.file),
    }
    return same and all(made.get(key) == value for key, value in wanted.items())


def claims_of(experiment: Experiment, run: "xr.DataTree") -> list[Claim]:
    """The claims of a run, under the name of its preset where it has one."""
    label = labelled(experiment.name, run.attrs.get("preset") or None)
    return [dataclasses.replace(claim, experiment=label) for claim in experiment.claims(run)]


def labelled(name: str, preset: str | None) -> str:
    return f"{name} ({preset})" if preset else name


def claims_json(entries: Iterable[dict[str, Any]]) -> str:
    return json.dumps(list(entries), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_claims(entries: Iterable[dict[str, Any]], folder: Path) -> None:
    with replacing(folder / "claims.json") as path:
        path.write_text(claims_json(entries), encoding="utf-8")


def save_figure(
    figure: "Figure",
    stem: Path,
    *,
    size: tuple[float, float] | None = None,
    dpi: float = 150.0,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Write a figure as `stem`.png and `stem`.pdf, the same bytes for the same run.

    `size` is in inches.
    """
    from matplotlib import rc_context

    from festina.experiments.figures import fit_to_page

    fit_to_page(figure, *(size or figure.get_size_inches()))
    # `fit` has laid the figure out; left to `savefig`, this is done again for each file.
    figure.set_layout_engine("none")
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    written = []
    for kind in formats:
        target = stem.with_name(f"{stem.name}.{kind}")
        with replacing(target) as path, rc_context({"svg.hashsalt": "festina"}):
            figure.savefig(path, format=kind, dpi=dpi, metadata=undated.get(kind))
        written.append(target)
    return written


def save_picture(
    experiment: Experiment,
    run: "xr.DataTree",
    target: Path,
    *,
    size: tuple[float, float] | None = None,
) -> Path:
    """Write the animation of a run, with frames of `size` in inches if it is given.

    Drawing its frames is what takes time, and writing draws them.
    """
    from festina.experiments import save_animation

    assert experiment.animate is not None, "`moving_picture` has refused this before"
    animation = experiment.animate(run)
    with replacing(target) as path:
        save_animation(animation, path, size=size)
    return target


def _save(run: "xr.DataTree", parameters: str, folder: Path) -> None:
    from festina._run import save

    save(run, folder / "run.zarr")
    (folder / "parameters.toml").write_text(parameters, encoding="utf-8")


def _elsewhere(run: "xr.DataTree", parameters: str, complaint: Complaint) -> Complaint:
    """The complaint that a run cannot be where it was wanted; it is kept where there is room."""
    with contextlib.suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="festina-"))
        _save(run, parameters, folder)
        complaint.add_note(f"The run is kept: `festina show {folder}` draws it.")
    return complaint
