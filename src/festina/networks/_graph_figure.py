"""Figure of a gated network: its graph from left to right, and the state of its gates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._axes import axes, styled
from .._precision import float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..tasks import Task
    from . import Gated

_MOST = 12  # largest number of signs that are shown for one gate
_THIN, _THICK = 0.3, 4.0  # line width in points of the weakest and the strongest edge
_BOX: dict[str, Any] = {
    "ha": "center",
    "va": "center",
    "zorder": 2,
    "bbox": {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "0.4", "lw": 0.8},
}


@float64
def draw_gated(
    network: "Gated",
    ax: "Axes | None",
    task: "Task | None",
    label: str | None,
    style: Mapping[str, Any],
) -> "Axes":
    gating, labels = network.gating, {} if task is None else task.labels
    if label is not None and label not in labels:
        raise ValueError(
            f"`label` must be one of the labels of the given `task`, got {label!r}; "
            f"there are {', '.join(labels) or 'none'}."
        )
    table = gating.table if task is None else np.asarray(jax.vmap(gating)(np.asarray(task.x)))
    if task is not None:
        network.view.wanted(
            np.asarray(jax.vmap(network.features)(np.asarray(task.x, float))), task.y
        )
    what = table if label is None else np.asarray(labels[label])
    values, which = np.unique(what, axis=0, return_inverse=True)
    groups = [which.ravel() == k for k in range(len(values))]
    known = dict(zip(gating.names, table.T, strict=False))
    signs = {
        name: _sign(known[name], groups) if name in known else "function of x"
        for name in gating.names
    }
    ax = _draw(network, axes(ax), signs, style)
    over = f"each of {len(values)} gate patterns"
    if label is not None:
        over = f"{label} {', '.join(map(str, values))}"
    title = f"gates for {over}: ● open, ◐ partly open, ○ closed" if signs else ""
    ax.set_title(title, size=8, color="0.3")
    return ax


def _sign(gate: np.ndarray, groups: Sequence[np.ndarray]) -> str:
    """Return a sign for each group of examples: ● open, ◐ partly open, ○ closed."""
    row = ["●" if (gate[i] == 1).all() else "◐" if gate[i].any() else "○" for i in groups]
    return (
        "".join(row) if len(row) <= _MOST else f"open for {len(row) - row.count('○')} of {len(row)}"
    )


def _draw(
    network: "Gated", ax: "Axes", signs: Mapping[str, str], style: Mapping[str, Any]
) -> "Axes":
    plan, depth = network.plan, {}
    for name in plan.widths:
        depth[name] = max((depth[a] + 1 for a, b in plan.edges if b == name), default=0)
    last = max(depth.values())
    depth |= dict.fromkeys(plan.outputs, last)
    layers = [[name for name in depth if depth[name] == layer] for layer in range(last + 1)]
    tallest = max(map(len, layers))
    at = {
        name: (layer, (0.5 - (place + 0.5) / len(names)) * tallest)
        for layer, names in enumerate(layers)
        for place, name in enumerate(names)
    }
    norms = [np.sqrt(np.mean(np.sum(np.square(w), axis=(-2, -1)))) for w in network.parts]
    for edge, norm in zip(plan.edges, norms, strict=True):
        (x, y), (to, up) = (at[name] for name in edge)
        width = _THIN + (_THICK - _THIN) * norm / max(*norms, 1e-300)
        how = styled(style, color="0.6", lw=width, zorder=1, solid_capstyle="round")
        ax.plot([x, to], [y, up], **how)
        if "-".join(edge) in signs:  # nearer to the source than the middle, where edges cross
            here = x + 0.35 * (to - x), y + 0.35 * (up - y)
            ax.text(*here, signs["-".join(edge)], size=7, **_BOX)
    for name, here in at.items():
        sign = f"\n{signs[name]}" if name in signs else ""
        ax.text(*here, f"{name} ({plan.widths[name]}){sign}", size=8, **_BOX)
    ax.set(xlim=(-0.4, last + 0.4), ylim=(-tallest / 2, tallest / 2))
    ax.set_axis_off()
    return ax
