"""One line of the table of experiments: data alone, so that listing them costs nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One line of `festina list`.

    `seconds` is the expected time on two cores, compilation included; `references` are keys of
    `festina.papers.bibtex`.
    """

    name: str
    shows: str
    source: str
    seconds: float | int
    module: str
    references: tuple[str, ...] = ()
