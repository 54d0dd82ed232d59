"""Views and conflict: several views of one object compete, or coexist."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from bokeh.plotting import figure
from jaxtyping import Float

from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...networks import gated_from
from ...tasks import correlated_views
from ...theory.gated import view_contributions
from .._plots import COLOURS, curves, dots, guide, plot
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the contribution of each view"
_NETWORKS, _TIMES, _HIDDEN, _MOST = 3, 201, 8, 4
_OVERLAPS = np.array([0, 0.25, 0.5, 0.65, 0.75, 0.83, 0.89, 0.93, 0.96, 0.98, 0.99, 1.0])

Contributions = Float[np.ndarray, "time view"]


class Knobs(SceneKnobs):
    overlap: float = slider("conflict κ: correlation of the views", 0.9, 0.0, 1.0, step=0.01)
    views: Literal[2, 3, 4] = choice("views V", 2)
    lead: float = slider("amplitude of view 1 (last view: 1)", 1.2, 1.0, 1.6, step=0.02)
    initial: float = slider("initial contribution c₀", 1e-3, 1e-6, 1e-2, step=0.1, log=True)
    ahead: float = slider("head start of the last view", 1.0, 1.0, 30.0, step=0.05, log=True)
    end: float = slider("training time T/τ", 30.0, 10.0, 300.0, step=0.05, log=True)


WARM = [Knobs(views=views, overlap=overlap) for views in (4, 3, 2) for overlap in (1.0, 0.9)]


def plots() -> list[figure]:
    """Return the plots: contributions and loss over time, their phase plane, shares at the end."""
    contributions = plot("Contribution of each view", "time t/τ", "contribution cᵥ", time=True)
    shares = plot("Shares at the end of training", "conflict κ", "share of the output")
    for view in range(_MOST):
        colours, legend = [COLOURS[view]], [f"view {view + 1}"]
        curves(contributions, f"view{view}", seeds=_NETWORKS, legend=legend, colours=colours)
        curves(shares, f"share{view}", training=False)
        for network in range(_NETWORKS):
            dots(shares, f"share{view}", seed=network, colour=COLOURS[view], size=11)
    plane = plot("First and last view, grey: standstill of one", "view 1", "last view")
    for name in ("first", "last"):
        guide(plane, name)
    curves(plane, "path", seeds=_NETWORKS, colours=COLOURS[5:])
    for network in range(_NETWORKS):
        dots(plane, "now", seed=network, colour=COLOURS[4], size=11)
    dots(plane, "now", seed="theory")
    loss = plot("Loss", "time t/τ", "L", time=True)
    curves(loss, "loss", seeds=_NETWORKS)
    return [contributions, plane, shares, loss]


def theory(knobs: Knobs) -> Numbers:
    """Return the contributions of all views, and their shares at the end for every conflict."""
    times, start = _times(knobs), _start(knobs)
    grown = view_contributions(
        times, _amplitudes(knobs), start, overlap=knobs.overlap, target=_target(knobs), rtol=1e-8
    )
    apart = 1 - grown
    loss = (1 - knobs.overlap) * np.sum(apart**2, axis=1) + knobs.overlap * apart.sum(axis=1) ** 2
    # Each contribution stands still on a line in the plane of the first and the last view.
    room = _target(knobs) - knobs.overlap * grown[:, 1:-1].sum(axis=1, keepdims=True)
    most = np.minimum(1.05 * _target(knobs), room / max(knobs.overlap, 1e-9))
    there = most * np.array([0.0, 1.0])
    back = room - knobs.overlap * there
    found = _numbers(knobs, grown, loss / 2)
    shares = {
        f"share{view}": {"x": _OVERLAPS, "y": each}
        for view, each in enumerate(_shares(knobs.model_copy(update={"overlap": 0.0})).T)
    }
    lines = {"first": {"x": back, "y": there}, "last": {"x": there, "y": back}}
    return Numbers(
        found.compared,
        {**found.columns, **_padded("share", shares)},
        {**found.frames, **lines},
        times,
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train networks with a pathway for each view, from random small weights."""
    a, times = _amplitudes(knobs), _times(knobs)
    grow, shrink = np.random.default_rng(0).standard_normal((2, _NETWORKS, _MOST, _HIDDEN))
    grow, shrink = (
        each[:, : len(a)]
        * np.sqrt(_start(knobs) / a)[:, None]
        / np.linalg.norm(each[:, : len(a)], axis=-1, keepdims=True)
        for each in (grow, shrink)
    )
    first, second = (grow + shrink)[..., None], (grow - shrink)[..., None, :]
    weights = {f"x{v}-h{v}": first[:, v] for v in range(len(a))}
    weights |= {f"h{v}-y": second[:, v] for v in range(len(a))}
    task = correlated_views(a, knobs.overlap)
    run = gradient_flow(gated_from(weights), task, times, rtol=1e-7, progress=progress)
    grown = a * run.network.predict(np.eye(len(a)))[..., 0]
    for contributions, loss in zip(grown, run.loss, strict=True):
        found = _numbers(knobs, contributions, loss)
        last = contributions[-1] / contributions[-1].sum()
        shares = {
            f"share{view}": {"x": np.array([knobs.overlap]), "y": np.array([share])}
            for view, share in enumerate(last)
        }
        columns = {**found.columns, **_padded("share", shares)}
        yield Numbers(found.compared, columns, found.frames, times)


def allowed(knobs: Knobs) -> float | None:
    # Random weights are not balanced: contributions differ by the order of the initial ones.
    return 1e-4 + 1.5 * float(_start(knobs).max())


def notice(knobs: Knobs, theory: Numbers) -> str:
    times, grown = _times(knobs), theory.compared
    share = grown[-1] / grown[-1].sum()
    winner, loser = int(np.argmax(share)), int(np.argmin(share))
    won = f"view {winner + 1} has {100 * share[winner]:.3g} % of the output"
    equal = grown[-1].max() < 1.02 * grown[-1].min()
    half = [float(passage_time(times, -each, -0.5)) for each in grown.T]
    if knobs.overlap == 1:
        if equal:
            return (
                "All views show the same sign, so they solve one task. Equal views from equal "
                "initial weights share it; change an amplitude or a head start to see a winner."
            )
        return (
            f"All views show the same sign, so one task is left: {won} and keeps it for ever, "
            f"because the error vanishes before view {loser + 1} has grown "
            f"({100 * share[loser]:.2g} %). The smaller the initial weights, the larger the share "
            "of the winner."
        )
    if knobs.overlap == 0:
        return (
            "The views show independent signs: they do not compete, and each is learned as if it "
            f"were alone. View {winner + 1} is half learned at t/τ = {half[winner]:.2g}, view "
            f"{loser + 1} at {half[loser]:.2g}."
        )
    if equal:
        return (
            f"All {knobs.views} views coexist with equal shares in the end, as for any κ < 1, but "
            f"one after the other: at κ = {knobs.overlap:g} the first is half learned at t/τ = "
            f"{min(half):.2g}, the last at {max(half):.2g}. This delay grows as 1/(1 − κ)."
        )
    return (
        f"At the end of training, t/τ = {knobs.end:g}, {won} and view {loser + 1} has "
        f"{100 * share[loser]:.2g} %. This looks like winner-take-all, but for κ < 1 all views get "
        "equal shares in the end, after a time that grows as 1/(1 − κ). Train longer to see it."
    )


def python(knobs: Knobs) -> str:
    return f"""\
import numpy as np
import festina

a = np.geomspace({knobs.lead}, 1, {knobs.views})  # amplitudes of the views
start = np.append(np.full({knobs.views - 1}, {knobs.initial}), {knobs.initial} * {knobs.ahead})
times, overlap = np.linspace(0, {knobs.end}, {_TIMES}), {knobs.overlap}
target = 1 + (len(a) - 1) * overlap
predicted = festina.theory.gated.view_contributions(
    times, a, start, overlap=overlap, target=target, rtol=1e-8
)

random = np.random.default_rng(0).standard_normal((2, {_NETWORKS}, {_MOST}, {_HIDDEN}))[:, 0]
size = np.sqrt(start / a)[:, None]
grow, shrink = (size * w / np.linalg.norm(w, axis=1, keepdims=True) for w in random[:, : len(a)])
weights = {{f"x{{v}}-h{{v}}": (grow + shrink)[v][:, None] for v in range(len(a))}}
weights |= {{f"h{{v}}-y": (grow - shrink)[v][None] for v in range(len(a))}}
network = festina.networks.gated_from(weights)
task = festina.tasks.correlated_views(a, overlap)
run = festina.gradient_flow(network, task, times, rtol=1e-7)
measured = a * run.network.predict(np.eye(len(a)))[..., 0]
"""


def shell(knobs: Knobs) -> str:
    ahead = f" --ahead {knobs.lead:g}" if knobs.lead >= 1.2 else ""
    return f"festina run haste/tasks{ahead}"


@lru_cache(maxsize=256)
def _shares(knobs: Knobs) -> Float[np.ndarray, "overlap view"]:
    """Return the share of each view at the end, for every conflict on the grid."""
    a, start = _amplitudes(knobs), _start(knobs)
    ends = [
        view_contributions([knobs.end], a, start, overlap=k, target=1 + (len(a) - 1) * k, rtol=1e-5)
        for k in _OVERLAPS.tolist()
    ]
    return np.concatenate([end / end.sum() for end in ends])


def _numbers(knobs: Knobs, grown: Contributions, loss: Float[np.ndarray, " time"]) -> Numbers:
    times = _times(knobs)
    views = {f"view{view}": {"x": times, "y": each} for view, each in enumerate(grown.T)}
    path = {"x": grown[:, 0], "y": grown[:, -1]}
    now = {"x": grown[:, :1], "y": grown[:, -1:]}
    columns = {**_padded("view", views), "loss": {"x": times, "y": loss}, "path": path}
    return Numbers(grown, columns, {"now": now}, times)


def _padded(name: str, views: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
    """Return columns for the largest number of views: views that do not exist have no points."""
    empty = {"x": np.zeros(0), "y": np.zeros(0)}
    return {f"{name}{view}": views.get(f"{name}{view}", empty) for view in range(_MOST)}


def _amplitudes(knobs: Knobs) -> Float[np.ndarray, " view"]:
    return np.geomspace(knobs.lead, 1, knobs.views)


def _start(knobs: Knobs) -> Float[np.ndarray, " view"]:
    return np.append(np.full(knobs.views - 1, knobs.initial), knobs.initial * knobs.ahead)


def _target(knobs: Knobs) -> float:
    return 1 + (knobs.views - 1) * knobs.overlap


def _times(knobs: Knobs) -> Float[np.ndarray, " time"]:
    return np.linspace(0, knobs.end, _TIMES)
