"""Pictures of experiments and scenes, from the gallery of the documentation."""

import functools
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

_HERE = Path(__file__).parent
_FOLDERS = (_HERE / "gallery", _HERE.parents[2] / "docs" / "gallery")
"""Where the pictures are: in the installed package, or in the repository."""


@functools.cache
def pictures() -> dict[str, Path]:
    """Return the pictures by name, such as `race-xor` and `scene-chain`."""
    return {file.stem: file for folder in _FOLDERS for file in sorted(folder.glob("*.png"))}


def address(name: str) -> str:
    """Return the address of the picture of an experiment or of `scene-NAME`, or `""`."""
    stem = name.replace("/", "-")
    return f"/picture/{stem}" if stem in pictures() else ""


def _picture(request: Request) -> Response:
    file = pictures().get(request.path_params["stem"])
    return (
        FileResponse(file, headers={"cache-control": "max-age=3600"}) if file else Response("", 404)
    )


GALLERY_ROUTES: list[BaseRoute] = [Route("/picture/{stem}", _picture)]
