"""Figures of sweeps, which draw arrays with named axes; theory is dashed."""

import math
import textwrap
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from ._curves import shades
from ._style import SIMULATION_STYLE, THEORY_STYLE

_SEEN: list[Any] = [
    withStroke(linewidth=2.5, foreground="white", alpha=0.8)
]  # white outline that makes a dashed line visible on colours


def phase_diagram(
    ax: Axes,
    values: xr.DataArray,
    theory: xr.DataArray | None = None,
    *,
    x: str,
    level: float | int = 0.5,
    **style: Any,
) -> Axes:
    """Plot a quantity over two axes as colours, and the predicted boundary as a dashed line.

    An axis is logarithmic if its grid is geometric, and symmetric-logarithmic if a geometric grid
    also has negative values. Missing values (NaN) stay blank. Labels are the `long_name` of an
    array, or its name. For a sweep of claims, the colour bar also names the claim.

    **Arguments:**

    - `ax`: axes to draw on.
    - `values`: numbers over two dimensions with increasing coordinates.
    - `theory`: predicted boundary over one of the dimensions, or predicted values over both, whose
      contour at `level` is drawn.
    - `x`: name of the horizontal dimension.
    - `level`: level of the contour.
    - `style`: further arguments of `Axes.pcolormesh`, such as `cmap`, `vmin` or `norm`.

    **Returns:**

    `ax`.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments.figures import panels, phase_diagram
    >>> axes = {"scale": [0.1, 1.0, 10.0], "width": [2, 4]}
    >>> rank = xr.DataArray([[1, 1], [1, 2], [2, 2]], coords=axes, name="rank")
    >>> ax = phase_diagram(panels("Rank")[1], rank, x="scale")
    >>> ax.get_xlabel(), ax.get_xscale()
    ('scale', 'log')
    """
    name, claim = _words(values), values.coords.get("claim")
    if claim is not None and claim.size == 1:
        name = textwrap.fill(": ".join(filter(None, (name, str(claim.item())))), 44)
    values = values.squeeze(drop=True)
    if values.ndim != 2 or x not in values.dims or values.dtype.kind not in "fiub":
        raise ValueError(
            "`values` must be numbers over two dimensions, and `x` must be one of them, got "
            f"{values.dtype} over {values.dims} and {x!r}. Select two dimensions with `.sel(…)`."
        )
    (y,) = (str(dim) for dim in values.dims if dim != x)
    values = values.transpose(y, x)
    edges = [_edges(ax, which, values[name]) for which, name in (("x", x), ("y", y))]
    mesh = ax.pcolormesh(*edges, values, **{"rasterized": True, **style})
    assert ax.figure is not None, "axes are in a figure"
    ax.figure.colorbar(mesh, ax=ax, label=name)
    ax.set(xlabel=_words(values[x]), ylabel=_words(values[y]))
    if theory is not None and theory.ndim == 2:
        dashed: dict[str, Any] = {"colors": "black", "linewidths": 1.2, "linestyles": "--"}
        at = theory.transpose(y, x)
        ax.contour(at[x], at[y], at, [level], **dashed).set_path_effects(_SEEN)
    elif theory is not None:
        along = theory[theory.dims[0]]
        line = (along, theory) if theory.dims[0] == x else (theory, along)
        ends = ax.get_xlim(), ax.get_ylim()
        ax.plot(*line, **{**THEORY_STYLE, "lw": 1.2, "path_effects": _SEEN})
        ax.set(xlim=ends[0], ylim=ends[1])
    return ax


def draw_distribution(
    ax: Axes,
    draws: xr.DataArray,
    theory: xr.DataArray | None = None,
    *,
    bins: Any = 60,
    cumulative: bool = False,
    of: str = "samples",
    label: str = "",
    **style: Any,
) -> Axes:
    """Plot the distribution of samples, pale, and the predicted distribution, dashed.

    Samples that are not finite, such as the time of an event that never happens, appear in no bin
    but count in the total number.

    **Arguments:**

    - `ax`: axes to draw on.
    - `draws`: samples over any dimensions, for example one for each seed.
    - `theory`: predicted density, or predicted cumulative distribution, over its coordinate.
    - `bins`: number of bins, or their edges.
    - `cumulative`: if True, draw the share of samples below each value instead of a density.
    - `of`: what one sample is, in the plural, for the label of a cumulative distribution.
    - `label`: legend entry.
    - `style`: further arguments of `Axes.stairs`, or of `Axes.plot` if `cumulative`.

    **Returns:**

    `ax`.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments.figures import draw_distribution, panels
    >>> times = xr.DataArray([3.0, 1.0, 2.0, 2.5], dims="seed", name="drop time")
    >>> ax = draw_distribution(panels("Drop times")[1], times, cumulative=True)
    >>> ax.get_xlabel(), ax.lines[0].get_ydata()
    ('drop time', array([0.25, 0.5 , 0.75, 1.  ]))
    """
    every = draws.values.ravel()
    seen = np.sort(every[np.isfinite(every)])
    if cumulative:
        below = np.arange(1, seen.size + 1) / every.size
        ax.plot(seen, below, **{**SIMULATION_STYLE, "alpha": 0.55, **style}, label=label or None)
    else:
        counts, edges = np.histogram(seen, bins)
        density = counts / np.diff(edges) / every.size
        ax.stairs(density, edges, **{"fill": True, "alpha": 0.4, **style}, label=label or None)
        ax.set_ylim(bottom=0)
    if theory is not None:
        ax.plot(theory[theory.dims[0]], theory, **THEORY_STYLE)
    ax.set(
        xlabel=_words(draws), ylabel=f"share of {every.size:,} {of}" if cumulative else "density"
    )
    return ax


def draw_collapse(
    ax: Axes,
    curves: xr.DataArray,
    x: xr.DataArray,
    theory: xr.DataArray | None = None,
    *,
    over: str,
    symbol: str = "",
    **style: Any,
) -> Axes:
    """Plot curves of a sweep against a coordinate on which theory predicts them to coincide.

    **Arguments:**

    - `ax`: axes to draw on.
    - `curves`: values over two dimensions, one curve for each value of `over`.
    - `x`: common coordinate of every point, over one or both of these dimensions.
    - `theory`: predicted common curve over its coordinate.
    - `over`: name of the swept dimension.
    - `symbol`: symbol of `over` for the legend.
    - `style`: further arguments of `Axes.plot` for each curve.

    **Returns:**

    `ax`.

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments.figures import draw_collapse, panels
    >>> rate = xr.DataArray([1.0, 2.0], coords={"rate": [1.0, 2.0]})
    >>> time = xr.DataArray([0.0, 1.0, 2.0], coords={"time": [0.0, 1.0, 2.0]})
    >>> scaled = (rate * time).rename("rate · time")
    >>> ax = draw_collapse(panels("Decay")[1], 0.5**scaled, scaled, over="rate", symbol="r =")
    >>> [line.get_label() for line in ax.lines]
    ['r = 1', 'r = 2']
    """
    x, curves = xr.broadcast(x, curves)
    for value, shade, name in shades(curves[over].values, symbol):
        at = {over: value}
        drawn = {**SIMULATION_STYLE, "alpha": 0.55, **style, "color": shade, "label": name}
        ax.plot(x.sel(at), curves.sel(at), **drawn)
    if theory is not None:
        ax.plot(theory[theory.dims[0]], theory, **THEORY_STYLE)
    ax.set(xlabel=_words(x), ylabel=_words(curves))
    return ax


def _edges(ax: Axes, which: str, coordinate: xr.DataArray) -> Float[np.ndarray, " _"]:
    """Set a linear or logarithmic scale that suits the grid; return the edges of the grid cells."""
    values = np.asarray(coordinate.values, float)
    positive = values[values > 0]
    steps = np.diff(np.log(positive))
    axis, set_scale = getattr(ax, f"{which}axis"), getattr(ax, f"set_{which}scale")
    if len(positive) > 2 and np.allclose(steps, steps[0], rtol=1e-3):
        if len(positive) == len(values):
            set_scale("log")
        elif np.allclose(values, -values[::-1]):
            set_scale("symlog", linthresh=positive[0], linscale=0.5)
            tens = 10.0 ** np.arange(
                np.ceil(np.log10(2 * positive[0])), np.log10(positive[-1]) + 1e-9
            )
            tens = tens[::-1][:: max(1, math.ceil(len(tens) / 2))]  # keeps labels near zero apart
            axis.set_ticks([*-tens, *tens[::-1]])
    scale = axis.get_transform()
    there = scale.transform(values)
    names = [f"{value:g}" for value in values]
    exact = len("".join(names)) <= 24 and np.array_equal(np.array(names, float), values)
    if exact and np.diff(there).min() >= np.ptp(there) / 12:
        axis.set_ticks(values, names)
        axis.set_ticks([], minor=True)
    middle = (there[1:] + there[:-1]) / 2
    ends = 2 * there[[0, -1]] - middle[[0, -1]]
    return np.asarray(scale.inverted().transform(np.concatenate((ends[:1], middle, ends[1:]))))


def _words(array: xr.DataArray) -> str:
    return str(array.attrs.get("long_name", array.name or ""))
