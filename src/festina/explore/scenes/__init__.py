"""Scenes of the explorer. The table lists them in the order of the home page."""

import importlib

from ...experiments._registry import unknown
from .._scene import Scene, SceneEntry

SCENES = (
    SceneEntry(
        "chain",
        "_chain",
        "A chain of weights",
        "How depth and initial weights decide when a mode of a linear network is learned.",
    ),
)


def load_scene(name: str) -> Scene:
    """Return a scene by its name; an unknown name raises `ValueError` with the nearest one."""
    for entry in SCENES:
        if entry.name == name:
            return Scene(entry, importlib.import_module(f".{entry.module}", __package__))
    raise ValueError(unknown("scene", name, [entry.name for entry in SCENES]))
