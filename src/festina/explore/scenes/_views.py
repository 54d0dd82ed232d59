"""Views and conflict: several views of one object compete, or coexist."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from bokeh.plotting import figure
from jaxtyping import Float

from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...networks import gated_from
from ...tasks import correlated_views
from ...theory.gated import view_contributions
from .._plots import COLOURS, curves, dots, guide, plot
from .._scene import Numbers, Progress, SceneKnobs, slider

COMPARED = "the contribution of each view"
_NETWORKS, _TIMES, _HIDDEN, _MOST = 3, 201, 8, 4
_OVERLAPS = np.array([0, 0.25, 0.5, 0.65, 0.75, 0.83, 0.89, 0.93, 0.96, 0.98, 0.99, 1.0])

Contributions = Float[np.ndarray, "time view"]


class Knobs(SceneKnobs):
    overlap: float = slider("correlation κ of the views", 0.95, 0.0, 1.0, step=0.01)
    views: int = slider("views V", 2, 2, _MOST)
    lead: float = slider("amplitude of view 1 (of the last: 1)", 1.3, 1.0, 2.0, step=0.02)
    initial: float = slider("initial contribution c₀", 1e-4, 1e-6, 1e-2, step=0.1, log=True)
    ahead: float = slider("c₀ of last view / c₀ of the others", 1.0, 1.0, 10.0, step=0.05, log=True)
    end: float = slider("training time T/τ", 12.6, 3.16, 100.0, step=0.05, log=True)


WARM = [Knobs(views=views, overlap=overlap) for views in (4, 3, 2) for overlap in (1.0, 0.9)]


def plots() -> list[figure]:
    """Return the plots: contributions over time, phase plane, shares at the end, loss."""
    contributions = plot("Contribution of each view", "time t/τ", "contribution cᵥ", time=True)
    shares = plot("Shares at the end of training", "correlation κ", "share of the output")
    for view in range(_MOST):
        colours, legend = [COLOURS[view]], [f"view {view + 1}"]
        curves(contributions, f"view{view}", seeds=_NETWORKS, legend=legend, colours=colours)
        curves(shares, f"share{view}", training=False)
        for network in range(_NETWORKS):
            dots(shares, f"share{view}", seed=network, colour=COLOURS[view], size=11)
    contributions.legend.location = "bottom_right"
    title = "Phase plane of two views (grey: nullclines)"
    plane = plot(title, "contribution of view 1", "contribution of last view")
    for name in ("first", "last"):
        guide(plane, name)
    curves(plane, "path", seeds=_NETWORKS, colours=COLOURS[5:])
    for network in range(_NETWORKS):
        dots(plane, "now", seed=network, colour=COLOURS[4], size=11)
    dots(plane, "now", seed="theory")
    loss = plot("Loss", "time t/τ", "loss", time=True, y_axis_type="log", y_range=(1e-4, 20))
    curves(loss, "loss", seeds=_NETWORKS)
    return [contributions, plane, shares, loss]


def theory(knobs: Knobs) -> Numbers:
    """Return the contributions of all views, and their shares at the end for every correlation."""
    times, start = _times(knobs), _start(knobs)
    grown = view_contributions(
        times, _amplitudes(knobs), start, overlap=knobs.overlap, target=_target(knobs), rtol=1e-6
    )
    apart = 1 - grown
    loss = (1 - knobs.overlap) * np.sum(apart**2, axis=1) + knobs.overlap * apart.sum(axis=1) ** 2
    # The nullclines are lines in the plane of the first and the last view.
    room = _target(knobs) - knobs.overlap * grown[:, 1:-1].sum(axis=1, keepdims=True)
    most = np.minimum(1.05 * _target(knobs), room / max(knobs.overlap, 1e-9))
    there = most * np.array([0.0, 1.0])
    back = room - knobs.overlap * there
    found = _numbers(knobs, grown, loss / 2)
    shares = {
        f"share{view}": {"x": _OVERLAPS, "y": each}
        for view, each in enumerate(
            _shares(tuple(_amplitudes(knobs)), tuple(_start(knobs)), knobs.end).T
        )
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
    part = {
        edge: np.asarray(w)
        for edge, w in zip(run.network.part_axes, run.network.parts, strict=True)
    }
    grown = a * np.stack(
        [(part[f"h{v}-y"] @ part[f"x{v}-h{v}"])[..., 0, 0] for v in range(len(a))], axis=-1
    )
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
    # Random weights are not balanced: errors are of the order of the initial contributions.
    return 1e-4 + 1.5 * float(_start(knobs).max())


def notice(knobs: Knobs, theory: Numbers) -> str:
    times, last = _times(knobs), theory.compared[-1]
    share = last / last.sum()
    winner, loser = int(np.argmax(share)), int(np.argmin(share))
    won = f"view {winner + 1} has {100 * share[winner]:.1f} % of the output"
    lost = f"view {loser + 1} has {100 * share[loser]:.1f} %"
    equal = last.max() < 1.02 * last.min()
    if knobs.overlap == 1 and equal:
        return (
            "The views always agree, so they solve one task. Equal views with equal initial "
            "weights share the output. Change the amplitude or an initial contribution to see a "
            "winner."
        )
    if knobs.overlap == 1:
        return (
            f"The views always agree, so they solve one task: {won} and {lost}. This is permanent, "
            "because the error vanishes before the slower views have grown. Smaller initial "
            "weights give the winner a larger share."
        )
    if not equal and share[winner] > 0.6:
        return (
            f"After training for t/τ = {knobs.end:.3g}, {won} and {lost}. It looks like "
            "winner-take-all, but for κ < 1 all views get equal shares in the end, after a time "
            "that grows as 1/(1 − κ). Train longer to see it."
        )
    if not equal:
        return (
            f"After training for t/τ = {knobs.end:.3g}, {won} and {lost}, on the way to equal "
            "shares. The winner loses part of its lead, because for κ < 1 each view explains "
            "something that the others do not."
        )
    half = [float(passage_time(times, -each, -0.5)) for each in theory.compared.T]
    both = "Both" if knobs.views == 2 else f"All {knobs.views}"
    told = f"half learned at t/τ = {min(half):.2g}, the slowest at {max(half):.2g}"
    if max(half) < 1.02 * min(half):
        return (
            f"{both} views have the same amplitude and initial weights, so they are learned "
            f"together, half at t/τ = {half[0]:.2g}. Change the amplitude or an initial "
            "contribution to see a race."
        )
    if knobs.overlap == 0:
        return (
            "The views are independent, so they do not compete: each is learned as if it were "
            f"alone. The fastest is {told}."
        )
    return (
        f"{both} views coexist with equal shares in the end, as for every κ < 1, but are learned "
        f"one after the other: the fastest is {told}. Near κ = 1 this delay grows as 1/(1 − κ); at "
        "κ = 1 the faster views keep their lead."
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
    times, a, start, overlap=overlap, target=target, rtol=1e-6
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
def _shares(
    a: tuple[float, ...], start: tuple[float, ...], end: float
) -> Float[np.ndarray, "overlap view"]:
    """Return the share of each view at the end, for every correlation on the grid."""
    overlaps = np.minimum(_OVERLAPS, 1 - 1e-9)  # κ < 1, so that one call serves the whole grid
    target = 1 + (len(a) - 1) * overlaps
    ends = view_contributions(end, a, start, overlap=overlaps, target=target, rtol=1e-4)
    return ends / ends.sum(axis=1, keepdims=True)


def _numbers(knobs: Knobs, grown: Contributions, loss: Float[np.ndarray, " time"]) -> Numbers:
    times = _times(knobs)
    views = {f"view{view}": {"x": times, "y": each} for view, each in enumerate(grown.T)}
    path = {"x": grown[:, 0], "y": grown[:, -1]}
    now = {"x": grown[:, :1], "y": grown[:, -1:]}
    columns = {
        **_padded("view", views),
        "loss": {"x": times, "y": np.maximum(loss, 1e-9)},
        "path": path,
    }
    return Numbers(grown, columns, {"now": now}, times)


def _padded(name: str, views: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
    """Return columns for the largest number of views; surplus views have no points."""
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
