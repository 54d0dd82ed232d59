"""`festina show`."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from festina.experiments import Experiment, load_experiment
from festina.experiments._own_file import file_of_run

from ._complaint import Complaint
from ._folder import WITHOUT_IDENTIFIERS, sweep, unwritable
from ._options import Animation, Claims, Debug, Json, Mp4, Number, switch

if TYPE_CHECKING:
    import xarray as xr

_PICTURES = (".png", ".pdf", ".svg", ".gif", ".mp4")
_NAMED = 8  # most runs listed in one message
_LARGEST = 200.0  # largest width or height of a figure, in inches
_FINEST = 2400.0  # largest resolution, in dots per inch


def show(
    run: Annotated[Path, Parameter(name="RUN", help="A run folder, or its run.zarr.")],
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(
            help="Write the figures to this folder. A figure is named after the experiment and the "
            "run: race-xor-001.png."
        ),
    ] = None,
    force: Annotated[bool, switch("Overwrite files in --out.")] = False,
    size: Annotated[
        str | None,
        Parameter(
            help="Width x height of figures and animations in inches, such as 8x4.5 for a slide. "
            "The font size does not change."
        ),
    ] = None,
    dpi: Annotated[
        Number, Parameter(help="Dots per inch of PNG files; animations always have 130.")
    ] = "150",
    format: Annotated[
        tuple[Literal["png", "pdf", "svg"], ...],
        Parameter(
            help="File formats of the figure, one or more.",
            consume_multiple=1,
            negative_iterable=(),
        ),
    ] = ("png", "pdf"),
    experiment: Annotated[
        Path | None,
        Parameter(
            help="The experiment file that made the run, if the file is your own and was moved."
        ),
    ] = None,
    animation: Animation = False,
    mp4: Mp4 = False,
    claims: Claims = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Redraw the figures of a saved run and print its claims, without training again.

    figure.png and figure.pdf are replaced; the data do not change. For a slide:
    `festina show RUN --size 8x4.5 --dpi 400 --format png --out slides`.
    """
    sheet = None if size is None else _inches(size)
    fine = _between(dpi, 1.0, _FINEST, "--dpi", "dots per inch")
    if out is not None and out.suffix in _PICTURES and not out.is_dir():
        raise Complaint(
            f"`--out` must be a folder, got the file '{out}': festina names the figures. Use "
            f"`--out {out.parent}`."
        )
    home = run.parent if run.suffix == ".zarr" else run
    refuse_without_identifiers(home.expanduser())
    data, made_by = stored(run, experiment)
    from festina.experiments import ExperimentRun
    from festina.experiments._runner import choose, claims_json, write_figure

    from ._animation import moving_picture
    from ._perform import done
    from ._table import print_results

    picture = moving_picture(made_by, animation=animation, mp4=mp4)
    folder = home if out is None else out.expanduser()
    stem = None if folder.resolve() == home.resolve() else _stem(made_by, home)
    if stem is not None and not force:
        _refuse_to_overwrite(folder, stem, (*format, *filter(None, [picture])))
    sweep(home)
    made = ExperimentRun(made_by, data)
    try:
        judged, figure = made.claims, made.experiment.draw(data)
    except KeyError as error:
        raise Complaint(
            f"'{home}' was made by another version of {made_by.name} and lacks data that this "
            f"version reads ({error.args[0]}). The claims of the run are in "
            f"'{home / 'claims.json'}'; to repeat the run: festina run {made_by.entry.typed} "
            f"--parameters {home / 'parameters.toml'}"
        ) from error
    chosen = choose(judged, claims or ())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if stem is None and not (home / "claims.json").exists():  # the claims failed in the run
            made.write_claims(home)
        drawn = folder / (stem or "figure")
        pictures = write_figure(figure, drawn, size=sheet, dpi=fine, formats=format)
        if picture is not None:
            moving = folder / f"{stem or 'animation'}.{picture}"
            pictures.append(made.write_animation(moving, size=sheet))
    except OSError as error:
        raise unwritable(folder, error) from error
    if json:
        print(claims_json(claim.to_json() for claim in chosen), end="")
        return
    shown = replace(done(made, home, pictures), claims=chosen)
    print_results([shown], every_claim=claims is not None)


def refuse_without_identifiers(folder: Path) -> None:
    """Raise `Complaint` if the claims of a run are identified by their sentences."""
    from festina.experiments._identifiers import is_without_identifiers

    if is_without_identifiers(folder):
        raise Complaint(
            f"'{folder}' {WITHOUT_IDENTIFIERS}, and cannot be shown. The folder is left unchanged; "
            f"the first lines of '{folder / 'parameters.toml'}' say how to repeat the run."
        )


def stored(run: Path, file: Path | None = None) -> "tuple[xr.DataTree, Experiment]":
    """Return a saved run and the experiment that made it, read from `file` if it is given."""
    run = run.expanduser()
    store = run if run.suffix == ".zarr" else run / "run.zarr"
    if not store.exists():
        hint = _below(run) or " `festina run` makes folders such as runs/race/xor/001."
        folder, _, id = str(run).rpartition("#")
        if Path(folder, "run.zarr").exists() and folder:
            hint = f" For one claim of a run: `festina show {folder} --claims {id}`."
        raise Complaint(f"There is no run in '{run}': '{store}' does not exist.{hint}")
    from festina import _run

    data = _run.load(store)
    name = data.attrs.get("experiment")
    if not isinstance(name, str):
        raise Complaint(
            f"'{store}' was not made by an experiment, so there is nothing to draw. `festina.load` "
            "reads its data in Python."
        )
    return data, load_experiment(
        name if not (file or data.attrs.get("file")) else _own(data, run, file)
    )


def _own(data: "xr.DataTree", run: Path, file: Path | None) -> str:
    """Return the user's experiment file that made the run, from `file` or from the run itself."""
    path = file or file_of_run(data.attrs, run)
    if path is None:
        name = Path(str(data.attrs["file"])).name
        raise Complaint(
            f"This run was made by '{name}', which is not below this folder. Give its path: "
            f"`--experiment {name}`. festina executes only a file that you name."
        )
    return str(path)


def _stem(experiment: Experiment, home: Path) -> str:
    """Return the name of a run's files outside its folder, such as race-xor-001."""
    return f"{experiment.name.replace('/', '-')}-{home.resolve().name}"


def _refuse_to_overwrite(folder: Path, stem: str, kinds: tuple[str, ...]) -> None:
    for path in (folder / f"{stem}.{kind}" for kind in kinds):
        if path.exists():
            raise Complaint(
                f"'{path}' exists already. Overwrite it with `--force`, or choose another `--out`."
            )


def _inches(size: str) -> tuple[float, float]:
    found = re.fullmatch(r"([\d.]+)\s*[x×]\s*([\d.]+)", size)
    if found is None:
        raise Complaint(f"`--size` must be width x height in inches, such as 8x4.5, got '{size}'.")
    width, height = (_between(side, 0.5, _LARGEST, "--size", "inches") for side in found.groups())
    return width, height


def _between(text: str, least: float, most: float, flag: str, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise Complaint(f"`{flag}` must be {least:g} to {most:g} {unit}, got '{text}'.")
    return value


def _below(folder: Path) -> str:
    """Return a sentence that names the runs below a folder; empty if there are none."""
    depths = ("*/run.zarr", "*/*/run.zarr", "*/*/*/run.zarr")
    found = (store.parent for depth in depths for store in folder.glob(depth))
    runs = sorted(str(run) for run in found if "/." not in run.as_posix())  # finished, not hidden
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return f" Runs below this folder: {', '.join(runs[:_NAMED])}{more}." if runs else ""
