"""Scenes of the explorer. The table lists them in the order of the home page."""

import importlib

from ...experiments._registry import unknown
from .._scene import Scene, SceneEntry

SCENES = (
    SceneEntry(
        "staircase",
        "_staircase",
        "A staircase in six architectures",
        "Trained from small initial weights, very different networks learn one direction after "
        "another, and the loss falls in steps.",
    ),
    SceneEntry(
        "chain",
        "_chain",
        "A chain of weights",
        "How depth and initial weights decide when a mode of a linear network is learned.",
    ),
    SceneEntry(
        "lazy-to-rich",
        "_lazy_to_rich",
        "From lazy to rich",
        "How the balance between the two layers of a linear network and its widths decide whether "
        "it learns features.",
    ),
    SceneEntry(
        "hierarchy",
        "_hierarchy",
        "Progressive differentiation",
        "A deep linear network learns a hierarchy of items level by level, from the top. A shallow "
        "network learns all levels at once.",
    ),
    SceneEntry(
        "continual",
        "_continual",
        "Learning one task after another, and reversal",
        "How much of a first task is forgotten while a second one is learned, and why reversing a "
        "task is slow.",
    ),
    SceneEntry(
        "xor",
        "_xor",
        "Exclusive or, and the transition to nonlinearity",
        "Pathways of a ReLU network race: the faster ones decide whether it computes XoR or a "
        "linear function.",
    ),
    SceneEntry(
        "routing",
        "_routing",
        "Routing and abstraction",
        "When a trunk shared by all pairs of domains learns faster than dedicated pathways, one "
        "per pair, and generalises to untrained pairs.",
    ),
    SceneEntry(
        "contexts",
        "_contexts",
        "Objects in contexts",
        "ReLU units become active in several contexts. This speeds up learning early in training "
        "and slows it down later.",
    ),
    SceneEntry(
        "views",
        "_views",
        "Views and conflict",
        "Whether several views of one object compete for the output or coexist, and which of them "
        "wins.",
    ),
    SceneEntry(
        "coding",
        "_coding",
        "Coding schemes",
        "How the activation decides which neurons respond to which class: analog, redundant and "
        "sparse codes.",
    ),
    SceneEntry(
        "width",
        "_width",
        "Effective width while training",
        "On successive plateaus, a wide network computes what 0, 1, 2, … units could compute.",
    ),
    SceneEntry(
        "forecast",
        "_forecast",
        "A forecast on a plateau",
        "When does the loss drop next? The forecast is made on a plateau, and further training "
        "checks it.",
    ),
)


def load_scene(name: str) -> Scene:
    """Return a scene by its name; an unknown name raises `ValueError` with a similar one."""
    for entry in SCENES:
        if entry.name == name:
            return Scene(entry, importlib.import_module(f".{entry.module}", __package__))
    raise ValueError(unknown("scene", name, [entry.name for entry in SCENES]))
