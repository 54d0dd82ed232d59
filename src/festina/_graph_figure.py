"""A graph as a figure: nodes from left to right, and edges as thick as they are strong."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._axes import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 12  # signs in a row that can be read
_THIN, _THICK = 0.3, 4.0  # points, of the weakest and the strongest edge
_BOX: dict[str, Any] = {
    "ha": "center",
    "va": "center",
    "zorder": 2,
    "bbox": {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "0.4", "lw": 0.8},
}


def draw_graph(
    ax: "Axes | None",
    nodes: Mapping[str, str],
    edges: Mapping[tuple[str, str], float],
    outputs: Sequence[str],
    signs: Mapping[tuple[str, str], str],
) -> "Axes":
    """Nodes along the edges with what stands in them, strengths of edges and what stands there."""
    ax = axes(ax)
    depth: dict[str, int] = {}
    for name in nodes:
        depth[name] = max((depth[a] + 1 for a, b in edges if b == name), default=0)
    last = max(depth.values())
    depth |= dict.fromkeys(outputs, last)
    layers = [[name for name in depth if depth[name] == layer] for layer in range(last + 1)]
    tallest = max(map(len, layers))
    at = {
        name: (layer, (0.5 - (place + 0.5) / len(names)) * tallest)
        for layer, names in enumerate(layers)
        for place, name in enumerate(names)
    }
    strongest = max(*edges.values(), 1e-300)
    for edge, strength in edges.items():
        (x, y), (to, up) = (at[name] for name in edge)
        width = _THIN + (_THICK - _THIN) * strength / strongest
        ax.plot([x, to], [y, up], color="0.6", lw=width, zorder=1, solid_capstyle="round")
        if edge in signs:  # not in the middle, where edges cross
            ax.text(x + 0.35 * (to - x), y + 0.35 * (up - y), signs[edge], size=7, **_BOX)
    for name, (x, y) in at.items():
        ax.text(x, y, nodes[name], size=8, **_BOX)
    ax.set(xlim=(-0.4, last + 0.4), ylim=(-tallest / 2, tallest / 2))
    ax.set_axis_off()
    return ax


def gate_signs(gates: Mapping[str, np.ndarray], groups: Sequence[np.ndarray]) -> dict[str, str]:
    """For every gate a sign for each group of examples: open, in part, closed."""
    found = {}
    for name, gate in gates.items():
        row = ["●" if (gate[i] == 1).all() else "◐" if gate[i].any() else "○" for i in groups]
        short = f"open for {len(row) - row.count('○')} of {len(row)}"
        found[name] = "".join(row) if len(row) <= _MOST else short
    return found
