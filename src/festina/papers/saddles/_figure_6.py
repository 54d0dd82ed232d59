"""Figure 6: four-layer networks with skip connections (Eq. 18) learn as shallower networks do.

The paper states neither the initial scale nor the learning rate. The defaults are 0.02 and 0.01.
The linear networks learn the data of Figure 1B with W* = I, the ReLU networks learn the data of
Figure 1D. A skip connection carries the activity of the first layer past one or two layers. Each
network with a skip is compared with the network without the skipped layers, trained from the same
weights.
"""

from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...diagnose import plateaus_of_batch
from ...dynamics import gradient_descent
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    join_numbers,
    most_seeds,
)
from ...experiments.figures import THEORY_STYLE, draw_staircase, label_axes, panels, styled
from ...networks import DeepNetwork, deep_network, deep_network_from, seeds
from ...tasks import AbstractTask, linear_teacher, two_orthogonal_points
from ...theory.saddles import minima_near_network

FAMILIES = {"linear": "linear", "relu": "ReLU"}
"""Names of the two activations, one for each column of the figure."""

LOSS: Literal["mean-square"] = "mean-square"
_SKIPS = ("no skip", "skips one layer", "skips two layers")
_COLOURS = ("#0072B2", "#E69F00", "#009E73")  # from the Okabe–Ito palette
_SHOWN = 6  # number of seeds drawn; more would hide each other


class Parameters(BaseParameters):
    """Parameters of Figure 6: four-layer networks with skip connections (Eq. 18)."""

    seeds: int = Field(default=12, ge=1)
    """Number of independent initialisations that are trained."""

    width: int = Field(default=50, ge=2)
    """Number H of hidden units in each hidden layer."""

    scale: float = Field(default=0.02, gt=0)
    """Standard deviation ε of the initial weights, which the paper does not state."""

    smaller_scale: float = Field(default=1e-3, gt=0)
    """Initial scale of a second run with two skipped layers, whose plateau is weak at ε."""

    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate η of gradient descent on the loss, which the paper does not state."""

    max_steps: int = Field(default=30_000, ge=1)
    """Maximal number of training steps per seed."""


QUICK: dict[str, Any] = {"seeds": 3}


@make_run("saddles/figure-6")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train three networks for each activation, and two shallower networks for comparison."""
    p, keys = parameters, keys_from_parameters(parameters, key)
    tables = {}
    for column, family in enumerate(FAMILIES):
        task = task_of(family)
        levels = _levels(family, task, p.seed)
        tables[f"{family}_theory"] = xr.Dataset({"level": ("plateau", levels)})
        for skipped, words in enumerate(_SKIPS):
            progress(f"{FAMILIES[family]}, {words}", (3 * column + skipped) / 6)
            network = skipping(family, task, skipped, p.width, p.scale, keys)
            tables[f"{family}_{skipped}"] = _train(p, network, task, levels)
            if skipped:  # keep the weights of the remaining layers
                kept = (network.weights[0], *network.weights[1 + skipped :])
                shallow = deep_network_from(network.unit, kept, activations=family)
                tables[f"{family}_{skipped}_shallow"] = _train(p, shallow, task, levels)
        small = skipping(family, task, 2, p.width, p.smaller_scale, keys)
        tables[f"{family}_2_smaller"] = _train(p, small, task, levels)
    return tables


def task_of(family: str) -> AbstractTask:
    """Return the task that networks with this activation learn."""
    if family == "relu":
        return two_orthogonal_points()
    return linear_teacher(np.eye(2), np.array([[1.0, 1.0], [1.0, 4.0]]))


def skipping(
    family: str, task: AbstractTask, skipped: int, width: int, scale: float, keys: Keys
) -> DeepNetwork:
    """Return the network of Eq. (18): layer 1's activity is added `skipped` layers further on."""
    return deep_network(
        (2, width, width, width, task.outputs),
        activations=family,
        skips=((1, 1 + skipped),) if skipped else (),
        scale=scale,
        key=keys,
    )


def _levels(family: str, task: AbstractTask, seed: int) -> np.ndarray:
    """Return the loss with zero output, with one unit in every layer, and with all units."""
    sizes = (2, 1, 1, task.outputs)
    starts = deep_network(sizes, activations=family, scale=0.7, key=seeds(24, first=seed))
    statistics = task.statistics(starts.view)
    power = float(statistics.weight @ (statistics.y**2).sum(axis=1)) + 2 * statistics.floor
    return np.array([power, minima_near_network(starts, task, loss=LOSS).loss[0], 0.0])


def _train(
    p: Parameters, network: DeepNetwork, task: AbstractTask, levels: np.ndarray
) -> xr.Dataset:
    """Train a network; return its loss curve, plateaus, drops, and the growth of every layer."""
    descent = gradient_descent(network, task, p.learning_rate, loss=LOSS, max_steps=p.max_steps)
    found = plateaus_of_batch(descent, levels, merge=0.02, dims=("seed",))[["count", "passage"]]
    found = found.reset_coords(drop=True)
    size = lambda weights: np.linalg.norm(weights, ord=2, axis=(-2, -1))
    ends = [(part[:, 0], part[:, -1]) for part in descent.network.parts]
    over = ("seed", "layer")
    return found.rename(passage="drop_step", middle="fall").assign(
        step=(("seed", "save"), descent.time),
        loss=(("seed", "save"), descent.loss),
        initial_norm=(over, np.stack([size(first) for first, _ in ends], axis=1)),
        final_norm=(over, np.stack([size(last) for _, last in ends], axis=1)),
        growth=(over, np.stack([size(last - first) for first, last in ends], axis=1)),
    )


@claims_from_source("Zhang, Saxe & Latham", "Figure 6")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check that skipping layers speeds up learning as much as removing them."""
    for family, words in FAMILIES.items():
        tables = [run[f"{family}_{skipped}"].ds for skipped in range(3)]
        drops = np.stack([table["drop_step"].values for table in tables])  # (skipped, seed, fall)
        late = np.nan_to_num(drops, nan=np.inf)  # no drop by the end of training
        for fall, which in enumerate(("first", "second")):
            claim(
                f"{family}-{which}-drop",
                f"{words} networks: the {which} drop is earlier the more layers are skipped",
                most_seeds(np.all(late[1:, :, fall] < late[:-1, :, fall], axis=0)),
                note="median steps with no, one and two layers skipped: "
                f"{join_numbers(np.median(late[..., fall], axis=1))}",
            )
        left = (run[f"{family}_{skipped}_shallow"].ds["drop_step"] for skipped in (1, 2))
        shallow = [np.median(steps.isel(fall=0)) for steps in left]
        full, *medians = np.median(drops[..., 0], axis=1)
        claim(
            f"{family}-shallow-networks",
            f"{words} networks: skipping one or two layers makes the first drop about as early as "
            "removing them, with the same weights in the remaining layers (median steps)",
            agree(medians, shallow, within=0.35, relative=True),
            note=f"without a skip the first drop is at step {full:.4g}",
        )
        for skipped, count in ((1, "one"), (2, "two")):
            inside = np.isin(np.arange(4), range(1, 1 + skipped))
            growth, first, last = (
                tables[skipped][name].values for name in ("growth", "initial_norm", "final_norm")
            )
            before, after = (np.median(norm[:, inside]) for norm in (first, last))
            claim(
                f"{family}-{count}-skipped-weights",
                f"{words} networks with {skipped} skipped: the weights of skipped layers change "
                "by less than half the change of any other layer",
                most_seeds(growth[:, inside].max(axis=1) < 0.5 * growth[:, ~inside].min(axis=1)),
                note=f"the median operator norm changes from {before:.2g} to {after:.2g}",
            )
        if family == "linear":
            claim(
                "linear-balanced-layers",
                "linear networks without a skip: the final operator norm of each layer is one "
                "(mean over seeds)",
                agree(tables[0]["final_norm"].mean("seed"), 1.0, within=0.02, relative=True),
                note="balanced layers contribute equally to each singular value of W* = I",
            )
        _say_plateaus(run, claim, family)


def _say_plateaus(run: xr.DataTree, claim: ClaimCollector, family: str) -> None:
    """Check for three plateaus; two skipped layers need smaller initial weights."""
    parameters = parameters_of_run(run, Parameters)
    shows = {
        name: run[f"{family}_{name}"].ds["count"].values >= 3
        for name in ("0", "1", "2", "2_smaller")
    }
    claim(
        f"{family}-plateaus",
        f"{FAMILIES[family]} networks with no or one skipped layer: the loss has three plateaus",
        most_seeds(shows["0"] & shows["1"], 0.75),
    )
    claim(
        f"{family}-plateaus-two-skipped",
        f"{FAMILIES[family]} networks with two skipped layers: the loss has three plateaus, from "
        f"initial weights of size {parameters.smaller_scale:g}",
        most_seeds(shows["2_smaller"], 0.75),
        corrected="with two layers skipped the plateau is weak or missing at an initial scale ε "
        "that is small enough without skips",
        note=f"three plateaus in {shows['2'].sum()} of {shows['2'].size} runs at "
        f"ε = {parameters.scale:g}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot linear and ReLU networks in columns, linear and logarithmic time in rows."""
    title = "6   A network with skip connections learns as if the skipped layers were absent"
    figure, axes = panels(title, 2, 2, width=3.6, height=2.5, sharey="col")
    for column, family in enumerate(FAMILIES):
        for ax, clock in zip(axes[:, column], ("linear", "log"), strict=True):
            _draw_losses(ax, run, family, clock)
        axes[0, column].set_title(f"{FAMILIES[family]} networks")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _draw_losses(ax: Axes, run: xr.DataTree, family: str, clock: str) -> None:
    slowest = run[f"{family}_0"].ds.isel(seed=slice(_SHOWN))
    drops, shown = slowest["drop_step"], slowest.sizes["seed"]
    # If training ends before any drop, show all of it.
    right = 1.15 * float((drops if drops.notnull().any() else slowest["step"]).max())

    def curve(name: str, seed: int, **how: Any) -> None:
        table = run[f"{family}_{name}"].ds.isel(seed=seed)
        draw_staircase(ax, table["step"].values, table["loss"].values, right=right, **how)

    for skipped, (colour, words) in enumerate(zip(_COLOURS, _SKIPS, strict=True)):
        label = f"{words}, {shown} seed{'s' * (shown > 1)}"
        for seed in range(shown):
            curve(f"{skipped}", seed, color=colour, alpha=0.35, label=None if seed else label)
    for skipped, label in ((1, "skipped layers removed, 1 seed"), (2, None)):
        curve(f"{skipped}_shallow", 0, **THEORY_STYLE, alpha=1, label=label)
    top = float(run[f"{family}_theory"].ds["level"][0])
    label_axes(
        ax,
        "gradient descent step" + ", logarithmic" * (clock == "log"),
        "loss ⟨|y − f|²⟩",
        legend=None,
        xscale=clock,
        xlim=(int(clock == "log"), right),
        ylim=(-0.04 * top, 1.08 * top),
    )
