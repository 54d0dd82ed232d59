"""A chain of scalar weights: how depth and initial weights decide when it learns."""

from collections.abc import Iterator

import numpy as np
from bokeh.plotting import figure

from ...dynamics import gradient_flow
from ...networks import deep_linear_from
from ...tasks import linear_teacher
from ...theory.linear import chain_strength, learning_time
from .._plots import curves, dots, plot
from .._scene import Numbers, Progress, SceneKnobs, slider

COMPARED = "the product of the weights"
_SEEDS, _TIMES, _DEEPEST = 4, 201, 6


class Knobs(SceneKnobs):
    depth: int = slider("layers of weights D", 2, 1, _DEEPEST)
    strength: float = slider("initial product of the weights a₀", 1e-3, 1e-6, 0.3, log=True)
    target: float = slider("target s", 1.0, 0.5, 3.0)
    spread: float = slider("spread of the layers' initial weights", 0.0, 0.0, 0.5)


WARM = [Knobs(depth=depth) for depth in range(1, _DEEPEST + 1)]


def plots() -> list[figure]:
    """Return the plots: product over time, weights of the layers, learning time by depth."""
    product = plot("Product of the weights", "time t/τ", "a(t)", time=True)
    curves(product, "product", seeds=_SEEDS)
    layers = plot("Weights of the layers at this time", "layer", "weight")
    for seed in range(_SEEDS):
        dots(layers, "layers", seed=seed)
    dots(layers, "layers", seed="theory")
    times = plot("Time until half is learned", "layers of weights D", "time t/τ", y_axis_type="log")
    curves(times, "half", training=False)
    dots(times, "half")
    return [product, layers, times]


def theory(knobs: Knobs) -> Numbers:
    """Return the product of a balanced chain, and the time until half is learned by depth."""
    times = _times(knobs)
    product = chain_strength(times, knobs.target, knobs.strength, depth=knobs.depth)
    depths = np.arange(1, _DEEPEST + 1)
    half = [_half(knobs, depth) for depth in depths.tolist()]
    weights = np.abs(product[:, None]) ** (1 / knobs.depth) * np.ones(knobs.depth)
    return Numbers(
        product,
        {"product": {"x": times, "y": product}, "half": {"x": depths, "y": np.array(half)}},
        {"layers": {"x": _layers(knobs) + 0 * weights, "y": weights}},
        times,
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train chains whose initial weights have the same product."""
    times = _times(knobs)
    spread = knobs.spread * np.random.default_rng(0).standard_normal((_SEEDS, knobs.depth))
    spread -= spread.mean(axis=1, keepdims=True)
    initial = knobs.strength ** (1 / knobs.depth) * np.exp(spread)
    chains = deep_linear_from([layer[:, None, None] for layer in initial.T])
    run = gradient_flow(chains, linear_teacher([[knobs.target]]), times, progress=progress)
    for seed in range(_SEEDS):
        weights = np.stack([layer[seed, :, 0, 0] for layer in run.network.weights], axis=1)
        product = weights.prod(axis=1)
        reached = np.interp(knobs.target / 2, product, times)
        half = {"x": np.array([knobs.depth]), "y": np.array([reached])}
        yield Numbers(
            product,
            {"product": {"x": times, "y": product}} | ({} if seed else {"half": half}),
            {"layers": {"x": _layers(knobs) + 0 * weights, "y": weights}},
            times,
        )


def allowed(knobs: Knobs) -> float | None:
    return None if knobs.spread and knobs.depth > 1 else 1e-4


def notice(knobs: Knobs, theory: Numbers) -> str:
    half = _half(knobs, knobs.depth)
    if knobs.depth == 1:
        return (
            f"A single layer starts to learn at once and needs t/τ = {half:.2g} for half of the "
            "target, for any small initial weight. Add a layer to see a plateau."
        )
    if knobs.spread:
        return (
            "The layers start with different weights, and the differences of their squares stay "
            "constant. The closed form (dashed) is for equal weights. Chains with a larger spread "
            "learn earlier."
        )
    law = f"a power of 1/a₀ with exponent {1 - 2 / knobs.depth:.2g}"
    law = "log(1/a₀)" if knobs.depth == 2 else law
    return (
        f"With {knobs.depth} layers the time on the plateau grows like {law}. Half of the target "
        f"is learned at t/τ = {half:.3g}; the rest follows without another plateau."
    )


def python(knobs: Knobs) -> str:
    return f"""\
import numpy as np
import festina

depth, strength, target, spread = {knobs.depth}, {knobs.strength}, {knobs.target}, {knobs.spread}
half = festina.theory.linear.learning_time(target, strength, depth=depth, fraction=0.5)
times = np.linspace(0, {_LENGTH} * float(half), {_TIMES})
predicted = festina.theory.linear.chain_strength(times, target, strength, depth=depth)

noise = spread * np.random.default_rng(0).standard_normal((4, depth))[0]
weights = strength ** (1 / depth) * np.exp(noise - noise.mean())
chain = festina.networks.deep_linear_from([[[weight]] for weight in weights])
task = festina.tasks.linear_teacher([[target]])
run = festina.gradient_flow(chain, task, times)
measured = run.network.end_to_end()[:, 0, 0]
"""


def shell(knobs: Knobs) -> str:
    return "festina run linear/depth"


_LENGTH = 2  # length of the time axis, in times until half is learned


def _half(knobs: Knobs, depth: int) -> float:
    return float(learning_time(knobs.target, knobs.strength, depth=depth, fraction=0.5))


def _times(knobs: Knobs) -> np.ndarray:
    return np.linspace(0, _LENGTH * _half(knobs, knobs.depth), _TIMES)


def _layers(knobs: Knobs) -> np.ndarray:
    return np.arange(1.0, knobs.depth + 1)
