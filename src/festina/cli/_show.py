"""`festina show`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from festina.papers import Experiment, load

from ._complaint import Complaint
from ._folder import unwritable
from ._options import Animation, Debug, Json, Mp4

if TYPE_CHECKING:
    import xarray as xr

_NAMED = 8  # runs, at most, in one line


def show(
    run: Annotated[Path, Parameter(name="RUN", help="The folder of a run, or its run.zarr.")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Where the figures go, if not into the folder of the run.")
    ] = None,
    animation: Animation = False,
    mp4: Mp4 = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Redraw the figures of a saved run and print its claims, without recomputing anything.

    figure.png and figure.pdf are replaced; the data stay as they are.
    """
    from ._animation import moving_picture
    from ._endings import unconverged
    from ._perform import claims_json, claims_of, save_figure, save_picture

    data, experiment = stored(run)
    picture = moving_picture(experiment, animation=animation, mp4=mp4)
    home = run.parent if run.suffix == ".zarr" else run
    folder = home if out is None else out.expanduser()
    try:
        claims, figure = claims_of(experiment, data), experiment.draw(data)
    except KeyError as error:
        raise Complaint(
            f"'{home}' was made by another version of {experiment.name} and lacks what this one "
            f"reads ({error.args[0]}). Its claims are in '{home / 'claims.json'}'; to make it "
            f"again: festina run {experiment.name} --parameters {home / 'parameters.toml'}"
        ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_figure(figure, folder)
        if picture is not None:
            save_picture(experiment, data, folder / picture)
    except OSError as error:
        raise unwritable(folder, error) from error
    if json:
        print(claims_json(claims), end="")
        return
    from ._table import print_claims

    print_claims(claims)
    if remark := unconverged(data):
        print(remark)
    for name in filter(None, ("figure.png", "figure.pdf", picture)):
        print(folder / name)


def stored(run: Path) -> "tuple[xr.DataTree, Experiment]":
    """A saved run and the experiment that made it."""
    run = run.expanduser()
    store = run if run.suffix == ".zarr" else run / "run.zarr"
    if not store.exists():
        raise Complaint(f"There is no run in '{run}': '{store}' does not exist.{_below(run)}")
    from festina import _run

    data = _run.load(store)
    name = data.attrs.get("experiment")
    if not isinstance(name, str):
        raise Complaint(f"'{store}' does not say which experiment made it; `festina run` would.")
    return data, load(name)


def _below(folder: Path) -> str:
    """The runs somewhat further down, where somebody may have meant one of them."""
    depths = ("*/run.zarr", "*/*/run.zarr", "*/*/*/run.zarr")
    found = (store.parent for depth in depths for store in folder.glob(depth))
    runs = sorted(str(run) for run in found if "/." not in run.as_posix())  # not those being made
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return f" Below it there are {', '.join(runs[:_NAMED])}{more}." if runs else ""
