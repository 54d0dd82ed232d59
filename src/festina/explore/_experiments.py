"""Pages of the experiments: all of them, and one with its parameters."""

import json
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from ..experiments import Experiment, ExperimentEntry, experiment_names, find_entry, load_experiment
from ..experiments._registry import entries
from ..report._page import TITLES
from ._form import Field, Typed, fields, starts
from ._gallery import address
from ._live_run import live_run
from ._render import page, sorry


def cards() -> dict[str, list[tuple[ExperimentEntry, str]]]:
    """Return all experiments by source, each with the address of its picture."""
    groups: dict[str, list[tuple[ExperimentEntry, str]]] = {}
    for entry in entries():
        group = entry.name.partition("/")[0]
        groups.setdefault(TITLES.get(group, group), []).append((entry, address(entry.name)))
    return groups


def experiments(request: Request) -> Response:
    """Return the page with all experiments, by source."""
    return page("experiments.html", title="Experiments", here="experiments", groups=cards())


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
        picture=address(name),
    )


def _unknown(name: str) -> str:
    try:
        find_entry(name.removesuffix(".py")[:200])
    except ValueError as error:
        return str(error).replace("`festina list` shows", "The page Experiments shows")
    return f"'{name[:200]}' is no experiment of festina."


def _missing(found: Experiment) -> str:
    """Return a sentence about missing packages, or `""`."""
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
    WebSocketRoute("/live-run", live_run),
]
