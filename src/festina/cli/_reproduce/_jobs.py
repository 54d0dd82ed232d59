"""The runs that a command requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from festina.experiments import (
    Experiment,
    experiment_groups,
    experiment_names,
    find_entry,
    unknown,
)

from .._complaint import Complaint

_QUICK = 75.0
"""Most seconds of a quick run: the longest experiments leave out most of their training."""

if TYPE_CHECKING:
    from festina.experiments import Parameters


@dataclass(frozen=True)
class Job:
    """A requested run, and the name of its folder."""

    experiment: Experiment
    preset: str | None
    parameters: "Parameters"
    label: str
    folder: str
    quick: bool = False

    @property
    def seconds(self) -> float:
        """Return the expected run time."""
        seconds = float(self.experiment.entry.seconds)
        return min(seconds, _QUICK) if self.quick else seconds

    def is_done(self, top: Path) -> bool:
        from festina.experiments._runner import is_saved

        return is_saved(top / self.folder, self.experiment, self.parameters, self.preset)


def chosen(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all experiments of some sources, each once."""
    if not sources:
        raise Complaint(
            "Missing SOURCE of `festina reproduce`. Sources are: "
            f"{', '.join(experiment_groups())}, all."
        )
    return tuple(dict.fromkeys(name for each in sources for name in _chosen(each)))


def _chosen(source: str) -> tuple[str, ...]:
    """Return the names of the experiments of a source, or the names that begin with `source`."""
    if source.endswith(".py"):
        find_entry(source)
        return (source,)
    beginning = {"all": ""}.get(source, source if "/" in source else f"{source}/")
    if found := tuple(name for name in experiment_names() if name.startswith(beginning)):
        return found
    choices = experiment_names() if "/" in source else (*experiment_groups(), "all")
    _, _, id = source.partition("#")
    hint = f" `--claims {id}` selects a claim." if id else ""
    raise Complaint(unknown("source", source, choices) + hint)


def jobs_of(
    experiment: Experiment, quick: bool, flags: Mapping[str, Any], *, alone: bool
) -> list[Job]:
    """Return the runs of an experiment; an invalid flag raises `Complaint`.

    If the experiments of a source are `alone` in a folder, names of run folders lack the source.
    """
    from festina.experiments.claims._claim import labelled

    from .._parameters import resolve

    own = experiment.name.split("/", 1)[-1] if alone else experiment.name
    return [
        Job(
            experiment,
            preset,
            resolve(experiment, preset=preset, quick=quick, flags=flags),
            labelled(experiment.name, preset or ""),
            f"{own}-{preset}" if preset else own,
            quick,
        )
        for preset in (None, *(() if quick else experiment.presets))
    ]


def check_identifiers(claims: Sequence[str], jobs: Sequence[Job]) -> None:
    """Raise `ValueError` before any run if an identifier belongs to no claim."""
    from festina.experiments import _runner

    valid: list[str] = []
    for experiment in (job.experiment for job in jobs):
        if experiment.identifiers is None:
            return
        valid += experiment.identifiers
        valid += [f"{experiment.name}#{id}" for id in experiment.identifiers]
    _runner.check_identifiers(claims, valid)
