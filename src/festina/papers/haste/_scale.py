r"""Digits in contexts: gates, pathways and selectivity of a ReLU network on handwritten images.

The input is an image and a one-hot code of one of C contexts. The target contains the digit twice:
in a common block, and in the block of its context; the blocks of other contexts are zero. The task
is objects in contexts, with varying images in place of fixed objects. Images are averaged over
2 × 2 pixels, and each image appears in all contexts. Training uses mini-batches and the loss
½⟨‖y − f‖²⟩.

Three results of the theory hold for images: the part common to all contexts is learned first, few
units are modular, and more units become mixed. Two results fail: gates do not depend on contexts
alone, and units do not form a few pathways, because each unit also distinguishes images in its own
way.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import gating, passage_time
from ...dynamics import gradient_descent
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments.claims import (
    ClaimCollector,
    all_above,
    all_below,
    claims_from_source,
    join_numbers,
    most_seeds,
)
from ...experiments.figures import SIMULATION_STYLE, THEORY_STYLE, label_axes, panels, styled
from ...networks import Layer, fully_connected
from ...tasks import Task, from_arrays, mnist_digits

_SIDE, _DIGITS = 28, 10
_SAVES = 60
_PARTS = ("common", "contexts")
_RIDGE = 1e-6
_UNSTABLE = "each unit also distinguishes images in its own way, so units form no stable pathways"


class Parameters(BaseParameters):
    """Handwritten digits in contexts, and ReLU networks with one hidden layer."""

    seeds: int = Field(default=2, ge=1)
    """Number of networks that are trained."""

    contexts: int = Field(default=3, ge=3, le=5)
    """Number C of contexts."""

    images: int = Field(default=1500, ge=200, le=20_000)
    """Number of training images, each in all contexts; a third as many test images are used."""

    width: int = Field(default=150, ge=40)
    """Number of hidden units."""

    scale: float = Field(default=1e-3, gt=0, le=0.1)
    """Standard deviation σ of the initial weights."""

    context_input: float = Field(default=2.0, gt=0)
    """Value of the active entry in the one-hot code of the context; images have a norm near 4."""

    learning_rate: float = Field(default=0.05, gt=0)
    """Learning rate of mini-batch descent."""

    batch_size: int = Field(default=100, ge=1, le=600)
    """Number of examples in a mini-batch."""

    steps: int = Field(default=4000, ge=500)
    """Number of training steps of each network."""


QUICK: dict[str, Any] = {"seeds": 1, "images": 600, "width": 100, "steps": 3000}


@make_run("haste/scale")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks, and measure their gates during and after training."""
    progress("reading images", 0.0)
    rng = np.random.default_rng(parameters.seed)
    train = _in_contexts(parameters, parameters.images, "train", rng)
    test = _in_contexts(parameters, parameters.images // 3, "test", rng)
    keys = keys_from_parameters(parameters, key)
    how = {"activation": "relu", "scale": parameters.scale, "key": keys}
    network = fully_connected(train.x.shape[1], parameters.width, train.outputs, **how)
    run = gradient_descent(
        network,
        train,
        parameters.learning_rate,
        parameters.steps,
        batch_size=parameters.batch_size,
        save_every=max(1, parameters.steps // _SAVES),
        key=jax.random.fold_in(keys[0], 1),
        progress=lambda words, done: progress(words, 0.05 + 0.75 * done),
    )
    saved, over = run.network, ("seed", "step")
    at = lambda k: saved.with_parts(*(part[:, k] for part in saved.parts))
    linear = _least_squares(train, train)
    learned = np.stack([_learned(at(k), train, linear) for k in range(run.time.shape[-1])], axis=1)
    shares = np.stack([_shares(at(k), test) for k in range(0, run.time.shape[-1], 6)], axis=1)
    progress("gates", 0.85)
    found = gating(run.final, test.x)
    tested = {"ReLU": run.final.predict(test.x), "linear": _least_squares(train, test)[None]}
    tested["gates by context"] = _gated(run.final, test.x, found.by(test.labels["context"]))
    tested["gates by pathway"] = _gated(run.final, test.x, found.by_pathway())
    right = [np.broadcast_to(_right(each, test), (len(keys), 2)) for each in tested.values()]
    seeds = {"seed": parameters.seed + np.arange(len(keys))}
    return {
        "course": xr.Dataset(
            {
                "loss": (over, run.loss),
                "learned": ((*over, "what"), learned),
                "share": (("seed", "note", "number"), shares),
                "floor": 0.5 * float(np.mean(np.sum((train.y - linear) ** 2, axis=1))),
            },
            {"step": run.time[0], "note": run.time[0, ::6], "what": ["linear", "rest"], **seeds}
            | {"number": np.arange(parameters.contexts + 1)},
        ),
        "tested": xr.Dataset(
            {"right": (("network", "seed", "part"), np.stack(right))},
            {"network": list(tested), "part": list(_PARTS), **seeds},
        ),
        "units": xr.Dataset(
            {
                "stability": found.stability,
                "pathways": len(found),
                "largest": float(found.share[0]),
                "random_share": ("number", _shares(network, test).mean(axis=0)),
            }
        ),
    }


def _in_contexts(parameters: Parameters, count: int, split: Any, rng: np.random.Generator) -> Task:
    """Return a task with `count` random images in every context."""
    digits = mnist_digits(tuple(range(_DIGITS)), split=split)
    chosen = rng.choice(len(digits.x), count, replace=False)
    pixels = digits.x[chosen].reshape(-1, _SIDE // 2, 2, _SIDE // 2, 2).mean(axis=(2, 4))
    digit, contexts = digits.labels["digit"][chosen], parameters.contexts
    context = np.repeat(np.arange(contexts), count)
    here, which = np.eye(contexts)[context], np.tile(np.eye(_DIGITS)[digit], (contexts, 1))
    x = np.hstack(
        (np.tile(pixels.reshape(count, -1), (contexts, 1)), parameters.context_input * here)
    )
    blocks = np.hstack((np.ones((len(x), 1)), here))
    y = (blocks[:, :, None] * which[:, None, :]).reshape(len(x), -1)
    return from_arrays(x, y, labels={"digit": np.tile(digit, contexts), "context": context})


def _learned(
    networks: Layer, data: Task, linear: Float[np.ndarray, "example output"]
) -> Float[np.ndarray, "seed what"]:
    """Return the learned fractions of the best linear map and of its residual by context."""
    rest = np.where(np.arange(data.outputs) < _DIGITS, 0.0, data.y - linear)
    outputs = networks.predict(data.x)
    part = lambda wanted: np.sum(outputs * wanted, axis=(-1, -2)) / np.sum(wanted**2)
    along = np.sum(linear * rest) / np.sum(rest**2)  # overlap of the linear map with the residual
    return np.stack((part(linear), part(rest) - along * part(linear)), axis=-1)


def _right(outputs: Float[np.ndarray, "*seed example output"], data: Task) -> np.ndarray:
    """Return the accuracy of the common block (digit) and of other blocks (digit, context)."""
    blocks = outputs[..., :_DIGITS], outputs[..., _DIGITS:]
    wanted = data.y[:, :_DIGITS], data.y[:, _DIGITS:]
    same = [f.argmax(axis=-1) == y.argmax(axis=-1) for f, y in zip(blocks, wanted, strict=True)]
    return np.stack([each.mean(axis=-1) for each in same], axis=-1)


def _gated(networks: Layer, x: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """Return the outputs of a network with its gates replaced by the given gates."""
    u, v = (np.asarray(part, float) for part in networks.parts)
    return (gates * (u @ x.T)).swapaxes(-1, -2) @ v


def _least_squares(train: Task, test: Task) -> Float[np.ndarray, "example output"]:
    """Return the outputs of the best linear map for the test images."""
    x, y = np.asarray(train.x, float), np.asarray(train.y, float)
    gram = x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1])
    return np.asarray(test.x) @ np.linalg.solve(gram, x.T @ y)


def _shares(networks: Layer, data: Task) -> Float[np.ndarray, "seed number"]:
    """Return the shares of strength in units that are active in 0 … C contexts.

    A unit may be active for few images. A unit counts as active in a context if it is active for at
    least half as many images as in its most frequent context.
    """
    u, v = (np.asarray(part, float) for part in networks.parts)
    strength = np.linalg.norm(u, axis=-1) * np.linalg.norm(v, axis=-1)
    context = data.labels["context"]
    count = int(context.max()) + 1
    often = (u @ np.asarray(data.x).T > 0) @ (np.eye(count)[context] / np.bincount(context))
    most_often = often.max(axis=-1, keepdims=True)
    number = np.sum((often >= 0.5 * most_often) & (most_often > 0), axis=-1)
    shares = [np.sum(strength * (number == k), axis=-1) for k in range(count + 1)]
    return np.stack(shares, axis=-1) / strength.sum(axis=-1)[:, None]


@claims_from_source("Jarvis, Klein, Rosman & Saxe", "extension to handwritten digits")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check which results of the theory hold for images."""
    count = parameters_of_run(run, Parameters).contexts
    course, tested, units = (run[name].ds for name in ("course", "tested", "units"))
    right = tested["right"]
    relu, linear = right.sel(network="ReLU"), right.sel(network="linear")
    floor = float(course["floor"])
    claim(
        "nonlinear-part-learned",
        "ReLU networks learn the part of the targets that depends on the context: their loss falls "
        "below the loss of any linear network",
        most_seeds(course["loss"].isel(step=-1) < 0.8 * floor),
        note=f"least loss of a linear network {floor:.3g}; accuracy on test images "
        f"{join_numbers(relu.mean('seed'), 3)}, linear {join_numbers(linear.mean('seed'), 3)}",
    )
    half = xr.apply_ufunc(
        lambda part: passage_time(course["step"].values, 1 - part, 1 - part[..., -1] / 2),
        course["learned"],
        input_core_dims=[["step"]],
    )
    first, then = half.sel(what="linear"), half.sel(what="rest")
    claim(
        "linear-part-first",
        "the part of the targets common to all contexts, which a linear map can compute, is "
        "learned first",
        most_seeds(first < 0.8 * then),
        headline=True,
        note=f"steps until half of the linear part is learned: {join_numbers(first, 3)}; until "
        f"half of the residual is: {join_numbers(then, 3)}",
    )
    share, random = course["share"], units["random_share"]
    last = share.isel(note=-1)
    claim(
        "modular-units",
        "few units are modular, that is, active in a single context",
        all_below(last.sel(number=1), 0.25),
        note=f"shares of strength in units active in 0 … {count} contexts: "
        f"{join_numbers(last.mean('seed').values, 2)}; with initial weights "
        f"{join_numbers(random.values, 2)}",
    )
    claim(
        "mixed-units",
        "units become mixed: the share of strength in units that are active in several contexts, "
        "but not in all, rises in training",
        most_seeds(
            last.sel(number=slice(2, count - 1)).sum("number") > random[2:count].sum() + 0.05
        ),
    )
    always = share.sel(number=count)
    claim(
        "always-on-first",
        "early in training nearly all strength is in units that are active in all contexts, and "
        "this share falls later",
        most_seeds((always.max("note") > 0.8) & (always.isel(note=-1) < always.max("note") - 0.2)),
    )
    context = right.sel(network="gates by context")
    claim(
        "gates-by-context",
        "gates that depend on the context alone keep the accuracy of the ReLU network",
        all_above((context / relu).sel(part="contexts"), 0.9),
        wrong="with images, gates depend on images as well, not on contexts alone",
        instead=all_below((context / relu).sel(part="contexts"), 0.9),
        note=f"accuracy {join_numbers(context.mean('seed'), 3)}",
    )
    claim(
        "stable-pathways",
        "units form a few stable pathways, which clustering finds again from other images, seeds "
        "and thresholds",
        all_above(units["stability"], 0.8),
        wrong=_UNSTABLE,
        instead=all_below(units["stability"], 0.8),
        note=f"number of pathways {int(units['pathways'])}, largest share "
        f"{float(units['largest']):.2g}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot learned parts, shares of units by open contexts, and accuracy with other gates."""
    course, tested, units = (run[name].ds for name in ("course", "tested", "units"))
    figure, (loss, share, bars) = panels("Handwritten digits in contexts", 3)
    names = {"linear": "linear map", "rest": "residual of contexts"}
    for k, (what, words) in enumerate(names.items()):
        one = course["learned"].sel(what=what).mean("seed")
        loss.plot(course["step"], one, **SIMULATION_STYLE, color=f"C{k}", label=words)
    loss.axhline(1.0, color="0.6", lw=0.8)
    label_axes(loss, "step", "learned fraction", "the common part comes first")
    for k in range(course.sizes["number"]):
        line = course["share"].isel(number=k).mean("seed")
        share.plot(course["note"], line, color=f"C{k}", lw=1.6, label=f"{k}")
        random = {**THEORY_STYLE, "color": f"C{k}"}
        share.plot(course["note"][[0, -1]], [units["random_share"][k]] * 2, **random)
    words = "step", "share of strength", "units on in 0, 1, … contexts"
    label_axes(share, *words, theory="random", ylim=(-0.02, 1.05))
    place = np.arange(tested.sizes["network"])
    for k, part in enumerate(_PARTS):
        heights = tested["right"].sel(part=part).mean("seed")
        words = "digit" if part == "common" else "digit and context"
        bars.bar(place + 0.36 * k - 0.18, heights, 0.34, color=f"C{k}", label=words)
    bars.set_xticks(
        place, [str(name).replace(" by ", "\nby ") for name in tested["network"].values]
    )
    label_axes(bars, "", "accuracy on test images", "same weights, other gates", ylim=(0, 1.05))
    return figure
