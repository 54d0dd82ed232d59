"""`festina cite`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from festina.experiments import experiment_groups, experiment_names, find_entry, unknown
from festina.papers import bibtex

from ._complaint import Complaint
from ._options import Debug


def cite(
    what: Annotated[
        str,
        Parameter(
            name="NAME|RUN",
            help="An experiment, a source such as a paper, or a run folder.",
            completer=lambda _: (*experiment_groups(), *experiment_names()),
        ),
    ],
    /,
    *,
    debug: Debug = False,
) -> None:
    """Print the references of an experiment, a source or a saved run as BibTeX."""
    if what in experiment_groups():
        found = [find_entry(name) for name in experiment_names() if name.startswith(f"{what}/")]
    elif what in experiment_names():
        found = [find_entry(what)]
    elif Path(what).exists():
        from ._show import stored

        found = [stored(Path(what))[1].entry]
    else:
        choices = (*experiment_names(), *experiment_groups())
        raise Complaint(unknown("experiment or run folder", what, choices))
    from ._table import print_wrapped

    for line in bibtex(key for entry in found for key in entry.references).splitlines():
        print_wrapped(line, indent=line.find("{") + 1 if "= {" in line else _indent(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
