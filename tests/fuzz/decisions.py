"""Rows of theory.decisions, checked by independent equations and by vanishing velocities."""

import numpy as np
import scipy.special

from festina.theory import decisions

from .routes import finite, flow, holds, moderate, near
from .rows import Made, made, rows


def models(**fixed):
    choices = {
        "inverse_temperature": (5.0, 0.0, 2.0),
        "architecture": ("deep", "shallow"),
        "teaching": ("total", "heterogeneous"),
        "tau": (1.0, 2.0),
    }
    return made(decisions.ContrastChoiceLearner, **{**choices, **fixed})


GAINS = lambda rng: 0.1 * np.exp(rng.standard_normal(2))
ANIMALS = made(decisions.naive_animals, left_gain=GAINS, right_gain=GAINS)
row = rows("theory.decisions", model=models(), animals=ANIMALS, left_gain=GAINS, right_gain=GAINS)


def velocity(model, v, u):
    """Return (dv, du)/dt as a sum over contrasts."""
    c = np.array(model.contrasts)
    dv, du = np.zeros_like(v), np.zeros_like(u)
    rewards = np.stack([c < 0, c > 0], 1) + 0.5 * (c == 0)[:, None]
    for x, r in zip(model.stimuli, rewards, strict=True):
        each = u * v * x
        q = each.sum(1)
        p = scipy.special.softmax(model.inverse_temperature * q)
        own = np.stack([each[:, :2].sum(1)] * 2 + [each[:, 2]], 1)
        taught = r[:, None] - (q[:, None] if model.teaching == "total" else own)
        du += p[:, None] * taught * v * x
        dv += (p * (r - q)) @ u * x * (model.architecture == "deep")
    return np.vstack([dv, du]) / len(c) / model.tau


def weights(model, animals):
    """Return v and u of each simulated animal, concatenated."""
    animals = animals.merged() if model.architecture == "shallow" else animals
    return np.concatenate([animals.gains[:, None], animals.striatum], axis=1)


@row("naive_animals", constant_gain=(0.05, 0.2))
def _(found, g):
    gains = [np.atleast_1d(v) for v in (g.left_gain, g.right_gain, g.constant_gain)]
    v = np.stack(np.broadcast_arrays(*gains), -1).astype(float)
    near(found.gains, v)
    return near(found.striatum, v[:, None] * [[0.5, -0.5, 1.0], [-0.5, 0.5, 1.0]])


@row("weight_velocity", cost=2)
def _(found, g):
    model = g["model"]
    right = np.array([velocity(model, w[0], w[1:]) for w in weights(model, g["animals"])])
    now = np.concatenate([found.gains[:, None], found.striatum], axis=1)
    return near(now, right, 1e-8, np.abs(right).max(axis=(1, 2), keepdims=True))


TIMES = (np.array([0.0, 1.0, 5.0]), np.array([2.0]))


@row("mean_field_learning", times=TIMES, cost=8)
def _(found, g):
    model, times = g["model"], np.atleast_1d(g.times)
    start = weights(model, g["animals"])
    if not moderate(start, times, model.tau, size=100):
        return finite(found.striatum, found.gains)
    for k, each in enumerate(start):
        right = flow(lambda w: velocity(model, w[0], w[1:]), each, times)
        near(found.gains[k], right[:, 0], 1e-6, np.abs(right).max(initial=0.0))
        near(found.striatum[k], right[:, 1:], 1e-6, np.abs(right).max(initial=0.0))
    return "right"


@row("stationary_points", model=models(teaching=("total",)), cost=8)
def _(found, g):
    model = g["model"]
    for point in found:
        w = weights(model, point.animals)[0]
        near(velocity(model, w[0], w[1:]), np.zeros((3, 3)), 1e-7, 1.0 / model.tau)
    return "right"


HETEROGENEOUS = {"teaching": ("heterogeneous",), "inverse_temperature": (2.0, 5.0)}
DEEP = {"architecture": ("deep",)}


@row("asymptotic_weights", model=models(**DEEP, **HETEROGENEOUS), cost=16)
def _(found, g):
    """Check that the velocity of the gains vanishes at the limit: g·n = 0."""
    v = np.sqrt(np.linalg.norm(found.products, axis=0))
    pull = velocity(g["model"], v, found.products / v)[0]
    return near(pull, np.zeros(3), 1e-6, 1.0 / g["model"].tau)


LEARNED = made(
    decisions.mean_field_learning,
    model=models(**DEEP, teaching=("total",)),
    animals=ANIMALS,
    times=(np.linspace(0.0, 40.0, 9),),
)


@row("stimulus_use_times", learning=LEARNED, threshold=(0.25, 0.1), cost=8)
def _(found, g):
    w, beta = g["learning"].products, g["learning"].model.inverse_temperature
    right = lambda q: scipy.special.expit(beta * (q[..., 1] - q[..., 0]))
    left, other, constant = np.moveaxis(w, -1, 0)
    shift = right(constant) - right(constant + left), right(constant + other) - right(constant)
    used = np.stack(shift, -1) > g.threshold
    return near(found, np.where(used, g["learning"].time[:, None], np.inf).min(axis=1))


def with_points(rng):
    learning = LEARNED(rng)
    points = Made(decisions.stationary_points, {"model": learning.arguments["model"]})
    return {"learning": learning, "points": points}


@row("visited_saddles", with_points, cost=16)
def _(found, g):
    w = g["learning"].products[:, :, None] - np.array([point.products for point in g["points"]])
    near(found.distance, np.linalg.norm(w, axis=(-2, -1)), 1e-8, 1e-12)
    return holds("the nearest is nearest", found.nearest == found.distance.argmin(-1)) and "right"
