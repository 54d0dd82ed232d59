"""Pages of saved runs: the list, and the report of one or several of them."""

import base64
import functools
import hashlib
import math
import threading
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from ..report import read_sections
from ..report._page import render, render_script, render_section, render_style
from ..report._section import VERDICTS
from ._render import page, sorry
from ._runs import PER_PAGE, picture, places, run_folder, run_folders, search, summary

_MOST = 20  # runs in a report

_PLURAL = {
    "holds": "hold",
    "holds with a correction": "hold with a correction",
    "does not hold, as known": "do not hold, as known",
}
"""Verdicts on several claims."""

_reading = threading.Lock()
"""Held while runs are read, which may draw a missing figure."""


def runs(request: Request) -> Response:
    """Return the list of saved runs, newest first, `PER_PAGE` on a page."""
    found, remark = places(request.app.state.runs)
    words = request.query_params.get("q", "")[:200]
    chosen = search(found, words)
    last = max(1, math.ceil(len(chosen) / PER_PAGE))
    number = _number(request.query_params.get("page", "1"), last)
    shown = chosen[(number - 1) * PER_PAGE : number * PER_PAGE]
    if found and not chosen:
        remark = f"No run contains the words '{words}'."
    return page(
        "runs.html",
        title="Runs",
        here="runs",
        runs=[summary(place) for place in shown],
        total=len(chosen),
        every=len(found),
        folder=request.app.state.runs,
        remark=remark,
        words=words,
        number=number,
        last=last,
        meanings=VERDICTS,
        plural=_PLURAL,
    )


def _number(text: str, last: int) -> int:
    """Return the number of a page, from 1 to `last`."""
    return min(max(int(text), 1), last) if text.isascii() and text.isdecimal() else 1


def report(request: Request) -> Response:
    """Return the report of the runs that the address names."""
    names = list(dict.fromkeys(request.query_params.getlist("run")))
    if not names:
        return sorry("Tick one run or more on the page Runs, and open them.")
    if len(names) > _MOST:
        return sorry(f"A report shows at most {_MOST} runs here, and {len(names)} were chosen.")
    try:
        folders = run_folders(request.app.state.runs, names)
        with _reading:
            text = render(read_sections(folders))
    except (OSError, ValueError) as error:
        return sorry(str(error))
    # Figures and texts may come from a stranger: no script runs but that of the report.
    return HTMLResponse(
        text.encode("utf-8", "replace"), headers={"content-security-policy": _policy()}
    )


@functools.cache
def _policy() -> str:
    checksum = base64.b64encode(hashlib.sha256(render_script().encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{checksum}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def section(request: Request) -> Response:
    """Return the section of a report about one run, which the page of its experiment shows."""
    try:
        folder = run_folder(request.app.state.runs, request.query_params.get("run", ""))
        with _reading:
            (only,) = read_sections([folder])
    except (OSError, ValueError) as error:
        return PlainTextResponse(str(error), 404)
    return HTMLResponse(render_section(only).encode("utf-8", "replace"))


def report_style(request: Request) -> Response:
    """Return the style sheet of reports."""
    return Response(render_style(), media_type="text/css")


def run_picture(request: Request) -> Response:
    """Return the picture of a run."""
    try:
        file: Path = picture(request.app.state.runs, request.query_params.get("run", ""))
    except ValueError as error:
        return sorry(str(error))
    return FileResponse(file, headers={"cache-control": "max-age=60"})


RUN_ROUTES: list[BaseRoute] = [
    Route("/runs", runs),
    Route("/report", report),
    Route("/section", section),
    Route("/report.css", report_style),
    Route("/run-picture", run_picture),
]
