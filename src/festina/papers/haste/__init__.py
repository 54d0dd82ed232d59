"""Make haste slowly: rectified networks as gated ones, and why their units are mixed."""

from ...experiments._experiment_entry import ExperimentEntry

_HASTE = ("jarvis2025make",)


def _entry(module: str, place: str, seconds: int, *references: str, shows: str) -> ExperimentEntry:
    name = "haste/" + module.rpartition(".")[2].lstrip("_").replace("_", "-")
    source = place if place.startswith("notes on") else f"Jarvis, Klein, Rosman & Saxe: {place}"
    return ExperimentEntry(name, shows, source, seconds, f"{__name__}.{module}", references)


# fmt: off
EXPERIMENTS = (
    _entry("_equivalence", "Proposition 4.2", 40, *_HASTE,
           shows="ReLU networks as gated ones, exact if gates are read again and not if they stay"),
    _entry("_depth", "effect of depth", 40, *_HASTE,
           shows="two hidden layers: the first is linear in what it does, the second gates"),
    _entry("_scale", "beyond it: handwritten digits in contexts", 40, *_HASTE,
           shows="digits in contexts: gates, pathways and selectivity of a ReLU network on images"),
    _entry("_mixed", "mixed selectivity against modularity", 50, *_HASTE,
           shows="objects in contexts: ReLU units that are on in all contexts but one"),
    _entry("_why", "why mixed selectivity wins", 40, *_HASTE,
           shows="sharing is faster only while the common pathway still learns"),
    _entry("_structures", "contexts of different structures", 30, *_HASTE,
           shows="a tree, a ring and a crossed tree: units are mixed all the same"),
    _entry("_distillation", "does a student inherit it?", 50, *_HASTE,
           shows="selectivity passes from teacher to student by features, not by outputs"),
    _entry("_views", "notes on Jarvis et al.: views, single task", 40, *_HASTE,
           shows="views of one class: shared by squares in one layer, raced for in several"),
    _entry("_tasks", "notes on Jarvis et al.: views, several tasks", 40, *_HASTE,
           shows="from one task to two: independent targets end the competition of views"),
    _entry("_conflict", "notes on Jarvis et al.: views, task conflict", 40, *_HASTE,
           shows="views that contradict each other under a cue: no conflict is too rare"),
)
# fmt: on
