"""Rows of theory.linear: closed forms against integrators, quadrature and linear algebra."""

import math

import numpy as np
import scipy.integrate
import scipy.linalg

from festina import networks, tasks
from festina.tasks import worlds
from festina.theory import linear
from theory.linear.balanced_weights import balanced_weights

from .outcomes import Fault
from .routes import drawn, flow, holds, moderate, near, normal, one_of
from .rows import Made, made, row

SHAPES = ((2, 2, 2), (3, 2, 2), (2, 2, 3), (3, 3, 2))  # input, hidden, output
TIMES = one_of(np.array([0.0, 0.3, 1.0, 4.0]), np.array([2.0, 0.5]), np.array([0.7]))
DEPTH = one_of(1, 2, 3, 5, math.inf)
CHAIN = {
    "correlation": one_of(1.3, -0.4, np.array([2.0, 0.5, 0.0])),
    "initial_strength": one_of(0.01, 0.3, -0.2, 4.0, np.array([0.1, 1e-3, 2.0])),
    "input_variance": one_of(1.0, 0.6, np.array([1.0, 2.0, 0.5])),
    "tau": one_of(1.0, 2.5),
}


def matrices(rng, shape=None, strengths=None):
    """Balanced weights of two layers and what they learn."""
    inputs, hidden, outputs = shape or SHAPES[rng.integers(len(SHAPES))]
    balance = rng.choice([0.0, 0.5, 3.0, -1.0])
    fits = hidden <= (outputs if balance > 0 else inputs)
    strengths = rng.uniform(0.05, 0.8, hidden) if strengths is None else strengths
    weights = balanced_weights(inputs, hidden, outputs, balance * fits, strengths, rng)
    first, second = np.ascontiguousarray(weights[0]), np.ascontiguousarray(weights[1])
    correlation = rng.standard_normal((outputs, inputs))
    return {"first": first, "second": second, "correlation": correlation}


def descent(first, second, correlation, times, tau=1.0):
    """W₁ and W₂ of gradient flow on white inputs."""
    if not moderate(first, second, correlation, times, tau):
        return None
    split = first.size

    def slope(w):
        w1, w2 = w[:split].reshape(first.shape), w[split:].reshape(second.shape)
        error = correlation - w2 @ w1
        return np.concatenate([(w2.T @ error).ravel(), (error @ w1.T).ravel()])

    start = np.concatenate([first.ravel(), second.ravel()])
    path = flow(slope, start, np.asarray(times) / tau)
    shape = path.shape[:-1]
    return path[..., :split].reshape(*shape, *first.shape), path[..., split:].reshape(
        *shape, *second.shape
    )


def same_map(found, first, second, correlation, times, tau=1.0):
    """W₂W₁ against the integrated flow; what falls from a saddle by rounding cannot be."""
    path = descent(first, second, correlation, times, 1.0 if tau is None else tau)
    if path is None:
        return holds("the map is finite", np.isfinite(found))
    right = path[1] @ path[0]
    return near(found, right, 1e-5, np.abs(right).max() + np.abs(correlation).max())


# ---------------------------------------------------------------------------------------- chains


def whole(value, default):
    return np.asarray(default if value is None else value, dtype=float)


def number(value):
    return float(np.asarray(value, dtype=float).item())


def by_layers(result, g, depth, time_shape):
    """a(t) between its start and where it goes, and on the curve of the differential equation."""
    s, a0, lam = (
        whole(g.get(k), 1.0) for k in ("correlation", "initial_strength", "input_variance")
    )
    s, a0, lam, tau = np.broadcast_arrays(s, a0, lam, whole(g.tau, 1.0))
    times = whole(g.times, 0.0)
    if np.shape(result) != (*time_shape, *s.shape):
        raise Fault(f"has shape {np.shape(result)}")
    target = np.divide(s, lam, out=np.zeros(s.shape), where=lam > 0)
    target = np.where(
        (depth > 1) & (s * a0 < 0), 0.0, np.where((depth > 1) & (a0 == 0), 0.0, target)
    )
    target = np.where(lam > 0, target, a0)
    low, high = np.minimum(a0, target), np.maximum(a0, target)
    slack = 1e-9 * np.maximum(abs(low), abs(high))
    holds("a stays between", (result >= low - slack) & (result <= high + slack))
    if not moderate(times, s, a0, lam, tau):
        return "kept"
    power, layers = (2.0, 1.0) if math.isinf(depth) else (2 - 2 / depth, depth)
    slope = lambda a: layers * np.abs(a) ** power * (s - lam * a) / tau
    right = flow(slope, a0, times)
    return near(result, right, 1e-5, np.maximum(abs(a0), abs(target)))


@row("theory.linear.chain_strength", times=TIMES, depth=DEPTH, **CHAIN)
def _(a, g):
    return by_layers(a, g, number(g.depth), np.shape(g["times"]))


@row("theory.linear.tau_at_depth", depth=DEPTH, tau=one_of(1.0, 3.0))
def _(tau, g):
    depth = number(g.depth)
    return near(tau, whole(g.tau, 1.0) * (1.0 if math.isinf(depth) else depth))


def duration(s, a0, a, lam, tau, depth):
    """∫ da/ȧ."""
    power, layers = (2.0, 1.0) if math.isinf(depth) else (2 - 2 / depth, depth)
    slope = lambda a: tau / (layers * abs(a) ** power * (s - lam * a))
    # In log a, where plateaus are no peaks.
    if a0 > 0 and a > 0:
        value, error = scipy.integrate.quad(
            lambda x: slope(math.exp(x)) * math.exp(x), math.log(a0), math.log(a), epsrel=1e-10
        )
    else:
        value, error = scipy.integrate.quad(slope, a0, a, epsrel=1e-10)
    return value if error < 1e-8 * abs(value) else math.nan


@row(
    "theory.linear.learning_time",
    depth=DEPTH,
    fraction=one_of(None, 0.5, 0.99),
    strength=one_of(None, None, 0.5),
    never=one_of("raise", "infinite"),
    **CHAIN,
)
def _(time, g):
    s, a0, lam, tau = (
        whole(g.get(k), 1.0) for k in ("correlation", "initial_strength", "input_variance", "tau")
    )
    goal = 0.9 * s / lam if g.fraction is None else g.fraction * s / lam
    goal = goal if g.strength is None else whole(g.strength, 0.0)
    s, a0, lam, tau, goal, found = np.broadcast_arrays(s, a0, lam, tau, goal, time)
    holds("times are positive", (time >= 0) & (np.shape(time) == s.shape))
    if not moderate(s, a0, lam, tau, goal):
        return "kept"
    depth = number(g.depth)
    for values in zip(*(v.ravel() for v in (s, a0, goal, lam, tau, found)), strict=True):
        si, ai, gi, li, ti, ft = map(float, values)
        falls = (si - li * ai) * (gi - ai)
        reached = falls > 0 and (gi - ai) * (si / li - gi) > 0 and (depth == 1 or ai * gi > 0)
        if depth > 1 and ai * si < 0:
            reached = ai * gi > 0 and abs(gi) < abs(ai)
        if reached:
            near(ft, duration(si, ai, gi, li, ti, depth), 1e-6)
        else:
            holds("what is never reached takes for ever or was passed", ft in (0.0, math.inf))
    return "right"


@row(
    "theory.linear.training_time",
    depths=one_of(np.array([2.0, 3.0, 8.0]), 4, [1, 2, math.inf]),
    layer_strength=one_of(0.3, 1.0, 1.4),
    correlation=one_of(1.0, 2.0),
    input_variance=one_of(1.0, 0.7),
    fraction=one_of(0.9, 0.5),
)
def _(time, g):
    return stacked(time, g, lambda depth: number(g.layer_strength) ** depth)


def stacked(time, g, start, more=lambda depth: 0.0):
    s, lam, f = map(number, (g.correlation, g.input_variance, g.fraction))
    depths = np.atleast_1d(whole(g.depths, 2.0))
    holds("times are positive", (time >= 0) & (np.shape(time) == depths.shape))
    kind = "right"
    for depth, found in zip(depths.tolist(), time, strict=True):
        a0 = float(start(depth)) if math.isfinite(depth) else math.nan
        if not moderate(a0, s, lam) or math.isnan(a0):
            kind = "kept"
            continue
        goal = (f if a0 <= s / lam else 2 - f) * s / lam
        there = (goal - a0) * (s / lam - a0) <= 0
        tuned = 0.0 if there else duration(s, a0, goal, lam, depth, depth)
        near(found, tuned + more(depth), 1e-6)
    return kind


@row(
    "theory.linear.greedy_training_time",
    depths=one_of(np.array([2.0, 5.0]), 3),
    layer_strength=one_of(0.2, 0.6),
    module_depth=one_of(2, 4),
    module_fraction=one_of(0.99, 0.9),
    correlation=one_of(1.0, 2.0),
    input_variance=one_of(1.0, 0.7),
    fraction=one_of(0.9, 0.5),
)
def _(time, g):
    b0, m, f = (number(g[k]) for k in ("layer_strength", "module_depth", "module_fraction"))
    if not moderate(b0**m):
        return holds("times are positive", time >= 0)
    end = np.clip(b0**m, f, 2 - f)
    module = 0.0 if end == b0**m else duration(1.0, b0**m, end, 1.0, 1.0, m)
    return stacked(time, g, lambda depth: end ** (depth / m), lambda depth: depth * module)


@row(
    "theory.linear.small_weight_law",
    layer_strength=one_of(0.1, np.array([0.01, 0.3])),
    depth=one_of(2, 3, 6),
    correlation=one_of(1.0, np.array([2.0, 0.5])),
    tau=one_of(1.0, 3.0),
)
def _(time, g):
    b, s, tau, depth = (whole(v, 1.0) for v in (g.layer_strength, g.correlation, g.tau, g.depth))
    # The slope in b is that of b^{1−D}, and the law vanishes at b = 1 (D = 2).
    law = np.log(1 / b) if depth == 2 else np.exp((2 - depth) * np.log(b)) / (depth - 2)
    return near(time, tau / s * law)


PAIR = {
    "first": one_of(0.3, -0.2, np.array([0.1, 2.0, -0.4])),
    "second": one_of(0.5, 0.01, np.array([0.3, -1.0, 0.4])),
    "correlation": CHAIN["correlation"],
    "input_variance": CHAIN["input_variance"],
    "tau": CHAIN["tau"],
    "times": TIMES,
}


def two_weights(g):
    w1, w2, s, lam, tau = np.broadcast_arrays(
        *(whole(g.get(k), 1.0) for k in ("first", "second", "correlation", "input_variance", "tau"))
    )
    if not moderate(w1, w2, s, lam, tau, g.times):
        return None

    def slope(w):
        error = s - lam * w[0] * w[1]
        return np.stack([w[1] * error, w[0] * error]) / tau

    path = flow(slope, np.stack([w1, w2]), whole(g.times, 0.0))
    return np.moveaxis(path, np.ndim(g.times), 0)


def both_weights(found, g, make):
    right = two_weights(g)
    if right is None:
        return holds("weights are finite", np.isfinite(found))
    return near(found, make(right), 1e-6, np.abs(right).max())


@row("theory.linear.unbalanced_weights", **PAIR)
def _(weights, g):
    w1, w2 = np.asarray(weights[0]), np.asarray(weights[1])
    c = whole(g.second, 0.0) ** 2 - whole(g.first, 0.0) ** 2
    off = np.abs(w2**2 - w1**2 - c) / np.maximum(w1**2 + w2**2, 1e-300)
    if np.isfinite(c).all():
        holds("w₂² − w₁² is conserved", np.nan_to_num(off) < 1e-6)
    return both_weights(np.stack(weights), g, lambda w: w)


@row("theory.linear.unbalanced_strength", **PAIR)
def _(strength, g):
    return both_weights(strength, g, lambda w: w[0] * w[1])


# ----------------------------------------------------------------------------------------- modes


MODES = made(
    linear.modes_from, correlation=one_of(np.diag([2.0, 0.5]), np.array([[1.0, 2.0, 0.0]]))
)
STRENGTHS = one_of(np.array([[0.5, 0.2], [1.0, 0.3]]), np.array([[0.7], [0.1]]))


@row(
    "theory.linear.modes_from",
    drawn(
        lambda rng: {
            "correlation": rng.standard_normal((2, 3)),
            "covariance": None if rng.integers(2) else np.eye(3) * rng.uniform(0.5, 2),
        }
    ),
    degeneracy=one_of(1e-9, 1e-3),
)
def decomposed(modes, g):
    sigma = whole(g.correlation, 0.0)
    covariance = np.eye(sigma.shape[1]) if g.covariance is None else g.covariance
    u, s, v, lam = modes.left, modes.singular_values, modes.right, modes.input_variance
    size = np.abs(sigma).max()
    near((u * s) @ v.T, sigma, 1e-10, size)
    near(covariance @ v, lam * v, 1e-7, np.abs(covariance).max())
    near(v.T @ v, np.eye(len(s)), 1e-10, 1.0)
    near(u.T @ u, np.eye(len(s)), 1e-10, 1.0)
    return near(s, np.linalg.svd(sigma, compute_uv=False), 1e-10, size)


@row(
    "theory.linear.mode_strengths",
    modes=MODES,
    times=TIMES,
    depth=DEPTH,
    initial_strength=one_of(0.01, 0.4),
    tau=CHAIN["tau"],
)
def _(a, g):
    values = {
        "correlation": g["modes"].singular_values,
        "input_variance": g["modes"].input_variance,
    }
    depth = number(g.depth)
    return by_layers(a, type(g)({**g, **values}), depth, np.shape(g["times"]))


@row("theory.linear.mode_map", strengths=STRENGTHS, modes=MODES)
def _(w, g):
    u, v, a = g["modes"].left, g["modes"].right, g.strengths
    return near(w, np.einsum("om,...m,im->...oi", u, a, v), 1e-10, np.abs(a).max())


@row("theory.linear.mode_loss", strengths=STRENGTHS, modes=MODES)
def _(loss, g):
    s, lam, a = g["modes"].singular_values, g["modes"].input_variance, g.strengths
    gap = np.where(lam > 0, (lam * a - s) / np.sqrt(np.where(lam > 0, lam, 1)), 0)
    return near(loss, (gap**2).sum(-1) / 2, 1e-8, np.sum(s**2 / np.where(lam > 0, lam, 1)))


@row(
    "theory.linear.layer_similarity",
    strengths=STRENGTHS,
    modes=MODES,
    layer=one_of(1, 2),
    depth=one_of(2, 3),
    inputs=one_of(None, np.ones((4, 2)), np.ones((2, 3))),
)
def _(similarity, g):
    v = g["modes"].right
    x = np.eye(len(v)) if g.inputs is None else g.inputs
    # The layers themselves: |a|^{1/D} along each mode.
    each = np.abs(g.strengths) ** (1 / number(g.depth))
    h = np.einsum("im,...m,nm->...in", x @ v, each ** int(g.layer), np.eye(len(v.T)))
    return near(similarity, h @ h.swapaxes(-1, -2), 1e-8, np.abs(h).max() ** 2)


@row(
    "theory.linear.saddle_sequence",
    modes=MODES,
    initial_strength=one_of(1e-3, 0.1),
    depth=one_of(2, 3, math.inf),
    tau=CHAIN["tau"],
)
def _(found, g):
    s, lam = g["modes"].singular_values, g["modes"].input_variance
    depth, tau = number(g.depth), float(whole(g.tau, 1.0))
    a0 = np.broadcast_to(whole(g.initial_strength, 0.0), s.shape)
    holds("stages follow each other", (np.diff(found.time) >= 0) & np.all(found.time >= 0))
    holds("the loss falls", np.diff(found.loss) <= 0)
    share = s**2 / np.where(lam > 0, lam, 1.0) / 2
    near(found.loss[0] - found.loss[-1], share[found.order].sum(), 1e-8, share.sum())
    if not moderate(s, lam, tau, a0):
        return "kept"
    for k, time in zip(found.order, found.time, strict=True):
        half = s[k] / lam[k] / 2
        right = 0.0 if a0[k] >= half else duration(s[k], a0[k], half, lam[k], tau, depth)
        near(time, right, 1e-6)
    return "right"


# -------------------------------------------------------------------------------------- balanced


@row("theory.linear.measured_balance", drawn(lambda rng: {"network": two_layers(rng)["network"]}))
def _(found, g):
    w1, w2 = g["network"].weights
    gram = w2.swapaxes(-1, -2) @ w2 - w1 @ w1.swapaxes(-1, -2)
    lam = np.trace(gram, axis1=-2, axis2=-1) / gram.shape[-1]
    size = np.maximum((w1**2).sum((-2, -1)), (w2**2).sum((-2, -1)))
    near(found[0], lam, 1e-10, size)
    rest = np.abs(np.linalg.eigvalsh(gram - lam[..., None, None] * np.eye(gram.shape[-1])))
    return near(found[1], rest.max(-1), 1e-10, size)


@row(
    "theory.linear.whitened",
    drawn(
        lambda rng: {
            "first": rng.standard_normal((2, 3)),
            "correlation": rng.standard_normal((2, 3)),
            "covariance": np.cov(rng.standard_normal((3, 9))),
        }
    ),
)
def _(found, g):
    root = scipy.linalg.sqrtm(g.covariance).real
    digits = np.finfo(float).eps * np.linalg.cond(g.covariance)
    near(found[0], g.first @ root, 1e-7 + digits, np.abs(g.first @ root).max())
    right = g.correlation @ np.linalg.inv(root)
    return near(found[1], right, 1e-7 + 1e3 * digits, np.abs(right).max())


@row("theory.linear.balanced_flow_from", drawn(matrices), tau=CHAIN["tau"], cost=3)
def _(found, g):
    times = np.array([0.0, 0.5, 2.0])
    state = found(times)
    if g.first.ndim > 2:
        return holds("the map is finite", np.isfinite(state.map))
    gap = found.balance_residual
    holds("weights are balanced", gap <= 1e-8 * (np.sum(g.first**2) + np.sum(g.second**2)))
    return same_map(state.map, g.first, g.second, g.correlation, times, g.tau)


def white_task(rng, inputs=2, outputs=2):
    """Inputs with ⟨xxᵀ⟩ = I."""
    x = np.linalg.qr(rng.standard_normal((6, inputs)))[0] * np.sqrt(6)
    return Made(tasks.task, {"x": x, "y": rng.standard_normal((6, outputs))})


def two_layers(rng):
    weights = matrices(rng, (2, 2, 2))
    given = {"weights": [weights["first"], weights["second"]]}
    return {"network": Made(networks.deep_linear_from, given), "task": white_task(rng)}


@row("theory.linear.balanced_flow", drawn(two_layers), tau=CHAIN["tau"], cost=3)
def _(found, g):
    times = np.array([0.0, 0.5, 2.0])
    of = of_objects(g)
    return same_map(found(times).map, of.first, of.second, of.correlation, times, g.tau)


def of_objects(g):
    """Weights and moments, as the functions of arrays take them."""
    given = {"correlation": moments(g["task"])[0], "covariance": moments(g["task"])[1]}
    if "network" in g:
        given["first"], given["second"] = map(np.asarray, g["network"].weights)
    return type(g)({**g, **given})


def moments(task):
    x, y = (z.reshape(len(z), -1) for z in (task.x, task.y))
    return (y * task.weight[:, None]).T @ x, (x * task.weight[:, None]).T @ x


@row("theory.linear.modes", task=drawn(lambda rng: two_layers(rng)["task"]))
def _(found, g):
    return decomposed(found, of_objects(g))


@row("theory.linear.effective_strengths", drawn(lambda rng: two_layers(rng)))
def _(found, g):
    return growing(found, of_objects(g))


def along(rng):
    """A network whose layers keep the modes of its task apart."""
    arrays = decoupled(rng)
    x = np.linalg.qr(rng.standard_normal((6, 2)))[0] * np.sqrt(6)
    sigma = arrays["modes"].arguments["correlation"]
    task = Made(tasks.task, {"x": x, "y": x @ sigma.T})
    return {
        "network": Made(networks.deep_linear_from, {"weights": arrays["weights"]}),
        "task": task,
    }


@row("theory.linear.layer_strengths", drawn(along))
def _(found, g):
    sigma, _ = moments(g["task"])
    u, _, vt = np.linalg.svd(sigma, full_matrices=False)
    product = np.linalg.multi_dot([np.eye(len(u)), *map(np.asarray, g["network"].weights[::-1])])
    right = np.abs(np.diagonal(u.T @ product @ vt.T))
    return near(np.abs(found.strengths.prod(0)), right, 1e-6, np.abs(right).max())


@row(
    "theory.linear.continual",
    drawn(
        lambda rng: {
            "network": two_layers(rng)["network"],
            "tasks": [white_task(rng), white_task(rng)],
        }
    ),
    times=one_of([np.array([0.5, 1.0]), np.array([1.0])], [1.0, 2.0]),
    cost=4,
)
def _(found, g):
    first, second = map(np.asarray, g["network"].weights)
    given = {"first": first, "second": second}
    return stages(
        found, type(g)({**g, **given, "correlations": [moments(t)[0] for t in g["tasks"]]})
    )


@row("theory.linear.balanced_blocks", drawn(matrices), times=TIMES, balance=one_of(0.0), cost=2)
def _(m, g):
    inputs = g.first.shape[-1]
    found = m[..., inputs:, :inputs]
    gap = g.second.T @ g.second - g.first @ g.first.T - g.balance * np.eye(len(g.first))
    if np.abs(gap).max() > 1e-8 * np.abs(g.first).max() ** 2:
        raise Fault("takes weights of another balance")
    return same_map(found, g.first, g.second, g.correlation, g.times)


@row("theory.linear.block_matrices", drawn(matrices), balance=one_of(0.0, 1.0))
def _(found, g):
    """The stack Q in the eigenvectors of F: B and C hold its two halves, D what is left."""
    outputs, inputs = g.correlation.shape
    half = number(g.balance) / 2
    f = np.block(
        [[-half * np.eye(inputs), g.correlation.T], [g.correlation, half * np.eye(outputs)]]
    )
    q = np.concatenate([g.first.T, g.second])
    parts = found.b.size and (found.b**2).sum() / 2 + (found.c**2).sum() / 2 + (found.d**2).sum()
    near(parts, (q**2).sum(), 1e-8)
    rates = np.concatenate(
        [found.s_lambda, -found.s_lambda, np.full(abs(outputs - inputs), found.lambda_perp)]
    )
    return near(np.sort(rates), np.linalg.eigvalsh(f), 1e-8, np.abs(f).max())


@row(
    "theory.linear.continual_from",
    drawn(
        lambda rng: {
            **{k: v for k, v in matrices(rng, (2, 2, 2)).items() if k != "correlation"},
            "correlations": [rng.standard_normal((2, 2)) for _ in range(2)],
        }
    ),
    times=one_of([np.array([0.5, 1.0]), np.array([1.0])], [1.0, 2.0]),
    cost=4,
)
def stages(found, g):
    w1, w2 = g.first, g.second
    for k, sigma in enumerate(g["correlations"]):
        times = np.atleast_1d(whole(g["times"][k], 0.0))
        path = descent(w1, w2, np.asarray(sigma, dtype=float), times)
        if path is None:
            return holds("the map is finite", np.isfinite(found.map))
        near(found.map[found.stage == k], path[1] @ path[0], 1e-5, np.abs(found.map).max())
        w1, w2 = path[0][-1], path[1][-1]
    return "right"


@row("theory.linear.interference", correlations=normal(3, 2, 2), hidden=one_of(None, 1, 2))
def _(rise, g):
    sigma, h = g.correlations, None if g.hidden is None else int(g.hidden)
    learned = []
    for matrix in sigma:
        u, s, vt = scipy.linalg.svd(matrix)
        learned.append(sum(s[k] * np.outer(u[:, k], vt[k]) for k in range(len(s))[:h]))
    right = [
        [
            np.sum((i - k) ** 2) / 2 - np.sum((i - own) ** 2) / 2
            for i, own in zip(sigma, learned, strict=True)
        ]
        for k in learned
    ]
    return near(rise, right, 1e-8, np.sum(sigma**2))


def flows(rng):
    return Made(linear.balanced_flow_from, matrices(rng))


@row("theory.linear.regime", flow=drawn(flows), cost=10)
def _(found, g):
    flow, time = g["flow"], found.half_loss_time
    holds(
        "the kernel moves by a cosine", (found.kernel_distance >= 0) & (found.kernel_distance <= 2)
    )
    holds("rates differ", found.rate_gap > 0)
    s = np.linalg.svd(flow.correlation, compute_uv=False)[0]
    holds("rich is rich", (found.kind == "rich") == (abs(float(flow.balance)) / 2 <= s))
    if time is None:
        return "kept"
    start, then = flow(np.array([0.0, time])).loss()
    return near(then, start / 2, 1e-6)


LAW = {"singular_values": one_of(1.5, np.array([2.0, 0.3])), "balance": one_of(0.2, -3.0, 0.0)}


@row("theory.linear.reversal_time", **LAW, tau=CHAIN["tau"])
def _(time, g):
    s, lam, tau, time = np.broadcast_arrays(
        whole(g.singular_values, 1), abs(whole(g.balance, 0)), whole(g.tau, 1), time
    )
    holds("times are positive", time > 0)
    if not moderate(s, lam, tau):
        return "kept"
    for si, li, ti, found in zip(*(v.ravel().tolist() for v in (s, lam, tau, time)), strict=True):
        slope = lambda w, si=si, li=li: 1 / (2 * math.hypot(w, li / 2) * (si + w))
        cuts = [si * 10.0**-k for k in range(1, 12)]
        right = scipy.integrate.quad(slope, 0, si, points=cuts)[0] if li else math.inf
        near(found, ti * right, 1e-6)
    return "right"


@row("theory.linear.reversal_overlap", **LAW)
def _(found, g):
    lam, s = whole(g.balance, 0), whole(g.singular_values, 0)
    # A row of B for the converged weights of one mode, W₁² = S_λ − λ/2, W₂² = S_λ + λ/2, and −s.
    root = np.hypot(s, lam / 2)
    right = np.where(root > 0, -lam / np.sqrt(np.where(root > 0, root, 1)), 0.0)
    return near(found, right)


# --------------------------------------------------------------------------------- small weights


def small(rng):
    given = matrices(rng, (3, 3, 2))
    u, _, vt = np.linalg.svd(given["correlation"], full_matrices=False)
    first, second = (1e-2 * rng.standard_normal(given[k].shape) for k in ("first", "second"))
    return {"first": first, "second": second, "left": u, "right": np.ascontiguousarray(vt.T)}


@row("theory.linear.growing_gram", drawn(small))
def _(gram, g):
    c = g.first @ g.right / 2 + g.second.swapaxes(-1, -2) @ g.left / 2
    return near(gram, np.einsum("...hm,...hn->...mn", c, c), 1e-8, np.abs(c).max() ** 2)


@row(
    "theory.linear.growing_strengths",
    drawn(lambda rng: {"gram": np.cov(rng.standard_normal((2, 9))) * 0.01}),
    times=TIMES,
    singular_values=one_of(np.array([2.0, 0.5]), np.array([1.0, 1.0])),
)
def _(found, g):
    if not moderate(g.gram, g.times, g.singular_values) or g.gram.ndim > 2:
        return holds("strengths are finite", np.isfinite(found))
    s = np.diag(g.singular_values)
    near(g.gram, g.gram.T, 1e-10)
    right = flow(lambda a: s @ a + a @ s - 2 * a @ a, g.gram, g.times)
    return near(found, right, 1e-5, np.abs(right).max())


@row("theory.linear.effective_strengths_from", drawn(matrices))
def growing(found, g):
    u, s, vt = np.linalg.svd(g.correlation)
    k = len(s)
    c = g.first @ vt[:k].T + g.second.swapaxes(-1, -2) @ u[:, :k]
    right = (c**2).sum(-2) / 4
    near(found.sum(-1), right.sum(-1), 1e-7, np.abs(right).max())
    apart = np.diff(s, append=-1.0) < -1e-6 * s[0]
    return near(found, right, 1e-6, np.abs(right).max()) if apart.all() else "kept"


def decoupled(rng):
    """Layers that keep the modes of the data apart."""
    q = [np.linalg.qr(rng.standard_normal((2, 2)))[0] for _ in range(3)]
    b = rng.uniform(0.2, 1.0, (2, 2))
    weights = [(q[1] * b[0]) @ q[0].T, (q[2] * b[1]) @ q[1].T]
    sigma = (q[2] * np.array([2.0, 0.7])) @ q[0].T
    return {"weights": weights, "modes": Made(linear.modes_from, {"correlation": sigma})}


@row("theory.linear.layer_strengths_from", drawn(decoupled))
def _(found, g):
    modes, product = g["modes"], np.linalg.multi_dot([np.eye(2), *g["weights"][::-1]])
    right = np.einsum("om,oi,im->m", modes.left, product, modes.right)
    near(found.strengths.prod(0), right, 1e-6, np.abs(right).max())
    return near(modes.left.T @ product @ modes.right, np.diag(right), 1e-6, np.abs(right).max())


# ---------------------------------------------------------------------------------------- worlds

FIELD = {"coupling": one_of(1.0, 0.3, 5.0), "precision": one_of(1.0, 0.1)}


def eigenpairs(world, g):
    """Kinds are what NumPy finds of the covariance, which is positive."""
    c, values = world.covariance, world.eigenvalues
    digits = 1e-8 + 1e-14 * values[0] / np.maximum(values[-1], 1e-12 * values[0])
    near(np.sort(values), np.linalg.eigvalsh(c), digits, np.abs(c).max())
    near(c @ world.modes, world.modes * values, digits, np.abs(c).max())
    return near(world.modes.T @ world.modes, np.eye(len(c)), 1e-9, 1.0)


def markov(weights, g, items=slice(None)):
    laplacian = np.diag(weights.sum(1)) - weights
    return np.linalg.inv(laplacian + whole(g.precision, 1.0) * np.eye(len(weights)))[items, items]


def lattice(world, g, shape, joined):
    """The covariance by neighbours in space, one pair at a time."""
    eigenpairs(world, g)
    places = list(np.ndindex(*shape))
    weights = np.zeros((len(places),) * 2)
    for i, a in enumerate(places):
        for j, b in enumerate(places):
            away = np.abs(np.subtract(a, b))
            away = np.minimum(away, np.array(shape) - away) if joined else away
            weights[i, j] = whole(g.coupling, 1.0) * (away.sum() == 1)
    return near(world.covariance, markov(weights, g), 1e-6, np.abs(world.covariance).max())


for _name, _sides, _joined in (
    ("chain", ("items",), False),
    ("ring", ("items",), True),
    ("grid", ("rows", "columns"), False),
    ("torus", ("rows", "columns"), True),
):
    row(f"tasks.worlds.{_name}", **FIELD, **dict.fromkeys(_sides, one_of(3, 5)))(
        lambda world, g, sides=_sides, joined=_joined: lattice(
            world, g, tuple(int(g.get(side)) for side in sides), joined
        )
    )


@row("tasks.worlds.clusters", sizes=one_of([3, 2], [1], np.array([4, 1, 2])), **FIELD)
def _(world, g):
    eigenpairs(world, g)
    member = np.repeat(np.arange(len(g["sizes"])), np.asarray(g["sizes"], dtype=int))
    star = whole(g.coupling, 1.0) * np.eye(len(g["sizes"]))[member]
    n = len(member)
    weights = np.block([[np.zeros((n, n)), star], [star.T, np.zeros((star.shape[1],) * 2)]])
    right = markov(weights, g, slice(n))
    return near(world.covariance, right, 1e-6, np.abs(right).max())


def edges(rng):
    w = rng.uniform(0, 2, (4, 4)) * rng.integers(0, 2, (4, 4))
    return np.triu(w, 1) + np.triu(w, 1).T


@row(
    "tasks.worlds.graph",
    weights=drawn(edges),
    precision=FIELD["precision"],
    items=one_of(None, [2, 0]),
)
def _(world, g):
    eigenpairs(world, g)
    chosen = np.arange(len(g.weights)) if g["items"] is None else np.asarray(g["items"])
    right = markov(g.weights, g)[np.ix_(chosen, chosen)]
    return near(world.covariance, right, 1e-6, np.abs(right).max())


@row(
    "tasks.worlds.tree",
    branching=one_of([2, 2], np.array([3, 1, 2]), [4]),
    flip=one_of(0.1, 0.0, 0.5),
)
def _(world, g):
    eigenpairs(world, g)
    sizes = np.asarray(g["branching"], dtype=int)
    flip = np.broadcast_to(whole(g.flip, 0.0), len(sizes))
    leaf = np.array(list(np.ndindex(*sizes)))
    same = np.cumprod(leaf[:, None] == leaf[None], axis=-1, dtype=int)
    right = np.where(same, 1.0, (1 - 2 * flip) ** 2).prod(-1)
    return near(world.covariance, right, 1e-9)


@row(
    "theory.linear.differentiation_times",
    world=made(worlds.tree, branching=one_of([2, 2], [3, 2]), flip=one_of(0.1, 0.3)),
    features=one_of(4, 20),
    initial_strength=one_of(1e-3, 0.1),
    depth=one_of(1, 2, 3),
    tau=CHAIN["tau"],
)
def _(times, g):
    a0, tau = float(whole(g.initial_strength, 0)), float(whole(g.tau, 1))
    depth = number(g.depth)
    holds("times are positive", times >= 0)
    s = [math.sqrt(float(g.features) * kind.eigenvalue) for kind in g["world"].kinds]
    if not moderate(s, a0, tau) or a0 <= 0:
        return "kept"
    right = [0.0 if a0 >= k / 2 else duration(k, a0, k / 2, 1.0, tau, depth) for k in s]
    return near(times, right, 1e-6)
