"""Flags that several commands share, each described once."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

# Numbers stay as they were typed and pydantic reads them: cyclopts would round 2.7 to an integer.
Whole = Annotated[str, Parameter(metavar="INT")]
Number = Annotated[str, Parameter(metavar="FLOAT")]

Out = Annotated[Path | None, Parameter(help="Write here instead of the next free ./runs folder.")]
Quick = Annotated[
    bool,
    Parameter(
        help="Fewer seeds, smaller sizes or shorter runs, where the experiment has such: the same "
        "verdicts from less. What is asked for otherwise goes before it.",
        negative=(),
        show_default=False,
    ),
]
Animation = Annotated[
    bool,
    Parameter(
        help="Also write animation.gif: frames follow what happens, not the clock.",
        negative=(),
        show_default=False,
    ),
]
Mp4 = Annotated[
    bool,
    Parameter(
        help="Write the animation as animation.mp4, which needs ffmpeg.",
        negative=(),
        show_default=False,
    ),
]
Quiet = Annotated[
    bool, Parameter(help="No progress on standard error.", negative=(), show_default=False)
]
Claims = Annotated[
    list[str] | None,
    Parameter(
        help="Print every claim, in a table: predicted, measured, tolerance, verdict. With "
        "identifiers behind it (--claims drop-times) only these claims.",
        consume_multiple=True,
        negative=(),
        negative_iterable=(),
        show_default=False,
    ),
]
Json = Annotated[
    bool,
    Parameter(
        help="Print claims as JSON, as in claims.json, and nothing else.",
        negative=(),
        show_default=False,
    ),
]
Debug = Annotated[
    bool, Parameter(help="Show the traceback of an error.", negative=(), show_default=False)
]
