"""Run a panel: train, and save everything that claims and figures need as tables.

Gradient flow and gradient descent share one axis of steps.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np
import xarray as xr

from ...._types import Keys
from ....diagnose import plateaus, plateaus_of_batch
from ....diagnose._width import widths_within
from ....dynamics import Ending, Trajectory, gradient_descent, gradient_flow, loss_factor
from ....experiments._frame import Progress, Tables, part_of
from ....experiments._keys import Key, keys_from_parameters
from ....networks import AbstractNetwork
from ....tasks import AbstractTask
from ....theory.saddles import mechanism_of_unit, merged_networks, narrow_minima
from ._parameters import PanelParameters

Compute: TypeAlias = Callable[[Any, AbstractTask, Any, Keys, Progress], Tables]
"""Function `(parameters, task, network, keys, progress) → {name: table}` that runs a panel."""

TOLERANCES = (0.02, 0.05, 0.1, 0.2)
"""Tolerances of the error of narrower networks, in units of the root mean square target."""

_CLEAN = 1.0  # least strength of a clean plateau, in decades of the squared gradient

BROKEN_OFF = ("diverged", "step underflow")
"""Endings of training that stopped before convergence."""


def draw_keys(parameters: PanelParameters, key: Key) -> tuple[Key, Keys]:
    """Return the random keys of the samples (if any) and of each seed's initial weights."""
    data, networks = (None, None) if key is None else jax.random.split(key)
    if parameters.samples is None:
        data = None
    elif key is None:
        data = jax.random.fold_in(jax.random.key(parameters.seed), 2**31)
    return data, keys_from_parameters(parameters, networks)


def train(
    parameters: PanelParameters,
    network: AbstractNetwork,
    task: AbstractTask,
    progress: Progress,
    *,
    converged: float = 1e-9,
) -> Trajectory:
    """Train all seeds; raise `ValueError` only if training fails for every seed."""
    rate, steps = parameters.learning_rate, parameters.max_steps
    how: Any = {"loss": parameters.loss, "converged": converged, "progress": progress}
    if parameters.method == "flow":
        trajectory = gradient_flow(network, task, t_end=steps * rate, **how)
        endings = tuple(map(_out_of_steps, trajectory.endings))
        trajectory = dataclasses.replace(trajectory, endings=endings)
    else:
        trajectory = gradient_descent(network, task, rate, max_steps=steps, **how)
    if all(ending.reason in BROKEN_OFF for ending in trajectory.endings):
        raise ValueError(f"Training failed from every seed. {trajectory.endings[0].message}")
    return trajectory


def _out_of_steps(ending: Ending) -> Ending:
    """If a flow ended at its last time without converging, report that it ran out of steps."""
    if ending.reason != "finished":
        return ending
    return Ending("out of steps", f"{ending.message} It did not converge: increase `max_steps`.")


def staircase(
    predict: Callable[[Any, AbstractTask, Any], Mapping[str, Any]] = lambda *_: {},
) -> Compute:
    """Return a function that trains every seed, measures plateaus and widths, and predicts them.

    `predict` is `(parameters, task, network) → {name: variable}` and uses the data and the initial
    weights only. Two variables have a fixed meaning: `fixed_point (point)` holds the losses of
    width-1 fixed points at which the loss may rest, if these are not the lowest minimum;
    `drop_step (seed, fall)` holds drop times, NaN where the theory makes no prediction.
    """

    def tables(
        parameters: PanelParameters,
        task: AbstractTask,
        network: Any,
        keys: Keys,
        progress: Progress,
    ) -> Tables:
        del keys
        progress("predicting", 0.02)
        predicted = predict(parameters, task, network)
        key = jax.random.key(parameters.seed)
        narrow = narrow_minima(network.unit, task, loss=parameters.loss, key=key).loss
        rest = xr.Dataset(predicted).get("fixed_point", narrow)[0]
        predicted = {"narrow_minimum": ("minimum", narrow), **predicted}
        trajectory = train(parameters, network, task, part_of(progress, 0.1, 0.85))
        known = theory(parameters, task, network, float(rest), trajectory.floor, predicted)
        found = records(parameters, trajectory, known["level"].values)
        return {**found, "theory": known, "widths": _widths(trajectory, task)}

    return tables


def theory(
    parameters: PanelParameters,
    task: AbstractTask,
    network: AbstractNetwork,
    rest: float,
    floor: float,
    more: Mapping[str, Any],
) -> xr.Dataset:
    """Return three levels of the loss, and further variables.

    The levels are the loss ⟨‖y‖²⟩ of zero output, the loss of the intermediate plateau, and the
    lowest loss.
    """
    statistics = task.statistics(network.view)
    half_power = 0.5 * float(statistics.weight @ (statistics.y**2).sum(axis=1)) + statistics.floor
    initial = loss_factor(parameters.loss, task) * half_power
    return xr.Dataset({"level": ("plateau", [initial, rest, floor]), **more})


def records(
    parameters: PanelParameters, trajectory: Trajectory, levels: np.ndarray, *, merge: float = 1e-3
) -> dict[str, xr.Dataset]:
    """Return the loss curves, the plateaus (at least three columns), and the drops of each seed.

    `drops` holds the time at which a seed crosses the middle between two predicted `levels`. Unlike
    a detected plateau, the crossing time exists for every seed, even if the plateau is weak.
    `merge` is the smallest drop that counts, as a fraction of the initial loss.
    """
    stairs = bool((np.diff(levels) < 0).all())  # false if a narrow network fits the target fully
    found = plateaus_of_batch(trajectory, levels if stairs else None, merge=merge, dims=("seed",))
    found = found.drop_vars("seed").reset_coords(drop=True)
    if not stairs:
        never = np.full((parameters.seeds, len(levels) - 1), np.nan)
        over = ("seed", "middle")
        found = found.assign(passage=(over, never), save=(over, np.full(never.shape, -1)))
    unit = parameters.learning_rate if parameters.method == "flow" else 1.0  # descent counts steps
    for name in ("start", "end", "drop_time", "passage"):
        found[name] = found[name] / unit
    most = max(3, found.sizes["plateau"])
    padded = {"plateau": range(most), "fall": range(most - 1)}
    found = found.reindex(padded, fill_value={"index": -1}).drop_vars(padded)
    middles, data = ["passage", "save"], trajectory.to_dataset(("seed",))
    return {
        "simulation": data.assign_coords(step=data["time"] / unit),
        "plateaus": found.drop_vars(middles).rename(index="save", drop_time="drop_step"),
        "drops": found[middles].rename(passage="step", middle="fall"),
    }


def _widths(trajectory: Trajectory, task: AbstractTask) -> xr.Dataset:
    """Return widths by kind and tolerance, NaN on unclean plateaus and for kinds without a width.

    `fitted` is the smallest width of a fitted network; `short` is the error of the best network
    with one unit less.
    """
    lanes = [trajectory.lane(i) for i in range(*trajectory.batch_shape)]
    stairs = [plateaus(lane) for lane in lanes]
    expected = mechanism_of_unit(trajectory.network.unit)
    shape = (len(stairs), max(3, *map(len, stairs)))
    clean = np.zeros(shape, int)
    widths = np.full((*shape, len(TOLERANCES), len(expected.kinds)), np.nan)
    fewest, short = np.full((2, *shape, len(TOLERANCES)), np.nan)
    for at in np.ndindex(shape):
        lane, rests = lanes[at[0]], stairs[at[0]]
        # Between plateaus the weights are moving. A strength of NaN (no drop) is not clean.
        if at[1] >= len(rests) or not rests.strength[at[1]] >= _CLEAN:
            continue
        clean[at] = 1
        network = lane.network.lane(int(rests.index[at[1]]))
        merged = merged_networks(network, task)
        least = 0 if any(each.kind == "zero" for each in merged) else 1
        fitted = widths_within(network, task, TOLERANCES)
        for row, (tolerance, found) in enumerate(zip(TOLERANCES, fitted, strict=True)):
            own = {each.kind: each.width(tolerance) for each in merged}
            for column, kind in enumerate(expected.kinds):
                width = own[kind]
                widths[(*at, row, column)] = np.nan if width is None else max(width, least)
            fewest[(*at, row)], short[(*at, row)] = found
    over = ("seed", "plateau", "within")
    return xr.Dataset(
        {
            "clean": (over[:2], clean),
            "width": ((*over, "kind"), widths),
            "fitted": (over, fewest),
            "short": (over, short),
        },
        {"within": list(TOLERANCES), "kind": list(expected.kinds)},
        {"expected_kind": expected.expected or ""},
    )
