"""The parts of a scene of the explorer: knobs, plots, theory and training.

A scene is one module, read from top to bottom, with these names:

- `Knobs`: subclass of `SceneKnobs`; every field is a slider, a list of choices or a switch.
- `COMPARED`: name of the quantity in which theory and training are compared, in the singular.
- `plots()`: figures from `_plots.py`.
- `theory(knobs)`: the prediction, as `Numbers`.
- `train(knobs, progress)`: yields the `Numbers` of each trained network.
- `allowed(knobs)`: largest difference expected between theory and training, relative to the largest
  value of the compared quantity; `None` if there is no exact prediction.
- `notice(knobs, theory)`: one or two sentences that say what to notice at these knobs.
- `python(knobs)`: code that computes `predicted` and `measured`, the compared quantity.
- `shell(knobs)`: command that runs an experiment on the same question.
- `CLOCK`: optional name of what is played, such as "step"; otherwise the time `t`.
- `WARM`: optional list of knobs, one for each compiled program that the scene needs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from .._types import Array

if TYPE_CHECKING:
    from bokeh.plotting import figure

Progress = Callable[[str, float], None]
Columns = Mapping[str, Mapping[str, Array]]


class SceneKnobs(BaseModel):
    """Base class of the knobs of a scene: a position of every slider, choice and switch."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def slider(
    words: str,
    default: float | int,
    least: float | int,
    most: float | int,
    *,
    step: float | int = 0,
    log: bool = False,
) -> Any:
    """Return a knob for numbers; with `log` it is logarithmic, and `step` is in decades."""
    extra = {"step": step, "log": log}
    return Field(default=default, ge=least, le=most, title=words, json_schema_extra=extra)


def choice(words: str, default: Any) -> Any:
    """Return a knob for a `Literal` of texts, or for a `bool`."""
    return Field(default=default, title=words)


@dataclass(frozen=True)
class Control:
    """A knob as the page shows it; positions of a logarithmic slider are powers of ten."""

    name: str
    words: str
    value: Any
    choices: tuple[Any, ...] = ()
    least: float | int = 0
    most: float | int = 1
    step: float | int = 0
    log: bool = False
    whole: bool = False

    @property
    def kind(self) -> str:
        """Return `switch`, `choice` or `slider`."""
        return "switch" if isinstance(self.value, bool) else "choice" if self.choices else "slider"

    @property
    def ends(self) -> tuple[float | int, float | int, float | int, float | int]:
        """Return least, most, step and value of the slider's position."""
        least, most, value, step = self.least, self.most, self.value, self.step
        if self.log:
            least, most, value = (float(np.log10(each)) for each in (least, most, value))
        step = step or (1 if self.whole else 0.05 if self.log else (most - least) / 100)
        return least, most, step, value


def controls(knobs: type[SceneKnobs], values: SceneKnobs | None = None) -> list[Control]:
    """Return the controls of the knobs, in their order, at these values."""
    values = values or knobs()
    return [
        _control(name, field, getattr(values, name)) for name, field in knobs.model_fields.items()
    ]


def _control(name: str, field: FieldInfo, value: Any) -> Control:
    words = field.title or name.replace("_", " ")
    if get_origin(field.annotation) is not None:
        return Control(name, words, value, choices=get_args(field.annotation))
    bounds = {
        name: bound
        for each in field.metadata
        for name, key in (("least", "ge"), ("most", "le"))
        if (bound := getattr(each, key, None)) is not None
    }
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    whole = field.annotation is int
    return Control(name, words, value, **bounds, **extra, whole=whole)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Numbers:
    """Numbers of a theory or of one trained network, as the plots of a scene show them.

    - `compared`: the quantity in which theory and training are compared, on the same grid for both.
    - `columns`: arrays by source and column; sources are named in the plots.
    - `frames`: arrays that change with training time, `(time, value)`, by source and column.
    - `times`: training times of the frames.
    """

    compared: Array
    columns: Columns = field(default_factory=dict)
    frames: Columns = field(default_factory=dict)
    times: Array | None = None


@dataclass(frozen=True)
class SceneEntry:
    """Line of the table of scenes: name, module, title and what the scene shows."""

    name: str
    module: str
    title: str
    shows: str


@dataclass(frozen=True)
class Scene:
    """A scene with the functions of its module."""

    entry: SceneEntry
    module: ModuleType

    @property
    def knobs(self) -> type[SceneKnobs]:
        """Return the class of the scene's knobs."""
        return self.module.Knobs

    @property
    def compared(self) -> str:
        """Return the name of the quantity in which theory and training are compared."""
        return self.module.COMPARED

    @property
    def clock(self) -> str:
        """Return the name of what is played: the time `t`, unless the scene says otherwise."""
        return getattr(self.module, "CLOCK", "t")

    @property
    def warm(self) -> Sequence[SceneKnobs]:
        """Return knobs that need different compiled programs."""
        return getattr(self.module, "WARM", ())

    def plots(self) -> "list[figure]":
        """Return the empty plots."""
        return self.module.plots()

    def theory(self, knobs: SceneKnobs) -> Numbers:
        """Return the prediction."""
        return self.module.theory(knobs)

    def train(self, knobs: SceneKnobs, progress: Progress) -> Iterator[Numbers]:
        """Yield the numbers of each trained network."""
        return self.module.train(knobs, progress)

    def allowed(self, knobs: SceneKnobs) -> float | None:
        """Return the largest expected relative difference, `None` without an exact prediction."""
        return self.module.allowed(knobs)

    def words(self, knobs: SceneKnobs, theory: Numbers) -> dict[str, str]:
        """Return what to notice, Python code that does the same, and a command."""
        return {
            "notice": self.module.notice(knobs, theory),
            "python": self.module.python(knobs),
            "shell": self.module.shell(knobs),
        }


def difference(theory: Numbers, trained: Numbers) -> float:
    """Return the largest difference, relative to the largest predicted value."""
    scale = np.abs(theory.compared).max() or 1.0
    return float(np.abs(theory.compared - trained.compared).max() / scale)
