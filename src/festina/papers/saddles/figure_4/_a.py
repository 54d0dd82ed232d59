"""Figure 4A: softmax attention first fits chance correlations of the sample, by uniform attention.

At u = 0 softmax attention is uniform, not zero. The activation φ is of order zero, and the values v
learn at once the part of the target that the mean token explains. In the population the mean token
explains nothing. The first drop is therefore an effect of the finite sample, of size 1/P. The times
of later drops depend on the data set, because learning continues from the first drop. The paper
uses H = 50 heads and P = 8192 sequences. The cost is proportional to P and to H², so ten heads and
256 sequences are the defaults.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ...._types import Keys
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, follows_power_law, max_error_below
from ....experiments.figures import SIMULATION_STYLE, THEORY_STYLE, styled
from ....networks import Layer, attention
from ....tasks import AbstractTask, in_context_regression
from ..panels import PLATEAU, Reading
from ._panel import Levels, OtherParameters, other

_MORE = 16  # factor between the two numbers of samples that give the exponent of the first drop
_DATA_SETS = 8


class Parameters(OtherParameters):
    """Parameters of Figure 4A: softmax attention on the in-context regression of Figure 1F."""

    seeds: int = Field(default=1, ge=1)
    """Number of independent initialisations that are trained."""

    width: int = Field(default=10, ge=2)
    """Number H of attention heads; the paper has 50."""

    samples: int = Field(default=256, ge=8)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Number P of sequences; the paper has 8192. The cost is proportional to P."""

    dimension: int = Field(default=2, ge=2)
    """Number of coordinates of a token."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    max_steps: int = Field(default=6_000, ge=1)
    """Maximal number of training steps per seed."""


QUICK: dict[str, Any] = {"samples": 128, "max_steps": 1_500}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    d, n = parameters.dimension, parameters.context
    return in_context_regression(d, n, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    d, heads = parameters.dimension, parameters.width
    return attention(d, heads, softmax=True, scale=parameters.scale, key=keys)


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Fit the mean token by least squares, on the data set and on larger ones."""
    rest, _ = _uniform_fit(task, network)
    sizes = np.repeat((1, _MORE), _DATA_SETS) * parameters.samples
    keys = jax.random.split(jax.random.key(parameters.seed), len(sizes))
    gains = [
        _uniform_fit(_task(parameters.model_copy(update={"samples": size}), key), network)[1]
        for size, key in zip(sizes.tolist(), keys, strict=True)
    ]
    return rest, {"gain": (("size", "data_set"), np.reshape(gains, (2, _DATA_SETS)))}


def _uniform_fit(task: AbstractTask, network: Layer) -> tuple[float, float]:
    """Return the least loss under uniform attention, and the fraction of loss that it removes."""
    psi, y, *_ = task.statistics(network.unit)
    mean = psi.mean(axis=-1)
    left = np.mean((y - mean @ np.linalg.lstsq(mean, y, rcond=None)[0]) ** 2)
    return float(left), float(1 - left / np.mean(y**2))


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    gain = reading.theory["gain"].values.mean(axis=1)
    claim(
        "first-drop-of-the-sample",
        "the first drop of the loss comes from the finite sample: its size is inversely "
        "proportional to the number of sequences P (exponent of P)",
        follows_power_law((1, _MORE), gain, -1, within=0.4),
        at="Figure 4A; in the population the mean token does not correlate with the target",
        note=f"{100 * gain[0]:.2g} % of the loss; {100 * gain[1]:.2g} % with {_MORE} times the "
        "sequences",
    )
    fit, levels = float(reading.theory["level"][1]), reading.plateaus["level"].values[:, PLATEAU]
    words = f"the second plateau has the loss of the best fit under uniform attention, {fit:.6g}"
    claim("uniform-attention-fit", words, max_error_below(levels, fit, within=1e-4, relative=True))


# Dots are the queries.
_how: Any = {"merge": 1e-5, "scales": ("log", "linear"), "drawn": {"key_query": 1, "rank": 0}}
_how |= {"task": _task, "network": _network, "symbol": "query weight q"}
run, claims, _draw = other("4A", "softmax attention", Parameters, 0, _asserts, _known, **_how)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Draw the panel, with an inset that enlarges the small first drop."""
    figure, simulation = _draw(run), run["simulation"].ds
    inset = figure.axes[0].inset_axes((0.16, 0.3, 0.5, 0.42))
    step = np.maximum(simulation["step"].values, 0.1)
    inset.plot(step.T, simulation["loss"].values.T, **SIMULATION_STYLE, color="C0", alpha=0.7)
    above, below = run["theory"].ds["level"].values[:2]
    for level in (above, below):
        inset.axhline(level, **THEORY_STYLE)
    margin = 0.4 * (above - below)
    inset.set(xscale="log", xlim=figure.axes[0].get_xlim(), ylim=(below - margin, above + margin))
    inset.set_title("the first drop", fontsize="small")
    inset.tick_params(labelsize="small")
    return figure
