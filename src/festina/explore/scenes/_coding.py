"""Coding schemes: how the activation decides which neurons respond to which class."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import jax
import numpy as np
from bokeh.models import BasicTicker
from bokeh.plotting import figure
from jaxtyping import Float

from ..._optional import required
from ...dynamics.posterior import Posterior, sample
from ...tasks import orthogonal_inputs, targets_per_class
from ...theory.coding import (
    ClassificationCode,
    TemperatureSweep,
    classification_code,
    temperature_sweep,
)
from .._plots import COLOURS, cells, curves, dots, guide, heat, plot
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

CLOCK = "move of the sampler"
COMPARED = "the kernel, averaged by class,"
_EXAMPLES, _MOST, _CHAINS = 48, 100, 2
_COOLING, _BURN, _MOVES, _THIN, _LEAPFROG = 120, 30, 150, 5, 10
_BINS = 60
_EXPONENTS = np.linspace(-2, 0, 11)

Activation = Literal["linear", "erf-sigmoid", "relu"]


class Knobs(SceneKnobs):
    activation: Activation = choice("activation of the neurons", "erf-sigmoid")
    temperature: float = slider("temperature T", 0.0251, 0.01, 1.0, step=0.2, log=True)
    classes: int = slider("classes C", 3, 2, 4)
    neurons: int = slider("neurons N", _MOST, _MOST // 2, _MOST, step=_MOST // 2)
    seed: int = slider("random seed", 0, 0, 9)


WARM = [
    Knobs(activation=activation, classes=classes, neurons=neurons)
    for classes, neurons in ((3, 50), (4, 100), (2, 100), (3, 100))
    for activation in ("linear", "relu", "erf-sigmoid")
]


def plots() -> list[figure]:
    """Return the plots: density of the readouts, responses, kernel, contrast by temperature."""
    law = plot("Readout weights of the neurons", "readout weight a₁ of class 1", "density")
    curves(law, "law", seeds=_CHAINS)
    responses = plot("Responses to each class", "neuron, sorted by the first sample", "class")
    cells(responses, "responses")
    responses.xaxis.ticker = BasicTicker()
    kernel = plot("Kernel of the examples", "above the diagonal: theory", "examples, by class")
    heat(kernel, "kernel", _EXAMPLES, seed="theory", half="upper")
    heat(kernel, "kernel", _EXAMPLES, half="lower")
    for axis in kernel.axis:
        axis.major_label_text_alpha = axis.major_tick_line_alpha = 0
    contrast = plot(
        "Kernel within minus between classes", "temperature T", "difference", x_axis_type="log"
    )
    guide(contrast, "crossover")
    curves(contrast, "contrast", training=False)
    for chain in range(_CHAINS):
        dots(contrast, "contrast", seed=chain, colour=COLOURS[0], size=11)
    return [law, responses, kernel, contrast]


def theory(knobs: Knobs) -> Numbers:
    """Return density of readouts, kernel and contrast in the limit of infinite width."""
    sweep, code = _sweep(knobs.activation, knobs.classes), _code(knobs)
    values = np.linspace(*_range(code), 5 * _BINS)
    line = {"x": np.full(2, sweep.crossover), "y": np.array([0.0, sweep.contrast.max()])}
    upper = np.triu_indices(_EXAMPLES, 1)
    return Numbers(
        np.append(code.kernel, code.kernel_diagonal),
        {
            "law": {"x": values, "y": code.marginal(values)},
            "kernel": {"value": code.gram()[upper] / code.kernel_diagonal.mean()},
            "contrast": {"x": sweep.temperature, "y": sweep.contrast},
            "crossover": line,
        },
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Sample networks from the posterior, in two chains that are cooled from temperature 1."""
    required("blackjax", "BlackJAX", "'festina[posterior]'", what="Sampling")
    drawn = sample(
        orthogonal_inputs(_sizes(knobs.classes), other=_other(knobs.classes)),
        width=knobs.neurons,
        temperature=knobs.temperature,
        activation=knobs.activation,
        chains=_CHAINS,
        anneal=_COOLING,
        burn=_BURN,
        moves=_MOVES,
        thin=_THIN,
        leapfrog=_LEAPFROG,
        precision="single",
        progress=progress,
        key=jax.random.key(knobs.seed),
    )
    code, kernels = _code(knobs), drawn.seen.kernels[0].mean(axis=1)
    compared = np.append(*_by_class(kernels.mean(axis=0), knobs.classes))
    edges = np.linspace(*_range(code), _BINS + 1)
    lower = np.tril_indices(_EXAMPLES)
    shown = {"kernel": {"value": kernels.mean(axis=0)[lower] / code.kernel_diagonal.mean()}}
    responses = _responses(drawn, knobs)
    unit, group = np.divmod(np.arange(knobs.neurons * knobs.classes), knobs.classes)
    shown["responses"] = {"x": unit + 1.0, "y": group + 1.0}
    for chain in range(_CHAINS):
        readout = drawn.readout[chain, :, 0]
        counts, _ = np.histogram(readout, edges)
        density = counts / (readout.size * np.diff(edges))
        kernel, _ = _by_class(kernels[chain], knobs.classes)
        own = np.eye(knobs.classes, dtype=bool)
        contrast = kernel[own].mean() - kernel[~own].mean()
        columns = {
            "law": {"x": (edges[1:] + edges[:-1]) / 2, "y": density},
            "contrast": {"x": np.array([knobs.temperature]), "y": np.array([contrast])},
        }
        if chain:
            yield Numbers(compared, columns)
        else:
            times = _THIN * np.arange(1.0, len(responses) + 1)
            yield Numbers(compared, columns | shown, {"responses": {"value": responses}}, times)


def allowed(knobs: Knobs) -> float | None:
    ratio = knobs.temperature / _sweep(knobs.activation, knobs.classes).crossover
    if knobs.activation == "relu" and 0.85 < ratio < 1.25:
        return 0.4  # a network of finite width has no sharp transition
    # With frozen codewords, the number of neurons per codeword fluctuates as for independent
    # neurons. In ReLU networks the few strong neurons fluctuate near the transition.
    limits = {"linear": (np.inf, np.inf), "erf-sigmoid": (0, 2), "relu": (0.6, np.inf)}
    low, high = limits[knobs.activation]
    fluctuating = low < ratio < high
    return (1.2 if fluctuating else 0.6) / float(np.sqrt(knobs.neurons))


def notice(knobs: Knobs, theory: Numbers) -> str:
    code, gone = _code(knobs), _sweep(knobs.activation, knobs.classes).crossover
    at = f"T = {knobs.temperature:.2g} is"
    if knobs.temperature > gone:
        return (
            f"{at} above the crossover at T = {gone:.2g} (grey): neurons respond almost equally to "
            "all classes, and the kernel has hardly any blocks. Lower T to see a code."
        )
    if knobs.activation == "linear":
        return (
            "Analog code: readout weights have a Gaussian distribution, and every neuron responds "
            "to every class to some degree. Press play: single neurons drift, but the kernel "
            "stays the same. "
            f"{at} below the crossover at {gone:.2g} (grey)."
        )
    if knobs.activation == "relu":
        held = float((code.condensed / np.diag(code.kernel)).mean())
        return (
            f"Sparse code: a few neurons carry {100 * held:.0f} % of the kernel within a class, "
            "and keep this role. All other neurons form the peak of the density and respond "
            f"weakly. {at} below the transition at {gone:.2g} (grey), where the strong neurons "
            "vanish."
        )
    told = [each for each in code.populations if each.share > 0.01]
    named = ", ".join(f"{each.word} ({100 * each.share:.0f} %)" for each in told[:6])
    frozen = knobs.temperature < gone / 3
    stay = "neurons keep their codewords" if frozen else "some neurons change their codewords"
    return (
        f"Redundant code: neurons form {len(told)} groups with the codewords (1: active) {named}; "
        f"neurons of a group respond alike. Press play: {stay}. "
        f"{at} below the crossover at {gone:.2g} (grey)."
    )


def python(knobs: Knobs) -> str:
    size, other = _EXAMPLES // knobs.classes, _other(knobs.classes)
    return f"""\
import jax
import numpy as np
import festina
from festina.theory.coding import classification_code, targets_per_class

classes, size, T = {knobs.classes}, {size}, {knobs.temperature}
targets = targets_per_class(classes, other={other})
code = classification_code([size] * classes, "{knobs.activation}", temperature=T, targets=targets)
predicted = np.append(code.kernel, code.kernel_diagonal)

drawn = festina.dynamics.posterior.sample(
    festina.tasks.orthogonal_inputs([size] * classes, other={other}),
    width={knobs.neurons}, temperature=T, activation="{knobs.activation}", chains={_CHAINS},
    anneal={_COOLING}, burn={_BURN}, moves={_MOVES}, thin={_THIN}, leapfrog={_LEAPFROG},
    precision="single", key=jax.random.key({knobs.seed}),
)
kernel = drawn.seen.kernels[0].mean(axis=(0, 1))
diagonal = np.diag(kernel).reshape(classes, size)
pairs = (kernel - np.diag(np.diag(kernel))).reshape(classes, size, classes, size)
count = size * (size - np.eye(classes))
measured = np.append(pairs.sum(axis=(1, 3)) / count, diagonal.mean(axis=1))
"""


def shell(knobs: Knobs) -> str:
    width, temperature = max(knobs.neurons, 50), min(knobs.temperature, 0.1)
    return f"festina run coding/schemes --width {width} --temperature {temperature:g}"


@lru_cache(maxsize=16)
def _sweep(activation: Activation, classes: int) -> TemperatureSweep:
    """Return the codes at all positions of the temperature slider."""
    temperatures = [float(f"{10**each:.3g}") for each in _EXPONENTS]
    targets = targets_per_class(classes, other=_other(classes))
    return temperature_sweep(
        _sizes(classes), activation, temperatures=temperatures, targets=targets
    )


def _code(knobs: Knobs) -> ClassificationCode:
    sweep = _sweep(knobs.activation, knobs.classes)
    near = np.abs(sweep.temperature / knobs.temperature - 1)
    if near.min() < 1e-9:
        return sweep.codes[int(near.argmin())]
    return _between(knobs.activation, knobs.classes, knobs.temperature)


@lru_cache(maxsize=256)
def _between(activation: Activation, classes: int, temperature: float) -> ClassificationCode:
    """Return the code at a temperature between the positions of the slider."""
    targets = targets_per_class(classes, other=_other(classes))
    return classification_code(
        _sizes(classes), activation, temperature=temperature, targets=targets
    )


def _sizes(classes: int) -> list[int]:
    return [_EXAMPLES // classes] * classes


def _other(classes: int) -> float:
    """Return the target of a class for inputs of other classes; it makes targets sum to zero."""
    return -1 / (classes - 1)


def _range(code: ClassificationCode) -> tuple[float, float]:
    """Return the range of readouts that is plotted, without the outliers."""
    spots = [each.readout[0] for each in code.populations]
    size = 5 * np.sqrt(code.readout_variance)
    if code.activation == "linear":
        size = 4 * np.sqrt(code.readout_moment[0, 0])
    return float(min(spots) - size), float(max(spots) + size)


def _by_class(
    kernel: Float[np.ndarray, "sample sample"], classes: int
) -> tuple[Float[np.ndarray, "group group"], Float[np.ndarray, " group"]]:
    """Return the mean kernel for each pair of classes, and the mean diagonal for each class.

    The mean for a class with itself leaves out the diagonal.
    """
    size = len(kernel) // classes
    diagonal = np.diag(kernel)
    pairs = (kernel - np.diag(diagonal)).reshape(classes, size, classes, size)
    count = size * (size - np.eye(classes))
    return pairs.sum(axis=(1, 3)) / count, diagonal.reshape(classes, size).mean(axis=1)


def _responses(drawn: Posterior, knobs: Knobs) -> Float[np.ndarray, "draw cell"]:
    """Return mean responses to the classes in the first chain, relative to the largest one.

    Neurons are sorted by their codeword in the first sample, then by their largest response.
    """
    activity = drawn.activity()[0]
    groups = activity.reshape(len(activity), knobs.classes, -1, knobs.neurons)
    means = groups.mean(axis=2).swapaxes(1, 2)
    first = means[0]
    middle = {"linear": 0.0, "erf-sigmoid": 0.5}.get(knobs.activation, 0.2 * first.max())
    keys = [-first.max(axis=1), *(first <= middle).T[::-1]]
    sorted_means = means[:, np.lexsort(keys)]
    return sorted_means.reshape(len(means), -1) / np.abs(means).max()
