"""Train the seeds of a panel, by descent or by flow, and put both on one axis of steps."""

import dataclasses
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from ....dynamics import Ending, Trajectory, gradient_descent, gradient_flow
from ....networks import AbstractNetwork
from ....networks._seeds import Keys
from ....tasks import AbstractTask
from ..._frame import keys_of
from ..._registry import Progress
from ._parameters import PanelParameters

BROKEN_OFF = ("diverged", "step underflow")
"""Endings of a seed that was not trained to the end."""


def draw_keys(
    parameters: PanelParameters, key: PRNGKeyArray | None
) -> tuple[PRNGKeyArray | None, Keys]:
    """Randomness of the samples, where there are any, and of each seed's initial weights."""
    data, networks = (None, None) if key is None else jax.random.split(key)
    if parameters.samples is None:
        data = None
    elif key is None:
        data = jax.random.fold_in(jax.random.key(parameters.seed), 2**31)
    return data, keys_of(parameters, networks)


def train(
    parameters: PanelParameters,
    network: AbstractNetwork,
    task: AbstractTask,
    progress: Progress,
    *,
    converged: float = 1e-9,
) -> Trajectory:
    """All seeds together. One that fails is part of the result; all of them are a wrong setting."""
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
    """A flow that has come to its latest time is one whose steps did not suffice."""
    if ending.reason != "finished":
        return ending
    return Ending("out of steps", f"{ending.message} It had not converged: give more `max_steps`.")


def time_of_a_step(parameters: PanelParameters) -> float:
    """What one step of descent takes on the trajectory's clock: descent counts steps itself."""
    return parameters.learning_rate if parameters.method == "flow" else 1.0


def curves(parameters: PanelParameters, trajectory: Trajectory) -> xr.Dataset:
    """The trajectory itself, with an axis of steps that flow and descent share."""
    data = trajectory.to_dataset(("seed",))
    return data.assign_coords(
        seed=parameters.seed + np.arange(parameters.seeds),
        step=data["time"] / time_of_a_step(parameters),
    )
