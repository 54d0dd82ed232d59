"""Rows of theory.saddles, for arrays and for networks with tasks."""

from typing import Any

import jax
import numpy as np
import scipy.linalg

from festina import networks, tasks
from festina.theory import saddles

from .objects import (
    PHI,
    both,
    half_loss,
    layer,
    mean_square,
    outputs,
    responses,
    samples,
    white_samples,
)
from .outcomes import Fault
from .routes import finite, holds, moderate, near, normal
from .rows import Made, made, rows

LINEAR = lambda rng: layer(rng, kinds=("linear",))


def constraint(kind, unit, *others, gamma=()):
    given = {"kind": kind, "unit": unit, "others": others, "gamma": gamma}
    return Made(saddles.ManifoldConstraint, given)


CONSTRAINTS = (
    constraint("equal", 2, 0),
    constraint("zero", 1),
    constraint("proportional", 1, 2, gamma=(0.5,)),
    constraint("linear", 0, 1, 2, gamma=(1.0, -2.0)),
)
row = rows(
    "theory.saddles",
    times=(np.array([0.0, 1.0, 2.5]), np.array([0.4])),
    u=normal(3, 2, scale=1e-2),
    v=normal(3, 2, scale=1e-2),
    correlation=normal(2, 2),
    covariance=(np.eye(2), np.eye(2) / 2),
    size=(1.0, 0.1),
    learning_rate=(None, None, 0.01),
    network=LINEAR,
    task=samples,
    constraints=tuple([one] for one in CONSTRAINTS),
    unit=PHI,
)


def white(unit="linear", outputs=2, scale=1e-2):
    """Return a layer, and a task with white inputs."""
    power = 2 if unit == "quadratic" else 1
    targets = lambda rng: lambda x: x @ normal(2, outputs)(rng) + x[:, :1] ** power
    u, v = normal(3, 2, scale=scale), normal(3, outputs, scale=scale)
    return {
        "network": made(networks.layer_from, unit=(unit,), u=u, v=v),
        "task": lambda rng: white_samples(rng, targets=targets(rng)),
    }


# ----------------------------------------------------------------------------------- linear phase


def growing(g):
    """Return the amplitudes c_ki = ½(q_k·v_i + r_k·u_i) and their growth rates."""
    q, s, rt = np.linalg.svd(g.correlation, full_matrices=False)
    return (g.v @ q + g.u @ rt.T) / 2, s


@row("linear_phase", **white(), cost=2)
def _(found, g):
    u, v = found if isinstance(found, tuple) else (found.u, found.v)
    if not moderate(g.u, g.v, g.correlation, g.times) or g.u.ndim > 2 or not g.correlation.size:
        return finite(u, v)
    outputs, inputs = g.correlation.shape
    block = np.zeros((outputs + inputs, outputs + inputs))
    block[:outputs, outputs:], block[outputs:, :outputs] = g.correlation, g.correlation.T
    grown = scipy.linalg.expm(block * np.asarray(g.times)[..., None, None])
    right = np.concatenate([g.v, g.u], axis=1) @ grown
    return near(np.concatenate([v, u], axis=-1), right, 1e-8, np.abs(right).max(initial=0.0))


@row("unit_growth_times", **white())
def _(found, g):
    """Check the time at which the projection on the fastest mode reaches the given size."""
    c, s = growing(g)
    length = np.sqrt(2) * np.linalg.norm(c[..., s >= s[0] * (1 - 1e-9)], axis=-1)
    right = np.where(s[0] > 0, np.maximum(np.log(g.size / length) / s[0], 0), np.inf)
    return near(found, right, 1e-6)


@row("initial_mode_amplitudes", **white())
def _(found, g):
    c, s = growing(g)
    grows = s > 1e-9 * s[0]  # vectors without correlation have no sign
    found, right = found[..., grows], (c**2).sum(-2)[..., grows]
    apart = (np.diff(s) < -1e-6 * s[0]).all()
    near(found.sum(-1), right.sum(-1), 1e-8)
    return near(found, right, 1e-6, np.abs(right).max(initial=0.0)) if apart else "kept"


@row("residual_exponent", singular_values=(np.array([3.0, 3.0, 1.0]), [1.0]))
def _(p, g):
    s = np.sort(g.singular_values)[::-1]
    less = s[s < s[0] * (1 - 1e-9)]
    return near(p, 1 - less[0] / s[0] if less.size else 1.0, 1e-6)


@row("mode_drop_times", **white())
def _(found, g):
    """Check that the order of units does not matter."""
    rest: dict[str, Any] = (
        {} if g.learning_rate is None else {"learning_rate": float(g.learning_rate)}
    )
    network = networks.layer_from("linear", g.u[..., ::-1, :], g.v[..., ::-1, :])
    task = tasks.from_moments(g.correlation, g.covariance)
    holds("times are positive", ~(found < 0))
    weights = np.abs(np.concatenate((g.u, g.v), axis=-1))
    rounding = 1e-16 * weights.max(initial=0.0) / weights.min(initial=np.inf, where=weights > 0)
    return near(found, saddles.mode_drop_times(network, task, **rest), 1e-6 + rounding)


# ------------------------------------------------------------------------------------------ units


@row("blow_up_times", **white("quadratic", 1, 0.1), cost=4)
@row("first_unit_to_escape", **white("quadratic", 1, 0.1), cost=4)
def _(found, g):
    """Check that twice the weights with half the data give the same times."""
    network = networks.layer_from("quadratic", 2 * g.u, 2 * g.v)
    times = saddles.blow_up_times(network, tasks.from_moments(g.correlation[None] / 2))
    if isinstance(found, np.ndarray):
        return near(found, times) and holds("times are positive", found > 0)
    near(found[1], times.min(-1))
    return near(np.take_along_axis(times, np.asarray(found[0])[..., None], -1)[..., 0], found[1])


# ------------------------------------------------------------------------------ saddles and levels


def regression(rng):
    x = rng.standard_normal((9, 3))
    y = x @ rng.standard_normal((3, 2))
    power = (None, 100.0 + np.sum(y**2) / 9)[rng.integers(2)]
    given = {"correlation": y.T @ x / 9, "covariance": x.T @ x / 9, "target_power": power}
    by_moments = Made(tasks.from_moments, given)
    return {"task": (by_moments, samples(rng, 3, 2, 9))[rng.integers(2)]}


def explained(g):
    """Return μ, by which each mode reduces twice the loss."""
    inverse = np.linalg.pinv(g.covariance, hermitian=True, rcond=1e-12)
    return np.linalg.eigvalsh(g.correlation @ inverse @ g.correlation.T)[::-1]


CHOSEN: dict[str, Any] = {"modes": ((), (0,), (1, 0))}
RANK: dict[str, Any] = {"rank": (None, 1)}


@row("linear_saddle", regression, **CHOSEN)
@row("linear_saddles", regression, **RANK)
def _(found, g):
    mu = explained(g)
    power = g.target_power
    for each in found if isinstance(found, list) else [found]:
        near(each.loss, (power - mu[list(each.modes)].sum()) / 2, 1e-7, mu.sum())
        at_rest = (g.correlation - each.map @ g.covariance) @ each.map.T
        near(at_rest, np.zeros(at_rest.shape), 1e-7, np.abs(mu).max(initial=0.0))
    return "right"


def levels(found, right, size):
    holds("levels fall", np.diff(found.levels) <= 0)
    holds("times rise", (np.diff(found.times) >= 0) & np.all(found.times[1:] >= 0))
    holds("there is one level more than drops", len(found.levels) == len(found.times) + 1)
    each = np.array([right(list(active)) for active in found.active])
    return near(found.levels, each, 1e-6, size)


@row("staircase", **white(scale=1e-4), cost=8)
def _(found, g):
    mu = explained(g)
    floor = (g.target_power - mu.sum()) / 2
    return levels(found, lambda on: floor + (mu.sum() - mu[on].sum()) / 2, mu.sum())


# ----------------------------------------------------------------------------------------- layers


def slope(network, task):
    """Return the norm of the gradient of the loss by u and v."""
    phi, slope = responses(network, task.x)
    error = task.weight[:, None] * (phi @ network.v - task.y)
    by_u = np.einsum("so,io,si,sd->id", error, network.v, slope, task.x)
    return np.sqrt((by_u**2).sum() + ((phi.T @ error) ** 2).sum())


@row("stationarity", both, cost=2)
def _(found, g):
    return near(found.gradient, slope(g["network"], g["task"]), 1e-8, 1e-14)


@row("escape_directions", **white("tanh", scale=0.0), most=(None, 1), cost=8)
def _(found, g):
    """Check that at zero weights each unit escapes along each mode of the data."""
    s = np.linalg.svd(g.correlation, compute_uv=False)
    return near(found.rates, np.repeat(s, len(g.u))[: len(found.rates)], 1e-6, s[0])


@row("merged_networks", both, angle=(0.2, 0.5), cost=4)
def _(found, g):
    task, f = g["task"], outputs(g["network"], g["task"].x)
    for each in found:
        narrow = [outputs(each.narrow(h), task.x) for h in range(1, each.network.width + 1)]
        right = np.sqrt([mean_square(f - less, task) for less in narrow])
        size = 1e-6 * np.sqrt(mean_square(f, task))
        near(each.error[1 : len(right) + 1] * each.scale, right, 1e-6, size)
    return "right"


SEVERAL = made(networks.layer_from, unit=("tanh",), u=normal(2, 1, 2), v=normal(2, 1, 1))


@row(
    "narrow_minima",
    unit=("linear", "tanh"),
    width=(1,),
    starts=(4,),
    key=(None, jax.random.key(1)),
    cost=20,
)
@row("minima_near_network", networks=SEVERAL, cost=20)
def _(found, g):
    holds("levels rise", np.diff(found.loss) >= 0)
    for k, loss in enumerate(found.loss):
        network = found.network.lane(k)
        near(loss, half_loss(network, g["task"]), 1e-8)
        size = np.sqrt(np.sum(network.u**2) + np.sum(network.v**2))
        still = slope(network, g["task"]) * size <= 1e-4 * half_loss(None, g["task"])
        holds("saddles are at rest", still)
    return "right"


# -------------------------------------------------------------------------- embeddings, manifolds

X = np.array([[1.0, 0.3], [-0.5, 2.0], [0.1, -1.0]])


GAMMA = {"gamma_u": (None, 0.7), "gamma_v": (None, 0.3, -1.0)}
NARROW = {"network": lambda rng: layer(rng, width=2, kinds=("linear", "relu"))}


@row("embed_units", **NARROW, **GAMMA, width=(3, 4), kind=("equal", "zero", "proportional"))
def _(found, g):
    holds("the width is the one asked for", found.width == g.width)
    return near(
        outputs(found, X), outputs(g["network"], X), 1e-8, np.abs(found.v).max(initial=0.0) + 1
    )


MIXING: dict[str, Any] = {"gamma_u": normal(1, 2), "gamma_v": normal(1, 2)}


@row("embed_weights", u=normal(2, 3), v=normal(2, 1), **MIXING)
def _(found, g):
    """Check that the outputs of linear units do not depend on Γ."""
    size = np.abs(found[0]).max(initial=0.0) * np.abs(found[1]).max(initial=0.0)
    total = lambda u, v: np.tensordot(u, v, (0, 0))
    return near(total(*found), total(g.u, g.v), 1e-8, size)


MOVING: dict[str, Any] = {
    "network": made(networks.layer_from, unit=("linear",), u=normal(4, 3, 2), v=normal(4, 3, 1))
}


def normal_part(g):
    """Return the weights, their part that violates the constraints, and the norms of both."""
    c = np.zeros((len(g["constraints"]), g["network"].width))
    for each, relation in zip(c, g["constraints"], strict=True):
        each[relation.unit] = 1.0
        each[list(relation.others)] = [-g for g in relation.gamma] or -1.0
    theta = np.concatenate([g.u, g.v], axis=-1)
    broken = np.linalg.pinv(c) @ c @ theta
    return theta, broken, *(np.linalg.norm(part, axis=(-2, -1)) for part in (broken, theta))


@row("manifold_distance")
@row("max_manifold_distance", **MOVING)
@row("is_on_manifold", tolerance=(1e-10, 0.5))
def _(found, g):
    _, _, off, size = normal_part(g)
    if "tolerance" in g:
        clear = np.abs(off - g.tolerance * size) > 1e-12 * size
        return near(found | ~clear, (off <= g.tolerance * size) | ~clear)
    off = off.max(-1) if np.ndim(off) > np.ndim(found) else off
    return near(found, off, 1e-8, 1e-8 * np.max(size))


@row("project_on_manifold")
def _(found, g):
    theta, broken, *_ = normal_part(g)
    now = np.concatenate([found.u, found.v], axis=-1)
    return near(now, theta - broken, 1e-8, np.abs(theta).max(initial=0.0))


@row("escape_rate", lambda rng: both(rng, kinds=("linear",)), cost=2)
def _(found, g):
    return holds("linear units keep what is linear", (found >= 0) & (found <= 1e-6))


@row("reduce_width", same_flow=(False, True))
def _(found, g):
    _, _, off, size = normal_part(g)
    kept = holds(
        "each constraint removes a unit", found.width == g["network"].width - len(g["constraints"])
    )
    if np.any(off > 1e-9 * size) or g["network"].batch_shape:
        return kept
    return near(outputs(found, X), outputs(g["network"], X), 1e-6, size**2)


@row("gamma_v_on_manifold", gamma_u=(0.5, np.array([0.3, -1.0]), np.ones((2, 3)), 2.0))
def _(found, g):
    gamma = np.asarray(g.gamma_u)
    if gamma.ndim < 2:
        return near(found, gamma / (1 + (gamma**2).sum()))
    right, size = gamma - gamma @ gamma.T @ found, float(np.linalg.norm(gamma)) ** 2
    return near(found, right, 1e-12 * (1 + size), np.abs(found).max(initial=0.0))


@row("flow_keeps_constraint", constraint=CONSTRAINTS)
def _(found, g):
    relation, unit = g["constraint"], g["unit"]
    if unit not in PHI:
        raise Fault("takes it for a unit")
    if relation.kind in ("equal", "zero", "linear"):
        return near(found, relation.kind != "linear" or unit == "linear")
    (gamma,) = relation.gamma
    right = unit == "linear" or (unit == "relu" and gamma >= 0)
    return "kept" if gamma in (1, 0, -1) else near(found, right)


@row("mechanism_of_unit")
@row("lowest_order_drive", draws=(64, 8), key=(None, jax.random.key(3)), cost=2)
def _(found, g):
    if "task" in g:
        holds("strengths are correlations", (found.strength >= 0) & (found.strength <= 1 + 1e-9))
    return near(found.order, 2 if g["unit"] == "quadratic" else 1)
