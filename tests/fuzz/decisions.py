"""Rows of theory.decisions: equations written out again, and what rests at rest."""

import numpy as np
import scipy.special

from festina.theory import decisions

from .routes import flow, holds, moderate, near, one_of, positive
from .rows import Made, made, row

HERE = "theory.decisions"


def models(**fixed):
    choices = {
        "inverse_temperature": one_of(5.0, 0.0, 2.0),
        "architecture": one_of("deep", "shallow"),
        "teaching": one_of("total", "heterogeneous"),
        "tau": one_of(1.0, 2.0),
    }
    return made(decisions.DecisionModel, **{**choices, **fixed})


GAINS = positive(2).map(lambda a: 0.1 * a)
ANIMALS = made(decisions.naive_animals, left_gain=GAINS, right_gain=GAINS)


def velocity(model, v, u):
    """(dv, du)/dt, contrast by contrast."""
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
    return dv / len(c) / model.tau, du / len(c) / model.tau


@row(f"{HERE}.naive_animals", left_gain=GAINS, right_gain=GAINS, constant_gain=one_of(0.05, 0.2))
def _(found, g):
    each = [np.atleast_1d(v) for v in (g.left_gain, g.right_gain, g.constant_gain)]
    left, right, constant = np.broadcast_arrays(*each)
    near(found.gains, np.stack([left, right, constant], -1))
    to_left = np.stack([left / 2, -right / 2, constant], -1)
    to_right = np.stack([-left / 2, right / 2, constant], -1)
    return near(found.striatum, np.stack([to_left, to_right], -2))


@row(f"{HERE}.weight_velocity", model=models(), animals=ANIMALS, cost=2)
def _(found, g):
    model, animals = g["model"], g["animals"]
    if model.architecture == "shallow":
        animals = animals.merged()
    for k in range(len(animals)):
        dv, du = velocity(model, animals.gains[k], animals.striatum[k])
        size = np.abs(dv).max() + np.abs(du).max()
        near(found.gains[k], dv, 1e-8, size)
        near(found.striatum[k], du, 1e-8, size)
    return "right"


@row(
    f"{HERE}.mean_field",
    model=models(),
    animals=ANIMALS,
    times=one_of(np.array([0.0, 1.0, 5.0]), np.array([2.0])),
    cost=8,
)
def _(found, g):
    model, animals, times = g["model"], g["animals"], np.atleast_1d(g.times)
    holds("weights are finite", np.isfinite(found.striatum).all() & np.isfinite(found.gains).all())
    if model.architecture == "shallow":
        animals = animals.merged()
    if not moderate(animals.gains, animals.striatum, times, model.tau, size=100):
        return "kept"
    for k in range(len(animals)):
        start = np.vstack([animals.gains[k], animals.striatum[k]])
        right = flow(lambda w: np.vstack(velocity(model, w[0], w[1:])), start, times)
        near(found.gains[k], right[:, 0], 1e-6, np.abs(right).max())
        near(found.striatum[k], right[:, 1:], 1e-6, np.abs(right).max())
    return "right"


@row(f"{HERE}.stationary_points", model=models(teaching=one_of("total")), cost=8)
def _(found, g):
    model = g["model"]
    for point in found:
        animals = point.animals.merged() if model.architecture == "shallow" else point.animals
        dv, du = velocity(model, animals.gains[0], animals.striatum[0])
        near([np.abs(dv).max(), np.abs(du).max()], [0.0, 0.0], 1e-7, 1.0 / model.tau)
    return "right"


LATE = one_of(2.0, 5.0)


@row(
    f"{HERE}.heterogeneous_limit",
    model=models(
        architecture=one_of("deep"), teaching=one_of("heterogeneous"), inverse_temperature=LATE
    ),
    cost=16,
)
def _(found, g):
    """On the limit gains are pulled neither way: g·n = 0."""
    w, model = found.products, g["model"]
    v = np.sqrt(np.linalg.norm(w, axis=0))
    dv, _ = velocity(model, v, w / v)
    return near(dv, np.zeros(3), 1e-6, 1.0 / model.tau)


LEARNED = made(
    decisions.mean_field,
    model=models(teaching=one_of("total"), architecture=one_of("deep")),
    animals=ANIMALS,
    times=one_of(np.linspace(0.0, 40.0, 9)),
)


@row(f"{HERE}.stimulus_use_times", learning=LEARNED, threshold=one_of(0.25, 0.1), cost=8)
def _(found, g):
    w, beta = g["learning"].products, g["learning"].model.inverse_temperature
    right = lambda q: scipy.special.expit(beta * (q[..., 1] - q[..., 0]))
    left, other, constant = np.moveaxis(w, -1, 0)
    shift = right(constant) - right(constant + left), right(constant + other) - right(constant)
    used = np.stack(shift, -1) > g.threshold
    times = np.where(used, g["learning"].time[:, None], np.inf).min(axis=1)
    return near(found, times)


@row(
    f"{HERE}.visited_points",
    LEARNED.map(
        lambda learning: {
            "learning": learning,
            "points": Made(decisions.stationary_points, {"model": learning.arguments["model"]}),
        }
    ),
    cost=16,
)
def _(found, g):
    w = g["learning"].products
    holds("distances are as many", found.distance.shape == (*w.shape[:2], len(g["points"])))
    for k, point in enumerate(g["points"]):
        away = np.linalg.norm((w - point.products).reshape(*w.shape[:2], -1), axis=-1)
        near(found.distance[..., k], away, 1e-8, 1e-12)
    return holds("the nearest is nearest", found.nearest == found.distance.argmin(-1)) and "right"
