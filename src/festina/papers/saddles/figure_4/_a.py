"""Figure 4A: softmax attention first learns with uniform attention, a fit to the sample alone.

At u = 0 softmax is uniform and not zero: φ is of order zero, and the values v at once learn what
the mean token explains of the target. In the population that is nothing, so that the first drop is
an effect of the sample that falls as 1/P; what follows starts from it, at times that depend on the
data set. The paper has H = 50 heads and P = 8192 sequences. Cost grows with P and with H², so that
ten heads and 256 sequences are the default here.
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

_MORE = 16  # times the samples, to see how the first drop depends on their number
_DATA_SETS = 8


class Parameters(OtherParameters):
    """Softmax attention on the in-context regression of Figure 1F."""

    seeds: int = Field(default=1, ge=1)
    """How many independent initialisations are trained."""

    width: int = Field(default=10, ge=2)
    """Number of attention heads H; the paper has 50."""

    samples: int = Field(default=256, ge=8)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Number P of sequences; the paper has 8192, at as many times the cost."""

    dimension: int = Field(default=2, ge=2)
    """Dimension of a token."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    max_steps: int = Field(default=6_000, ge=1)
    """Most steps of training for each seed."""


QUICK: dict[str, Any] = {"samples": 128, "max_steps": 1_500}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    d, n = parameters.dimension, parameters.context
    return in_context_regression(d, n, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    d, heads = parameters.dimension, parameters.width
    return attention(d, heads, softmax=True, scale=parameters.scale, key=keys)


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Least squares on the mean token, for the data set and for larger ones."""
    rest, _ = _uniform_fit(task, network)
    sizes = np.repeat((1, _MORE), _DATA_SETS) * parameters.samples
    keys = jax.random.split(jax.random.key(parameters.seed), len(sizes))
    gains = [
        _uniform_fit(_task(parameters.model_copy(update={"samples": size}), key), network)[1]
        for size, key in zip(sizes.tolist(), keys, strict=True)
    ]
    return rest, {"gain": (("size", "data_set"), np.reshape(gains, (2, _DATA_SETS)))}


def _uniform_fit(task: AbstractTask, network: Layer) -> tuple[float, float]:
    """Loss that the best values leave if attention is uniform, and the fraction they take away."""
    psi, y, *_ = task.statistics(network.unit)
    mean = psi.mean(axis=-1)
    left = np.mean((y - mean @ np.linalg.lstsq(mean, y, rcond=None)[0]) ** 2)
    return float(left), float(1 - left / np.mean(y**2))


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    gain = reading.theory["gain"].values.mean(axis=1)
    claim(
        "first-drop-of-the-sample",
        "the first drop is an effect of the sample: exponent with which it falls with the number "
        "of sequences",
        follows_power_law((1, _MORE), gain, -1, within=0.4),
        at="Figure 4A; in the population the mean token does not correlate with the target",
        note=f"{100 * gain[0]:.2g} % of the loss; {100 * gain[1]:.2g} % of {_MORE} times as many",
    )
    fit, levels = float(reading.theory["level"][1]), reading.plateaus["level"].values[:, PLATEAU]
    words = f"the second plateau is the least-squares fit of uniform attention, {fit:.6g}"
    claim("uniform-attention-fit", words, max_error_below(levels, fit, within=1e-4, relative=True))


# Dots are the queries.
_how: Any = {"merge": 1e-5, "scales": ("log", "linear"), "drawn": {"key_query": 1, "rank": 0}}
_how |= {"task": _task, "network": _network, "symbol": "q"}
run, claims, _draw = other("4A", "softmax attention", Parameters, 0, _asserts, _known, **_how)


@styled
def draw(run: xr.DataTree) -> Figure:
    """The first drop, too small to be seen beside the others, is also on a scale of its own."""
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
