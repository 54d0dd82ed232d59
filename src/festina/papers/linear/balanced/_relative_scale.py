r"""Relative scale in practice: when does a network grok modular addition?

Two layers of quadratic units, $f(n, m) = \sum_i v_i\,(u_i \cdot x)^2$ with x one-hot for n and m,
trained by gradient flow on ½⟨‖y − f‖²⟩ of some of the pairs: no weight decay, momentum or noise.
The embedding u is made smaller by a factor g, which is what Kunin et al. (2024) do to the
embedding of a transformer. That changes two things at once: the relative scale of the layers, and
the size of the function at the start, $f \propto g^2$. Three more ways tell them apart:

    embedding   u → g u                      f → g² f    relative scale g
    both        u → g^⅔ u,   v → g^⅔ v       f → g² f    relative scale 1
    readout     v → g² v                     f → g² f    relative scale 1/g²
    exchange    u → g u,     v → v/g²        f → f       relative scale g³

A unit conserves |u|² − 2|v|² because it is of degree two in u, so that weights of one standard
deviation, with twice as many inputs as outputs, are balanced.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from pydantic import Field, field_validator

from ....dynamics import Trajectory, gradient_flow
from ....networks import Layer, fully_connected
from ....networks._seeds import Keys
from ....tasks import Task, modular_addition
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._relative_scale_claims import NAME as NAME
from ._relative_scale_claims import claims as claims
from ._relative_scale_draw import draw as draw

# Powers of the factor g by which a way multiplies embedding and readout.
_POWERS = {
    "embedding": (1.0, 0.0),
    "both": (2 / 3, 2 / 3),
    "readout": (0.0, 2.0),
    "exchange": (1.0, -2.0),
}
_SAMPLES = 240


class Parameters(BaseParameters):
    """A small clock, and how much smaller than balanced its embedding is."""

    seeds: int = Field(default=8, ge=1)
    """How many initialisations, each with a choice of training pairs of its own."""

    modulus: int = Field(default=13, ge=3)
    """Modulus p of the addition; the network has 2p inputs and p outputs."""

    width: int = Field(default=50, ge=1)
    """Number of quadratic units."""

    train_fraction: float = Field(default=0.85, gt=0, lt=1)
    """Fraction of the p² pairs that is trained on; a small modulus needs most of them."""

    scale: float = Field(default=0.12, gt=0)
    """Standard deviation of all weights at factor 1, where the two layers are balanced."""

    factors: tuple[float, ...] = (1.0, 0.4)
    """Factors g of the embedding, falling from 1."""

    fitted: float = Field(default=0.99, gt=0, le=1)
    """Accuracy on the training pairs at which they count as fitted."""

    grokked: float = Field(default=0.95, gt=0, le=1)
    """Accuracy on the other pairs at which the network counts as having grokked."""

    t_end: float = Field(default=1200.0, gt=0)
    """Flow time at which training ends, whether the network has grokked or not."""

    rtol: float = Field(default=1e-4, gt=0, lt=0.1)
    """Error of the flow allowed per step."""

    @field_validator("factors")
    @classmethod
    def _falling(cls, factors: tuple[float, ...]) -> tuple[float, ...]:
        falls = all(a > b for a, b in itertools.pairwise(factors))
        if len(factors) < 2 or factors[0] != 1 or not falls or factors[-1] <= 0:
            raise ValueError(f"`factors` must fall from 1 and stay positive, got {factors}.")
        return factors


PRESETS: dict[str, dict[str, Any]] = {
    "sweep": {"factors": (1.0, 0.7, 0.5, 0.35), "t_end": 1500.0},
}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train every seed in every way, and note when it fits and when it groks."""
    keys = keys_of(parameters, key)
    tables: list[xr.Dataset] = []
    for index in range(parameters.seeds):
        words = f"seed {index + 1} of {parameters.seeds}"

        def at(inner: str, done: float, words: str = words, index: int = index) -> None:
            say(f"{words}: {inner}", (index + done) / parameters.seeds)

        at("setting up", 0.0)
        tables.append(_one_seed(parameters, keys[index], at))
    numbers = xr.Variable("seed", parameters.seed + np.arange(parameters.seeds))
    return run_tree(NAME, parameters, simulation=xr.concat(tables, numbers))


def _one_seed(parameters: Parameters, key: Keys, progress: Progress) -> xr.Dataset:
    """All ways and factors from the same draw of weights, on the same training pairs."""
    pairs_key, weights_key = jax.random.split(key)
    train, test = modular_addition(parameters.modulus, parameters.train_fraction, key=pairs_key)
    network = _scaled(parameters, weights_key)
    # Every way is the same at factor 1: it is trained once.
    place = np.arange(len(_POWERS) * len(parameters.factors)).reshape(len(_POWERS), -1)
    place[:, 0] = place[0, 0]
    distinct, place = np.unique(place, return_inverse=True)
    batch = Layer(network.u[distinct], network.v[distinct], network.unit)
    times = np.append(0.0, np.geomspace(parameters.t_end / 300, parameters.t_end, _SAMPLES))
    trajectory = gradient_flow(batch, train, times, rtol=parameters.rtol, progress=progress)
    for ending in trajectory.endings:
        if ending.reason != "finished":
            raise ValueError(f"{ending.message} A smaller `rtol` is the remedy.")
    measured = _measure(parameters, trajectory, train, test)
    g = np.array(parameters.factors)
    relative = [g ** (first - second) for first, second in _POWERS.values()]
    return xr.Dataset(
        {
            name: (
                ("way", "factor", *(("time",) if values.ndim == 2 else ())),
                values[place.reshape(len(_POWERS), -1)],
            )
            for name, values in measured.items()
        },
        {
            "way": list(_POWERS),
            "factor": g,
            "time": ("time", times, {"long_name": "flow time of the loss ½⟨‖y − f‖²⟩"}),
            "relative_scale": (("way", "factor"), relative),
        },
    )


def _scaled(parameters: Parameters, key: Keys) -> Layer:
    """One draw of balanced weights, scaled in every way by every factor: (way × factor)."""
    p, g = parameters.modulus, np.array(parameters.factors)[:, None, None]
    # A function of one's own instead of `power(2)`: the (2p)² features that make such units linear
    # would cost more than the few pairs there are.
    drawn = fully_connected(
        2 * p, parameters.width, p, activation=jnp.square, scale=parameters.scale, key=key
    )
    u, v = np.asarray(drawn.u), np.asarray(drawn.v)
    return Layer(
        np.concatenate([g**power * u for power, _ in _POWERS.values()]),
        np.concatenate([g**power * v for _, power in _POWERS.values()]),
        drawn.unit,
    )


def _measure(
    parameters: Parameters, trajectory: Trajectory, train: Task, test: Task
) -> dict[str, np.ndarray]:
    """Accuracies over time, the times at which they are reached, and what is conserved."""
    right = {"train": _accuracy(trajectory, train), "test": _accuracy(trajectory, test)}
    times = trajectory.time[0]
    u, v = trajectory.network.u, trajectory.network.v
    embedding, readout = np.sum(u**2, axis=-1), 2 * np.sum(v**2, axis=-1)
    balance = embedding - readout
    size = np.max(embedding + readout, axis=(1, 2))
    return {
        "train_accuracy": right["train"],
        "test_accuracy": right["test"],
        "train_loss": trajectory.loss,
        "fit_time": _reached(times, right["train"], parameters.fitted),
        "grok_time": _reached(times, right["test"], parameters.grokked),
        "balance_drift": np.max(np.abs(balance - balance[:, :1]), axis=(1, 2)) / size,
        "evaluations": trajectory.evaluations,
    }


def _accuracy(trajectory: Trajectory, task: Task) -> Float[np.ndarray, "network time"]:
    network = trajectory.network
    hidden = np.swapaxes(network.u @ task.x.T, -1, -2) ** 2
    answers = np.argmax(hidden @ network.v, axis=-1)
    return np.mean(answers == task.labels["sum"], axis=-1)


def _reached(
    times: Float[np.ndarray, " time"], accuracy: Float[np.ndarray, "network time"], level: float
) -> Float[np.ndarray, " network"]:
    """First time at which a level is reached, NaN where it is not."""
    there = accuracy >= level
    return np.where(there.any(axis=1), times[np.argmax(there, axis=1)], np.nan)
