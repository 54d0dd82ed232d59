"""Every experiment by name, readable without importing any of them.

`festina list`, `festina cite`, `--help` and the error for an unknown name read this table alone,
so that they do not import JAX. An experiment is a module with `Parameters`, `run`, `claims` and
`draw`; `load_experiment` imports it. The path of such a file (`./mine.py`) is accepted for a name.

Three more names are optional in the module: `PRESETS`, parameters by name; `QUICK`, parameters that
make the experiment much cheaper with the same verdicts; and `animate`, which makes an animation.
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
"""Called with what is going on, in words, and the fraction done (0 to 1)."""


@dataclass(frozen=True)
class Experiment:
    """An experiment as the command line, sweeps and tests use it.

    `parameters` is its class of `Parameters`. `quick` are the parameters of `--quick`, empty for an
    experiment that is quick anyway. `animate` is `None` for an experiment without animation.
    `identifiers` are those of all claims, with a `*` for parts that are known only when the claims
    are made. They are `None` if the source does not tell them.
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
        return self.entry.name

    def check_packages(self) -> None:
        """Raise `ValueError` if a package that the run imports is not installed."""
        for package in self.entry.packages:
            required(package, package, f"'festina[{self.entry.extra}]'", what="This experiment")


def entries() -> "tuple[ExperimentEntry, ...]":
    """Return every experiment of the sources, in the order of `festina list`."""
    # The papers use this package, so the registry imports their table only when asked.
    return importlib.import_module("festina.papers").EXPERIMENTS


def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments, such as `saddles/figure-1b`."""
    return tuple(entry.name for entry in entries())


def experiment_groups() -> tuple[str, ...]:
    """Return the sources of experiments, such as `saddles`: the first part of their names."""
    return tuple(dict.fromkeys(name.split("/")[0] for name in experiment_names()))


_FEW = 12  # names that can be read in one line


def find_entry(name: str) -> ExperimentEntry:
    """Return the entry of a name or file; an unknown name raises with the nearest that exists."""
    if is_file(name):
        return entry_of(name)
    for entry in entries():
        if entry.name == name:
            return entry
    raise ValueError(
        unknown("experiment", name, experiment_names()) + " `festina list` shows them all."
    )


def load_experiment(name: str) -> Experiment:
    """Import an experiment by its name or its file. This imports JAX, which listing does not."""
    entry = find_entry(name)
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
    """Return the message for a name that does not exist, with the nearest one that does."""
    if not valid:
        return f"Unknown {what} '{name}': there are none."
    bare = {choice.lstrip("-"): choice for choice in valid}  # every flag begins alike
    start = name.lstrip("-")
    family = [choice for word, choice in bare.items() if start and word.startswith(start)]
    if 1 < len(family) <= _FEW:
        return f"Unknown {what} '{name}'. Did you mean one of {', '.join(family)}?"
    by_ending = [choice for choice in valid if choice.split("/")[-1] == name]
    near = by_ending or family[:1] or [bare[w] for w in difflib.get_close_matches(start, bare, 1)]
    more = f", … ({len(valid)} in all)" if len(valid) > _FEW else ""
    hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(valid[:_FEW])}{more}."
    return f"Unknown {what} '{name}'. {hint}"
