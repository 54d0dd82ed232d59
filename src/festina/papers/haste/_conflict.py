r"""Two views in conflict and a cue: networks learn to follow the cue, however rare conflicts are.

Inputs are x = (e_i, e_j, e_t): two views, which show classes i and j out of K, and a cue t. The
target is y = e_i if t = 0 and y = e_j if t = 1. Both views show the same class with probability
1 − c. The loss is ½⟨‖y − f‖²⟩, and τ Ẇ = −∂L/∂W with τ = 1. The *gating index* is the output for
the cued class minus the output for the class of the other view, averaged over examples whose views
differ. The notes ask for a transition as the share c of conflicts grows from zero. No transition
exists: the gating index converges to 1 for all c > 0, after a time proportional to 1/c. A network
first learns (e_i + e_j)/2, which needs no gates and leaves the loss c/4. The residual is nonzero
only for conflicts, a share c of the examples.
"""

from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_increasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_below,
    claims_from_source,
    follows_power_law,
    join_numbers,
    max_error_below,
)
from ...experiments.figures import (
    POINT_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import AbstractNetwork, fully_connected
from ...tasks import Task, conflicting_views

_SAMPLES = 161
_LAST = 80.0
"""Value of c·t at which training ends."""
_RARE = 0.2
"""Share c up to which conflicts are rare: everything else is learned before conflicts matter."""


class Parameters(BaseParameters):
    """Two views in conflict, and ReLU networks with one hidden layer."""

    seeds: int = Field(default=3, ge=2)
    """Number of networks that are trained for each share of conflicts."""

    classes: int = Field(default=3, ge=2, le=6)
    """Number K of classes."""

    hidden: int = Field(default=60, ge=30)
    """Number of hidden units of each network."""

    scale: float = Field(default=1e-2, ge=1e-3, le=0.02)
    """Standard deviation σ of the initial weights."""

    shares: Annotated[tuple[float, ...], check_increasing(0.01, 1, count=3)] = (
        *(0.02, 0.05, 0.1, 0.2),
        *(0.4, 0.7, 1.0),
    )
    """Shares c of examples in conflict, increasing, two or more up to 0.2. The share c = 0 is
    always run as well. Computing time is proportional to 1/c."""


QUICK: dict[str, Any] = {"seeds": 2, "shares": (0.1, 0.2, 0.4, 1.0)}


@make_run("haste/conflict")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train ReLU and linear networks at every share c of conflicts; ReLU networks also at c = 0."""
    keys, found = keys_from_parameters(parameters, key), list[xr.Dataset]()
    for k, share in enumerate(parameters.shares):
        progress(f"conflict in {share:g} of the examples", k / (len(parameters.shares) + 1))
        found.append(_in_conflict(parameters, share, keys))
    progress("no conflict", 0.9)
    return {
        "conflict": xr.concat(found, xr.Variable("share", list(parameters.shares))),
        "none": _without(parameters, keys),
    }


def _in_conflict(parameters: Parameters, share: float, keys: Keys) -> xr.Dataset:
    """Train ReLU networks up to c·t = 80, and linear networks for their final loss."""
    data, clock = conflicting_views(share, parameters.classes), np.linspace(0.0, _LAST, _SAMPLES)
    trained = gradient_flow(
        _network(parameters, data, "relu", keys), data, clock / share, rtol=1e-4
    )
    index = _index(trained.network, data)
    left = []
    for cue in (True, False):
        plain = conflicting_views(share, parameters.classes, cue=cue)
        network = _network(parameters, plain, "linear", keys)
        left.append(gradient_flow(network, plain, np.array([_LAST / share]), rtol=1e-6).loss[:, -1])
    half = passage_time(clock, -index, -0.5)
    over = "seed", "clock"
    return xr.Dataset(
        {
            "index": (over, index),
            "loss": (over, trained.loss),
            "half": ("seed", half),
            "linear": (("cue", "seed"), np.stack(left)),
        },
        {
            "clock": ("clock", clock, {"long_name": "c t in units of τ"}),
            "seed": parameters.seed + np.arange(len(keys)),
            "cue": ["cue", "no cue"],
        },
    )


def _without(parameters: Parameters, keys: Keys) -> xr.Dataset:
    """Train networks without conflicts, for as long as at the smallest share of conflicts."""
    data = conflicting_views(0.0, parameters.classes)
    times = np.linspace(0.0, _LAST / parameters.shares[0], _SAMPLES)
    trained = gradient_flow(_network(parameters, data, "relu", keys), data, times, rtol=1e-4)
    return xr.Dataset({"index": (("seed", "time"), _index(trained.network, data))}, {"time": times})


def _network(parameters: Parameters, data: Task, unit: str, keys: Keys) -> AbstractNetwork:
    inputs, outputs = data.x.shape[1], data.outputs
    how = {"activation": unit, "scale": parameters.scale, "key": keys}
    return fully_connected(inputs, parameters.hidden, outputs, **how)


def _index(network: AbstractNetwork, data: Task) -> Float[np.ndarray, "..."]:
    """Return the mean output for the cued minus the uncued class, where views differ."""
    first, second, cue = (data.labels[name] for name in ("first", "second", "cue"))
    wanted = np.where(cue == 0, first, second)
    other = np.where(cue == 0, second, first)
    said = network.predict(data.x)
    rows = np.flatnonzero(first != second)
    ahead = said[..., rows, wanted[rows]] - said[..., rows, other[rows]]
    return np.asarray(ahead.mean(axis=-1))


@claims_from_source("Notes on Jarvis et al. (2025)", "IDEA-003")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check which networks learn to gate, how long it takes, and the loss without gates."""
    parameters = parameters_of_run(run, Parameters)
    data, none = run["conflict"].ds, run["none"].ds
    share, index = data["share"], data["index"]
    claim(
        "no-critical-share",
        "there is no critical share of conflicts: networks learn to follow the cue for all shares "
        "c > 0",
        agree(index.isel(clock=-1).mean("seed"), 1.0, within=0.02),
        headline=True,
        note=f"gating index at c·t = {_LAST:g}, c = {join_numbers(share.values)}",
    )
    claim(
        "no-conflict",
        "without conflicts between views, networks do not learn to follow the cue (gating index)",
        all_below(abs(none["index"].isel(time=-1)), 0.1),
        note=f"after t = {float(none['time'][-1]):g}",
    )
    rare = data.sel(share=share <= _RARE)
    half = rare["half"].mean("seed", skipna=False)
    claim(
        "half-time",
        "the time until the gating index is 1/2 is inversely proportional to the share c of "
        "conflicts (exponent of c)",
        follows_power_law(rare["share"], half / rare["share"], -1.0, within=0.05),
        note=f"c·t = {join_numbers(half.values)} for c = {join_numbers(rare['share'].values)}, "
        f"K = {parameters.classes}, σ = {parameters.scale:g}",
    )
    curves = rare["index"].mean("seed")
    claim(
        "collapse",
        "against c·t, the gating index follows the same curve for all shares c of conflicts up to "
        f"{_RARE:g}",
        max_error_below(curves, curves.mean("share"), within=0.1),
    )
    floor = share / 4
    claim(
        "linear-floor",
        "the final loss of a linear network is c/4 at a share c of conflicts, with and without a "
        "cue",
        agree((data["linear"].mean("seed") / floor), 1.0, within=0.02),
        note="in units of c/4",
    )
    begun = int(np.argmax((curves > 0.02).all("share").values))
    claim(
        "relu-rests-at-floor",
        "a ReLU network first learns the part that needs no gates: its loss has a plateau at c/4, "
        "c the share of conflicts",
        agree(rare["loss"].mean("seed").isel(clock=begun) / (rare["share"] / 4), 1.0, within=0.15),
        note=f"in units of c/4, at c·t = {float(data['clock'][begun]):g}",
    )
    claim(
        "final-loss",
        "the loss of ReLU networks converges to zero at every share c > 0 of conflicts",
        all_below(data["loss"].isel(clock=-1) / floor, 0.05),
        note="in units of c/4",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the gating index and the loss against c·t, and half times against c."""
    data, none = run["conflict"].ds, run["none"].ds
    figure, (gating, loss, times) = panels("Views in conflict, and a cue", 3, width=3.7)
    for share, shade, label in shades(data["share"].values, "$c$ ="):
        one = data.sel(share=share).mean("seed")
        draw_pair(gating, one["clock"], one["index"], color=shade, label=label)
        draw_pair(loss, one["clock"], 4 * one["loss"] / share, color=shade)
    last = float(data["clock"][-1])
    gating.plot(
        none["time"] * last / none["time"][-1],
        none["index"].mean("seed"),
        color="0.6",
        lw=2.0,
        label=f"$c$ = 0 (${float(data['share'][0]):g}\\,t/τ$)",
    )
    words = "time × share of conflicts, $c\\,t/τ$", "gating index", "follows the cue (1) or not (0)"
    label_axes(gating, *words, legend_title="share $c$ of conflicts")
    loss.axhline(1.0, **THEORY_STYLE, label="without gates")
    words = "time × share of conflicts, $c\\,t/τ$", "loss in units of $c/4$", "loss"
    label_axes(loss, *words, yscale="log", ylim=(0.03, None))
    share = data["share"].values
    how = {**POINT_STYLE, "color": "C0", "label": "training"}
    times.errorbar(
        share, data["half"].mean("seed") / share, data["half"].std("seed") / share, **how
    )
    rare = data.sel(share=data["share"] <= _RARE)
    times.plot(
        share,
        float(rare["half"].mean()) / share,
        **THEORY_STYLE,
        label=f"$∝ 1/c$, fitted to $c ≤ {_RARE:g}$",
    )
    words = "share $c$ of conflicts", "time $t/τ$ to index 1/2", "time to follow the cue"
    label_axes(times, *words, xscale="log", yscale="log")
    return figure
