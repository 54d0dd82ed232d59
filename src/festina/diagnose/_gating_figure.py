"""Plot gates: units in rows, examples in columns."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._types import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._gating import Gating


def draw_gating(
    gating: "Gating", ax: "Axes | None", labels: ArrayLike | None, style: dict[str, Any]
) -> "Axes":
    """Plot for which examples each unit is active, sorting units by pathway and strength."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    examples = gating.active.shape[-1]
    found = np.zeros(examples) if labels is None else np.asarray(labels)
    if found.shape != (examples,):
        raise ValueError(
            f"`labels` must be one for each of the {examples} examples, got shape {found.shape}."
        )
    across = np.argsort(found, kind="stable")
    pathway, strength = gating.pathway.ravel(), gating.strength.ravel()
    order = np.lexsort((-strength, pathway))[np.sum(pathway < 0) :]
    shown = gating.active.reshape(-1, examples)[order][:, across]
    picture = np.where(shown, pathway[order][:, None] % 10, -1)
    palette = ["white", *(f"C{k}" for k in range(10))]
    from matplotlib.colors import BoundaryNorm, ListedColormap

    norm = BoundaryNorm(np.arange(-1.5, 10), 11)
    how = {"cmap": ListedColormap(palette), "norm": norm, "aspect": "auto"}
    ax.imshow(picture, **{**how, "interpolation": "nearest", **style})
    for border in np.flatnonzero(np.diff(pathway[order])):
        ax.axhline(border + 0.5, color="0.3", lw=0.6)
    for border in np.flatnonzero(np.diff(np.unique(found[across], return_inverse=True)[1])):
        ax.axvline(border + 0.5, color="0.3", lw=0.6)
    words = "" if gating.stable else ", unstable"
    count = f"{len(gating)} pathway{'s' if len(gating) > 1 else ''}{words}"
    ax.set(xlabel="example", ylabel="unit, by pathway", title=count)
    return ax
