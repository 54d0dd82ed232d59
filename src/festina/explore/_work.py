"""Work of the process of the experiments: import an experiment, and run it into a folder."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..experiments import ExperimentEntry, Progress
from ..experiments._registry import experiment_of

FORMATS = ("png", "pdf", "svg")


@dataclass(frozen=True)
class Ended:
    """Outcome of a run: its folder, or a sentence that says why there is none."""

    folder: Path | None = None
    reason: str = ""


def prepare(entry: ExperimentEntry) -> None:
    """Import an experiment and everything that its run needs, so that the run begins at once."""
    import jax
    import matplotlib.figure  # noqa: F401

    from ..experiments import _perform  # noqa: F401

    with contextlib.suppress(Exception):  # the run says what is wrong
        experiment_of(entry)
        jax.devices()


def carry_out(
    entry: ExperimentEntry,
    preset: str,
    parameters: Mapping[str, Any],
    parent: Path,
    *,
    progress: Progress,
) -> Ended:
    """Run an experiment into the next numbered folder of `parent`, as `festina run` does."""
    from .._cache import discard_programs
    from ..experiments._describe import describe
    from ..experiments._perform import perform

    discard_programs()
    try:
        experiment = experiment_of(entry)
        experiment.check_packages()
        done = perform(
            experiment,
            experiment.parameters(**parameters),
            preset=preset or None,
            out=None,
            numbered_in=parent,
            progress=progress,
            formats=FORMATS,
        )
        return Ended(done.folder)
    except Exception as error:
        # The folder of all runs is a flag of `festina explore`.
        return Ended(reason=describe(error, "").replace("with `--out`", "with `--runs`"))
