"""Pages of the experiments: all of them, and one with its parameters."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from ..experiments import Experiment, experiment_names, find_entry, load_experiment
from ..experiments._registry import entries
from ..report._page import TITLES
from ._form import Field, Typed, fields, starts
from ._live_run import live_run
from ._render import page, sorry
from ._runs import newest_picture, picture


@functools.cache
def _gallery(name: str) -> Path | None:
    """Return the picture of an experiment in the gallery, if festina runs from its repository."""
    file = Path(__file__).parents[3] / "docs" / "gallery" / f"{name.replace('/', '-')}.png"
    return file if file.is_file() else None


def _picture(runs: Path, name: str) -> str:
    """Return the address of an experiment's picture, or `""`."""
    return f"/experiment-picture/{name}" if _gallery(name) or newest_picture(runs, name) else ""


def experiments(request: Request) -> Response:
    """Return the page with all experiments, by source."""
    groups: dict[str, list[tuple[object, str]]] = {}
    for entry in entries():
        group = entry.name.partition("/")[0]
        shown = _picture(request.app.state.runs, entry.name)
        groups.setdefault(TITLES.get(group, group), []).append((entry, shown))
    return page("experiments.html", title="Experiments", here="experiments", groups=groups)


def experiment_picture(request: Request) -> Response:
    """Return the picture of an experiment: of the gallery, or of its newest run."""
    name, runs = request.path_params["name"], request.app.state.runs
    if name not in experiment_names():
        return sorry("There is no such picture.")
    try:
        file = _gallery(name) or picture(runs, newest_picture(runs, name))
    except ValueError as error:
        return sorry(str(error))
    return FileResponse(file, headers={"cache-control": "max-age=60"})


async def experiment(request: Request) -> Response:
    """Return the page of an experiment; values in the address are put into its form."""
    name = request.path_params["name"]
    try:
        if name not in experiment_names():  # files of users are experiments too, but not here
            return sorry(_unknown(name))
        found = await run_in_threadpool(load_experiment, name)
        missing = await run_in_threadpool(_missing, found)
    except ImportError as error:
        return sorry(f"The experiment cannot be loaded: {error}.")
    given = fields(found)
    return page(
        "experiment.html",
        title=name,
        here="experiments",
        entry=found.entry,
        fields=given,
        values=_values(given, request.query_params),
        starts=json.dumps(starts(found)),
        buttons=list(starts(found)),
        presets=found.presets,
        missing=missing,
        picture=_picture(request.app.state.runs, name),
    )


def _unknown(name: str) -> str:
    try:
        find_entry(name.removesuffix(".py")[:200])
    except ValueError as error:
        return str(error).replace("`festina list` shows", "The page Experiments shows")
    return f"'{name[:200]}' is no experiment of festina."


def _missing(found: Experiment) -> str:
    """Return the sentence that packages are missing, or `""`."""
    try:
        found.check_packages()
    except ValueError as error:
        return str(error)
    return ""


def _values(given: list[Field], query: Mapping[str, str]) -> dict[str, Typed]:
    """Return the values of the form: those of the address, and otherwise the defaults."""
    found: dict[str, Typed] = {}
    for each in given:
        text = query.get(each.name)
        if text is None or (each.kind == "choice" and text not in each.choices):
            found[each.name] = each.default
        else:
            found[each.name] = text.lower() == "true" if each.kind == "switch" else text
    return found


EXPERIMENT_ROUTES: list[BaseRoute] = [
    Route("/experiments", experiments),
    Route("/experiment/{name:path}", experiment),
    Route("/experiment-picture/{name:path}", experiment_picture),
    WebSocketRoute("/live-run", live_run),
]
