"""`festina list`."""

from typing import Annotated

from cyclopts import Parameter

from festina.papers import _registry, sources, unknown

from ._complaint import Complaint
from ._options import Debug


def list_experiments(
    source: Annotated[str | None, Parameter(help="Only the experiments of this source.")] = None,
    /,
    *,
    debug: Debug = False,
) -> None:
    """List every experiment: name, where it stands, what it shows, expected time.

    The presets and flags of one are shown by `festina run NAME --help`.
    """
    from ._table import console, plain_table

    if source is not None and source not in sources():
        raise Complaint(unknown("source", source, sources()))
    table = plain_table("name", "source", "shows", "time")
    for entry in _registry.ENTRIES:
        if source is None or entry.name.startswith(f"{source}/"):
            table.add_row(entry.name, entry.source, entry.shows, _duration(entry.seconds))
    console().print(table)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
