r"""Lemma 6: all fixed points of a linear network, and how each is left.

Loss ½⟨‖y − f‖²⟩ and its time. The data are random: targets y = W*x of inputs of random covariance,
more inputs than outputs, so that the lemma's condition on u is not necessary.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, model_validator

from ....dynamics import gradient_flow
from ....networks import Layer, seeds
from ....tasks import Task, linear_teacher
from ....theory.saddles import LinearSaddle, escape, linear_saddles
from ....theory.saddles._fixed_points import losses_and_gradients
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._lemma_6_claims import NAME
from ._lemma_6_claims import claims as claims
from ._lemma_6_draw import draw as draw

_SAMPLES = 241
_KICK = 1e-7
"""How far from the saddle training starts."""


class Parameters(BaseParameters):
    """A random linear task, and every fixed point of a network that learns it."""

    seeds: int = Field(default=1, ge=1)
    """Makes no difference: `seed` draws one task."""

    inputs: int = Field(default=4, ge=1, le=10)
    """Inputs of the task."""

    outputs: int = Field(default=3, ge=1, le=4)
    """Outputs of the task."""

    width: int = Field(default=6, ge=2, le=30)
    """Units of the network, more than there are modes."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        modes = min(self.inputs, self.outputs)
        if self.width <= modes:
            raise ValueError(
                f"`width` must be above the number of modes, {modes}, got {self.width}: a unit "
                "must be left over to leave each saddle with."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {"more-outputs": {"inputs": 3, "outputs": 4}}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Enumerate the fixed points, build a network at each, and train away from it."""
    key = seeds(1, first=parameters.seed)[0] if key is None else key
    task, correlation, covariance = _statistics(parameters, key)
    power = float(np.sum(task.y**2 * task.weight[:, None]))
    saddles = list(linear_saddles(correlation, covariance, target_power=power))
    names = ["{" + ", ".join(str(k + 1) for k in saddle.modes) + "}" for saddle in saddles]
    rows: list[dict[str, Any]] = []
    for index, saddle in enumerate(saddles):
        say(f"the fixed point {names[index]}", index / len(saddles))
        rows.append(_fixed_point(parameters, saddle, task, key))
    say("leaving the saddles", 0.9)
    return run_tree(
        NAME,
        parameters,
        points=xr.Dataset(
            {name: ("point", [row[name] for row in rows]) for name in rows[0]},
            {"point": names},
        ),
        leaving=_leave(parameters, saddles[:-1], names[:-1], task, key),
    )


def _statistics(parameters: Parameters, key: PRNGKeyArray) -> tuple[Task, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    n_in, n_out = parameters.inputs, parameters.outputs
    # Singular values that are apart, so that each saddle is left at a rate of its own.
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (n_out, n_in))
    modes = min(n_in, n_out)
    strengths = 2.0 * 0.7 ** (np.arange(modes) + 0.3 * rng.uniform(size=modes))
    target = left[:, :modes] @ np.diag(strengths) @ right[:, :modes].T
    root = rng.standard_normal((n_in, n_in))
    covariance = root @ root.T / n_in + 0.5 * np.eye(n_in)
    covariance *= n_in / np.trace(covariance)
    return linear_teacher(target, covariance), target @ covariance, covariance


def _fixed_point(
    parameters: Parameters, saddle: LinearSaddle, task: Task, key: PRNGKeyArray
) -> dict[str, Any]:
    """The lemma's numbers beside those of a network with random weights at the point."""
    network = saddle.network(parameters.width, key=key)
    loss, slopes = losses_and_gradients(network, task)
    found = escape(network, task)
    more = {"unread_gradient": np.nan, "unread_loss": np.nan, "unread_outside": np.nan}
    if parameters.inputs != parameters.outputs:
        unread = saddle.network(parameters.width, key=key, unread=1.0)
        there, gradient = losses_and_gradients(unread, task)
        more = {
            "unread_gradient": np.linalg.norm(gradient),
            "unread_loss": there[0],
            "unread_outside": _outside(unread, saddle),
        }
    return {
        "modes": len(saddle.modes),
        "loss": saddle.loss,
        "measured_loss": loss[0],
        "gradient": np.linalg.norm(slopes),
        "index": saddle.index(parameters.width),
        "measured_index": found.index,
        "rate": saddle.escape_rates.max(initial=0.0),
        "measured_rate": found.rates.max(initial=0.0),
        **more,
    }


def _outside(network: Layer, saddle: LinearSaddle) -> float:
    """Size of the part of u and v that lies outside the spans of Eq. (40), those of W."""
    rank = len(saddle.modes)
    left, _, right = np.linalg.svd(saddle.map)
    u, v = network.u @ right[rank:].T, network.v @ left[:, rank:]
    return float(np.sqrt(np.sum(u**2) + np.sum(v**2)))


def _leave(
    parameters: Parameters,
    saddles: list[LinearSaddle],
    names: list[str],
    task: Task,
    key: PRNGKeyArray,
) -> xr.Dataset:
    """Train from close to each saddle, and watch how the distance from it grows."""
    networks = [saddle.network(parameters.width, key=key) for saddle in saddles]
    kicks = [_kick(network, saddle) for network, saddle in zip(networks, saddles, strict=True)]
    at = [np.stack(parts) for parts in zip(*(n.parts for n in networks), strict=True)]
    along = [np.stack(parts) for parts in zip(*kicks, strict=True)]
    start = networks[0].with_parts(*(part + kick for part, kick in zip(at, along, strict=True)))
    slowest = min(saddle.escape_rates[0] for saddle in saddles)
    times = np.linspace(0.0, np.log(1e5) / slowest, _SAMPLES)
    trained = gradient_flow(start, task, times, rtol=1e-10)
    distance = np.sqrt(
        sum(
            np.sum((np.asarray(path) - part[:, None]) ** 2, axis=tuple(range(2, path.ndim)))
            for path, part in zip(trained.network.parts, at, strict=True)
        )
    )
    return xr.Dataset(
        {"distance": (("point", "time"), distance)},
        {
            "point": names,
            "time": times,
            "rate": ("point", [saddle.escape_rates[0] for saddle in saddles]),
        },
    )


def _kick(network: Layer, saddle: LinearSaddle) -> tuple[np.ndarray, np.ndarray]:
    """A small step along the top singular vectors of Σ̃, in a mixture of units that is silent."""
    theta = np.concatenate((network.u, network.v), axis=1)
    silent = np.linalg.svd(theta)[0][:, -1:]
    q, _, r = np.linalg.svd(saddle.correlation)
    return _KICK * silent * r[:1], _KICK * silent * q[:, :1].T
