r"""Lemma 6: all fixed points of a linear network, and the rates at which training leaves them.

The data are random: targets y = W*x for inputs of random covariance, with more inputs than outputs.
With more inputs than outputs, the lemma's condition on u is not necessary. Times are those of the
loss ½⟨‖y − f‖²⟩.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import ClaimCollector, agree, claims_from_source, max_error_below
from ....experiments.figures import (
    GUIDE_STYLE,
    SIMULATION_STYLE,
    THEORY_STYLE,
    label_axes,
    panels,
    styled,
)
from ....networks import seeds
from ....tasks import Task, linear_teacher
from ....theory.saddles import LinearSaddle, linear_saddles
from ....theory.saddles._fixed_points import losses_and_gradients

_SAMPLES = 241
_KICK = 1e-7
"""Initial distance from the saddle at which training starts."""


class Parameters(BaseParameters):
    """Parameters of Lemma 6: a random linear task and the network that learns it."""

    seeds: int = Field(default=1, ge=1)
    """Not used: `seed` draws the only task."""

    inputs: int = Field(default=4, ge=1, le=10)
    """Number of inputs of the task."""

    outputs: int = Field(default=3, ge=1, le=4)
    """Number of outputs of the task."""

    width: int = Field(default=6, ge=2, le=30)
    """Number of hidden units of the network, above the number of modes."""

    def _check(self) -> None:
        modes = min(self.inputs, self.outputs)
        if self.width <= modes:
            raise ValueError(
                f"`width` must be above the number of modes, {modes}, got {self.width}: "
                "leaving a saddle needs an unused hidden unit."
            )


PRESETS: dict[str, dict[str, Any]] = {"more-outputs": {"inputs": 3, "outputs": 4}}


@make_run("saddles/lemma-6")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Enumerate the fixed points, build a network at each, and train away from it."""
    key = seeds(1, first=parameters.seed)[0] if key is None else key
    task = _task(parameters, key)
    saddles = list(linear_saddles(task))
    names = ["{" + ", ".join(str(k + 1) for k in saddle.modes) + "}" for saddle in saddles]
    rows: list[dict[str, Any]] = []
    for index, saddle in enumerate(saddles):
        progress(f"fixed point with modes {names[index]}", index / len(saddles))
        rows.append(_fixed_point(parameters, saddle, task, key))
    progress("training from near the saddles", 0.9)
    points = {name: ("point", [row[name] for row in rows]) for name in rows[0]}
    leaving = _leave(parameters.width, saddles[:-1], task, key)
    return {
        "points": xr.Dataset(points, {"point": names}),
        "leaving": leaving.assign_coords(point=names[:-1]),
    }


def _task(parameters: Parameters, key: PRNGKeyArray) -> Task:
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    n_in, n_out = parameters.inputs, parameters.outputs
    # Distinct singular values, so that each saddle is left at its own rate.
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (n_out, n_in))
    modes = min(n_in, n_out)
    strengths = 2.0 * 0.7 ** (np.arange(modes) + 0.3 * rng.uniform(size=modes))
    target = left[:, :modes] @ np.diag(strengths) @ right[:, :modes].T
    root = rng.standard_normal((n_in, n_in))
    covariance = root @ root.T / n_in + 0.5 * np.eye(n_in)
    covariance *= n_in / np.trace(covariance)
    return linear_teacher(target, covariance)


def _fixed_point(
    parameters: Parameters, saddle: LinearSaddle, task: Task, key: PRNGKeyArray
) -> dict[str, Any]:
    """Return loss and rate by the lemma and of a network with random weights at the fixed point.

    `unread` weights have parts outside the spans of Eq. (40), which are the spans of the map W.
    Weights outside the spans exist if the numbers of inputs and outputs differ.
    """
    network = saddle.network(parameters.width, key=key)
    loss, slopes = losses_and_gradients(network, task)
    row = {
        "modes": len(saddle.modes),
        "loss": saddle.loss,
        "measured_loss": loss[0],
        "gradient": np.linalg.norm(slopes),
        "index": saddle.index(parameters.width),
    }
    if parameters.inputs != parameters.outputs:
        unread = saddle.network(parameters.width, key=key, unread=1.0)
        loss, slopes = losses_and_gradients(unread, task)
        left, _, right = np.linalg.svd(saddle.map)
        outside = unread.u @ right[len(saddle.modes) :].T, unread.v @ left[:, len(saddle.modes) :]
        row |= {"unread_gradient": np.linalg.norm(slopes), "unread_loss": loss[0]}
        row["unread_outside"] = np.linalg.norm(np.hstack(outside))
    return row


def _leave(width: int, saddles: list[LinearSaddle], task: Task, key: PRNGKeyArray) -> xr.Dataset:
    """Train from near each saddle; return how the distance from the saddle grows.

    The first step is along the top singular vectors of Σ̃, in a combination of units that does not
    contribute to the map at the saddle.
    """
    networks = [saddle.network(width, key=key) for saddle in saddles]
    at, kicks = np.stack([np.hstack((each.u, each.v)) for each in networks]), []
    for theta, saddle in zip(at, saddles, strict=True):
        q, _, r = np.linalg.svd(saddle.correlation)
        kicks.append(np.linalg.svd(theta)[0][:, -1:] * np.append(r[0], q[:, 0]))
    inputs = networks[0].u.shape[-1]
    start = networks[0].with_parts(*np.split(at + _KICK * np.stack(kicks), [inputs], axis=-1))
    rates = [saddle.escape_rates[0] for saddle in saddles]
    times = np.linspace(0.0, np.log(1e5) / min(rates), _SAMPLES)
    path = np.concatenate(gradient_flow(start, task, times, rtol=1e-10).network.parts, axis=-1)
    distance = np.linalg.norm(path - at[:, None], axis=(-1, -2))
    table = {"distance": (("point", "time"), distance)}
    return xr.Dataset(table, {"time": times, "rate": ("point", rates)})


def growth_rates(leaving: xr.Dataset) -> np.ndarray:
    """Return the growth rate of the distance in the linear phase, up to 10⁴ times its start."""
    time, distance = leaving["time"].values, leaving["distance"].values
    close = (distance < 1e4 * distance[:, :1]) | (np.arange(time.size) < 2)
    ends = np.cumprod(close, axis=1).sum(axis=1)
    fit = lambda row, end: np.polyfit(time[:end], np.log(row[:end]), 1)[0]
    return np.array([fit(row, end) for row, end in zip(distance, ends, strict=True)])


@claims_from_source("Zhang, Saxe & Latham", "Lemma 6")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check that Eq. (40) is sufficient and gives the rates, but is not necessary."""
    points, leaving = run["points"].ds, run["leaving"].ds
    words = (
        "weights that satisfy Eq. (40) are a fixed point, for all "
        f"{points.sizes['point']} sets of modes (norm of the gradient)"
    )
    claim("fixed-points", words, max_error_below(points["gradient"], within=1e-12), at="Eq. (40)")
    words = "the loss at the fixed point with learned modes A is ½(⟨‖y‖²⟩ − Σ_{k∈A} μ_k)"
    claim("losses", words, max_error_below(points["measured_loss"], points["loss"], within=1e-10))
    seen = agree(growth_rates(leaving), leaving["rate"], within=0.005, relative=True)
    words = "training leaves each saddle at the rate of the largest singular value of Σ̃_yz"
    claim("escape-rates", words, seen, at="Eqs. (41) and (42)")
    if not np.isfinite(points.get("unread_gradient", np.nan)).all():
        return  # equal numbers of inputs and outputs: the spans fill the kernels
    claim(
        "spans-necessary",
        "Eq. (40) is necessary: at every fixed point each u_i and v_i lies in its span (smallest "
        "part outside, over sets of modes)",
        max_error_below(points["unread_outside"].min(), within=1e-10),
        wrong="u_i may have parts in the kernel of Σ̃_yz that no v reads, and v_i parts in the "
        "kernel of Σ̃_yzᵀ that no u drives: the gradient vanishes there",
        instead=max_error_below(points["unread_gradient"], within=1e-12),
    )
    claim(
        "kernels",
        "every fixed point has u_i in the kernel of Σ̃_yz, v_i in the kernel of Σ̃_yzᵀ, and the "
        "loss of the map Σ v_i u_iᵀ = Π_A Σ_yz Σ_zz⁻¹",
        max_error_below(points["unread_loss"], points["loss"], within=1e-10),
        corrected="the kernels replace the spans of Eq. (40)",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the losses of all fixed points, and the distance from each saddle over time."""
    title = "Every set of modes is a fixed point of a linear network"
    figure, (left, right) = panels(title, 2, width=5.5, height=4.4)
    _lattice(left, run["points"].ds)
    leaving = run["leaving"].ds
    rates, time, many = growth_rates(leaving), leaving["time"].values, leaving.sizes["point"] > 8
    for index, distance in enumerate(leaving["distance"]):
        rate, first = float(distance["rate"]), float(distance[0])
        label = None if many else f"{distance['point'].item()}: {rates[index]:.3f} / {rate:.3f}"
        how = {
            **SIMULATION_STYLE,
            "lw": 9.0 - index if not many else 3.0,
        }  # the widths differ so that lines below others remain visible
        right.plot(time, distance, **how, color=f"C{index}", alpha=0.45, label=label)
        clock = np.array([0.0, min(np.log(2.0 / first) / rate, time[-1])])
        right.plot(clock, first * np.exp(rate * clock), **THEORY_STYLE)
    right.set(yscale="log", xlim=(0, time[-1]))
    words = "time $t$ since the start, close to a saddle", "distance from the saddle"
    title = r"leaving a saddle: largest singular value $\tilde s_1$ of $\tildeΣ_{yz}$"
    heading = None if many else r"modes learned: measured / $\tilde s_1$"
    rate = r"$e^{\tilde s_1 t}$"
    label_axes(right, *words, title, theory=rate, legend="beside", legend_title=heading)
    return figure


def _lattice(ax: Axes, points: xr.Dataset) -> None:
    """Plot the losses of all sets of modes, and connect sets that differ by one mode."""
    size, loss, names = (points[name].values for name in ("modes", "loss", "point"))
    sets = [set(name.strip("{}").split(", ")) - {""} for name in names]
    for i, j in np.argwhere(size[:, None] + 1 == size):
        if sets[i] < sets[j]:
            ax.plot(size[[i, j]], loss[[i, j]], **GUIDE_STYLE)
    ax.plot(size, points["measured_loss"], "o", ms=11, color="C0", alpha=0.4, label="network")
    ax.hlines(loss, size - 0.13, size + 0.13, color="black", lw=1, ls="--", label="Lemma 6")
    for name, *at, ways in zip(names, size, loss, points["index"].values, strict=True):
        if len(sets) <= 8:
            words = f"{name}: {ways or 'minimum'}"
            how: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "zorder": 3}
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            ax.annotate(words, tuple(at), (10, 5), **how, bbox=box)
    ax.set(xlim=(-0.3, size.max() + 1.1), ylim=np.array([-0.06, 1.12]) * loss.max())
    ax.set_xticks(np.unique(size))
    words = "number of modes learned", r"loss $\frac{1}{2}\langle\|y - f\|^2\rangle$"
    label_axes(
        ax, *words, "{learned modes} and the number of unstable directions", legend="upper right"
    )
