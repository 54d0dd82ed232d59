"""Experiments on “Make haste slowly”: ReLU networks as gated networks, and mixed selectivity."""

from ...experiments._experiment_entry import ExperimentEntry

_HASTE = ("jarvis2025make",)


def _entry(module: str, place: str, seconds: int, *references: str, shows: str) -> ExperimentEntry:
    name = "haste/" + module.rpartition(".")[2].lstrip("_").replace("_", "-")
    source = place if place.startswith("notes on") else f"Jarvis, Klein, Rosman & Saxe: {place}"
    return ExperimentEntry(name, shows, source, seconds, f"{__name__}.{module}", references)


# fmt: off
EXPERIMENTS = (
    _entry("_equivalence", "Proposition 4.2", 40, *_HASTE,
           shows="gated networks match a ReLU network with re-read gates, not with fixed gates"),
    _entry("_depth", "effect of depth", 40, *_HASTE,
           shows="with two hidden layers, the first computes a linear map and the second gates"),
    _entry("_scale", "extension to handwritten digits", 40, *_HASTE,
           shows="gates, pathways and selectivity of ReLU networks on digits in contexts"),
    _entry("_mixed", "mixed selectivity against modularity", 50, *_HASTE,
           shows="ReLU units become mixed: they are active in all contexts but one"),
    _entry("_why", "why mixed selectivity wins", 40, *_HASTE,
           shows="pathways for more contexts learn faster while the common pathway still learns"),
    _entry("_structures", "contexts of different structures", 50, *_HASTE,
           shows="units are mixed even if each context has another structure (tree, ring)"),
    _entry("_distillation", "distillation", 50, *_HASTE,
           shows="students inherit selectivity from features of a teacher, not from its outputs"),
    _entry("_views", "notes on Jarvis et al.: views, single task", 40, *_HASTE,
           shows="views of one class race in separate pathways, but not in one shared layer"),
    _entry("_tasks", "notes on Jarvis et al.: views, several tasks", 40, *_HASTE,
           shows="views compete for one target; independent targets end the competition"),
    _entry("_conflict", "notes on Jarvis et al.: views, task conflict", 40, *_HASTE,
           shows="networks learn to follow a cue between views that conflict, however rarely"),
)
# fmt: on
