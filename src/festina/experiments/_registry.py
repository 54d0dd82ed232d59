"""The table of all experiments, which can be read without importing any experiment.

`festina list`, `festina cite`, `--help` and the error for an unknown name read only this table, so
they do not import JAX. An experiment is a module with `Parameters`, `run`, `claims` and `draw`, and
`load_experiment` imports it. The path of a user's file with these names, such as `./mine.py`, may
replace the name of an experiment.

The module may define three more names. `PRESETS` maps names to parameters, `QUICK` are parameters
that make the experiment much cheaper with the same verdicts, and `animate` makes an animation.
"""

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._optional import required
from ._experiment_entry import ExperimentEntry
from ._identifiers import identifiers
from ._own_file import entry_of, is_file, module_of, shown_by

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.animation import FuncAnimation
    from matplotlib.figure import Figure

    from .claims import Claim

Progress = Callable[[str, float], None]
"""Function that is called with a text and the fraction of the work that is done (0 to 1).

**Example:**

>>> from festina.experiments import Progress
>>> def show(words: str, fraction: float) -> None:
...     print(f"{100 * fraction:.0f} % {words}")
>>> progress: Progress = show
>>> progress("training", 0.5)
50 % training
"""


@dataclass(frozen=True)
class Experiment:
    """An experiment: its parameters, presets and functions, as the command line uses them.

    - `entry`: line of the table of experiments.
    - `parameters`: class of its parameters.
    - `presets`: parameters of each preset by name.
    - `run`, `claims`, `draw`: functions that compute a run, judge its claims and draw its figure.
    - `quick`: parameters of the flag `--quick`; empty if the experiment is always quick.
    - `animate`: function that makes the animation, or `None`.
    - `identifiers`: identifiers of all claims, with `*` for parts that are known only once the
      claims are made; `None` if they cannot be read from the source.

    **Example:**

    >>> from festina.experiments import load_experiment
    >>> experiment = load_experiment("saddles/lemma-6")
    >>> experiment.name, list(experiment.parameters.model_fields)[:2]
    ('saddles/lemma-6', ['seeds', 'seed'])
    """

    entry: ExperimentEntry
    parameters: type[Any]
    presets: Mapping[str, Mapping[str, Any]]
    run: Callable[..., "xr.DataTree"]
    claims: "Callable[[xr.DataTree], list[Claim]]"
    draw: Callable[["xr.DataTree"], "Figure"]
    quick: Mapping[str, Any] = field(default_factory=dict)
    animate: "Callable[[xr.DataTree], FuncAnimation] | None" = None
    identifiers: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Return the name of the experiment, such as `saddles/figure-1b`."""
        return self.entry.name

    def check_packages(self) -> None:
        """Raise `ValueError` if a package that the run needs is not installed."""
        for package in self.entry.packages:
            required(package, package, f"'festina[{self.entry.extra}]'", what="This experiment")


def entries() -> "tuple[ExperimentEntry, ...]":
    """Return the entries of all experiments, in the order of `festina list`."""
    # The papers import this package, so their table is imported only on request.
    return importlib.import_module("festina.papers").EXPERIMENTS


def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments, such as `saddles/figure-1b`.

    **Example:**

    >>> from festina.experiments import experiment_names
    >>> experiment_names()[0], "saddles/figure-1b" in experiment_names()
    ('linear/learning-curves', True)
    """
    return tuple(entry.name for entry in entries())


def experiment_groups() -> tuple[str, ...]:
    """Return the sources of all experiments: the first parts of their names.

    **Example:**

    >>> from festina.experiments import experiment_groups
    >>> experiment_groups()
    ('linear', 'race', 'haste', 'coding', 'saddles')
    """
    return tuple(dict.fromkeys(name.split("/")[0] for name in experiment_names()))


_FEW = 12  # largest number of names that an error message lists


def find_entry(name: str) -> ExperimentEntry:
    """Return the entry of an experiment by its name or the path of its file.

    An unknown name raises `ValueError` with the most similar name.

    **Example:**

    >>> from festina.experiments import find_entry
    >>> find_entry("saddles/lemma-6").shows
    'all fixed points of a linear network, their losses and escape rates'
    """
    if is_file(name):
        return entry_of(name)
    for entry in entries():
        if entry.name == name:
            return entry
    raise ValueError(
        unknown("experiment", name, experiment_names()) + " `festina list` shows them all."
    )


def load_experiment(name: str) -> Experiment:
    """Import an experiment by its name or the path of its file; this also imports JAX.

    **Example:**

    >>> from festina.experiments import load_experiment
    >>> experiment = load_experiment("saddles/lemma-6")
    >>> experiment.parameters().seed
    0
    """
    return experiment_of(find_entry(name))


def experiment_of(entry: ExperimentEntry) -> Experiment:
    """Import the experiment of an entry."""
    if entry.file:
        module = module_of(entry)
        entry = replace(entry, shows=shown_by(module))
    else:
        module = importlib.import_module(entry.module)
    return Experiment(
        entry=entry,
        parameters=module.Parameters,
        presets=getattr(module, "PRESETS", {}),
        run=module.run,
        claims=module.claims,
        draw=module.draw,
        quick=getattr(module, "QUICK", {}),
        animate=getattr(module, "animate", None),
        identifiers=identifiers(module),
    )


def unknown(what: str, name: str, valid: Sequence[str]) -> str:
    """Return an error message for an unknown name that suggests the most similar valid name.

    **Arguments:**

    - `what`: kind of the name, such as "experiment".
    - `name`: unknown name.
    - `valid`: valid names.

    **Returns:**

    One or two sentences.

    **Example:**

    >>> from festina.experiments import unknown
    >>> unknown("unit", "rellu", ["relu", "linear", "tanh"])
    "Unknown unit 'rellu'. Did you mean 'relu'?"
    """
    if not valid:
        return f"Unknown {what} '{name}': there are none."
    bare = {choice.lstrip("-"): choice for choice in valid}  # all flags begin with hyphens
    start = name.lstrip("-")
    family = [choice for word, choice in bare.items() if start and word.startswith(start)]
    if 1 < len(family) <= _FEW:
        return f"Unknown {what} '{name}'. Did you mean one of {', '.join(family)}?"
    by_ending = [choice for choice in valid if choice.split("/")[-1] == name]
    near = by_ending or family[:1] or [bare[w] for w in difflib.get_close_matches(start, bare, 1)]
    more = f", … ({len(valid)} in all)" if len(valid) > _FEW else ""
    hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(valid[:_FEW])}{more}."
    return f"Unknown {what} '{name}'. {hint}"
