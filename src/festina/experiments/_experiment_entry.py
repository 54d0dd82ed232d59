"""One entry of the table of experiments, which is plain data, so that listing is fast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExperimentEntry:
    """One line of `festina list`: an experiment's name and description, without its code.

    - `name`, `shows`: name and one-line description.
    - `source`: where the experiment comes from, in words.
    - `seconds`: expected run time on two CPU cores, including compilation.
    - `module`: module that defines the experiment.
    - `references`: keys of `festina.papers.bibtex`.
    - `file`: path of a user's experiment; empty for the experiments of festina.
    - `extra`, `packages`: optional dependency, and the modules that it installs and the run
      imports.

    **Example:**

    >>> from festina.experiments import find_entry
    >>> entry = find_entry("saddles/lemma-6")
    >>> entry.module
    'festina.papers.saddles.theorems._lemma_6'
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
        """Return the name or file that selects this experiment on the command line."""
        return self.file or self.name
