"""`festina sweep`."""

import contextlib
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from festina.experiments import Experiment, experiment_names, load_experiment

from ._complaint import Complaint
from ._flags import application, command_of, keywords
from ._folder import shorter
from ._folder import sweep as clear_away
from ._help import flow
from ._options import Debug, Quiet, Whole
from ._run import _completed

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Group as Lines
    from rich.table import Table


def _flag(kind: Any, text: str, **more: Any) -> Any:
    simple = {"negative": (), "negative_iterable": (), "show_default": False}
    return Annotated[kind, Parameter(help=text, consume_multiple=True, **simple, **more)]


_ARGUMENTS = Group("Arguments of the function", sort_key=0)
_Several = list[str] | None
_COMMON = {
    "over": _flag(
        _Several, "Axes of the grid: NAME=2,3,4, NAME=FROM:TO:NUMBER or NAME=FROM:TO:log:NUMBER."
    ),
    "processes": _flag(
        Whole | None, "Number of processes, or of SLURM jobs; by default one for each core."
    ),
    "scheduler": _flag(
        str | None, "Address of a Dask scheduler, or `slurm`; needs festina[cluster]."
    ),
    "retry": _flag(bool, "Compute failed pieces again."),
    "changed": _flag(bool, "Resume although the code has changed; finished pieces are kept."),
    "yes": _flag(bool, "Allow more than 10,000 pieces."),
    "out": _flag(
        Path | None, "Path of the store; by default ./runs/NAME/sweep-….zarr, one for each grid."
    ),
    "quiet": Quiet,
    "json": _flag(bool, "Print a summary as JSON, and nothing else."),
    "debug": Debug,
}
_OF_FUNCTIONS = _COMMON | {
    "together": _flag(_Several, "Axes whose values the function receives all at once, as arrays."),
    "seeds": _flag(
        Whole | None,
        "For a function, length of an additional axis `seed`; for an experiment, number of seeds "
        "trained at each point.",
    ),
}


def sweep(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True, completer=_completed)],
) -> int:
    """Run an experiment, or your own function, at every point of a grid of parameters.

    NAME is an experiment of `festina list`, your own experiment file (./mine.py), or a function
    (MODULE:FUNCTION). `--over scale=1e-6:1:log:20 width=2,3,4` defines the grid. Parameters with
    the same value at all points are given by the flags of `festina run`; `festina sweep NAME
    --help` lists these flags.

    Results go to one Zarr store, ./runs/NAME/sweep-….zarr. A piece of the grid is written when it
    is finished. After an interruption, the same command resumes. If a piece fails, its reason is
    recorded and the other pieces are still computed.

    The exit status is 0 if every piece is done, and 1 if some pieces failed.
    """
    usage = "Usage: festina sweep {} --over AXIS=VALUES … [FLAGS]"
    name, *rest = tokens or ("",)
    if name in ("--help", "-h"):
        flags, rest = keywords(_OF_FUNCTIONS), ["--help"]
        command = command_of("sweep", flow(sweep.__doc__), usage.format("NAME"), flags, _sweep)
    elif not name or name.startswith("-"):
        raise Complaint(
            "Missing NAME of an experiment or a function, for example: festina sweep "
            f"{experiment_names()[0]} --over seeds=1,2,4. `festina list` shows all experiments."
        )
    elif ":" in name and not name.endswith(".py"):
        from ._own_runs import named

        function = named("NAME", name)
        text = flow(function.__doc__) or f"Sweep {name} over a grid of its arguments."
        flags = keywords(_arguments(function) | _OF_FUNCTIONS)
        run = partial(_sweep_function, function)
        command = command_of(name, text, usage.format(name), flags, run)
    else:
        experiment = load_experiment(name)
        flags = {"animation": None, "mp4": None, "claims": None, **_COMMON}
        run = partial(_sweep_experiment, experiment)
        command = application(experiment, run, verb="sweep", common=flags)
    return command(rest) or 0  # the command returns `None` after printing help


def _arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a flag for each argument of a function; its value is the same at all points."""
    from inspect import Parameter as Argument

    from festina.sweeps._plan import named_arguments

    arguments = named_arguments(function)
    if taken := [name for name in arguments if name in (*_OF_FUNCTIONS, "help")]:
        raise Complaint(
            f"The function has an argument `{taken[0]}`, and `--{taken[0]}` is a flag of this "
            "command: rename the argument, or call `festina.sweep` in Python."
        )
    return {
        name: _flag(
            _Several,
            "Required, unless it is an axis of --over."
            if default is Argument.empty
            else f"Default: {default}.",
            group=_ARGUMENTS,
        )
        for name, default in arguments.items()
    }


def _sweep_function(function: Callable[..., Any], **given: Any) -> int:
    from festina.sweeps._grid import read

    own = [name for name in given if name not in _OF_FUNCTIONS]
    fixed = {name: read(" ".join(given.pop(name))) for name in own}
    return _sweep(function, getattr(function, "__name__", "function"), parameters=fixed, **given)


def _sweep_experiment(
    experiment: Experiment,
    *,
    preset: str | None = None,
    parameters: Path | None = None,
    quick: bool = False,
    **given: Any,
) -> int:
    from ._parameters import resolve

    own = {name: given.pop(name) for name in list(given) if name not in _COMMON}
    fixed = resolve(experiment, preset=preset, quick=quick, file=parameters, flags=own)
    # An axis overrides a preset. An axis that is also a flag is an error, raised by the plan.
    free = _axes(given.get("over")).keys() - own.keys()
    kept = {name: getattr(fixed, name) for name in sorted(fixed.model_fields_set - free)}
    return _sweep(experiment.entry.typed, experiment.name, parameters=kept, **given)


def _sweep(
    what: Any,
    title: str,
    *,
    over: list[str] | None = None,
    out: Path | None = None,
    quiet: bool = False,
    json: bool = False,
    debug: bool = False,
    **options: Any,
) -> int:
    import festina
    from festina.sweeps._grid import read

    from ._progress import Progress

    for name in {"seeds", "processes"} & options.keys():
        options[name] = read(options[name])
    swept = _axes(over)
    clear_away()
    # Standard output is for the report: text printed by a function goes to standard error.
    with Progress(quiet=quiet, label=title) as progress, contextlib.redirect_stdout(sys.stderr):
        data = festina.sweep(what, swept, out, progress=progress, **options)
    failures, pieces = _failures(data), data["status"].size
    store, failed = str(shorter(Path(data.encoding["source"]))), len(failures)
    if json:
        from json import dumps

        counts = {"pieces": pieces, "done": pieces - failed, "failed": failed}
        print(dumps({"store": store, **counts, "failures": failures}, indent=2))
    else:
        _report(data, title, store, failures)
    return int(bool(failures))


def _axes(over: list[str] | None) -> dict[str, str]:
    axes: dict[str, str] = {}
    for each in over or ():
        name, equals, values = each.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or name in axes:
            from festina.sweeps._grid import WAYS

            raise Complaint(f"`--over` takes NAME=VALUES, each NAME once: {WAYS}; got '{each}'.")
        axes[name] = values
    return axes


def _failures(data: "xr.Dataset") -> list[dict[str, Any]]:
    """Return the points of failed pieces, and the reasons."""
    from numpy import ndindex

    status, reasons = data["status"].values, data["reason"].load()
    failed = [reasons[place] for place in ndindex(status.shape) if status[place] == "failed"]
    return [
        {"at": {d: each[d].values.tolist() for d in reasons.dims}, "reason": str(each.values)}
        for each in failed
    ]


def _report(data: "xr.Dataset", title: str, store: str, failures: list[dict[str, Any]]) -> None:
    """Print a summary of the store."""
    from festina.sweeps._grid import duration

    from ._table import console

    screen, pieces = console(), data["status"].size
    grid = " × ".join(f"{n} {data.sizes[n]}" for n in data.attrs["sweep"]["axes"].split(", "))
    spent = duration(float(data["seconds"].sum()))
    screen.print(f"{title} over {grid}: {pieces} piece{'s' * (pieces != 1)}, {spent} of work.")
    screen.print(_summary(data, screen.width))
    first = {each["reason"]: each["at"] for each in reversed(failures)}
    for reason, count in Counter(each["reason"] for each in failures).most_common(5):
        where = ", ".join(f"{name} {value}" for name, value in first[reason].items())
        screen.print(f"{count} failed{', the first at ' * bool(where)}{where}: {reason}")
    again = " `--retry` computes failed pieces again." * bool(failures)
    are = "piece is" if pieces == 1 else "pieces are"
    screen.print(f"{pieces - len(failures)} of {pieces} {are} done.{again}")
    screen.print(f'xarray.open_zarr("{store}") reads all results.')


def _summary(data: "xr.Dataset", width: int) -> "Table | Lines":
    """Return a table with a row for each claim, or for each number that a function returns.

    On a narrow screen each row takes two lines, so that no name and no number is broken.
    """
    from rich.console import Group as Lines
    from rich.padding import Padding

    from ._table import CRAMPED, plain_table

    if "claim" in data.dims:
        columns, rows = ("claim", "holds at", "measured from", "median", "to"), list[list[str]]()
        for k, identifier in enumerate(data["claim"].values):
            each = data.isel(claim=k)
            holds, judged = int(each["holds"].sum()), int(each["holds"].count())
            where = f"{holds} of {judged} piece{'s' * (judged != 1)}"
            rows.append([str(identifier), where, *_spread(each["measured"].values)])
    else:
        columns, rows = ("result", "from", "median", "to"), list[list[str]]()
        for name, values in data.drop_vars(("status", "reason", "seconds")).data_vars.items():
            numbers = values.dtype.kind == "f"
            rows.append([str(name), *(_spread(values.values) if numbers else ["text", "", ""])])
    if width < CRAMPED:
        pairs = (zip(columns[1:], row[1:], strict=True) for row in rows)
        told = (", ".join(f"{name} {value}" for name, value in each if value) for each in pairs)
        indented = (Padding(words, (0, 0, 0, 2), expand=False) for words in told)
        return Lines(*chain.from_iterable(zip((row[0] for row in rows), indented, strict=True)))
    table = plain_table(*columns)
    for row in rows:
        table.add_row(*row)
    return table


def _spread(values: Any) -> list[str]:
    import numpy as np

    from ._table import number

    known = values[np.isfinite(values)]
    return [number(q, 4) for q in np.quantile(known, (0, 0.5, 1))] if known.size else [""] * 3
