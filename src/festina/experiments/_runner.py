"""Run an experiment: parameters → run → claims → figure → folder."""

import dataclasses
import functools
import json
import os
import platform
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _run
from .._cache import switched_on
from .._run._beside import replacing
from .._run._code import code
from ._identifiers import is_without_identifiers
from ._own_file import file_attributes
from ._parameters import Parameters, to_toml
from ._registry import Experiment, Progress, unknown
from .claims import Claim
from .claims._claim import labelled

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf")
"""Default file formats of figures."""


def run_experiment(
    experiment: Experiment,
    parameters: Parameters,
    *,
    preset: str | None = None,
    progress: Progress | None = None,
) -> "ExperimentRun":
    """Run an experiment in memory, without writing files, and return the run.

    **Arguments:**

    - `experiment`: experiment from `festina.experiments.load_experiment`.
    - `parameters`: instance of the experiment's class of parameters.
    - `preset`: name of the preset from which the parameters come. The run records this name, unless
      some parameters differ from the preset.
    - `progress`: function that is called with a text and the fraction of the work that is done.

    **Returns:**

    An `ExperimentRun` with the tables of the run as `data`.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments import Experiment, ExperimentEntry, Parameters, run_experiment
    >>> from festina.experiments import make_run
    >>> from festina.experiments.claims import claims_from_source, equal_to
    >>> @make_run("mine")
    ... def run(parameters: Parameters, key, progress):
    ...     return {"/": xr.Dataset({"twice": 2 * parameters.seeds})}
    >>> @claims_from_source("My paper", "Table 1")
    ... def claims(run, claim):
    ...     claim("twice", "twice three is six", equal_to(int(run["twice"]), 6))
    >>> entry = ExperimentEntry("mine", "an example", "My paper", 1, "")
    >>> experiment = Experiment(entry, Parameters, {}, run, claims, draw=lambda run: None)
    >>> run_experiment(experiment, Parameters(seeds=3)).claims[0].verdict
    'holds'
    """
    if preset and preset not in experiment.presets:
        raise ValueError(unknown("preset", preset, tuple(experiment.presets)))
    switched_on()
    start = time.monotonic()
    tree = experiment.run(parameters, key=None, progress=progress)
    tree.attrs |= {"seconds": round(time.monotonic() - start, 2), "device": _device()}
    tree.attrs["system"] = f"{platform.system()} {platform.machine()}"
    tree.attrs |= {"experiment": experiment.name, "code": code(experiment.entry.file)}
    tree.attrs |= {"preset": in_force(experiment, preset, parameters) or ""}
    tree.attrs |= file_attributes(experiment.entry.file)
    tree.attrs.setdefault("parameters", parameters.model_dump(mode="json"))
    return ExperimentRun(experiment, tree)


@dataclasses.dataclass(frozen=True, eq=False)
class ExperimentRun:
    """A run of an experiment, new or loaded from disk, with its claims, figure and files.

    - `experiment`: experiment that was run.
    - `data`: `xarray.DataTree` with the tables of the run, and attributes that record the
      parameters and the code.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments import ExperimentRun, load_experiment
    >>> data = xr.DataTree(xr.Dataset(attrs={"preset": "printed"}))
    >>> run = ExperimentRun(load_experiment("saddles/lemma-6"), data)
    >>> run.label
    'saddles/lemma-6 (printed)'
    """

    experiment: Experiment
    data: "xr.DataTree"

    @property
    def preset(self) -> str:
        """Return the name of the preset that the run was made with, or `""` if there was none."""
        return str(self.data.attrs.get("preset") or "")

    @property
    def label(self) -> str:
        """Return the name of the experiment, followed by the preset in brackets if there is one."""
        return labelled(self.experiment.name, self.preset)

    @functools.cached_property
    def claims(self) -> list[Claim]:
        """Return every claim of the experiment, judged on the data of this run."""
        made_by = {"experiment": self.experiment.name, "preset": self.preset}
        return [
            dataclasses.replace(claim, **made_by) for claim in self.experiment.claims(self.data)
        ]

    def save(self, folder: Path, parameters: Parameters) -> None:
        """Write `run.zarr` and `parameters.toml` into a folder that contains neither."""
        _run.save(self.data, folder / "run.zarr")
        text = to_toml(parameters, self.experiment.entry)
        (folder / "parameters.toml").write_text(text, encoding="utf-8")

    def write_claims(self, folder: Path) -> None:
        """Write `claims.json` with all claims into a folder."""
        write_claims((claim.to_json() for claim in self.claims), folder)

    def write_figure(self, stem: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
        """Draw the figure and write it as `stem`.png and so on; return the paths."""
        return write_figure(self.experiment.draw(self.data), stem, formats=formats)

    def write_animation(
        self,
        target: Path,
        *,
        size: tuple[float, float] | None = None,
        dpi: float | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """Write the animation to a file and return its path; `size` is in inches.

        `progress` is called with a text and the fraction of the frames that are drawn.
        """
        from .figures import save_animation

        assert self.experiment.animate is not None, "callers check this before the run"
        animation = self.experiment.animate(self.data)
        with replacing(target) as path:
            save_animation(animation, path, size=size, dpi=dpi, progress=progress)
        return target


def _device() -> str:
    """Return the kind and the number of the devices that JAX computes on."""
    import jax

    devices = jax.devices()
    kind, cores = devices[0].device_kind, os.cpu_count() or 1
    return f"{cores} CPU cores" if kind == "cpu" else f"{len(devices)} × {kind}"


def in_force(experiment: Experiment, preset: str | None, parameters: Parameters) -> str | None:
    """Return the preset, or `None` if some parameters differ from it."""
    if not preset:
        return None
    wanted = experiment.parameters(**experiment.presets[preset])
    same = (getattr(wanted, key) == getattr(parameters, key) for key in experiment.presets[preset])
    return preset if all(same) else None


def is_saved(
    folder: Path, experiment: Experiment, parameters: Parameters, preset: str | None
) -> bool:
    """Return whether a folder contains this run, made by the same code."""
    import pydantic

    import festina

    try:
        made = _run.attributes(folder)
        stored = made["parameters"]
        stored = json.loads(stored) if isinstance(stored, str) else stored
        same = experiment.parameters(**stored) == parameters
    except (_run.RunError, OSError, LookupError, TypeError, pydantic.ValidationError):
        return False
    wanted = {
        "experiment": experiment.name,
        "preset": in_force(experiment, preset, parameters) or "",
        "festina_version": festina.__version__,
        "code": code(experiment.entry.file),
    }
    same = same and all(made.get(key) == value for key, value in wanted.items())
    return same and not is_without_identifiers(folder)


def choose(claims: Iterable[Claim], identifiers: Sequence[str]) -> list[Claim]:
    """Return the claims with these identifiers or full names; without identifiers, all claims.

    An unknown identifier raises `ValueError` with the most similar identifier.
    """
    claims = list(claims)
    check_identifiers(identifiers, [name for c in claims for name in (c.id, c.name)])
    return [c for c in claims if not identifiers or {c.id, c.name} & {*identifiers}]


def check_identifiers(identifiers: Sequence[str], valid: Sequence[str]) -> None:
    """Raise `ValueError` for an invalid identifier; `*` in a valid identifier matches any text."""
    patterns = [re.escape(name).replace(r"\*", "[a-z0-9-]+") for name in valid]
    for each in identifiers:
        if not any(re.fullmatch(pattern, each) for pattern in patterns):
            alike = [name for name in valid if ("#" in name) == ("#" in each)]
            shown = [name.replace("*", "…") for name in dict.fromkeys(alike)]
            raise ValueError(unknown("claim", each, shown))


def write_figure(
    figure: "Figure",
    stem: Path,
    *,
    size: tuple[float, float] | None = None,
    dpi: float = 150.0,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Write a figure as `stem`.png and `stem`.pdf and return these paths; `size` is in inches.

    The same run always gives identical files.
    """
    from matplotlib import rc_context

    from .figures import fit_to_page
    from .figures._marks import mark_axes

    fit_to_page(figure, *(size or figure.get_size_inches()))
    # `fit_to_page` has laid out the figure; `savefig` would repeat this for each file.
    figure.set_layout_engine("none")
    if "svg" in formats:
        mark_axes(figure)
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    written = []
    for kind in formats:
        target = stem.with_name(f"{stem.name}.{kind}")
        with replacing(target) as path, rc_context({"svg.hashsalt": "festina"}):
            figure.savefig(path, format=kind, dpi=dpi, metadata=undated.get(kind))
        written.append(target)
    return written


def claims_json(entries: Iterable[dict[str, Any]]) -> str:
    """Return the text of `claims.json`."""
    return json.dumps(list(entries), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_claims(entries: Iterable[dict[str, Any]], folder: Path) -> None:
    """Write `claims.json` into a folder, and replace an existing one."""
    with replacing(folder / "claims.json") as path:
        path.write_text(claims_json(entries), encoding="utf-8")
