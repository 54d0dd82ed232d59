"""Flags that several commands share."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

# Numbers stay text until pydantic converts them: cyclopts would round 2.7 to an integer.
Whole = Annotated[str, Parameter(metavar="INT")]
Number = Annotated[str, Parameter(metavar="FLOAT")]


def switch(help: str) -> Parameter:
    """Return an option that is on if it is given and has no `--no-` form."""
    return Parameter(help=help, negative=(), show_default=False)


Out = Annotated[
    Path | None, Parameter(help="Write to this folder instead of the next free folder in ./runs.")
]
Quick = Annotated[
    bool,
    switch(
        "Reach the same verdicts with fewer seeds, smaller sizes or shorter runs, if the "
        "experiment has a quick version. Presets, files and flags override the quick version."
    ),
]
Animation = Annotated[
    bool, switch("Also write animation.gif, with most of its frames where the network changes.")
]
Mp4 = Annotated[bool, switch("Write the animation as animation.mp4, which needs ffmpeg.")]
Quiet = Annotated[bool, switch("Print no progress messages.")]
Claims = Annotated[
    list[str] | None,
    Parameter(
        help="Print a table of all claims: predicted, measured, tolerance, verdict. Identifiers "
        "select claims: --claims drop-times.",
        consume_multiple=True,
        negative=(),
        negative_iterable=(),
        show_default=False,
    ),
]
Json = Annotated[bool, switch("Print the claims in the format of claims.json, and nothing else.")]
Debug = Annotated[bool, switch("Show the traceback of an error.")]
