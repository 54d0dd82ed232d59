"""One line of the table of experiments: data alone, so that listing them costs nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExperimentEntry:
    """One line of `festina list`.

    `seconds` is the expected time on two cores, compilation included; `references` are keys of
    `festina.papers.bibtex`. `file` is the path of an experiment outside
    the package, empty for all others.
    `packages` are the modules that the optional dependency `extra` installs and the run imports.
    """

    name: str
    shows: str
    source: str
    seconds: float | int
    module: str
    references: tuple[str, ...] = ()
    file: str = ""
    extra: str = ""
    packages: tuple[str, ...] = ()

    @property
    def typed(self) -> str:
        """Name or file that selects it on the command line."""
        return self.file or self.name
