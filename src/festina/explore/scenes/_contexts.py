"""Objects in contexts: units of a ReLU network serve several contexts at once."""

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from bokeh.plotting import figure

from ...dynamics import gradient_flow
from ...networks import Gated, Layer, gated_from, layer_from
from ...tasks import Task, from_arrays, objects_in_contexts
from ...theory.gated import ContextSpectrum, context_spectrum
from .._plots import COLOURS, bars, cells, curves, dots, plot, words
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the loss of the gated network"
_SEEDS, _TIMES, _OBJECTS, _MOST, _WIDEST = 3, 101, 4, 5, 48
_INPUTS, _OUTPUTS = _OBJECTS + _MOST, (1 + _MOST) * (2 * _OBJECTS - 1)
_UNKNOWN = 1e-30  # weight of further contexts in the loss; with 0 the compiled program would change
_ON, _WEAK = 1e-3, 1e-2  # units below these fractions of the largest activity, strength are off
_LENGTH = 1.2  # length of the time axis, in times until modular pathways have learned


class Knobs(SceneKnobs):
    contexts: int = slider("contexts C", 3, 2, _MOST)
    units: int = slider("hidden units of all pathways together", 48, 16, _WIDEST, step=4)
    scale: float = slider("standard deviation σ of initial weights", 2e-3, 1e-3, 3e-2, log=True)
    cue: float = slider("value of the context input", 1.0, 0.5, 1.5, step=0.05)
    gating: Literal["one per context", "one for all", "one for all, others for all but one"] = (
        choice("pathways of the gated network", "one per context")
    )


WARM = [Knobs(contexts=count) for count in range(_MOST, 1, -1)]


def plots() -> list[figure]:
    """Return the plots: losses, number of contexts per unit, responses of units by context."""
    how = {"y_axis_type": "log", "y_range": _LOSSES}
    loss = plot("Loss", "time t/τ", "loss / loss of zero output", time=True, **how)
    curves(loss, "loss", seeds=_SEEDS, columns=("relu", "gated"), legend=_KINDS, theory=False)
    curves(loss, "loss", columns=("single", "every"), training=False)
    words(loss, "names", ("one per context", "one for all"))
    loss.legend.location = "bottom_left"
    shares = plot(
        "ReLU units by contexts", "contexts in which a unit is active (k)", _SHARE, y_range=(0, 1)
    )
    bars(shares, "shares", colour=COLOURS[0])
    for seed in range(1, _SEEDS):
        dots(shares, "shares", seed=seed, size=9)
    units = plot("Responses of ReLU units", "context", "units, sorted")
    cells(units, "units", low=0.0)
    units.yaxis.ticker = []
    return [loss, shares, units]


_KINDS, _LOSSES = ("ReLU network", "gated network"), (1e-3, 2.0)
_SHARE = "share of strength (dots: other networks)"
_PLATEAU, _LATE = 3 * _TIMES // 10, 4 * _TIMES // 5  # where the names of theories are written


def theory(knobs: Knobs) -> Numbers:
    """Return closed-form losses: of pathways for single contexts, and of one pathway for all."""
    times = _times(knobs)
    single = _spectrum(knobs, 1).loss(times, _start(knobs, knobs.contexts))
    every = _spectrum(knobs, knobs.contexts).loss(times, _start(knobs, 1))
    single, every = (np.maximum(each, 0.0) / _power() for each in (single, every))
    return Numbers(
        every if knobs.gating == "one for all" else single,
        {
            "loss": {"x": times, "single": single, "every": every},
            "names": {
                "x": times[[_PLATEAU, _LATE]],
                "y": np.array([single[_PLATEAU], every[_LATE]]),
            },
        },
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train a gated network, and ReLU networks from random weights."""
    times, task = _times(knobs), _task(knobs.contexts, knobs.cue)
    gated = gradient_flow(_gated(knobs, task), task, times, rtol=1e-7, progress=progress)
    run = gradient_flow(_relu(knobs), task, times, rtol=1e-3, progress=progress)
    shares, responses = _contexts_on(run.network, task, knobs)
    number = np.arange(knobs.contexts + 1.0)
    for seed in range(_SEEDS):
        loss = {"x": times, "relu": run.loss[seed] / _power(), "gated": gated.loss / _power()}
        frames = {"shares": {"x": number + 0 * shares[seed], "y": shares[seed]}}
        if seed == 0:
            frames["units"] = _sorted(responses[seed])
        yield Numbers(gated.loss / _power(), {"loss": loss}, frames, times)


def allowed(knobs: Knobs) -> float | None:
    return 1e-5 if knobs.gating in ("one per context", "one for all") else None


def notice(knobs: Knobs, theory: Numbers) -> str:
    count = knobs.contexts
    one, every = (_spectrum(knobs, k).singular_values for k in (1, count))
    rest = _spectrum(knobs, 1, of="residual")
    early, late = every[0] / one[0], one[-1] / rest.singular_values[-1]
    first = (
        f"Units that are active in {'both' if count == 2 else f'all {count}'} contexts grow first, "
        f"{early:.2g} times as fast as units for a single context."
    )
    if knobs.gating == "one for all":
        return (
            f"{first} But one pathway for all contexts is a linear network: its loss stops falling "
            f"at {rest.start / _power():.2g}. ReLU networks reach lower losses, with units that "
            f"are off in one context (k = {count - 1})."
        )
    if knobs.gating == "one per context":
        some = "" if count == 2 else ", and hardly any are active in only one"
        return (
            f"{first} Most other units are off in one context (k = {count - 1}){some}. Pathways "
            f"for single contexts learn the late modes {late:.2g} times as fast as ReLU networks, "
            "and end at a lower loss."
        )
    return (
        f"{first} Most other units are off in one context (k = {count - 1}). The gated network "
        "has such pathways from the start, whereas ReLU networks must find them. The loss of this "
        "gated network has no closed form."
    )


def python(knobs: Knobs) -> str:
    count = knobs.contexts
    end = float(_times(knobs)[-1])
    on = {"one per context": "1", "one for all": "C"}.get(knobs.gating, "1")
    sets = {"one per context": "1", "one for all": "C"}.get(knobs.gating)
    sets = (
        f"list(itertools.combinations(range(C), {sets}))"
        if sets
        else "[*itertools.combinations(range(C), C), *itertools.combinations(range(C), C - 1)]"
    )
    paths = {"one per context": "C", "one for all": "1"}.get(knobs.gating, "C")
    known = "" if allowed(knobs) else "  # of one pathway per context, for comparison"
    return f"""\
import itertools
import jax
import numpy as np
import festina

C, units, scale, cue = {count}, {knobs.units}, {knobs.scale}, {knobs.cue}
times = np.linspace(0, {end}, {_TIMES})
task = festina.tasks.objects_in_contexts({_OBJECTS}, C, context_input=cue)
zero = (task.y**2).sum(axis=1).mean() / 2  # loss of zero output
modes = festina.theory.gated.context_spectrum({_OBJECTS}, C, {on}, of="common", context_input=cue)
predicted = modes.loss(times, scale**2 * units / {paths} / 2) / zero{known}

# A gated network: each pathway starts along its modes, as strong as random weights of this scale.
sets = {sets}
root = (scale**2 * units / len(sets) / 2) ** 0.5
weights, gates = {{}}, {{}}
for k, contexts in enumerate(sets):
    gates[f"h{{k}}"] = np.isin(task.labels["context"], contexts)
    gated = task.x * gates[f"h{{k}}"][:, None]
    u, s, v = np.linalg.svd(task.y.T @ gated, full_matrices=False)
    seen = (s > 1e-9 * s[0])[:, None]
    weights |= {{f"x-h{{k}}": root * seen * v, f"h{{k}}-y": root * (seen * u.T).T}}
network = festina.networks.gated_from(weights, gates=gates, x=task.x)
measured = festina.gradient_flow(network, task, times, rtol=1e-7).loss / zero

# A ReLU network: in how many contexts are its units active?
relu = festina.networks.fully_connected(
    {_OBJECTS} + C, units, task.outputs, activation="relu", scale=scale, key=jax.random.key(0))
run = festina.gradient_flow(relu, task, times, rtol=1e-3)
print(festina.diagnose.selectivity(run.final, task, random=0).shares)
"""


def shell(knobs: Knobs) -> str:
    count = max(knobs.contexts, 3)
    width = max(knobs.units, 4 * (count + 1))
    return (
        f"festina run haste/mixed --objects {_OBJECTS} --contexts {count} --widths {width} "
        f"--scale {knobs.scale:g}"
    )


def _power() -> float:
    """Return the loss of zero output, which is the same for any number of contexts."""
    return _spectrum(Knobs(), 1).start


@lru_cache(maxsize=64)
def _spectrum_of(contexts: int, on: int, cue: float, of: Literal["common", "residual"]):
    return context_spectrum(_OBJECTS, contexts, on, of=of, context_input=cue)


def _spectrum(
    knobs: Knobs, on: int, of: Literal["common", "residual"] = "common"
) -> ContextSpectrum:
    return _spectrum_of(knobs.contexts, on, knobs.cue, of)


def _start(knobs: Knobs, pathways: int) -> float:
    """Return the initial strength of a mode if pathways share the random units equally."""
    return knobs.scale**2 * knobs.units / pathways / 2


def _times(knobs: Knobs) -> np.ndarray:
    modes, start = _spectrum(knobs, 1), _start(knobs, knobs.contexts)
    learned = np.log(modes.final / start) / (2 * modes.singular_values)
    return np.linspace(0.0, _LENGTH * float(learned.max()), _TIMES)


@lru_cache(maxsize=64)
def _task(contexts: int, cue: float) -> Task:
    """Return the task with `_MOST` contexts, of which the surplus ones have nearly no weight."""
    data = objects_in_contexts(_OBJECTS, _MOST, context_input=cue)
    weight = np.where(data.labels["context"] < contexts, 1.0, _UNKNOWN)
    return from_arrays(data.x, data.y, weight=weight, labels=data.labels)


def _gated(knobs: Knobs, task: Task) -> Gated:
    """Return a gated network whose pathways start along their modes; surplus pathways are zero."""
    count, context = knobs.contexts, task.labels["context"]
    every = [tuple(range(count))]
    single = list(itertools.combinations(range(count), 1))
    most = list(itertools.combinations(range(count), count - 1))
    sets = {"one per context": single, "one for all": every}.get(knobs.gating, every + most)
    root = _start(knobs, len(sets)) ** 0.5
    weights, gates = {}, {}
    # Surplus pathways have the gates of single contexts, so that no two contexts are merged.
    surplus = [(k,) for k in reversed(range(_MOST))][: _MOST + 1 - len(sets)]
    for k, contexts in enumerate(sets + surplus):
        gate = np.isin(context, contexts)
        known = (gate & (context < count))[:, None]
        u, s, v = np.linalg.svd(task.y.T @ (task.x * known), full_matrices=False)
        seen = root * (k < len(sets)) * (s > 1e-9 * s[0])
        weights |= {f"x-h{k}": seen[:, None] * v, f"h{k}-y": seen * u}
        gates[f"h{k}"] = gate
    return gated_from(weights, gates=gates, x=task.x)


def _relu(knobs: Knobs) -> Layer:
    """Return ReLU networks with random weights, which are zero for surplus units."""
    rng = np.random.default_rng(0)
    u = knobs.scale * rng.standard_normal((_SEEDS, _WIDEST, _INPUTS))
    v = knobs.scale * rng.standard_normal((_SEEDS, _WIDEST, _OUTPUTS))
    u[:, knobs.units :] = v[:, knobs.units :] = 0.0
    return layer_from("relu", u, v)


def _contexts_on(network: Layer, task: Task, knobs: Knobs) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of strength by the number of active contexts, and responses by context.

    A unit is active in a context if it is active for at least half of the objects. Responses are
    means over objects, relative to the unit's largest one; responses of weak units are zero.
    """
    count, units = knobs.contexts, knobs.units
    u, v = (np.asarray(part)[:, :, :units] for part in (network.u, network.v))
    x = task.x[: count * _OBJECTS]
    h = np.maximum(np.einsum("ltui,si->ltus", u, x), 0.0)
    largest = np.maximum(h.max(axis=-1, keepdims=True), 1e-300)
    h = h.reshape(*h.shape[:-1], count, _OBJECTS)
    on = (h > _ON * largest[..., None]).mean(axis=-1) >= 0.5
    strength = np.linalg.norm(u, axis=-1) * np.linalg.norm(v, axis=-1)
    number = on.sum(axis=-1)[..., None] == np.arange(count + 1)
    shares = np.sum(number * strength[..., None], axis=2) / strength.sum(axis=2)[..., None]
    mean = h.mean(axis=-1)
    mean = mean / np.maximum(mean.max(axis=-1, keepdims=True), 1e-300)
    strong = strength > _WEAK * strength.max(axis=2, keepdims=True)
    return shares, mean * strong[..., None]


def _sorted(responses: np.ndarray) -> dict[str, np.ndarray]:
    """Return cells of responses `(time, unit, context)`; final active contexts sort the units."""
    final = responses[-1]
    on = final > 0.05
    order = np.lexsort((*(~on).T[::-1], -on.sum(axis=1)))
    order = order[np.argsort(~final[order].any(axis=1), kind="stable")]
    unit, context = (each.ravel() + 1.0 for each in np.indices(final.shape))
    flat = responses[:, order].reshape(len(responses), -1)
    return {"x": context + 0 * flat, "y": unit + 0 * flat, "value": flat}
