"""A lecture: scenes at given positions of their knobs, one after the other, from a TOML file."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from ..experiments._invalid import invalid
from ._scene import Scene, SceneKnobs
from .scenes import load_scene


@dataclass(frozen=True)
class Step:
    """One step of a lecture: a scene, the positions of its knobs, and a note for the audience."""

    scene: Scene
    knobs: SceneKnobs
    note: str


@dataclass(frozen=True)
class Lecture:
    """A lecture with its title and its steps."""

    title: str
    steps: tuple[Step, ...]


def read_lecture(path: Path) -> Lecture:
    """Read a lecture; a file that cannot be used raises `ValueError` with the reason.

    The file has a `title` and a table `[[step]]` for each step. A step has a `scene`, optionally a
    `note`, and values for some knobs of the scene.
    """
    try:
        given = tomllib.loads(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"'{path}' cannot be read: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' is not a TOML file: {error}.") from error
    steps = given.get("step")
    if unknown := given.keys() - {"title", "step"}:
        name = sorted(unknown)[0]
        raise ValueError(f"'{path}': '{name}' is not known. A lecture has a title and [[step]].")
    if not isinstance(steps, list) or not steps:
        raise ValueError(
            f"'{path}' has no steps. A lecture consists of tables such as\n"
            '[[step]]\nscene = "chain"\ndepth = 3\nnote = "Deeper chains wait longer."'
        )
    title = given.get("title", path.stem)
    read = [_step(f"'{path}', step {k}", each) for k, each in enumerate(steps, start=1)]
    return Lecture(str(title), tuple(read))


def _step(where: str, given: Any) -> Step:
    if not isinstance(given, dict) or not isinstance(given.get("scene"), str):
        raise ValueError(f'{where}: give the name of a scene, such as scene = "chain".')
    values = {name: value for name, value in given.items() if name not in ("scene", "note")}
    try:
        scene = load_scene(given["scene"])
        return Step(scene, scene.knobs(**values), str(given.get("note", "")))
    except pydantic.ValidationError as error:
        valid = tuple(load_scene(given["scene"]).knobs.model_fields)
        raise ValueError(f"{where}: {invalid(error, valid=valid)}") from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
