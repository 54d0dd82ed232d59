"""Shared code of the panels of Figure 5: deep networks that learn one unit per layer at a time.

Each panel is trained as its counterpart in Figure 1. The predicted plateau level is the loss of the
same network with one unit in every hidden layer (Corollary 2). An optimiser that is independent of
the training finds the level of the plateau.
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

_MERGE = 0.02  # of the loss; a deep ReLU network makes many smaller drops, one at every kink
_BESIDE = 6.0  # largest angle to a ray of the data, in degrees

Network: TypeAlias = Callable[[Any, Keys], DeepNetwork]
Also: TypeAlias = Callable[[Any, AbstractTask, Keys, Tables, Progress], Tables]
Split = Literal["tap", "patch"]


class DeepParameters(PanelParameters):
    """Parameters that all panels of Figure 5 share."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""


def split_teacher(split: Split) -> Float[np.ndarray, "2 4"]:
    """Return W* (output, input): weights (1, 1, −1, 1)/√5 of Figure 1C, split over two outputs.

    The four inputs are two patches of two taps each. The paper does not say how the scalar target
    is split. Each output here depends either on one patch or on one kernel tap.
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
    """Return a function that trains every seed and finds plateaus and the narrow network's minimum.

    - `predict`: `(parameters, task, network) → {name: variable}`, from data and initial weights.
    - `narrow`: the network whose lowest minimum is the level of the plateau; by default the network
      with one unit in every hidden layer. Its minimum is searched from `starts` random
      initialisations.
    - `converged`: distance from the lowest loss at which training ends, relative to the initial
      loss.
    - `also`: `(parameters, task, keys, found, progress) → {name: table}` adds further tables.
    """

    def tables(
        p: Any, task: AbstractTask, made: DeepNetwork, keys: Keys, progress: Progress
    ) -> Tables:
        progress("searching for the minima of narrow networks", 0.02)
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
    """Return a function that finds the plateaus of the same networks from smaller weights."""

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
    """Return the two largest singular values of every layer on each plateau and at the end."""
    save, simulation = found["plateaus"]["save"], found["simulation"]
    at = {"seed": xr.DataArray(np.arange(p.seeds), dims="seed"), "save": save}
    weights = [simulation[name].isel(at).values for name in ("u", *_others(simulation))]
    flat = [weight.reshape(*weight.shape[:3], -1) for weight in weights]
    s = np.stack([np.linalg.svd(each, compute_uv=False)[..., :2] for each in flat], axis=2)
    s[save.values < 0] = np.nan
    return {"layers": xr.Dataset({"singular_value": (("seed", "plateau", "layer", "mode"), s)})}


def _first_layer(simulation: xr.Dataset) -> xr.Dataset:
    """Reduce the record to u of every unit and, as v, the norm of its outgoing weights.

    The layers between hidden units have thousands of weights, which no claim uses individually.
    """
    reads = [dim for dim in simulation["w2"].dims if dim not in ("seed", "save", "unit")]
    # Sum products directly: an array of squares would take gigabytes.
    square = xr.dot(simulation["w2"], simulation["w2"], dim=reads)
    size = np.sqrt(square).transpose("seed", "save", "unit").expand_dims("output", -1)
    return simulation.drop_vars(_others(simulation)).assign(v=size)


def _others(simulation: xr.Dataset) -> list[str]:
    """Return the names of the layers after the first: w2, w3, …."""
    return sorted(str(name) for name in simulation if str(name)[1:].isdigit())


def directions(reading: Reading, claim: ClaimCollector) -> None:
    """Check for one direction through all layers on the plateau and two at the end: linear φ.

    Eq. (7) describes such weights. In each single layer the next direction is visible long before
    the loss leaves its plateau: its size is the cube root of its size in the product of three
    layers.
    """
    at, through = "Figure 5, text; Eq. (7)", "the product of second singular values"
    product = reading.run["layers"].ds["singular_value"].prod("layer", skipna=False).values
    second = product[..., 1] / product[..., 0]
    if seeds := reading.resting:
        # A size w in each layer contributes w³, with a squared gradient of order w⁴.
        bound = 0.5 * 10 ** (-0.75 * reading.strengths[seeds])
        claim(
            "one-direction-on-plateau",
            f"on the plateau one direction passes through all layers: {through} over the product "
            "of first singular values is below ½·10^(−3d/4), where the squared gradient is 10^d "
            "times smaller than at the drops (ratio over this bound)",
            max_error_below(second[seeds, PLATEAU], over=bound, within=1.0),
            at=at,
            note=f"ratio at most {second[seeds, PLATEAU].max():.2g}",
        )
    end = second[np.arange(reading.seeds), reading.counts - 1]
    words = (
        f"at the end two directions pass through all layers: {through} exceeds 0.1 times the "
        "product of first singular values"
    )
    both, note = most_seeds(end > 0.1, 0.9), f"ratio at least {end.min():.2g}"
    claim("final-directions", words, both, at=at, note=note)


def one_ray_then_two(reading: Reading, claim: ClaimCollector) -> None:
    """Check that units lie on one ray on the plateau and on two at the end (homogeneous φ)."""
    at, expected = "Figure 5, text; Eq. (6)", reading.theory["ray_angle"].values
    if seeds := reading.resting:
        found = [unit_clusters_from(*reading.weights(seed, PLATEAU)) for seed in seeds]
        main, share = np.transpose([(each.angle[0], each.share[0]) for each in found])
        off = apart(main[:, None], expected).min(axis=1)
        claim(
            "one-ray-on-plateau",
            "on the plateau one ray carries more of the first layer than all other rays together; "
            f"it lies within {_BESIDE:g} degrees of a ray predicted from the data",
            most_seeds((share > 0.5) & (off <= _BESIDE), 0.9),
            at=at,
            note=f"shares {join_numbers(share, 3)} at {join_numbers(main)} degrees; predicted rays "
            f"at {join_numbers(expected)}",
        )
    trained = np.flatnonzero(reading.trained).tolist()
    found = [unit_clusters_from(*reading.weights(seed, END)) for seed in trained]
    near = np.array([nearest_rays(each, expected) for each in found])
    off = apart(near, expected).max(axis=1)
    words = (
        f"at the end some units lie within {_BESIDE:g} degrees of each ray predicted from the data"
    )
    note = f"{join_numbers([len(each) for each in found])} rays, for each seed"
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
    """Check that most seeds of the cleaner run have a plateau at the predicted level."""
    table, again = reading.run["cleaner"].ds, Reading(reading.run, reading.parameters)
    # If there are several plateaus before the end, the last of them is the intermediate plateau.
    count, seed = table["count"].values, xr.DataArray(np.arange(reading.seeds), dims="seed")
    index = np.stack((0 * count, np.maximum(count - 2, 1), count - 1), axis=1)
    again.plateaus = table.isel(seed=seed, plateau=xr.DataArray(index, dims=("seed", "plateau")))
    again.plateaus["count"], again.theory = ("seed", np.minimum(count, 3)), reading.theory
    known: Any = {
        "corrected": f"an initial scale of {reading.parameters.scale:g} is too large for a clean "
        f"plateau{more}"
    }
    away = np.abs(again.plateaus["level"].values[:, PLATEAU] - float(reading.theory["level"][1]))
    rests = np.isin(np.arange(reading.seeds), again.resting) & (away <= within)
    start = f"from initial weights of size {table.attrs['scale']:g}, "
    claim(
        "smaller-weights-rest",
        f"{start}the loss of most seeds rests within {within:g} of the minimum of a narrow network",
        most_seeds(rests, share),
        at="Corollary 2",
        note=f"distances {join_numbers(away, 2)}",
        **known,
    )
    panels.level(again, claim, order=order, id="smaller-weights-level", start=start, **known)


def drawing(panel: Panel, *, aligned: bool = False) -> Callable[[xr.DataTree], Figure]:
    """Return a function that draws a panel with the seed that rests nearest to the prediction.

    With `aligned`, the steps of each seed start shortly before its first drop. Otherwise a first
    plateau that is a hundred times longer than the second would hide the second.
    """

    def draw(run: xr.DataTree) -> Figure:
        """Plot the loss, and the first-layer weights on the plateau and at the end."""
        reading = panel.reading(run)
        away = np.abs(reading.plateaus["level"].values - float(reading.theory["level"][1]))
        among = reading.resting or reading.staircases or range(reading.seeds)
        shown = min(among, key=lambda seed: away[seed, PLATEAU])
        words = panels.labels(reading)["xlabel"]
        if aligned:
            words += ", origin shifted for each seed"
            drops = reading.drops["step"]
            start = drops.isel(fall=0) - float((drops.isel(fall=1) - drops.isel(fall=0)).max())
            reading.drops = reading.drops.assign(step=drops - start)
            steps = reading.simulation["step"]
            reading.simulation = reading.simulation.assign_coords(step=steps - start)
            # The predicted first drop counts from the start of training, unlike this axis.
            reading.theory = reading.theory.drop_vars("drop_step", errors="ignore")
        title, dots = panel.heading(run), (panel.drawn, panel.symbol)
        because = " (plateau nearest to theory)"
        figure = draw_panel(reading, title, *dots, shown=shown, because=because)
        figure.axes[0].set_xlabel(words)
        return figure

    return draw
