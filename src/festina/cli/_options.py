"""Flags that several commands share, each described once."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

# Numbers stay as they were typed and pydantic reads them: cyclopts would round 2.7 to an integer.
Whole = Annotated[str, Parameter(metavar="INT")]
Number = Annotated[str, Parameter(metavar="FLOAT")]


def switch(help: str) -> Parameter:
    """An option that is on if it is given, and has no `--no-` form."""
    return Parameter(help=help, negative=(), show_default=False)


Out = Annotated[Path | None, Parameter(help="Write here instead of the next free ./runs folder.")]
Quick = Annotated[
    bool,
    switch(
        "The same verdicts from fewer seeds, smaller sizes or shorter runs, if the experiment has "
        "such a version. Presets, files and flags override it."
    ),
]
Animation = Annotated[
    bool, switch("Also write animation.gif: frames follow what happens, not the clock.")
]
Mp4 = Annotated[bool, switch("Write the animation as animation.mp4, which needs ffmpeg.")]
Quiet = Annotated[bool, switch("No progress on standard error.")]
Claims = Annotated[
    list[str] | None,
    Parameter(
        help="Print every claim, in a table: predicted, measured, tolerance, verdict. "
        "Identifiers after it select claims: --claims drop-times.",
        consume_multiple=True,
        negative=(),
        negative_iterable=(),
        show_default=False,
    ),
]
Json = Annotated[bool, switch("Print claims as JSON, as in claims.json, and nothing else.")]
Debug = Annotated[bool, switch("Show the traceback of an error.")]
