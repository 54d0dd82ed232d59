"""`festina cite`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from festina.experiments import find, names, sources, unknown
from festina.papers import bibtex

from ._complaint import Complaint
from ._options import Debug


def cite(
    what: Annotated[
        str,
        Parameter(
            name="NAME|RUN",
            help="An experiment, a source, or the folder of a run.",
            completer=lambda _: (*sources(), *names()),
        ),
    ],
    /,
    *,
    debug: Debug = False,
) -> None:
    """Print the BibTeX of what an experiment, a source or a saved run used."""
    if what in sources():
        found = [find(name) for name in names() if name.startswith(f"{what}/")]
    elif what in names():
        found = [find(what)]
    elif Path(what).exists():
        from ._show import stored

        found = [stored(Path(what))[1].entry]
    else:
        choices = (*names(), *sources())
        raise Complaint(unknown("experiment or run folder", what, choices))
    print(bibtex(key for entry in found for key in entry.references))
