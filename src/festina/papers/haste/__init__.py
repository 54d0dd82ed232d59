"""Make haste slowly: rectified networks as gated ones, and why their units are mixed."""

from .._entry import Entry

_HASTE = ("jarvis2025make",)


def _entry(module: str, place: str, seconds: int, *references: str, shows: str) -> Entry:
    name = "haste/" + module.rpartition(".")[2].lstrip("_").replace("_", "-")
    source = f"Jarvis, Klein, Rosman & Saxe: {place}"
    return Entry(name, shows, source, seconds, f"{__name__}.{module}", references)


# fmt: off
ENTRIES = (
    _entry("_views", "notes on multi-view learning, single task", 40, *_HASTE,
           shows="views of one class: shared by squares in one layer, raced for in several"),
    _entry("_tasks", "notes on multi-view learning, several tasks", 40, *_HASTE,
           shows="from one task to two: independent targets end the competition of views"),
    _entry("_conflict", "notes on multi-view learning, task conflict", 40, *_HASTE,
           shows="views that contradict each other under a cue: no conflict is too rare"),
)
# fmt: on
