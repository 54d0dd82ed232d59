"""`festina report`."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ._complaint import Complaint
from ._folder import shorter, unwritable
from ._options import Debug


def report(
    run: Annotated[
        Path,
        Parameter(
            name="RUN",
            help="Run folders, folders that contain run folders, or files of `festina pack`.",
        ),
    ],
    /,
    *more: Annotated[Path, Parameter(help="Further runs.")],
    out: Annotated[
        Path | None,
        Parameter(
            help="HTML file to write. The default is report.html in RUN; for several RUNs and for "
            "packs, it is ./report.html."
        ),
    ] = None,
    debug: Debug = False,
) -> int:
    """Write one page with the claims, figures, parameters and commands of saved runs.

    Nothing is trained again. The page is a single file that works without a network, so it can be
    sent to a colleague or kept beside a paper.

    If the folders contain several runs of one experiment, such as runs with two seeds or of two
    versions, the page compares them: `festina report runs/race/xor/001 runs/race/xor/002`.

    The exit status is 1 if a claim is broken or a run is missing, and 0 otherwise.
    """
    home = run.parent if run.suffix == ".zarr" else run
    here = bool(more) or run.expanduser().is_file()
    target = out or (Path("report.html") if here else home / "report.html")
    from festina.report import write_report

    from ._table import print_wrapped

    try:
        sections = write_report([run, *more], target)
    except OSError as error:
        raise unwritable(target, error) from error
    except ValueError as error:
        raise Complaint(str(error)) from error
    counts = sum((section.counts for section in sections), Counter[str]())
    claims = "; ".join(f"{count} × {name}" for name, count in counts.items())
    print_wrapped(f"{len(sections)} run{'s' * (len(sections) != 1)}: {claims or 'no claims'}.")
    for section in sections:
        for remark in filter(None, (section.problem, section.left_out)):
            print_wrapped(f"{section.label}: {remark}")
    print_wrapped(f"The report is {shorter(target)}.")
    return int(bool(counts["broken"]) or any(section.problem for section in sections))
