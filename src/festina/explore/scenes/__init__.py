"""Scenes of the explorer. The table lists them in the order of the home page."""

import importlib

from ...experiments._registry import unknown
from .._scene import Scene, SceneEntry

SCENES = (
    SceneEntry(
        "staircase",
        "_staircase",
        "A staircase in six architectures",
        "From small weights, very different networks learn one thing after another: the loss falls "
        "in steps.",
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
        "How the balance between two layers and the shape of a linear network decide whether it "
        "learns features.",
    ),
    SceneEntry(
        "hierarchy",
        "_hierarchy",
        "Progressive differentiation",
        "A deep linear network learns a hierarchy of items from the top, a shallow one all at "
        "once.",
    ),
    SceneEntry(
        "continual",
        "_continual",
        "Learning one task after another, and reversal",
        "What a second task costs the first, and why a learned task is slow to reverse.",
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
        "When a trunk shared by all pairs of domains wins the race against one pathway per pair, "
        "and solves pairs that were never trained.",
    ),
    SceneEntry(
        "contexts",
        "_contexts",
        "Objects in contexts",
        "Units of ReLU networks serve several contexts, which pays early in training and costs "
        "late.",
    ),
    SceneEntry(
        "views",
        "_views",
        "Views and conflict",
        "Whether several views of one object compete for the output or coexist, and who wins.",
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
        "A wide network computes what 0, 1, 2, … units could compute, on one plateau after the "
        "other.",
    ),
    SceneEntry(
        "forecast",
        "_forecast",
        "A forecast on a plateau",
        "When does the loss drop next? The forecast is made on a plateau, and checked by training.",
    ),
)


def load_scene(name: str) -> Scene:
    """Return a scene by its name; an unknown name raises `ValueError` with the nearest one."""
    for entry in SCENES:
        if entry.name == name:
            return Scene(entry, importlib.import_module(f".{entry.module}", __package__))
    raise ValueError(unknown("scene", name, [entry.name for entry in SCENES]))
