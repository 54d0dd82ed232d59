"""`festina list`."""

from json import dumps as to_json
from typing import Annotated

from cyclopts import Parameter

from festina.experiments import _registry, experiment_groups, unknown

from ._complaint import Complaint
from ._options import Debug


def list_experiments(
    source: Annotated[
        str | None,
        Parameter(
            help="List only the experiments of this source.",
            completer=lambda _: experiment_groups(),
        ),
    ] = None,
    /,
    *,
    json: Annotated[
        bool,
        Parameter(
            help="Print JSON, with the references of each experiment.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """List every experiment: its name, its place in the source, what it shows, the expected time.

    `festina run NAME --help` shows the presets and flags of an experiment.
    """
    if source is not None and source not in experiment_groups():
        raise Complaint(unknown("source", source, experiment_groups()))
    chosen = [e for e in _registry.entries() if source is None or e.name.startswith(f"{source}/")]
    if json:
        fields = ("name", "source", "shows", "seconds", "references")
        listed = [{field: getattr(entry, field) for field in fields} for entry in chosen]
        print(to_json(listed, indent=2, ensure_ascii=False))
        return
    from rich.padding import Padding
    from rich.text import Text

    from ._table import NARROW, console, plain_table

    screen, table = console(), plain_table("name", "source", "shows", "time")
    for entry in chosen:
        duration = _duration(entry.seconds)
        if screen.width >= NARROW:
            table.add_row(entry.name, entry.source, entry.shows, duration)
        else:  # a table would have columns narrower than words
            screen.print(Text.assemble((entry.name, "bold"), f", {duration}"))
            screen.print(Padding(f"{entry.shows} ({entry.source})", (0, 0, 0, 2), expand=False))
    if table.row_count:
        screen.print(table)


def _duration(seconds: float | int) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
