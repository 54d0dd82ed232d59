"""Strengths of paths over time, as predicted by the race reduction."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ..._axes import axes, styled
from ..._result import Result
from ...networks import Gated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 8  # largest number of lines with a legend
_ALIKE = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class PathStrengths(Result):
    """Strengths of the paths of a gated network over time: result of a `RaceReduction`.

    - `time`: times, in the units of τ.
    - `edges`: strengths B_e of every edge, `(time, mode)`. Modes are numbered within each group of
      interacting paths.
    - `strengths`: strengths B_p of every path, the product of B_e along the path.
    - `loss`: ½⟨‖y − f‖²⟩.
    - `network`: predicted weights at these times, as one network with a leading axis.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import from_arrays
    >>> from festina.theory.gated import race_reduction
    >>> network = gated_from({"x-a": [[0.1]], "a-y": [[0.1]], "x-b": [[0.2]], "b-y": [[0.2]]})
    >>> found = race_reduction(network, from_arrays([[1.0]], [[1.0]]))([0.0, 10.0])
    >>> {path: strength[:, 0].round(4) for path, strength in found.strengths.items()}
    {'x-a-y': array([0.01, 0.2 ]), 'x-b-y': array([0.04, 0.8 ])}
    """

    time: Float[np.ndarray, " time"]
    edges: dict[str, Float[np.ndarray, "time _mode"]]
    strengths: dict[str, Float[np.ndarray, "time _mode"]]
    loss: Float[np.ndarray, " time"]
    network: Gated

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the strengths of the paths over time, one line for each mode.

        Paths with equal strengths share a line. `style` is passed to `Axes.plot`.
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
    """Merge equal curves; the name of a merged curve gives the number of equal curves."""
    size = max(float(np.abs(curve).max(initial=0.0)) for curve in curves.values())
    found: list[tuple[np.ndarray, list[str]]] = []
    for name, curve in curves.items():
        for other, names in found:
            if other.shape == curve.shape and np.abs(other - curve).max() <= _ALIKE * size:
                names.append(name)
                break
        else:
            found.append((curve, [name]))
    more = lambda names: f" (+{len(names) - 1} equal)" if len(names) > 1 else ""
    return {f"{names[0]}{more(names)}": curve for curve, names in found}
