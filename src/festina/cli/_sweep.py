"""`festina sweep`."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from festina.papers import Experiment, find, load, names

from ._complaint import Complaint, one_line
from ._folder import shorter
from ._folder import sweep as clear_away
from ._help import page
from ._options import Debug, Quiet, Whole
from ._run import _completed

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table


def _switch(text: str) -> Any:
    return Annotated[bool, Parameter(help=text, negative=(), show_default=False)]


def _several(text: str) -> Any:
    options = Parameter(help=text, consume_multiple=True, negative_iterable=())
    return Annotated[list[str] | None, options]


_OVER = _several("Axes of the grid: NAME=2,3,4, NAME=FROM:TO:NUMBER or NAME=FROM:TO:log:NUMBER.")
_OF_FUNCTIONS = {
    "together": _several("Axes of which the function takes all values at once, as arrays."),
    "seeds": Annotated[Whole | None, Parameter(help="Length of one more axis, `seed`.")],
}
_COMMON = {
    "processes": Annotated[
        Whole | None, Parameter(help="Processes, or jobs of SLURM; one for each core unless said.")
    ],
    "scheduler": Annotated[
        str | None,
        Parameter(help="Address of a Dask scheduler, or `slurm`; needs the extra `cluster`."),
    ],
    "retry": _switch("Compute again what has failed before."),
    "changed": _switch("Go on although the code was changed since; what is done stays."),
    "yes": _switch("Yes, more than 10,000 pieces are meant."),
    "out": Annotated[
        Path | None, Parameter(help="The store, if not ./runs/NAME/sweep-….zarr of this grid.")
    ],
    "quiet": Quiet,
    "json": _switch("Print how it went as JSON, and nothing else."),
    "debug": Debug,
}


def sweep(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True, completer=_completed)],
) -> int:
    """Run an experiment, or a function of yours, at every point of a grid.

    NAME is one of `festina list`, the file of an experiment of your own (./mine.py), or a function
    (MODULE:FUNCTION). `--over scale=1e-6:1:log:20 width=2,3,4` makes the grid, and what else is the
    same at all points is a flag as in `festina run`: `festina sweep NAME --help` shows them.

    All goes to one Zarr store, ./runs/NAME/sweep-….zarr, piece by piece as they finish. The same
    command again, after it was stopped in whatever way, goes on. Pieces that fail are recorded with
    their reason, and the others go on.

    The exit status is 0 when every piece is done, 1 when some have failed.
    """
    if not tokens or tokens[0].startswith("-"):
        if {"--help", "-h"} & set(tokens):
            page("sweep", sweep.__doc__, "NAME --over AXIS=VALUES … [FLAGS]")
            return 0
        raise Complaint(
            f"Sweep what? For example: festina sweep {names()[0]} --over seeds=1,2,4. "
            "`festina list` shows every experiment."
        )
    name, *rest = tokens
    if ":" in name and not name.endswith(".py"):
        from ._flags import command_of, keywords
        from ._own_runs import named

        function, text = named("NAME", name), f"Sweep {name} over a grid of its arguments."
        flags = keywords({"over": _OVER, **_OF_FUNCTIONS, **_COMMON})
        usage = f"Usage: festina sweep {name} --over ARGUMENT=VALUES … [FLAGS]"
        command = command_of(name, text, usage, flags, lambda **given: _sweep(function, **given))
    else:
        find(name)
        experiment = load(name)
        from ._flags import application

        command = application(
            experiment,
            lambda **given: _sweep_experiment(experiment, **given),
            verb="sweep",
            common={"over": _OVER, "animation": None, "mp4": None, "claims": None, **_COMMON},
        )
    return command(rest) or 0  # help returns nothing


def _sweep_experiment(
    experiment: Experiment,
    *,
    over: list[str] | None = None,
    preset: str | None = None,
    parameters: Path | None = None,
    quick: bool = False,
    **given: Any,
) -> int:
    import pydantic

    from ._parameters import resolve
    from ._words import invalid

    common = {name: given.pop(name) for name in _COMMON if name in given}
    fixed = resolve(experiment, preset=preset, quick=quick, file=parameters, flags=given)
    axes = _axes(over or [])
    # What a preset says gives way to an axis; what a flag says cannot be meant.
    kept = {
        name: getattr(fixed, name)
        for name in sorted(fixed.model_fields_set)
        if name in given or name not in axes
    }
    try:
        return _sweep(
            experiment.entry.typed, axes, parameters=kept, title=experiment.name, **common
        )
    except pydantic.ValidationError as error:
        where = lambda path: f"`--over {path}`" if path.split("[")[0] in axes else f"`{path}`"
        valid = tuple(experiment.parameters.model_fields)
        raise Complaint(invalid(error, valid=valid, where=where)) from error


def _sweep(
    what: Any,
    over: Mapping[str, str] | list[str] | None = None,
    *,
    title: str = "",
    out: Path | None = None,
    quiet: bool = False,
    json: bool = False,
    debug: bool = False,
    **options: Any,
) -> int:
    import festina

    from ._progress import Progress

    title = title or getattr(what, "__name__", "function")
    axes = over if isinstance(over, Mapping) else _axes(over or [])
    for name in {"seeds", "processes"} & options.keys():
        try:
            options[name] = int(options[name])
        except ValueError as error:
            text = f"`--{name}` must be a whole number, got '{options[name]}'."
            raise Complaint(text) from error
    clear_away()
    with Progress(quiet=quiet, label=title) as progress:
        data = festina.sweep(what, axes, out, progress=progress, **options)
    return _report(data, title, json=json)


def _axes(over: list[str]) -> dict[str, str]:
    axes: dict[str, str] = {}
    for each in over:
        name, equals, values = each.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or not name:
            from festina._sweep._grid import WAYS

            raise Complaint(f"`--over` takes NAME=VALUES, values being {WAYS}; got '{each}'.")
        if name in axes:
            raise Complaint(f"`--over` has {name} twice.")
        axes[name] = values
    return axes


def _report(data: "xr.Dataset", title: str, *, json: bool) -> int:
    """What is in the store now; 1 if pieces have failed."""
    import numpy as np

    store, status = shorter(Path(data.encoding["source"])), data["status"]
    failures = [
        {
            "at": {d: data[d].values.tolist()[k] for d, k in zip(status.dims, place, strict=True)},
            "reason": str(data["reason"].values[place]),
        }
        for place, value in np.ndenumerate(status.values)
        if value == "failed"
    ]
    if json:
        from json import dumps

        said = {"store": str(store), "pieces": status.size, "done": status.size - len(failures)}
        print(dumps({**said, "failed": len(failures), "failures": failures}, indent=2))
        return int(bool(failures))
    from festina._sweep._grid import duration

    from ._table import console

    screen = console()
    grid = " × ".join(f"{name} {data.sizes[name]}" for name in data.attrs["sweep"]["axes"])
    spent = duration(float(data["seconds"].sum()))
    screen.print(f"{title} over {grid}: {status.size} pieces, {spent} of work.")
    screen.print(_summary(data))
    for reason, count in Counter(each["reason"] for each in failures).most_common(5):
        first = next(each["at"] for each in failures if each["reason"] == reason)
        where = ", ".join(f"{name} {value}" for name, value in first.items())
        screen.print(f"{count} failed, the first at {where}: {one_line(reason)}")
    again = " `--retry` computes again what has failed." * bool(failures)
    screen.print(
        f"{status.size - len(failures)} of {status.size} pieces are done.{again}\n"
        f'xarray.open_zarr("{store}") has all of it.'
    )
    return int(bool(failures))


def _summary(data: "xr.Dataset") -> "Table":
    """A line for each claim, or for each number that a function returns."""
    from ._table import plain_table

    if "claim" in data.dims:
        table = plain_table("holds", "measured: from", "median", "to", "claim")
        for k, words in enumerate(data["claim"].values):
            each = data.isel(claim=k)
            holds, judged = int(each["holds"].sum()), int(each["holds"].count())
            table.add_row(f"{holds} of {judged}", *_spread(each["measured"].values), str(words))
        return table
    table = plain_table("result", "from", "median", "to")
    for name, values in data.drop_vars(("status", "reason", "seconds")).data_vars.items():
        if values.dtype.kind == "f":
            table.add_row(str(name), *_spread(values.values))
    return table


def _spread(values: Any) -> list[str]:
    import numpy as np

    from ._table import number

    known = values[np.isfinite(values)]
    numbers = (known.min(), np.median(known), known.max()) if known.size else ("", "", "")
    return [number(value, 4) for value in numbers]
