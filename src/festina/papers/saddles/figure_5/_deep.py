"""What the panels of Figure 5 share: deep networks that learn one unit of every layer at a time.

Each is trained as its counterpart in Figure 1. The level of the plateau is that of the same network
with one unit in every hidden layer (Corollary 2), found by an optimiser that has nothing in common
with the training.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ...._types import Keys
from ....diagnose import unit_clusters_from
from ....experiments._frame import Progress, Tables, part_of
from ....experiments.claims import ClaimCollector, join_numbers, max_error_below, most_seeds
from ....networks import DeepNetwork, seeds
from ....tasks import AbstractTask
from ....theory.saddles import minima_near_network
from .. import panels
from ..panels import END, PLATEAU, Panel, PanelParameters, Reading, draw_panel
from ..panels._structure import apart, nearest_rays
from ..panels._tables import Compute

_MERGE = 0.02  # of the loss; a ReLU network of depth makes many smaller drops, at every kink
_BESIDE = 6.0  # degrees from a ray of the data

Network: TypeAlias = Callable[[Any, Keys], DeepNetwork]
Also: TypeAlias = Callable[[Any, AbstractTask, Keys, Tables, Progress], Tables]
Split = Literal["tap", "patch"]


class DeepParameters(PanelParameters):
    """Figure 5."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""


def split_teacher(split: Split) -> Float[np.ndarray, "2 4"]:
    """W* (output, input): the weights (1, 1, −1, 1)/√5 of Figure 1C, divided among two outputs.

    The four inputs are two patches of two taps each. The paper does not say in which way their sum
    is split; the two outputs can have a patch each, or a kernel tap each.
    """
    output = np.array({"patch": (0, 0, 1, 1), "tap": (0, 1, 0, 1)}[split])
    return np.where(output == [[0], [1]], np.array([1.0, 1.0, -1.0, 1.0]) / np.sqrt(5), 0.0)


def deep(
    network: Network,
    predict: Callable[[Any, AbstractTask, DeepNetwork], Mapping[str, Any]] = lambda *_: {},
    *,
    narrow: Network | None = None,
    starts: int = 64,
    converged: float = 1e-9,
    also: Also = lambda *_: {},
) -> Compute:
    """Train every seed, find its plateaus, and the minimum of a narrow network.

    - `predict`: `(parameters, task, network) → {name: variable}`, from data and initial weights.
    - `narrow`: the network whose lowest minimum is the plateau, if not that with one unit in every
      hidden layer; `starts` is from how many random weights of order one it is sought.
    - `converged`: how far above the floor training ends, as a fraction of the initial loss.
    - `also`: `(parameters, task, keys, found, progress) → {name: table}`, more of a run.
    """

    def tables(
        p: Any, task: AbstractTask, made: DeepNetwork, keys: Keys, progress: Progress
    ) -> Tables:
        progress("minima of narrow networks", 0.02)
        one = p.model_copy(update={"width": 1, "scale": 0.7})
        several = (narrow or network)(one, seeds(starts, first=p.seed))
        minima = minima_near_network(several, task, loss=p.loss).loss
        predicted = {"narrow_minimum": ("minimum", minima), **predict(p, task, made)}
        trajectory = panels.train(p, made, task, part_of(progress, 0.1, 0.6), converged=converged)
        theory = panels.theory(p, task, made, float(minima[0]), trajectory.floor, predicted)
        found = panels.records(p, trajectory, theory["level"].values, merge=_MERGE)
        found = {**found, "theory": theory}
        more = also(p, task, keys, found, part_of(progress, 0.7, 0.25))
        return {**found, "simulation": _first_layer(found["simulation"]), **more}

    return tables


def cleaner(network: Network) -> Also:
    """Plateaus of the same networks from smaller weights, where ε is large for clean ones."""

    def again(p: Any, task: AbstractTask, keys: Keys, found: Tables, progress: Progress) -> Tables:
        if p.cleaner is None:
            return {}
        small = p.model_copy(update={"scale": p.cleaner})
        trajectory = panels.train(small, network(small, keys), task, progress)
        record = panels.records(small, trajectory, found["theory"]["level"].values, merge=_MERGE)
        end = _first_layer(record["simulation"].isel(save=slice(-1, None))).isel(save=0)
        table = record["plateaus"].assign({name: end[name].variable for name in ("u", "v")})
        return {"cleaner": table.assign_attrs(scale=p.cleaner)}

    return again


def layers(p: Any, task: AbstractTask, keys: Keys, found: Tables, progress: Progress) -> Tables:
    """The two largest singular values of every layer on each plateau, the last one included."""
    save, simulation = found["plateaus"]["save"], found["simulation"]
    at = {"seed": xr.DataArray(np.arange(p.seeds), dims="seed"), "save": save}
    weights = [simulation[name].isel(at).values for name in ("u", *_others(simulation))]
    flat = [weight.reshape(*weight.shape[:3], -1) for weight in weights]
    s = np.stack([np.linalg.svd(each, compute_uv=False)[..., :2] for each in flat], axis=2)
    s[save.values < 0] = np.nan
    return {"layers": xr.Dataset({"singular_value": (("seed", "plateau", "layer", "mode"), s)})}


def _first_layer(simulation: xr.Dataset) -> xr.Dataset:
    """The record with u of every unit and, for v, the size of all weights that read it.

    A layer between hidden ones has thousands of weights, which nobody looks at one by one.
    """
    reads = [dim for dim in simulation["w2"].dims if dim not in ("seed", "save", "unit")]
    # Not by squares that are summed: there are gigabytes of them.
    square = xr.dot(simulation["w2"], simulation["w2"], dim=reads)
    size = np.sqrt(square).transpose("seed", "save", "unit").expand_dims("output", -1)
    return simulation.drop_vars(_others(simulation)).assign(v=size)


def _others(simulation: xr.Dataset) -> list[str]:
    """Names of the layers behind the first: w2, w3, …."""
    return sorted(str(name) for name in simulation if str(name)[1:].isdigit())


def directions(reading: Reading, claim: ClaimCollector) -> None:
    """Linear φ: one direction passes through all layers on the plateau, two at the end (Eq. 7).

    Layer by layer the next direction can be seen long before the loss leaves its plateau: its size
    is the third root of what passes through three.
    """
    at, through = "Figure 5, text; Eq. (7)", "the product of the second singular values of layers"
    product = reading.run["layers"].ds["singular_value"].prod("layer", skipna=False).values
    second = product[..., 1] / product[..., 0]
    if seeds := reading.resting:
        # With w in each layer it passes w³, and the squared gradient of that is of order w⁴.
        bound = 0.5 * 10 ** (-0.75 * reading.strengths[seeds])
        claim(
            "one-direction-on-plateau",
            f"on the plateau one direction passes through all layers: {through} over the first's, "
            "in units of half the power 3/4 by which the squared gradient dips",
            max_error_below(second[seeds, PLATEAU], over=bound, within=1.0),
            at=at,
            note=f"at most {second[seeds, PLATEAU].max():.2g}",
        )
    end = second[np.arange(reading.seeds), reading.counts - 1]
    words = f"at the end two directions pass through all layers: {through} above 0.1 of the first's"
    both, note = most_seeds(end > 0.1, 0.9), f"{end.min():.2g} at least"
    claim("final-directions", words, both, at=at, note=note)


def one_ray_then_two(reading: Reading, claim: ClaimCollector) -> None:
    """Positively homogeneous φ: most of the first layer on one ray, then along both (Eq. 6)."""
    at, expected = "Figure 5, text; Eq. (6)", reading.theory["ray_angle"].values
    if seeds := reading.resting:
        found = [unit_clusters_from(*reading.weights(seed, PLATEAU)) for seed in seeds]
        main, share = np.transpose([(each.angle[0], each.share[0]) for each in found])
        off = apart(main[:, None], expected).min(axis=1)
        claim(
            "one-ray-on-plateau",
            "on the plateau one ray carries more of the first layer than all others together, and "
            f"is one of the data's, within {_BESIDE:g} degrees",
            most_seeds((share > 0.5) & (off <= _BESIDE), 0.9),
            at=at,
            note=f"shares {join_numbers(share, 3)} at {join_numbers(main)}, of "
            f"{join_numbers(expected)}",
        )
    trained = np.flatnonzero(reading.trained).tolist()
    found = [unit_clusters_from(*reading.weights(seed, END)) for seed in trained]
    near = np.array([nearest_rays(each, expected) for each in found])
    off = apart(near, expected).max(axis=1)
    words = f"at the end there are units along both rays of the data, within {_BESIDE:g} degrees"
    note = f"{join_numbers([len(each) for each in found])} rays by seed"
    claim("final-rays", words, most_seeds(off <= _BESIDE, 0.9), at=at, note=note)


def from_smaller_weights(
    reading: Reading,
    claim: ClaimCollector,
    within: float,
    share: float,
    more: str = "",
    *,
    order: int,
) -> None:
    """In the cleaner run most seeds rest where they should, each as near as it is slow."""
    table, again = reading.run["cleaner"].ds, Reading(reading.run, reading.parameters)
    # Of several plateaus on the way the last is *the* intermediate one.
    count, seed = table["count"].values, xr.DataArray(np.arange(reading.seeds), dims="seed")
    index = np.stack((0 * count, np.maximum(count - 2, 1), count - 1), axis=1)
    again.plateaus = table.isel(seed=seed, plateau=xr.DataArray(index, dims=("seed", "plateau")))
    again.plateaus["count"], again.theory = ("seed", np.minimum(count, 3)), reading.theory
    known: Any = {"corrected": f"ε = {reading.parameters.scale:g} is large for a plateau{more}"}
    away = np.abs(again.plateaus["level"].values[:, PLATEAU] - float(reading.theory["level"][1]))
    rests = np.isin(np.arange(reading.seeds), again.resting) & (away <= within)
    start = f"from initial weights of {table.attrs['scale']:g} "
    claim(
        "smaller-weights-rest",
        f"{start}most seeds rest within {within:g} of the minimum of a narrow network",
        most_seeds(rests, share),
        at="Corollary 2",
        note=f"{join_numbers(away, 2)} away",
        **known,
    )
    panels.level(again, claim, order=order, id="smaller-weights-level", start=start, **known)


def drawing(panel: Panel, *, aligned: bool = False) -> Callable[[xr.DataTree], Figure]:
    """Draws a panel as one of Figure 1, with the seed that rests nearest to the prediction.

    `aligned` counts steps of each seed from before its first drop, by as much as the drops are
    apart: a first plateau that is a hundred times longer than the second hides it.
    """

    def draw(run: xr.DataTree) -> Figure:
        """The paper's panel: loss on top, first-layer weights on the plateau and at the end."""
        reading = panel.reading(run)
        away = np.abs(reading.plateaus["level"].values - float(reading.theory["level"][1]))
        among = reading.resting or reading.staircases or range(reading.seeds)
        shown = min(among, key=lambda seed: away[seed, PLATEAU])
        words = panels.labels(reading)["xlabel"]
        if aligned:
            words += ", from near the first drop"
            drops = reading.drops["step"]
            start = drops.isel(fall=0) - float((drops.isel(fall=1) - drops.isel(fall=0)).max())
            reading.drops = reading.drops.assign(step=drops - start)
            steps = reading.simulation["step"]
            reading.simulation = reading.simulation.assign_coords(step=steps - start)
            # What theory says of the first drop is how long it takes, and that is not on this axis.
            reading.theory = reading.theory.drop_vars("drop_step", errors="ignore")
        title, dots = panel.heading(run), (panel.drawn, panel.symbol)
        figure = draw_panel(reading, title, *dots, shown=shown, because=" (nearest)")
        figure.axes[0].set_xlabel(words)
        return figure

    return draw
