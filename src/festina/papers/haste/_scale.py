r"""Digits in contexts: gates, pathways and selectivity of a ReLU network on handwritten images.

The input is an image and one-hot for one of C contexts; targets are the digit once for all
contexts, and once in the block of this context, the other blocks being zero: objects in contexts,
with images that differ instead of objects. Images are averaged over 2 × 2 pixels, and each is shown
in all contexts. Mini-batches, loss ½⟨‖y − f‖²⟩.

Of the theory survives that what contexts have in common is learned first, that gates by context say
nearly what the network does, and that units are mixed. Of single pathways that clusters of units
would be there is little: units of one context also tell images apart.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import gating, passage_time
from ...dynamics import gradient_descent
from ...networks import Layer, fully_connected
from ...tasks import Task, mnist, task
from .._frame import experiment, keys_of, parameters_of
from .._parameters import Parameters as BaseParameters
from .._registry import Progress
from ..claims import Ledger, above, asserts, below, listed, most
from ..figures import PALE, THEORY, finish, sheet, styled

_SIDE, _DIGITS = 28, 10
_SAVES = 60
_PARTS = ("common", "contexts")
_RIDGE = 1e-6
_UNSTABLE = "units also tell images apart, each in its own way: what is common is by contexts only"


class Parameters(BaseParameters):
    """Handwritten digits in contexts, and ReLU networks of one hidden layer."""

    seeds: int = Field(default=2, ge=1)
    """How many networks are trained."""

    contexts: int = Field(default=3, ge=3, le=5)
    """Number C of contexts."""

    images: int = Field(default=1500, ge=200, le=20_000)
    """Images for training, each in all contexts; a third as many for the test."""

    width: int = Field(default=150, ge=40)
    """Hidden units."""

    scale: float = Field(default=1e-3, gt=0, le=0.1)
    """Standard deviation σ of the initial weights."""

    context_input: float = Field(default=2.0, gt=0)
    """What stands for the 1 of the context in the input; images have a size of about 4."""

    learning_rate: float = Field(default=0.05, gt=0)
    """Of mini-batch descent."""

    batch_size: int = Field(default=100, ge=1, le=600)
    """Examples in a mini-batch."""

    steps: int = Field(default=4000, ge=500)
    """How many steps each network is trained for."""


QUICK: dict[str, Any] = {"seeds": 1, "images": 600, "width": 100, "steps": 3000}


@experiment("haste/scale")
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> dict[str, xr.Dataset]:
    """Train networks, and look at their gates at the end and on the way."""
    say("reading images", 0.0)
    rng = np.random.default_rng(parameters.seed)
    train = _in_contexts(parameters, parameters.images, "train", rng)
    test = _in_contexts(parameters, parameters.images // 3, "test", rng)
    keys = keys_of(parameters, key)
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
        progress=lambda words, done: say(words, 0.05 + 0.75 * done),
    )
    saved, over = run.network, ("seed", "step")
    at = lambda k: saved.with_parts(*(part[:, k] for part in saved.parts))
    losses = np.stack([_losses(at(k), train) for k in range(run.time.shape[-1])], axis=1)
    shares = np.stack([_shares(at(k), test) for k in range(0, run.time.shape[-1], 6)], axis=1)
    say("gates", 0.85)
    found = gating(run.final, test.x)
    linear = _least_squares(train, test)
    tested = {"ReLU": run.final.predict(test.x), "linear": linear[None]}
    tested["gates by context"] = _gated(run.final, test.x, found.by(test.labels["context"]))
    tested["gates by pathway"] = _gated(run.final, test.x, found.by_pathway())
    right = [np.broadcast_to(_right(each, test), (len(keys), 2)) for each in tested.values()]
    seeds = {"seed": parameters.seed + np.arange(len(keys))}
    return {
        "course": xr.Dataset(
            {"loss": ((*over, "part"), losses), "share": (("seed", "note", "number"), shares)},
            {"step": run.time[0], "note": run.time[0, ::6], "part": list(_PARTS), **seeds}
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
    """Some images, in every context."""
    digits = mnist(tuple(range(_DIGITS)), split=split)
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
    return task(x, y, labels={"digit": np.tile(digit, contexts), "context": context})


def _losses(networks: Layer, data: Task) -> Float[np.ndarray, "seed part"]:
    """½⟨‖y − f‖²⟩ of what all contexts have in common, and of what each has for itself."""
    error = (networks.predict(data.x) - data.y) ** 2
    common, rest = error[..., :_DIGITS].sum(axis=-1), error[..., _DIGITS:].sum(axis=-1)
    return 0.5 * np.stack((common.mean(axis=-1), rest.mean(axis=-1)), axis=-1)


def _right(outputs: Float[np.ndarray, "*seed example output"], data: Task) -> np.ndarray:
    """How often the largest output of the common block is the digit, of the others both."""
    blocks = outputs[..., :_DIGITS], outputs[..., _DIGITS:]
    wanted = data.y[:, :_DIGITS], data.y[:, _DIGITS:]
    same = [f.argmax(axis=-1) == y.argmax(axis=-1) for f, y in zip(blocks, wanted, strict=True)]
    return np.stack([each.mean(axis=-1) for each in same], axis=-1)


def _gated(networks: Layer, x: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """Outputs of the same weights with given gates."""
    u, v = (np.asarray(part, float) for part in networks.parts)
    return (gates * (u @ x.T)).swapaxes(-1, -2) @ v


def _least_squares(train: Task, test: Task) -> Float[np.ndarray, "example output"]:
    """What the best linear map says."""
    x, y = np.asarray(train.x, float), np.asarray(train.y, float)
    gram = x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1])
    return np.asarray(test.x) @ np.linalg.solve(gram, x.T @ y)


def _shares(networks: Layer, data: Task) -> Float[np.ndarray, "seed number"]:
    """Of all strength, what units have that are on in 0 … C contexts, for half of the images."""
    u, v = (np.asarray(part, float) for part in networks.parts)
    strength = np.linalg.norm(u, axis=-1) * np.linalg.norm(v, axis=-1)
    context = data.labels["context"]
    count = int(context.max()) + 1
    on = (u @ np.asarray(data.x).T > 0) @ (np.eye(count)[context] / np.bincount(context)) >= 0.5
    number = on.sum(axis=-1)
    shares = [np.sum(strength * (number == k), axis=-1) for k in range(count + 1)]
    return np.stack(shares, axis=-1) / strength.sum(axis=-1)[:, None]


@asserts("Jarvis, Klein, Rosman & Saxe", "beyond the source: handwritten digits")
def claims(run: xr.DataTree, say: Ledger) -> None:
    """What of the theory is left where inputs are images."""
    count = parameters_of(run, Parameters).contexts
    course, tested, units = (run[name].ds for name in ("course", "tested", "units"))
    right = tested["right"]
    relu, linear = right.sel(network="ReLU"), right.sel(network="linear")
    say(
        "what depends on the context is learned, which no linear network can",
        most(relu.sel(part="contexts") > linear.sel(part="contexts") + 0.05),
        note=f"right on test images {listed(relu.mean('seed'), 3)}; linear "
        f"{listed(linear.mean('seed'), 3)}",
    )
    half = xr.apply_ufunc(
        lambda loss: passage_time(course["step"].values, loss, (loss[0] + loss[-1]) / 2),
        course["loss"],
        input_core_dims=[["step"]],
        vectorize=True,
    )
    common, own = half.sel(part="common"), half.sel(part="contexts")
    say(
        "what all contexts have in common is learned first",
        most(common < own),
        headline=True,
        note=f"half of it after {listed(common, 3)} steps, of the rest after {listed(own, 3)}",
    )
    share = course["share"]
    mixed = share.isel(note=-1).sel(number=slice(2, count - 1)).sum("number")
    say(
        "units end mixed: on in several contexts, not in all",
        above(mixed, 0.5),
        note=f"in 0 … {count} contexts {listed(share.isel(note=-1).mean('seed'), 2)}, random "
        f"weights {listed(units['random_share'], 2)}",
    )
    always = share.sel(number=count)
    say(
        "units that are on in all contexts carry less of the strength in the end than on the way",
        most(always.isel(note=-1) < always.max("note") - 0.1),
    )
    context = right.sel(network="gates by context")
    say(
        "gates by context alone say most of what the network does",
        above(context.sel(part="contexts") / relu.sel(part="contexts"), 0.8),
        note=f"right {listed(context.mean('seed'), 3)}",
    )
    say(
        "pathways as clusters of units are found again in other halves of the images",
        above(units["stability"], 0.8),
        wrong=_UNSTABLE,
        instead=below(units["stability"], 0.8),
        note=f"{int(units['pathways'])} of them, the largest {float(units['largest']):.2g} of all",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Losses, shares by number of contexts along training, and what is right with which gates."""
    course, tested, units = (run[name].ds for name in ("course", "tested", "units"))
    figure, (loss, share, bars) = sheet("Digits in contexts: what of the theory is left", 3)
    for part, color in zip(_PARTS, ("C0", "C1"), strict=True):
        one = course["loss"].sel(part=part)
        words = "in common" if part == "common" else "of each context"
        loss.plot(course["step"], one.mean("seed"), **PALE, color=color, label=words)
    finish(loss, "step", "loss", "what is in common is learned first", ylim=(0, None))
    for k in range(course.sizes["number"]):
        line = course["share"].isel(number=k).mean("seed")
        share.plot(course["note"], line, color=f"C{k}", lw=1.6, label=f"{k}")
        share.plot(course["note"][[0, -1]], [units["random_share"][k]] * 2, **THEORY)
    words = "step", "share of strength", "contexts in which units are on"
    finish(share, *words, theory="random", ylim=(0, 1.05))
    place = np.arange(tested.sizes["network"])
    for k, part in enumerate(_PARTS):
        heights = tested["right"].sel(part=part).mean("seed")
        words = "digit" if part == "common" else "digit and context"
        bars.bar(place + 0.36 * k - 0.18, heights, 0.34, color=f"C{k}", label=words)
    bars.set_xticks(
        place, [str(name).replace(" by ", "\nby ") for name in tested["network"].values]
    )
    finish(bars, "", "right, of test images", "the same weights, other gates", ylim=(0, 1.3))
    return figure
