"""`festina show`."""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from festina.experiments import Experiment, load_experiment
from festina.experiments._own_file import file_of_run

from ._complaint import Complaint
from ._folder import refuse_without_identifiers, sweep, unwritable
from ._options import Animation, Claims, Debug, Json, Mp4, Number, switch

if TYPE_CHECKING:
    import xarray as xr

    from festina.experiments import ExperimentRun

    from ._progress import Progress

_PICTURES = (".png", ".pdf", ".svg", ".gif", ".mp4")
_NAMED = 8  # most runs listed in one message
_LARGEST = 200.0  # largest width or height of a figure, in inches
_FINEST = 2400.0  # largest resolution, in dots per inch
_DPI = 150.0  # default resolution
_PIXELS = 1920  # width of a slide


def show(
    run: Annotated[
        Path,
        Parameter(name="RUN", help="Run folders, their run.zarr, or files of `festina pack`."),
    ],
    /,
    *more: Annotated[Path, Parameter(help="Further runs.")],
    out: Annotated[
        Path | None,
        Parameter(
            help="Write the figures to this folder; with --slide, the default is ./slides. A "
            "figure is named after its experiment: race-xor.png. For a pack, this is the folder "
            "into which the pack is unpacked."
        ),
    ] = None,
    force: Annotated[bool, switch("Overwrite files in --out.")] = False,
    slide: Annotated[
        bool,
        switch(
            "Draw for a slide: format 16:9, text as large as the panels allow, PNG files and "
            "animations 1920 pixels wide."
        ),
    ] = False,
    size: Annotated[
        str | None,
        Parameter(
            help="Width x height of figures and animations in inches, such as 6x4 for a page. "
            "The font size does not change; for a slide, use --slide."
        ),
    ] = None,
    dpi: Annotated[
        Number | None,
        Parameter(
            help="Dots per inch of PNG files; the default is 150. Animations do not change.",
            show_default=False,
        ),
    ] = None,
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
            help="The experiment file that made the run, if the file is your own and was moved. "
            "festina executes it."
        ),
    ] = None,
    animation: Animation = False,
    mp4: Mp4 = False,
    claims: Claims = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Redraw the figures of saved runs and print their claims, without training again.

    The figures in the run folder are replaced; the data do not change. For slides:
    `festina show RUN RUN2 --slide` writes ./slides/race-xor.png and so on.

    For a file of `festina pack`, this command prints claims and parameters as they were packed, and
    `--out FOLDER` unpacks the run with its figures. Nothing in the file is executed.
    """
    runs = [run, *more]
    if packs := [each for each in runs if each.expanduser().is_file()]:
        from ._pack import look

        if slide or animation or mp4 or size or dpi or experiment or len(packs) < len(runs):
            raise Complaint(
                f"'{packs[0]}' is a file, and figures are drawn from run folders. Unpack a file of "
                f"`festina pack` with `festina show {packs[0]} --out FOLDER`, then use FOLDER."
            )
        look(packs, out, every_claim=claims is not None, chosen=claims or (), json=json)
        return
    page = _Page.of(slide, size, dpi, format)
    if out is not None and out.suffix in _PICTURES and not out.is_dir():
        raise Complaint(
            f"`--out` must be a folder, got the file '{out}': festina names the figures. Use "
            f"`--out {out.parent}`."
        )
    homes = [each.parent if each.suffix == ".zarr" else each for each in runs]
    for home in homes:
        refuse_without_identifiers(home.expanduser())
    saved = [stored(each, experiment) for each in runs]
    from festina.experiments import ExperimentRun
    from festina.experiments._perform import done
    from festina.experiments._runner import choose, claims_json

    from ._animation import moving_picture
    from ._progress import Progress
    from ._table import print_results

    animated = [moving_picture(made_by, animation=animation, mp4=mp4) for _, made_by in saved]
    picture = animated[0]  # the same for all runs
    made = [
        (home, ExperimentRun(made_by, data))
        for home, (data, made_by) in zip(homes, saved, strict=True)
    ]
    folder = out or (Path("slides") if slide else None)
    stems = _stems(made, folder)
    kinds = (*format, *filter(None, [picture]))
    for stem, (home, _) in zip(stems, made, strict=True):
        if not force and not _is_inside(stem, home):
            _refuse_to_overwrite(stem, kinds)
        sweep(home)
    for home, each in made:
        with _another_version(home, each):
            each.claims  # noqa: B018  # judged here, because nothing is written if this fails
    judged = [claim for _, each in made for claim in each.claims]
    chosen = {claim.name for claim in choose(judged, claims or ())}
    shown = []
    for stem, (home, each) in zip(stems, made, strict=True):
        try:
            inside = _is_inside(stem, home)
            with (
                _another_version(home, each),
                Progress(label=each.label, quiet=not picture) as told,
            ):
                pictures = page.write(each, stem, picture, inside=inside, progress=told)
            if _is_inside(stem, home) and not (home / "claims.json").exists():
                each.write_claims(home)  # the claims failed in the run
        except OSError as error:
            raise unwritable(stem.parent, error) from error
        kept = [claim for claim in each.claims if claim.name in chosen]
        shown.append(replace(done(each, home, pictures), claims=kept))
    if json:
        print(claims_json(claim.to_json() for each in shown for claim in each.claims), end="")
        return
    print_results(shown, every_claim=claims is not None, every_picture=True)


@dataclass(frozen=True)
class _Page:
    """How figures and animations are written: size in inches, dots per inch and formats.

    Without `size`, a figure has its own size, or the size of a slide.
    """

    slide: bool
    size: tuple[float, float] | None
    dpi: float | None
    formats: tuple[str, ...]

    @classmethod
    def of(
        cls, slide: bool, size: str | None, dpi: str | None, formats: tuple[str, ...]
    ) -> "_Page":
        """Return the page that these flags ask for."""
        if slide and (size or dpi):
            flag = "--size" if size else "--dpi"
            raise Complaint(f"`--slide` has its own size; leave out `{flag}` or `--slide`.")
        inches = None if size is None else _inches(size)
        fine = None if dpi is None else _between(dpi, 1.0, _FINEST, "--dpi", "dots per inch")
        return cls(slide, inches, fine, formats)

    def write(
        self,
        run: "ExperimentRun",
        stem: Path,
        picture: str | None,
        *,
        inside: bool,
        progress: "Progress",
    ) -> list[Path]:
        """Draw a run, write its figure and its animation if any, and return their paths.

        `inside` a run folder, every figure that lies there is drawn, so that all formats agree.
        `progress` receives the number of the frame that is drawn.
        """
        from festina.experiments._runner import write_figure
        from festina.experiments.figures import fit_to_slide

        formats = [*self.formats]
        if inside:
            there = [
                kind for kind in ("png", "pdf", "svg") if stem.with_suffix(f".{kind}").exists()
            ]
            formats += [kind for kind in there if kind not in formats]
        draw = lambda: run.experiment.draw(run.data)
        stem.parent.mkdir(parents=True, exist_ok=True)
        if self.slide:
            figure = fit_to_slide(draw)
            width, height = map(float, figure.get_size_inches())
            size, dpi = (width, height), _PIXELS / width
        else:
            figure, size, dpi = draw(), self.size, self.dpi
        pictures = write_figure(figure, stem, size=size, dpi=dpi or _DPI, formats=formats)
        if picture is not None:
            moving = stem.parent / f"{'animation' if inside else stem.name}.{picture}"
            fine = dpi if self.slide else None
            pictures.append(run.write_animation(moving, size=size, dpi=fine, progress=progress))
        return pictures


@contextlib.contextmanager
def _another_version(home: Path, run: "ExperimentRun") -> Iterator[None]:
    """Turn an error about missing data into the way to repeat the run."""
    try:
        yield
    except KeyError as error:
        made_by = run.experiment
        raise Complaint(
            f"'{home}' was made by another version of {made_by.name} and lacks data that this "
            f"version reads ({error.args[0]}). The claims of the run are in "
            f"'{home / 'claims.json'}'; to repeat the run: festina run {made_by.entry.typed} "
            f"--parameters {home / 'parameters.toml'}"
        ) from error


def _stems(made: "list[tuple[Path, ExperimentRun]]", folder: Path | None) -> list[Path]:
    """Return the path of each run's figure without suffix, such as slides/race-xor.

    Figures of several runs of one experiment also have the names of the run folders.
    """
    labels = Counter(run.label for _, run in made)
    stems = []
    for home, run in made:
        where = home if folder is None else folder.expanduser()
        name = run.experiment.name.replace("/", "-") + f"-{run.preset}" * bool(run.preset)
        name += f"-{home.resolve().name}" * (labels[run.label] > 1)
        stems.append(where / ("figure" if where.resolve() == home.resolve() else name))
    if twice := [stem for stem, count in Counter(stems).items() if count > 1]:
        raise Complaint(
            f"Two of the runs would be drawn to '{twice[0]}': draw them one by one, each with its "
            "own `--out`."
        )
    return stems


def _is_inside(stem: Path, home: Path) -> bool:
    """Return whether a figure belongs into its run folder."""
    return stem.name == "figure" and stem.parent.resolve() == home.resolve()


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


def _refuse_to_overwrite(stem: Path, kinds: tuple[str, ...]) -> None:
    for path in (stem.parent / f"{stem.name}.{kind}" for kind in kinds):
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
