"""A forecast made on a plateau, and checked by training on."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from bokeh.plotting import figure

from ...diagnose import plateaus
from ...own import SGD, Forecast, forecast
from .._plots import band, curves, dots, plot
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

CLOCK = "step"
COMPARED = "the step at which the loss has dropped halfway"
_UNITS, _SAMPLES, _LONGEST, _SHOWN = 10, 64, 6_000, 300
_kept: Any = functools.lru_cache(8)  # theory, training and sentences use the same results
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
}


class Knobs(SceneKnobs):
    activation: Literal["linear", "tanh", "relu"] = choice("activation", "tanh")
    plateau: Literal["first", "second"] = choice("plateau on which the forecast is made", "second")
    moment: float = slider("fraction of the plateau that has passed", 0.5, 0.2, 0.8)
    scale: float = slider("initial scale ε of the weights", 1e-3, 1e-5, 1e-2, log=True, step=0.25)
    rate: float = slider("learning rate", 0.02, 0.01, 0.05, log=True, step=0.1)
    seed: int = slider("seed of the initial weights", 0, 0, 9)


WARM = [Knobs(activation="linear"), Knobs(activation="relu")]


def plots() -> list[figure]:
    """Return the plots: the loss with the forecast, and the input weights of the units."""
    loss = plot("Loss of one run", "step", "mean squared error", time=True)
    band(loss, "band")
    curves(loss, "loss")
    dots(loss, "now", seed="theory", size=11)
    weights = plot("Input weights of the units at this step", "u₁", "u₂", match_aspect=True)
    dots(weights, "weights")
    return [loss, weights]


def theory(knobs: Knobs) -> Numbers:
    """Return the forecast, which uses only the data and the network at this step."""
    now, found = _moment(knobs), _forecast(knobs)
    loss = float(_run(knobs)[0][now])
    columns = {"now": {"x": np.array([now]), "y": np.array([loss])}}
    if found.left is None or found.half is None or found.band is None:
        return Numbers(np.zeros(1), columns)
    course = _look_ahead(found)
    columns["loss"] = {"x": now + course[0], "y": course[1]}
    low, high = np.clip(found.band, 0.0, _LONGEST)
    columns["band"] = {"x": now + np.array([low, high]), "y": np.full(2, loss)}
    return Numbers(np.array([now + found.half]), columns)


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Yield the whole run, before and after the step of the forecast."""
    progress("training", 0.0)
    loss, weights = _run(knobs)
    half = _drop(knobs) if _forecast(knobs).half is not None else 0.0
    steps = _steps(knobs)
    frames = {"x": weights[steps, 0], "y": weights[steps, 1]}
    curve = {"x": steps.astype(float), "y": loss[steps]}
    yield Numbers(np.array([half]), {"loss": curve}, {"weights": frames}, steps.astype(float))


def allowed(knobs: Knobs) -> float | None:
    # The median error of forecasts on real plateaus is 4 %; one in a hundred is off by a fifth.
    return None if _forecast(knobs).half is None else 0.2


def notice(knobs: Knobs, theory: Numbers) -> str:
    found, now = _forecast(knobs), _moment(knobs)
    if found.left is None or found.half is None or found.band is None:
        return (
            f"At step {now} the forecast predicts no drop: its verdict is '{found.verdict}'. "
            "Choose a later moment, smaller initial weights, or the other plateau."
        )
    return (
        f"Forecast at step {now} (circle): the plateau ends in {found.left:.0f} steps (between "
        f"{found.band[0]:.0f} and {found.band[1]:.0f}, grey bar), and the loss has dropped halfway "
        f"in {found.half:.0f}. The forecast needed {found.gradients:.0f} gradient evaluations. The "
        "blue line shows how training went on."
    )


def python(knobs: Knobs) -> str:
    act = {"linear": "lambda z: z", "tanh": "jnp.tanh", "relu": "jax.nn.relu"}[knobs.activation]
    return f"""\
import jax, jax.numpy as jnp, numpy as np
import festina

act, now, steps, rate, scale = {act}, {_moment(knobs)}, {_LONGEST}, {knobs.rate}, {knobs.scale}
x = jax.random.normal(jax.random.key(0), ({_SAMPLES}, 3))
y = x @ jnp.array([[2.0, 0.0], [0.0, 0.8], [0.0, 0.0]])

def loss(model, x, y):
    return jnp.mean((act(x @ model["u"]) @ model["v"] - y) ** 2)

def step(model, _):
    now, slope = jax.value_and_grad(loss)(model, x, y)
    return jax.tree.map(lambda w, g: w - rate * g, model, slope), (now, model)

first, second = jax.random.split(jax.random.key({knobs.seed}))
u, v = jax.random.normal(first, (3, {_UNITS})), jax.random.normal(second, ({_UNITS}, 2))
run = jax.jit(lambda model: jax.lax.scan(step, model, None, steps))
losses, models = run({{"u": scale * u, "v": scale * v}})[1]

model = jax.tree.map(lambda w: w[now], models)
found = festina.forecast(model, loss, festina.own.SGD(lr=rate), (x, y))
print(found)
predicted = np.array([0.0 if found.half is None else now + found.half])

plateaus = festina.diagnose.plateaus(np.arange(steps), np.asarray(losses, float))
drop = plateaus.drop_time[min({_PLATEAUS.index(knobs.plateau)}, len(plateaus.drop_time) - 1)]
measured = np.array([0.0 if found.half is None else drop])
"""


def shell(knobs: Knobs) -> str:
    return "festina forecast checkpoint.pt  # for a run in PyTorch; see the guide: your own runs"


def _data() -> tuple[jax.Array, jax.Array]:
    x = jax.random.normal(jax.random.key(0), (_SAMPLES, 3))
    return x, x @ jnp.array([[2.0, 0.0], [0.0, 0.8], [0.0, 0.0]])


@functools.cache
def _loss(activation: str) -> Callable[..., Any]:
    """Return the loss of a model; one function for each activation, compiled once."""

    def loss(model: dict[str, Any], x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((_ACTIVATIONS[activation](x @ model["u"]) @ model["v"] - y) ** 2)

    return loss


@functools.cache
def _trained(activation: str) -> Callable[..., Any]:
    """Return the compiled training: gradient descent from given weights at a learning rate."""
    slope = jax.value_and_grad(_loss(activation))

    def train(model: dict[str, Any], rate: Any, x: jax.Array, y: jax.Array) -> Any:
        def step(model: dict[str, Any], _: None) -> Any:
            now, slopes = slope(model, x, y)
            return jax.tree.map(lambda w, g: w - rate * g, model, slopes), (now, model)

        return jax.lax.scan(step, model, None, _LONGEST)[1]

    return jax.jit(train)


@_kept
def _whole(activation: str, scale: float, rate: float, seed: int) -> Any:
    """Return losses and models at all steps."""
    first, second = jax.random.split(jax.random.key(seed))
    u, v = jax.random.normal(first, (3, _UNITS)), jax.random.normal(second, (_UNITS, 2))
    found = _trained(activation)({"u": scale * u, "v": scale * v}, rate, *_data())
    return jax.tree.map(np.asarray, found)


def _run(knobs: Knobs) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss at every step, and the input weights `(step, input, unit)`."""
    losses, models = _whole(knobs.activation, knobs.scale, knobs.rate, knobs.seed)
    return losses.astype(float), models["u"]


_PLATEAUS = ("first", "second")


def _index(knobs: Knobs) -> int:
    return min(_PLATEAUS.index(knobs.plateau), len(_found(knobs).drop_time) - 1)


@_kept
def _plateaus(activation: str, scale: float, rate: float, seed: int) -> Any:
    losses = _whole(activation, scale, rate, seed)[0].astype(float)
    return plateaus(np.arange(_LONGEST), losses)


def _found(knobs: Knobs) -> Any:
    return _plateaus(knobs.activation, knobs.scale, knobs.rate, knobs.seed)


def _drop(knobs: Knobs) -> float:
    return float(_found(knobs).drop_time[_index(knobs)])


def _moment(knobs: Knobs) -> int:
    found, k = _found(knobs), _index(knobs)
    return int(found.start[k] + knobs.moment * (found.end[k] - found.start[k]))


@_kept
def _forecast(knobs: Knobs) -> Forecast:
    _, models = _whole(knobs.activation, knobs.scale, knobs.rate, knobs.seed)
    model = {name: jnp.asarray(weights[_moment(knobs)]) for name, weights in models.items()}
    return forecast(model, _loss(knobs.activation), SGD(lr=knobs.rate), _data())


def _look_ahead(found: Forecast) -> tuple[np.ndarray, np.ndarray]:
    """Return steps from now and losses along the look-ahead."""
    assert found.course is not None
    return np.asarray(found.course.time, float), np.asarray(found.course.loss, float)


def _steps(knobs: Knobs) -> np.ndarray:
    """Return the steps that are shown: to somewhat after the drop."""
    end = min(1.6 * _drop(knobs), _LONGEST - 1)
    return np.linspace(0, end, _SHOWN).astype(int)
