"""Which relations between units are tried on which architecture, and what becomes of them."""

from dataclasses import dataclass
from typing import Literal, get_args

import xarray as xr

from ....theory.saddles import Constraint

Architecture = Literal[
    "tanh", "relu", "convolutional relu", "linear", "quadratic", "linear attention",
    "softmax attention",
]  # fmt: skip
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)
Group = Literal["(i)", "(ii)", "(iii)", "(iv)", "even", "odd", "control"]


@dataclass(frozen=True)
class Case:
    """A relation on an architecture.

    `group` is the condition of Theorem 3 that it stands for, the parity of φ for a manifold that is
    not listed there, or a control that training does not keep. `learns_alike`: whether the reduced
    network is trained beside it.
    """

    architecture: Architecture
    words: str
    constraint: Constraint
    group: Group
    learns_alike: bool = False

    @property
    def name(self) -> str:
        return f"{self.architecture}: {self.words}"


_EQUAL = Constraint("equal", 1, (0,))
_ZERO = Constraint("zero", 3)
_AHEAD = Constraint("proportional", 1, (0,), (1.7,))
_BACK = Constraint("proportional", 1, (0,), (-0.8,))
_OPPOSITE = Constraint("proportional", 1, (0,), (-1.0,))
_COMBINED = Constraint("linear", 2, (0, 1, 3), (0.5, -1.2, 0.3))
_MIRRORED = Constraint("mirrored", 1, (0,))

CASES = (
    Case("tanh", "equal", _EQUAL, "(i)"),
    Case("tanh", "zero", _ZERO, "(ii)"),
    Case("tanh", "opposite", _OPPOSITE, "odd"),
    Case("tanh", "proportional", _AHEAD, "control"),
    Case("relu", "equal", _EQUAL, "(i)"),
    Case("relu", "proportional", _AHEAD, "(iii)", learns_alike=True),
    Case("relu", "γ < 0", _BACK, "control"),
    Case("relu", "combination", _COMBINED, "control"),
    Case("convolutional relu", "proportional", _AHEAD, "(iii)"),
    Case("linear", "proportional", _BACK, "(iii)"),
    Case("linear", "combination", _COMBINED, "(iv)", learns_alike=True),
    Case("quadratic", "zero", _ZERO, "(ii)"),
    Case("quadratic", "mirrored", _MIRRORED, "even"),
    Case("quadratic", "proportional", _AHEAD, "control"),
    Case("linear attention", "zero", _ZERO, "(ii)"),
    Case("linear attention", "mirrored", _MIRRORED, "even"),
    Case("softmax attention", "equal", _EQUAL, "(i)"),
    Case("softmax attention", "mirrored", _MIRRORED, "even"),
)


def cases_of(drift: xr.Dataset) -> list[Case]:
    """The cases that a run has, in their order."""
    return [case for case in CASES if case.name in drift["case"].values]
