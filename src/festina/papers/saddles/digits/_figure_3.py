"""Figure 3: wide networks learn to distinguish two handwritten digits in two drops of the loss.

Linear and ReLU networks of width 1000 are trained with mini-batches of 64. At each of two drops one
more singular value of the first layer grows. For linear networks, the initial weights and the
singular values of Σ_yx predict when each singular value grows.

After the second drop the weights of the ReLU units are spread over a fan of directions, not over
two rays. Merging units by Eq. (6) alone leaves more than two units. Two units, optimised from the
merged units, nevertheless compute the same function.
"""

import itertools
from typing import Any

import jax
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ...._objective import Data
from ....diagnose import plateaus
from ....experiments import _parameters
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    equal_to,
    increasing,
    join_numbers,
)
from ....experiments.figures import SIMULATION_STYLE, THEORY_STYLE, panels, styled
from ....networks import Layer, fully_connected
from ....tasks import Task, from_arrays, mnist_digits
from ....theory.saddles._loss_function import loss_function
from ....theory.saddles._merged_units import MergedNetwork, merged_networks
from ._lessons import Lesson, teach
from ._pairs import PRINTED, Pairs, correlations, descent_rate, digits

NETWORKS = {"linear": "linear", "relu": "ReLU"}
STAGES = ("plateau", "second drop", "end")  # stages at which narrower networks are fitted
_NOTED_EVERY = 0.1  # time ηn between two records of a network's state
_THRESHOLD = 0.1  # singular value of U at which its growth is timed; it still grows exponentially
_ALIKE = 0.1  # largest r.m.s. difference of the outputs of equal networks, for targets of size one
_FAN = 0.6  # radians; ReLU units within this angle give one initial unit of a narrow network
_PLATEAUS, _EXACT = 3, 1e-3  # number of plateaus; r.m.s. error below which no fit is needed
_TOLERANCE = 0.1  # tolerance for the number of rays
_SECOND = "with the second singular value of Σ_yx in place of the second row of Table 1"


class Parameters(_parameters.Parameters):
    """Parameters of Figure 3 (paper: Appendix B.1 and caption of Figure 3)."""

    seeds: int = Field(default=1, ge=1)
    """Number of networks of each kind that are trained for each pair."""

    pairs: Pairs = tuple(PRINTED)
    """Pairs of digits to distinguish, such as 3/5."""

    width: int = Field(default=1000, ge=10)
    """Number H of hidden units."""

    scale: float = Field(default=1e-6, gt=0, le=1e-4)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate η of stochastic gradient descent on ⟨‖y − f‖²⟩."""

    batch_size: int = Field(default=64, ge=1, le=10_000)
    """Number of images in a mini-batch."""

    steps: int = Field(default=2000, ge=400)
    """Number of training steps of each network."""

    judged: int = Field(default=2000, ge=100, le=10_000)
    """Number of training images over which the loss is recorded."""


QUICK: dict[str, Any] = {"pairs": ("3/5",), "width": 200, "steps": 1500, "judged": 1000}


@make_run("saddles/figure-3")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train every network, find its drops, and fit narrower networks at three stages."""
    keys, eta = keys_from_parameters(parameters, key), parameters.learning_rate
    numbers = (0 if key is not None else parameters.seed) + np.arange(len(keys))
    labels = {"pair": list(parameters.pairs), "seed": numbers}
    index = pd.MultiIndex.from_product([*labels.values(), NETWORKS], names=[*labels, "network"])
    tables: dict[str, list[xr.Dataset]] = {"simulation": [], "reduction": [], "theory": []}
    for p, pair in enumerate(parameters.pairs):
        progress(f"reading images of {pair}", p / len(parameters.pairs))
        train, test = mnist_digits(digits(pair)), mnist_digits(digits(pair), split="test")
        # The same evaluation images for every network.
        shuffled = np.random.default_rng(parameters.seed).permutation(len(train.x))
        chosen = shuffled[: parameters.judged]
        judged, sigma_yx = from_arrays(train.x[chosen], train.y[chosen]), correlations(train)[0]
        for seed, kind in itertools.product(range(parameters.seeds), NETWORKS):
            weights, shuffling = jax.random.split(jax.random.fold_in(keys[seed], p))
            network = fully_connected(
                784, parameters.width, 2, activation=kind, scale=parameters.scale, key=weights
            )
            done, words = len(tables["theory"]), f"{pair}, {kind}"
            told = lambda f, n=done, words=words: progress(words, (n + f) / len(index))
            how: dict[str, Any] = {"batch_size": parameters.batch_size, "steps": parameters.steps}
            every = max(1, round(_NOTED_EVERY / eta))
            how |= {"learning_rate": eta, "every": every, "key": shuffling, "progress": told}
            lesson = teach(network, train, judged, **how)
            simulation = _measured(lesson, eta)
            tables["simulation"].append(simulation)
            tables["reduction"].append(_narrowed(lesson, simulation, judged, test))
            tables["theory"].append(_predicted(network, sigma_yx, eta))
    coords = xr.Coordinates.from_pandas_multiindex(index, "one")
    whole = {name: xr.concat(each, "one").assign_coords(coords) for name, each in tables.items()}
    over, labels = ("seed", "pair", "network", ...), {**labels, "network": list(NETWORKS)}
    return {name: each.unstack("one").sel(labels).transpose(*over) for name, each in whole.items()}


def _measured(lesson: Lesson, learning_rate: float) -> xr.Dataset:
    """Return the loss, the growth of singular values of U, and the plateaus if there are three."""
    # Under mini-batches the loss also decreases a little within a plateau.
    found = plateaus(lesson.step.astype(float), lesson.loss, prominence=1.0)
    values, clean = lesson.singular_value, len(found) == _PLATEAUS
    told = lambda each, count: np.asarray(each, float) if clean else np.full(count, np.nan)
    rests = {"level": found.level, "start": found.start, "end": found.end, "rest": found.time}
    growth = [_growth(lesson.step, s, values[0, 0], learning_rate) for s in values.T[:2]]
    return xr.Dataset(
        {
            "loss": ("save", lesson.loss),
            "singular_value": (("save", "rank"), values),
            "count": ((), len(found)),
            **{name: ("plateau", told(each, _PLATEAUS)) for name, each in rests.items()},
            "drop_step": ("mode", told(found.drop_time, _PLATEAUS - 1)),
            "passage": ("mode", [passage(lesson.step, s, _THRESHOLD) for s in values.T[:2]]),
            "growth": ("mode", growth),
        },
        coords={"step": ("save", lesson.step), "rank": 1 + np.arange(3)},
    )


def passage(steps: np.ndarray, values: np.ndarray, threshold: float) -> float:
    """Return the step at which values first exceed the threshold, interpolated in ln, else NaN."""
    above = int(np.argmax(values > threshold))
    if above == 0:
        return np.nan
    pair = slice(above - 1, above + 1)
    return float(np.interp(np.log(threshold), np.log(values[pair]), steps[pair]))


def _growth(steps: np.ndarray, values: np.ndarray, noise: float, learning_rate: float) -> float:
    """Return the exponential growth rate in t = 2ηn between noise and half the threshold."""
    grown = int(np.argmax(values > _THRESHOLD / 2))
    among = np.flatnonzero(values[:grown] > 10 * noise)
    if len(among) < 2:
        return np.nan
    return float(np.polyfit(2 * learning_rate * steps[among], np.log(values[among]), 1)[0])


def _predicted(network: Layer, sigma_yx: np.ndarray, learning_rate: float) -> xr.Dataset:
    r"""Predict when singular values of U grow, from the data and a linear network's weights.

    Mode k of Σ_yx starts with $c_{ki} = (q_k\cdot v_i + r_k\cdot u_i)/\sqrt2$ in unit i. The mode
    grows by a factor $1 + 2\eta s_k$ per step (Theorem 4 and Eq. 35), with half of its squared size
    in U. The second mode grows as if the first had not been learned, because Σ_xx is ill
    conditioned.
    """
    q, s, r = np.linalg.svd(sigma_yx, full_matrices=False)
    c = (np.asarray(network.v) @ q + np.asarray(network.u) @ r.T) / np.sqrt(2)
    initial = np.linalg.norm(c, axis=0) / np.sqrt(2)
    steps = np.log(_THRESHOLD / initial) / np.log1p(2 * learning_rate * s)
    numbers = {"singular_value": s, "growth": descent_rate(s, learning_rate), "passage": steps}
    return xr.Dataset({name: ("mode", values) for name, values in numbers.items()})


def _narrowed(lesson: Lesson, simulation: xr.Dataset, judged: Task, test: Task) -> xr.Dataset:
    """Fit networks of width one and two to the wide network at each stage.

    - `error`: root mean square of f − f_h over training images, for h = 0, 1, 2.
    - `test_error`, `accuracy`, `narrow_accuracy`: on the test set, for h = 2.
    - `ray_width`: number of units left if units are merged by relations, without optimisation.
    """
    errors, tests = np.full((len(STAGES), 3), np.nan), np.full((4, len(STAGES)), np.nan)
    off = lambda one, other: np.sqrt(np.mean(np.sum((one - other) ** 2, axis=1)))
    right = lambda outputs: np.mean(outputs.argmax(axis=1) == test.y.argmax(axis=1))
    if int(simulation["count"]) == _PLATEAUS:
        rest, settled = float(simulation["rest"][1]), float(simulation["start"][2])
        for stage, step in enumerate((rest, settled, lesson.step[-1])):
            single = lesson.networks[int(np.searchsorted(lesson.step, step))]
            wide = single.with_parts(*(np.asarray(part, float) for part in single.parts))
            outputs, tested = wide.predict(judged.x), wide.predict(test.x)
            reduction = merged_networks(wide, judged, angle=_FAN)[-1]
            data = Data(judged.x, outputs, 2.0 * judged.weight)
            one, two = (_narrow_network(reduction, width, data) for width in (1, 2))
            guesses = (0.0 * outputs, one.predict(judged.x), two.predict(judged.x))
            errors[stage] = [off(outputs, guess) for guess in guesses]
            guessed = two.predict(test.x)
            widths = [each.width(_TOLERANCE) for each in merged_networks(wide, judged)]
            rays = min(wide.width if width is None else width for width in widths)
            tests[:, stage] = off(tested, guessed), right(tested), right(guessed), rays
    names = ("test_error", "accuracy", "narrow_accuracy", "ray_width")
    table = {name: ("stage", values) for name, values in zip(names, tests, strict=True)}
    coords = {"stage": list(STAGES), "width": [0, 1, 2]}
    return xr.Dataset({"error": (("stage", "width"), errors), **table}, coords)


def _narrow_network(reduction: MergedNetwork, width: int, data: Data) -> Layer:
    """Return the narrow network whose outputs are closest to those of a wide one.

    Quasi-Newton descent on ⟨‖f − f_h‖²⟩ starts from the leading merged units (F.3), using the most
    general relation that the activation admits. Linear units are merged by direction, which needs
    no descent if the width is the rank of the weights. ReLU units are merged by ray.
    """
    from scipy.optimize import minimize

    start = reduction.narrow(width)
    if reduction.error[width] <= _EXACT:
        return start
    loss, weights = loss_function(start.structure, data), start.structure.columns(*start.parts)
    found = minimize(loss, weights[:, 0], jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return start.with_parts(*start.structure.arrays(found.x))


@claims_from_source("Zhang, Saxe & Latham", "Figure 3")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check drops, singular values and effective widths of linear and ReLU networks."""
    names = ("simulation", "reduction", "theory")
    tables = [run[name].ds.transpose("pair", "seed", ...) for name in names]
    pairs = ", ".join(map(str, tables[0]["pair"].values))
    for kind, words in NETWORKS.items():
        simulation, reduction, theory = (table.sel(network=kind) for table in tables)
        passed = simulation["passage"]
        counted = agree(simulation["count"], _PLATEAUS)
        claim(
            f"{kind}-drops",
            f"{words} network: the loss drops twice, with three plateaus (digits {pairs})",
            counted,
        )
        if not counted.holds:
            continue  # all further claims need both drops
        claim(
            f"{kind}-singular-values-at-drops",
            f"{words} network: each singular value of the first-layer weights U passes 0.1 at a "
            "drop of the loss (steps)",
            agree(passed, simulation["drop_step"], within=0.2, relative=True),
        )
        if kind == "linear":
            _linear(claim, pairs, simulation, theory)
            _difficulty(claim, simulation, theory, reduction)
        else:
            linear = tables[0]["passage"].sel(network="linear")
            claim(
                "relu-grows-with-linear",
                "ReLU network: singular values of the first-layer weights U grow at the same steps "
                "as in the linear network",
                agree(passed, linear, within=0.08, relative=True),
            )
            _third(claim, pairs, simulation)
        _widths(claim, kind, words, reduction)


def _linear(claim: ClaimCollector, pairs: str, simulation: xr.Dataset, theory: xr.Dataset) -> None:
    third = simulation["singular_value"].sel(rank=3)
    claim(
        "linear-third-singular-value",
        "linear network: the third singular value of the first-layer weights U stays close to zero "
        "(maximum)",
        agree(third.max(), 0.0, within=max(5e-4, 1.5 * float(third.isel(save=0).max()))),
    )
    for mode, order, corrected in ((0, "first", ""), (1, "second", _SECOND)):
        seen, expected = simulation.sel(mode=mode), theory.sel(mode=mode)
        claim(
            f"linear-{order}-growth-rate",
            f"linear network: the {order} singular value of the first-layer weights U grows at the "
            f"rate given by the {order} singular value of Σ_yx (digits {pairs})",
            agree(seen["growth"], expected["growth"], within=0.04, relative=True),
            at="Theorem 4 and Table 1",
            corrected=corrected,
            note="gradient descent with learning rate η turns a rate s into ln(1 + 2ηs)/2η",
        )
        claim(
            f"linear-{order}-passage",
            f"linear network: initial weights and Σ_yx predict the step at which the {order} "
            "singular value of the first-layer weights U passes 0.1",
            agree(seen["passage"], expected["passage"], within=0.03, relative=True),
            at="Theorem 4 and Eq. (35)",
            corrected=corrected,
        )


def _difficulty(
    claim: ClaimCollector, simulation: xr.Dataset, theory: xr.Dataset, reduction: xr.Dataset
) -> None:
    known = [pair for pair in map(str, simulation["pair"].values) if pair in PRINTED]
    if len(known) < 2:  # other pairs may be equally difficult
        return
    steps = (simulation["end"] - simulation["start"]).sel(plateau=1, pair=known).mean("seed")
    mistakes = 1 - reduction["accuracy"].sel(stage="end", pair=known).mean("seed")
    s = theory["singular_value"].sel(mode=1, pair=known).mean("seed")
    in_order = lambda values: " < ".join(known[i] for i in np.argsort(values.values))
    claim(
        "linear-most-mistakes",
        "linear network: the pair of digits with most mistakes on the test set has the longest "
        "plateau",
        equal_to(str(steps.idxmax().item()), str(mistakes.idxmax().item())),
        note=f"plateau steps {join_numbers(steps)}; error rates {join_numbers(mistakes, 2)}",
    )
    claim(
        "linear-plateaus-by-singular-values",
        "linear network: the plateau is longer for pairs of digits with a smaller singular value "
        "of Σ_yx (pairs in order of plateau length)",
        equal_to(in_order(steps), in_order(-s)),
        at="Table 1",
        corrected="the statement holds for the second singular value of Σ_yx, not for the second "
        "row of Table 1",
    )


def _third(claim: ClaimCollector, pairs: str, simulation: xr.Dataset) -> None:
    """Check the third singular value of a ReLU network's U, which the paper says is near zero."""
    second, third = (simulation["singular_value"].sel(rank=rank) for rank in (2, 3))
    step, settled = simulation["step"], simulation["start"].sel(plateau=2)
    resting = third.where(step <= simulation["end"].sel(plateau=1)).max("save")
    noise, last = float(third.isel(save=0).max()), third.isel(save=-1)
    claim(
        "relu-third-on-plateau",
        "ReLU network: on the plateau the third singular value of the first-layer weights U is "
        "close to zero (maximum)",
        agree(resting.max(), 0.0, within=max(0.01, 10 * noise)),
    )
    if (1.3 * settled < step[-1]).all():  # training is long enough for this value to grow
        over = third.where(step <= settled).max("save")
        claim(
            "relu-third-at-end",
            "ReLU network: the third singular value of the first-layer weights U stays small "
            f"relative to the second until the end (digits {pairs})",
            agree(last / second.isel(save=-1), 0.0, within=0.1),
            wrong="the third singular value grows slowly after the second drop",
            instead=increasing([float(each.mean()) for each in (resting, over, last)]),
        )


def _widths(claim: ClaimCollector, kind: str, words: str, reduction: xr.Dataset) -> None:
    """Check the smallest width that matches the wide network, and the match at width two."""
    at, close = "Figure 3 and F.3", reduction["error"] <= _ALIKE
    smallest = xr.where(close.any("width"), close.argmax("width"), np.inf)
    late, end = (reduction.sel(stage=stage) for stage in STAGES[1:])
    fan = "holds for two optimised units; the network's own units lie in a fan, and merging them "
    fan += f"leaves {join_numbers(late['ray_width'])} rays"
    claim(
        f"{kind}-width-on-plateau",
        f"{words} network: the effective width on the plateau is one",
        agree(smallest.sel(stage="plateau"), 1),
        at=at,
    )
    claim(
        f"{kind}-width-after-drops",
        f"{words} network: the effective width after the second drop is two",
        agree(smallest.sel(stage="second drop"), 2),
        at=at,
        corrected=fan * (words == "ReLU"),
    )
    claim(
        f"{kind}-test-predictions",
        f"{words} network: after the second drop, a network of width two gives the same outputs on "
        "the test set (r.m.s. difference)",
        agree(late["test_error"], 0.0, within=_ALIKE),
        at=at,
        note=f"at the end of training the difference is {join_numbers(end['test_error'], 2)}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot one column for each pair of digits, with linear networks above and ReLU below."""
    simulation, theory = run["simulation"].ds, run["theory"].ds
    pairs = simulation["pair"].values
    title = "3   Two digits: at each drop of the loss one more singular value grows"
    wide, how = max(8.0, 1.5 + 2.2 * len(pairs)) / len(pairs), {"sharex": "col", "sharey": True}
    figure, grid = panels(title, len(pairs), 2, width=wide, height=2.4, squeeze=False, **how)
    for row, (kind, words) in zip(grid, NETWORKS.items(), strict=True):
        for ax, pair in zip(row, pairs, strict=True):
            at = {"pair": pair, "network": kind}
            _draw_one(ax, simulation.sel(at), theory.sel(at) if kind == "linear" else None)
        row[0].set_ylabel(f"{words} network\nloss, singular values")
    for top, bottom, pair in zip(*grid, pairs, strict=True):
        top.set_title(f"digits {pair[0]} and {pair[-1]}")
        bottom.set_xlabel("step")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_one(ax: Axes, simulation: xr.Dataset, theory: xr.Dataset | None) -> None:
    step, values = simulation["step"].values, simulation["singular_value"]
    curves = {f"singular value {k}": (values.sel(rank=k), f"C{k - 1}") for k in (1, 2, 3)}
    for words, (seeds, color) in {"loss": (simulation["loss"], "0.5"), **curves}.items():
        lines = ax.plot(
            step, seeds.transpose("save", "seed"), **SIMULATION_STYLE, color=color, alpha=0.6
        )
        lines[0].set_label(words)
    if theory is not None:
        ax.plot([], [], **THEORY_STYLE, label="theory (linear only):\nsingular value reaches 0.1")
        for passed in theory["passage"].values.ravel():
            ax.axvline(passed, **THEORY_STYLE)
    last = float(simulation["start"].sel(plateau=2).max())
    ax.set(xlim=(0, 1.4 * last if np.isfinite(last) else step[-1]), ylim=(-0.03, 1.06))
