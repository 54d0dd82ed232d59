r"""ReLU networks as gated networks: exact with re-read gates, not with any fixed gates.

On given examples a rectifier is a gate, f(x) = W₂ D(x) W₁ x with D = 1[W₁x > 0]. The source calls
the gated network with these gates the rectified linear network (ReLN), and states that its loss
equals that of the ReLU network at all times (Proposition 4.2). The statement is true by definition
if the gated network re-reads its gates from its own weights at every time. The theory can solve
only networks with fixed gates, and these learn differently: from random weights units turn while
they learn, and a quarter of all gates, weighted by strength, change.

The task has N objects in C contexts. Training is gradient descent on ½⟨‖y − f‖²⟩ with small steps
η, so n steps are a time t = ηn in units of τ. All networks start from the same weights.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import gate_changes, gating
from ...dynamics import gradient_descent
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import PowerOfTwo
from ...experiments.claims import (
    ClaimCollector,
    all_above,
    claims_from_source,
    decreasing,
    increasing,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import (
    POINT_STYLE,
    SIMULATION_STYLE,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import Layer, fully_connected, gated_equivalent, rectifier_gates
from ...tasks import Task, objects_in_contexts
from ...theory.gated import context_spectrum

_SAMPLES = 100
_STEP = 0.1
"""Learning rate η, small compared with the learning time of the fastest mode."""
_EVERY = (3, 10, 30, 100, 300)
_COLORS = {
    "first sets": "C3",
    "final sets": "C1",
    "by pathway": "C4",
    "by context": "C2",
    "common + C−1": "C5",
}
_FIXED = "no fixed gates give the loss of a ReLU network: units turn, and gates change late"


class Parameters(BaseParameters):
    """Objects in contexts, and ReLU networks with one hidden layer and small random weights."""

    seeds: int = Field(default=3, ge=1)
    """Number of ReLU networks that are trained."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two, with the features of a tree."""

    contexts: int = Field(default=3, ge=3, le=5)
    """Number C of contexts."""

    width: int = Field(default=120, ge=40)
    """Number of hidden units."""

    scale: float = Field(default=1e-3, gt=0, le=0.01)
    """Standard deviation σ of the initial weights."""


QUICK: dict[str, Any] = {"seeds": 2, "objects": 4, "width": 80}


@make_run("haste/equivalence")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train ReLU networks, read their gates, and train gated networks with fixed gates."""
    task = objects_in_contexts(parameters.objects, parameters.contexts)
    keys = keys_from_parameters(parameters, key)
    x = np.asarray(task.x, float)
    network = fully_connected(
        x.shape[1],
        parameters.width,
        task.outputs,
        activation="relu",
        scale=parameters.scale,
        key=keys,
    )
    every = max(1, round(_horizon(parameters) / _STEP / _SAMPLES))
    how: dict[str, Any] = {"steps": every * _SAMPLES, "save_every": every}
    # Batches of all examples, because such a run saves samples at even steps.
    descend = lambda one: gradient_descent(
        one, task, _STEP, batch_size=len(x), key=keys, loss="half", **how
    )
    progress("ReLU networks", 0.0)
    trained = descend(network)
    course, found = gate_changes(trained, task), gating(trained.final, x)
    context = task.labels["context"]
    gatings = {
        "first sets": rectifier_gates(network, x)[0] > 0,
        "final sets": found.active,
        "by pathway": found.by_pathway(),
        "by context": found.by(context),
        "common + C−1": _all_but_one(parameters, found.dead.shape, context),
    }
    losses = []
    for k, (name, gates) in enumerate(gatings.items()):
        progress(f"fixed gates: {name}", 0.3 + 0.4 * k / len(gatings))
        losses.append(descend(gated_equivalent(network, x, gates=gates)).loss)
    progress("re-read gates", 0.7)
    again = [_read_again(network, task, n, **how) for n in _EVERY]
    over, kept = ("seed", "time"), ("from_first", "from_last")
    clock = {
        "time": ("time", _STEP * trained.time[0], {"long_name": "time in units of τ"}),
        "seed": parameters.seed + np.arange(len(keys)),
    }
    return {
        "relu": xr.Dataset(
            {"loss": (over, trained.loss)} | {name: (over, getattr(course, name)) for name in kept},
            clock,
        ),
        "stay": xr.Dataset(
            {"loss": (("gates", *over), np.stack(losses))}, {"gates": list(gatings), **clock}
        ),
        "again": xr.Dataset(
            {"loss": (("every", *over), np.stack(again))}, {"every": list(_EVERY), **clock}
        ),
        "units": xr.Dataset(
            {
                "active": (("seed", "unit", "example"), found.active),
                "strength": (("seed", "unit"), found.strength),
                "pathway": (("seed", "unit"), found.pathway),
                "stability": found.stability,
            },
            {"context": ("example", context), "seed": clock["seed"]},
        ),
    }


def _horizon(parameters: Parameters) -> float:
    """Return a time by which the slowest pathways have learned the residual of a linear network."""
    left = context_spectrum(parameters.objects, parameters.contexts, 1, of="residual")
    start = parameters.scale**2 * parameters.width / 8
    s, final = float(left.singular_values[-1]), float(left.final[-1])
    return 1.25 * np.log(final / start) / (2 * s)


def _all_but_one(
    parameters: Parameters, shape: tuple[int, ...], context: np.ndarray
) -> Float[np.ndarray, "seed unit example"]:
    """Return gates of C + 1 equal groups of units: open in all contexts, or in all but one."""
    part = np.arange(shape[-1]) * (parameters.contexts + 1) // shape[-1] - 1  # −1 for all
    return np.broadcast_to(1.0 * (part[:, None] != context), (*shape, len(context)))


def _read_again(
    network: Layer, task: Task, often: int, *, steps: int, save_every: int
) -> Float[np.ndarray, "seed save"]:
    """Return the loss of gated networks that re-read their gates every `often` descent steps."""
    x, y, weight = (np.asarray(each, float) for each in (task.x, task.y, task.weight[:, None]))
    u, v = (np.array(part, float) for part in network.parts)
    loss, gate = [], np.zeros(())
    for step in range(steps + 1):
        a = u @ x.T
        if step % often == 0:
            gate = a > 0
        h = gate * a
        error = h.swapaxes(-1, -2) @ v - y
        if step % save_every == 0:
            loss.append(0.5 * np.sum(weight * error**2, axis=(-1, -2)))
        pull = (weight * error).swapaxes(-1, -2)
        u, v = u - _STEP * ((gate * (v @ pull)) @ x), v - _STEP * (h @ pull.swapaxes(-1, -2))
    return np.stack(loss, axis=-1)


def _gap(loss: xr.DataArray, relu: xr.DataArray) -> xr.DataArray:
    """Return the largest difference of two losses in time, in units of the initial loss."""
    return (abs(loss - relu) / relu.isel(time=0)).max("time")


def _area(loss: xr.DataArray) -> xr.DataArray:
    return (loss / loss.isel(time=0)).integrate("time")


@claims_from_source("Jarvis, Klein, Rosman & Saxe", "Proposition 4.2")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the losses of gated networks with re-read and fixed gates, and the change of gates."""
    count = parameters_of_run(run, Parameters).contexts
    relu, stay, again, units = (run[name].ds for name in ("relu", "stay", "again", "units"))
    off = _gap(again["loss"], relu["loss"])
    claim(
        "rarely-read-gates",
        "the more rarely a gated network re-reads its gates from its own weights, the more its "
        "loss deviates from the loss of a ReLU network",
        increasing(off.max("seed")),
        note="largest deviation, in units of the initial loss",
    )
    gap = _gap(stay["loss"], relu["loss"]).mean("seed")
    claim(
        "same-loss",
        "there is a gated network with the same loss as the ReLU network at all times",
        max_error_below(gap.min(), within=0.01),
        wrong=_FIXED,
        instead=all_above(gap, 0.02),
        headline=True,
        note="largest deviation, in units of the initial loss, for each kind of fixed gates: "
        f"{join_numbers(gap, 2)}",
    )
    claim(
        "context-gates-closer",
        "fixed gates by context come closer to the loss of a ReLU network than its own final gates",
        increasing(gap.sel(gates=["by context", "final sets"])),
    )
    claim(
        "final-gates-faster",
        "a gated network with the final gates of a ReLU network learns faster than the ReLU "
        "network",
        most_seeds(_area(stay["loss"].sel(gates="final sets")) < 0.8 * _area(relu["loss"])),
        note="speed is measured by the area below the loss",
    )
    turn = relu["from_last"].mean("seed")
    level = relu["loss"].mean("seed") / float(relu["loss"].isel(time=0).mean())
    early, late = turn.where(level > 0.25).max(), turn.where(level < 0.05).max()
    claim(
        "gates-settle",
        "gates of a ReLU network settle only late in learning: fewer gates have yet to change "
        "after 95 % of the loss is gone than before 75 % is gone",
        decreasing([float(early), float(late)]),
        note="largest share before 75 % of the loss is gone, and after 95 %; weighted by strength",
    )
    claim(
        "gates-change-early",
        "as long as less than 75 % of the loss is gone, a fifth of all gates or more have yet to "
        "change",
        all_above(early, 0.2),
    )
    mixed = _contexts_on(units)
    weight = units["strength"].where(units["pathway"] >= 0, 0.0)
    shares = [float(((mixed == k) * weight).sum() / weight.sum()) for k in range(count + 1)]
    claim(
        "mixed-units",
        f"after training most units of a ReLU network are active in {count - 1} of {count} "
        "contexts",
        all_above(shares[count - 1], 0.5),
        at="“Mixed selectivity”",
        note=f"share of strength in units that are active in 0 … {count} contexts: "
        f"{join_numbers(shares, 2)}; {int(units['pathway'].max()) + 1} pathways with stability "
        f"{float(units['stability']):.2g}",
    )


def _contexts_on(units: xr.Dataset) -> xr.DataArray:
    """Return the number of contexts in which a unit is active for at least half of the objects."""
    return (units["active"].groupby("context").mean() >= 0.5).sum("context")


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot losses with fixed gates and with gates of the present weights, and how gates change."""
    relu, stay, again, units = (run[name].ds for name in ("relu", "stay", "again", "units"))
    title = "Gated networks with fixed gates learn differently from ReLU networks"
    figure, grid = panels(title, 3, 2, width=3.9, height=3.0)
    (loss, gap, turn), (rare, where, sets) = grid
    loss.plot(relu["time"], relu["loss"].mean("seed"), **SIMULATION_STYLE, color="C0", label="ReLU")
    for name, color in _COLORS.items():
        one = stay["loss"].sel(gates=name)
        words = name.replace("first", "initial").replace("sets", "gates")
        loss.plot(stay["time"], one.mean("seed"), color=color, lw=1.2, label=words)
        off = (one - relu["loss"]) / relu["loss"].isel(time=0)
        gap.plot(stay["time"], off.mean("seed"), color=color, lw=1.2)
    label_axes(loss, "time $t/τ$", "loss", "fixed gates, same initial weights")
    label_axes(gap, "time $t/τ$", "(loss − ReLU loss) / initial loss", "deviation", legend=None)
    for name, color, words in (("from_last", "C0", "final"), ("from_first", "C3", "initial")):
        curves = turn.plot(relu["time"], relu[name].T, color=color, lw=1.2, alpha=0.7)
        curves[0].set_label(f"unlike {words} gates")
    label_axes(turn, "time $t/τ$", "share of gates, by strength", "gates change", ylim=(0, None))
    off = _gap(again["loss"], relu["loss"]).clip(1e-17)
    rare.plot(_STEP * again["every"], off.transpose("every", "seed"), **POINT_STYLE, color="C0")
    words = "gates re-read every $t/τ$", "largest deviation of loss", "re-read gates"
    label_axes(rare, *words, xscale="log", yscale="log")
    mixed, count = _contexts_on(units), parameters_of_run(run, Parameters).contexts
    weight = units["strength"].where(units["pathway"] >= 0, 0.0)
    for k, shade, _ in shades(range(count + 1)):
        share = ((mixed == k) * weight).sum("unit") / weight.sum("unit")
        where.bar(k, share.mean("seed"), color=shade, width=0.7)
    words = "contexts in which a unit is on", "share of strength", "after training"
    label_axes(where, *words, xticks=range(count + 1))
    one = units.isel(seed=0)
    order = np.lexsort((-one["strength"], one["pathway"]))[int((one["pathway"] < 0).sum()) :]
    sets.imshow(
        one["active"][order], aspect="auto", cmap="Blues", vmax=1.4, interpolation="nearest"
    )
    for border in np.flatnonzero(np.diff(one["context"])):
        sets.axvline(border + 0.5, color="C3", lw=0.8)
    for border in np.flatnonzero(np.diff(one["pathway"][order])):
        sets.axhline(border + 0.5, color="0.2", lw=0.8)
    label_axes(sets, "example, by context", "unit, by pathway", "examples for which units are on")
    return figure
