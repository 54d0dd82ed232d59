"""Pages of the explorer: home and scenes, and the files that they load."""

import functools
import json
from pathlib import Path
from typing import Any

import pydantic
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from ..experiments._invalid import invalid
from ._experiments import EXPERIMENT_ROUTES, cards
from ._gallery import GALLERY_ROUTES, address
from ._lecture import Lecture
from ._live import live
from ._render import page, sorry
from ._runs import places, summary
from ._saved_runs import RUN_ROUTES
from ._scene import Scene, SceneKnobs, controls
from .scenes import SCENES, load_scene

_LAST = 4  # runs on the first page
_TEMPLATES = Path(__file__).parent / "templates"


def home(request: Request) -> Response:
    """Return the page with all scenes, the last runs, and all experiments."""
    found, _ = places(request.app.state.runs)
    return page(
        "home.html",
        title="Explorer",
        here="scenes",
        scenes=[(each, address(f"scene-{each.name}")) for each in SCENES],
        runs=[summary(place) for place in found[:_LAST]],
        groups=cards(),
    )


async def scene(request: Request) -> Response:
    """Return the page of a scene, with its knobs at the positions that the address gives."""
    try:
        found = await run_in_threadpool(load_scene, request.path_params["name"])
    except ValueError as error:
        return sorry(str(error))
    values, complaint = _knobs(found, dict(request.query_params))
    return await _scene_page(found, values, complaint=complaint)


async def lecture(request: Request) -> Response:
    """Return a step of the lecture, the first one by default."""
    given: Lecture | None = request.app.state.lecture
    if given is None:
        return sorry("There is no lecture: start the explorer with `festina explore lecture.toml`.")
    number = request.path_params.get("number", 1)
    if not 1 <= number <= len(given.steps):
        return sorry(f"The lecture has {len(given.steps)} steps, and no step {number}.")
    step = given.steps[number - 1]
    place = {"title": given.title, "number": number, "total": len(given.steps), "note": step.note}
    return await _scene_page(step.scene, step.knobs, lecture=place)


async def _scene_page(
    found: Scene, knobs: SceneKnobs, *, complaint: str = "", lecture: dict[str, Any] | None = None
) -> Response:
    plots = await run_in_threadpool(_plots, found.entry.name)
    return page(
        "scene.html",
        title=found.entry.title,
        here="scenes",
        scene=found.entry,
        controls=controls(found.knobs, knobs),
        complaint=complaint,
        clock=found.clock,
        plots=plots,
        lecture=lecture,
    )


def _knobs(found: Scene, query: dict[str, str]) -> tuple[SceneKnobs, str]:
    """Return the knobs of an address, and a sentence about its invalid values."""
    try:
        return found.knobs(**query), ""
    except pydantic.ValidationError as error:
        words = invalid(error, valid=tuple(found.knobs.model_fields))
    usable = {}
    for name, value in query.items():
        try:
            usable = found.knobs(**usable, **{name: value}).model_dump(include={*usable, name})
        except pydantic.ValidationError:
            continue
    return found.knobs(**usable), f"{words} The default is used instead."


@functools.cache
def _plots(name: str) -> list[str]:
    """Return the plots of a scene as JSON for Bokeh's script."""
    from bokeh.embed import json_item

    return [json.dumps(json_item(each)) for each in load_scene(name).plots()]


def bokeh_script(request: Request) -> Response:
    """Return Bokeh's script from the installed package."""
    import bokeh

    script = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js"
    return FileResponse(script, headers={"cache-control": "max-age=86400"})


ROUTES: list[BaseRoute] = [
    Route("/", home),
    Route("/scene/{name}", scene),
    Route("/lecture", lecture),
    Route("/lecture/{number:int}", lecture),
    WebSocketRoute("/live/{name}", live),
    *GALLERY_ROUTES,
    *EXPERIMENT_ROUTES,
    *RUN_ROUTES,
    Route("/bokeh.js", bokeh_script),
    Mount("/static", StaticFiles(directory=_TEMPLATES / "static")),
]
