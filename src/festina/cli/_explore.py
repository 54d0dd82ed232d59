"""`festina explore`."""

import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from festina._optional import required

from ._complaint import Complaint
from ._options import Debug, Whole


def explore(
    lecture: Annotated[
        Path | None,
        Parameter(help="TOML file with a sequence of scenes to step through, for a lecture."),
    ] = None,
    /,
    *,
    runs: Annotated[
        Path, Parameter(help="Folder of runs: the explorer lists them, and saves new ones here.")
    ] = Path("runs"),
    port: Annotated[
        Whole, Parameter(help="First port to try; if it is taken, the next free one is used.")
    ] = "8765",
    browser: Annotated[
        bool, Parameter(help="Open the page in the browser.", negative="--no-browser")
    ] = True,
    debug: Debug = False,
) -> None:
    """Open the explorer in the browser: turn a knob, and watch theory and training move together.

    The explorer shows scenes with knobs, every experiment with its parameters, and the saved runs
    in ./runs. It accepts connections from this computer only, and runs until Ctrl-C.

    `festina explore lecture.toml` shows a sequence of scenes at given positions of their knobs.
    """
    for module, package in _PACKAGES.items():
        required(module, package, "'festina[explore]'", what="The explorer")
    if not (port.isdecimal() and 1024 <= int(port) <= 65535):
        raise Complaint(f"`--port` must be a whole number from 1024 to 65535, got '{port}'.")
    if runs.exists() and not runs.is_dir():
        raise Complaint(f"`--runs` must be a folder, but '{runs}' is a file.")
    from festina.explore._lecture import read_lecture
    from festina.explore._server import application, serve

    steps = None if lecture is None else read_lecture(lecture)
    page = "" if steps is None else "lecture"

    def started(address: str) -> None:
        taken = "" if f":{port}/" in address else f" (port {port} is taken)"
        print(f"The explorer is at {address}{page}{taken}. Ctrl-C ends it.", flush=True)
        if browser and not webbrowser.open(address + page):
            print("No browser could be opened. Open this address in a browser.", flush=True)

    serve(application(runs, steps), int(port), started)


_PACKAGES = {"starlette": "Starlette", "uvicorn": "uvicorn", "bokeh": "Bokeh"}
_PACKAGES |= {"websockets": "websockets"}
