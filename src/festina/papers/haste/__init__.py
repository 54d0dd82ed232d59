"""Make haste slowly: rectified networks as gated ones, and why their units are mixed."""

from .._entry import Entry

_HASTE = ("jarvis2025make",)


def _entry(module: str, place: str, seconds: int, *references: str, shows: str) -> Entry:
    name = "haste/" + module.rpartition(".")[2].lstrip("_").replace("_", "-")
    source = f"Jarvis, Klein, Rosman & Saxe: {place}"
    return Entry(name, shows, source, seconds, f"{__name__}.{module}", references)


# fmt: off
ENTRIES = (
    _entry("_structures", "contexts of different structures", 30, *_HASTE,
           shows="a tree, a ring and a crossed tree: units are mixed all the same"),
    _entry("_distillation", "does a student inherit it?", 50, *_HASTE,
           shows="selectivity passes from teacher to student by features, not by outputs"),
)
# fmt: on
