"""Make haste slowly: rectified networks as gated ones, and why their units are mixed."""

from .._entry import Entry

_HASTE = ("jarvis2025make",)


def _entry(module: str, place: str, seconds: int, *references: str, shows: str) -> Entry:
    name = "haste/" + module.rpartition(".")[2].lstrip("_").replace("_", "-")
    source = f"Jarvis, Klein, Rosman & Saxe: {place}"
    return Entry(name, shows, source, seconds, f"{__name__}.{module}", references)


# fmt: off
ENTRIES = (
    _entry("_mixed", "mixed selectivity against modularity", 50, *_HASTE,
           shows="objects in contexts: ReLU units that are on in all contexts but one"),
    _entry("_why", "why mixed selectivity wins", 40, *_HASTE,
           shows="sharing is faster only while the common pathway still learns"),
)
# fmt: on
