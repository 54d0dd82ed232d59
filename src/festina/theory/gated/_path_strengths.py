"""What the race reduction says of a network over time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ..._axes import axes, styled
from ..._result import Result
from ...networks import Gated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 8  # lines that a legend tells apart
_ALIKE = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class PathStrengths(Result):
    """Strengths of the paths of a gated network over time: see `race_reduction`.

    - `time`: in the units of τ.
    - `edges`: B_e of every edge, `(time, mode)`.
    - `strengths`: B_p of every path, the product along it. Modes are numbered in each group of
      paths that have to do with each other.
    - `loss`: ½⟨‖y − f‖²⟩.
    - `network`: the weights at these times, as one network with a leading axis.
    """

    time: Float[np.ndarray, " time"]
    edges: dict[str, Float[np.ndarray, "time _mode"]]
    strengths: dict[str, Float[np.ndarray, "time _mode"]]
    loss: Float[np.ndarray, " time"]
    network: Gated

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw strengths of the paths over time, a line for each mode; equal paths share a line.

        `style` goes to `Axes.plot`.
        """
        ax = axes(ax)
        lines = alike(self.strengths)
        for k, (label, curve) in enumerate(lines.items()):
            how = styled(style, color=f"C{k % 10}", lw=1.0, ls="--")
            drawn = ax.plot(self.time, curve, **how)
            drawn[0].set_label(label)
        ax.set(xlabel="time $t$", ylabel=r"strength $B_p$ of a path", xlim=(0, self.time[-1]))
        if len(lines) <= _MOST:
            ax.legend(frameon=False, fontsize="small")
        return ax


def alike(curves: dict[str, Float[np.ndarray, "time *mode"]]) -> dict[str, np.ndarray]:
    """Curves that differ, with names that say of how many they are."""
    size = max(float(np.abs(curve).max(initial=0.0)) for curve in curves.values())
    found: list[tuple[np.ndarray, list[str]]] = []
    for name, curve in curves.items():
        for other, names in found:
            if other.shape == curve.shape and np.abs(other - curve).max() <= _ALIKE * size:
                names.append(name)
                break
        else:
            found.append((curve, [name]))
    more = lambda names: f" and {len(names) - 1} alike" if len(names) > 1 else ""
    return {f"{names[0]}{more(names)}": curve for curve, names in found}
