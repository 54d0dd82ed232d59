"""Rows of theory.linear and its worlds: closed forms checked by integrators and linear algebra."""

import math
from typing import Any

import numpy as np

from festina import networks, tasks
from festina.tasks import worlds
from festina.theory import linear
from theory.linear.balanced_weights import balanced_weights

from .objects import moments, white_samples
from .outcomes import Fault
from .routes import finite, flow, holds, moderate, near, normal
from .rows import Given, Made, made, rows

row = rows(
    "theory.linear",
    times=(np.array([0.0, 0.3, 1.0, 4.0]), np.array([2.0, 0.5]), np.array([0.7])),
    depth=(1, 2, 3, 5, math.inf),
    tau=(1.0, 2.5),
    correlation=(1.3, -0.4, np.array([2.0, 0.5, 0.0])),
    initial_strength=(0.01, 0.3, -0.2, 4.0, np.array([0.1, 1e-3, 2.0])),
    input_variance=(1.0, 0.6, np.array([1.0, 2.0, 0.5])),
    modes=made(
        linear.modes,
        task=made(
            tasks.from_moments, correlation=(np.diag([2.0, 0.5]), np.array([[1.0, 2.0, 0.0]]))
        ),
    ),
    strengths=(np.array([[0.5, 0.2], [1.0, 0.3]]), np.array([[0.7], [0.1]])),
    singular_values=(1.5, np.array([2.0, 0.3])),
    task=white_samples,
)


def number(value):
    return float(np.asarray(value, dtype=float).item())


def arrays(*values):
    return np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values))


# ---------------------------------------------------------------------------------------- chains


def chain(g):
    """Return s, a₀, λ and τ of each mode."""
    modes = g.get("modes")
    s = g.correlation if modes is None else modes.singular_values
    lam = g.input_variance if modes is None else modes.input_variance
    return arrays(s, g.initial_strength, lam, g.tau)


@row("chain_strength", cost=4)
@row("mode_strengths", initial_strength=(0.01, 0.4), cost=4)
def _(a, g):
    """Check that strengths lie between start and target, and satisfy the differential equation."""
    (s, a0, lam, tau), depth = chain(g), number(g.depth)
    if np.shape(a) != (*np.shape(g.times), *s.shape):
        raise Fault(f"has shape {np.shape(a)}")
    goes = (depth == 1) | (np.sign(s) == np.sign(a0))
    target = np.where(lam > 0, goes * s / np.where(lam > 0, lam, 1.0), a0)
    low, high = np.minimum(a0, target), np.maximum(a0, target)
    slack = 1e-9 * np.maximum(abs(low), abs(high))
    kept = holds(
        "strengths stay between start and target", (a >= low - slack) & (a <= high + slack)
    )
    if not moderate(g.times, s, a0, lam, tau):
        return kept
    power, layers = (2.0, 1.0) if math.isinf(depth) else (2 - 2 / depth, depth)
    if not moderate(layers):
        return kept
    right = flow(lambda a: layers * np.abs(a) ** power * (s - lam * a) / tau, a0, g.times)
    return near(a, right, 1e-5, np.maximum(abs(a0), abs(target)))


row("depth_scaled_time_constant")(
    lambda tau, g: near(tau, g.tau * np.where(np.isinf(g.depth), 1, g.depth))
)


def arrives(time, goal, s, a0, lam, tau, depth):
    """Check that the curve is at its goal at the given time, or never reaches an infinite one."""
    kept = holds("times are positive", np.asarray(time) >= 0)
    if not moderate(goal, s, a0, lam, tau):
        return kept
    each = arrays(time, goal, s, a0, lam, tau)
    for t, to, s_i, start, lam_i, tau_i in zip(*(v.ravel().tolist() for v in each), strict=True):
        at = t if 0 < t < math.inf else 1e3
        a = linear.chain_strength(at, s_i, start, depth=depth, input_variance=lam_i, tau=tau_i)
        if 0 < t < math.inf:
            near(a, to, 1e-6)
        elif t:
            holds("the goal is not reached", (a - to) * (start - to) >= -1e-9 * to**2)
        else:
            holds(
                "the goal was reached at the start",
                abs(start) >= abs(to) or (to - start) * (a - start) <= 0,
            )
    return "right"


FAR = {"fraction": (None, 0.5, 0.99), "strength": (None, None, 0.5), "never": ("raise", "infinite")}


@row("learning_time", **FAR, cost=4)
def _(time, g):
    s, a0, lam, tau = chain(g)
    part = (0.9 if g.fraction is None else g.fraction) * s / np.where(lam > 0, lam, math.nan)
    goal = part if g.strength is None else g.strength
    return arrives(time, goal, s, a0, lam, tau, number(g.depth))


STACK: dict[str, Any] = {
    "correlation": (1.0, 2.0),
    "input_variance": (1.0, 0.7),
    "fraction": (0.9, 0.5),
    "layer_strength": (0.3, 1.0, 1.4),
    "depths": (np.array([2.0, 5.0]), 4, [1, math.inf]),
}


@row("learning_time_by_depth", **STACK)
@row("pretrained_learning_time_by_depth", **STACK, module_depth=(2, 4), module_fraction=(0.99, 0.9))
def _(time, g):
    """Check that the chain, after training of its modules, has the given fraction of its target.

    A chain that starts above the target approaches it from above.
    """
    b, s, lam, f = map(number, (g.layer_strength, g.correlation, g.input_variance, g.fraction))
    end, module, m = b, 0.0, 1.0
    if "module_depth" in g and moderate(power := b ** number(g.module_depth)) and power > 0:
        m, part = number(g.module_depth), number(g.module_fraction)
        end = np.clip(b**m, part, 2 - part)
        module = 0.0 if end == b**m else linear.learning_time(1.0, b**m, depth=m, strength=end)
    for depth, found in zip(np.ravel(g.depths).tolist(), time, strict=True):
        a0 = end ** (depth / m) if math.isfinite(depth) else 0.0
        goal = (f if a0 <= s / lam else 2 - f) * s / lam
        if a0 > 0 and ("module_depth" not in g or m > 1):
            arrives(max(found - depth * module, 0.0), goal, s, a0, lam, depth, depth)
    return holds("times are positive", time >= 0)


LAW = {"layer_strength": (0.1, np.array([0.01, 0.3])), "initial_strength": (None,)}


@row("small_weight_law", **LAW, depth=(2, 3, 6), correlation=(1.0, np.array([2.0, 0.5])))
def _(time, g):
    b, depth = np.asarray(g.layer_strength), number(g.depth)
    # The slope in b is that of b^{1−D}; for D = 2, the law is zero at b = 1.
    law = np.log(1 / b) if depth == 2 else np.exp((2 - depth) * np.log(b)) / (depth - 2)
    return near(time, g.tau / np.asarray(g.correlation) * law)


PAIR = {"first": (0.3, -0.2, np.array([0.1, 2.0, -0.4]))}
PAIR |= {"second": (0.5, 0.01, np.array([0.3, -1.0, 0.4]))}


@row("unbalanced_weights", **PAIR, cost=4)
@row("unbalanced_strength", **PAIR, cost=4)
def _(found, g):
    w1, w2, s, lam, tau = arrays(g.first, g.second, g.correlation, g.input_variance, g.tau)
    if not moderate(w1, w2, s, lam, tau, g.times):
        return finite(found)
    slope = lambda w: w[::-1] * (s - lam * w[0] * w[1]) / tau
    path = np.moveaxis(flow(slope, np.stack([w1, w2]), g.times), np.ndim(g.times), 0)
    right = path if isinstance(found, tuple) else path[0] * path[1]
    return near(np.asarray(found), right, 1e-6, np.abs(path).max(initial=0.0))


# ----------------------------------------------------------------------------------------- modes


COVARIANCES = {"covariance": (None, np.eye(3), 0.7 * np.eye(3))}


@row("modes", task=made(tasks.from_moments, correlation=normal(2, 3), **COVARIANCES))
def _(modes, g):
    covariance = g.covariance
    u, s, v, lam = modes.left, modes.singular_values, modes.right, modes.input_variance
    near((u * s) @ v.T, g.correlation, 1e-10, np.abs(g.correlation).max(initial=0.0))
    near(covariance @ v, lam * v, 1e-7, np.abs(covariance).max(initial=0.0))
    return near([v.T @ v, u.T @ u], [np.eye(len(s))] * 2, 1e-10, 1.0)


@row("map_from_modes")
@row("mode_loss")
@row("item_similarity", layer=(1, 2), depth=(2, 3), x=(None, np.ones((4, 2))))
def _(found, g):
    """Check the map, its loss, or layers with |a|^{1/D} along each mode."""
    u, s, v = g["modes"].left, g["modes"].singular_values, g["modes"].right
    a, size = g.strengths[..., None, :], np.abs(g.strengths).max(initial=0.0)
    if "layer" in g:
        x = np.eye(len(v)) if g.x is None else g.x
        h = x @ v * np.abs(a) ** (int(g.layer) / number(g.depth))
        return near(found, h @ h.swapaxes(-1, -2), 1e-8, np.abs(h).max(initial=0.0) ** 2)
    if np.ndim(found) < g.strengths.ndim:
        return near(found, ((g.strengths - s) ** 2).sum(-1) / 2, 1e-8, np.sum(s**2))
    return near(found, (u * a) @ v.T, 1e-10, size)


@row("saddle_sequence", initial_strength=(1e-3, 0.1), depth=(2, 3, math.inf))
def _(found, g):
    s, a0, lam, tau = (value[found.order] for value in chain(g))
    holds("stages follow each other", np.diff(found.time) >= 0)
    falls = [0.0, *(s**2 / lam / 2).cumsum()]
    near(found.loss[0] - found.loss, falls, 1e-8, found.loss[0])
    return arrives(found.time, s / lam / 2, s, a0, lam, tau, number(g.depth))


# -------------------------------------------------------------------------------------- balanced


def matrices(rng, shape=None):
    """Return balanced weights of two layers, and a target correlation."""
    shapes = ((2, 2, 2), (3, 2, 2), (2, 2, 3), (3, 3, 2))
    inputs, hidden, outputs = shape or shapes[rng.integers(len(shapes))]
    balance = rng.choice([0.0, 0.5, 3.0, -1.0])
    balance *= hidden <= (outputs if balance > 0 else inputs)
    strengths = rng.uniform(0.05, 0.8, hidden)
    weights = balanced_weights(inputs, hidden, outputs, balance, strengths, rng)
    first, second = map(np.ascontiguousarray, weights)
    return {"first": first, "second": second, "correlation": normal(outputs, inputs)(rng)}


def trained(rng):
    """Return random balanced weights as a network, with a task."""
    first, second, correlation = matrices(rng).values()
    network = Made(networks.deep_linear_from, {"weights": [first, second]})
    return {"network": network, "task": moments(rng, correlation)}


def with_balance(rng):
    given = matrices(rng)
    gap = np.sum(given["second"] ** 2) - np.sum(given["first"] ** 2)
    return {**given, "balance": float(gap / len(given["first"]))}


def square(rng):
    given = matrices(rng, (2, 2, 2))
    return {"first": given["first"], "second": given["second"]}


NETWORK: dict[str, Any] = {
    "network": made(networks.deep_linear_from, weights=lambda rng: [*square(rng).values()])
}


def descent(first, second, correlation, times):
    """Return W₁ and W₂ of gradient flow on white inputs, or None if numbers are too extreme."""
    if first.ndim > 2 or not moderate(first, second, correlation, times):
        return None
    cut = first.size
    parts = lambda w: (
        w[..., :cut].reshape(*w.shape[:-1], *first.shape),
        w[..., cut:].reshape(*w.shape[:-1], *second.shape),
    )

    def slope(w):
        w1, w2 = parts(w)
        error = correlation - w2 @ w1
        return np.concatenate([(w2.T @ error).ravel(), (error @ w1.T).ravel()])

    return parts(flow(slope, np.concatenate([first.ravel(), second.ravel()]), times))


def same_map(found, g, times):
    path = descent(g.first, g.second, g.correlation, times)
    if path is None:
        return finite(found)
    right = path[1] @ path[0]
    return near(
        found, right, 1e-5, np.abs(right).max(initial=0.0) + np.abs(g.correlation).max(initial=0.0)
    )


@row("balanced_flow", trained, cost=3)
def _(found, g):
    times = np.array([0.0, 0.5, 2.0])
    return same_map(found(times).map, g, times / number(g.tau))


@row("balanced_gram", with_balance, cost=2)
def _(m, g):
    """Skip balances with the opposite sign, a convention of one source."""
    if ((g.second**2).sum() - (g.first**2).sum()) * g.balance < 0:
        return "kept"
    inputs = g.first.shape[-1]
    return same_map(m[..., inputs:, :inputs], g, g.times / number(g.tau))


@row("balanced_solution_terms", with_balance)
def _(found, g):
    """Check norms: B and C are the growing and decaying halves of the weights, D the remainder."""
    parts = (found.b**2).sum() / 2 + (found.c**2).sum() / 2 + (found.d**2).sum()
    s = np.linalg.svd(g.correlation, compute_uv=False)
    near(found.s_lambda, np.hypot(s, g.balance / 2), 1e-8, s[0])
    return near(parts, (g.first**2).sum() + (g.second**2).sum())


@row("measured_balance", **NETWORK)
def _(found, g):
    w1, w2 = g.first, g.second
    gram = w2.swapaxes(-1, -2) @ w2 - w1 @ w1.swapaxes(-1, -2)
    values, size = np.linalg.eigvalsh(gram), (w1**2).sum() + (w2**2).sum()
    near(found[0], values.mean(-1), 1e-10, size)
    return near(found[1], np.abs(values - found[0][..., None]).max(-1), 1e-10, size)


COVARIANCE = {"covariance": lambda rng: np.cov(rng.standard_normal((3, 9)))}


@row(
    "in_white_coordinates",
    network=made(networks.deep_linear_from, weights=lambda rng: [normal(2, 3)(rng), np.eye(2)]),
    task=made(tasks.from_moments, correlation=normal(2, 3), **COVARIANCE),
)
def _(found, g):
    """Check products that do not depend on which root of the covariance is taken."""
    network, task = found
    first, correlation = np.asarray(network.weights[0]), task.correlation
    digits = 1e-7 + 1e-13 * np.linalg.cond(g.covariance)
    size = np.abs(first).max(initial=0.0) * np.abs(correlation).max(initial=0.0)
    near(correlation @ first.T, g.correlation @ g.first.T, digits, size)
    right = g.first @ g.covariance @ g.first.T
    return near(first @ first.T, right, digits, np.abs(right).max(initial=0.0))


STAGES = {"times": ([np.array([0.5, 1.0]), np.array([1.0])], [1.0, 2.0]), "tau": (1.0,)}
SEVERAL = {"tasks": lambda rng: [white_samples(rng), moments(rng, normal(2, 2)(rng))]}


@row("continual_learning", **NETWORK, **SEVERAL, **STAGES, cost=4)
def _(found, g):
    w1, w2, tau = g.first, g.second, number(g.tau)
    seen = [Given(task=task).correlation for task in g["tasks"]]
    for k, sigma in enumerate(seen):
        times = np.atleast_1d(g["times"][k]) / tau
        path = descent(w1, w2, np.asarray(sigma, dtype=float), times)
        if path is None:
            return finite(found.map)
        near(
            found.map[found.stage == k], path[1] @ path[0], 1e-5, np.abs(found.map).max(initial=0.0)
        )
        w1, w2 = path[0][-1], path[1][-1]
    return "right"


@row("interference", correlations=normal(3, 2, 2), hidden=(None, 1, 2))
def _(rise, g):
    u, s, vt = np.linalg.svd(g.correlations, full_matrices=False)
    s[:, s.shape[1] if g.hidden is None else int(g.hidden) :] = 0.0
    losses = ((g.correlations - ((u * s[:, None]) @ vt)[:, None]) ** 2).sum((-2, -1)) / 2
    return near(rise, losses - np.diagonal(losses), 1e-8, np.sum(g.correlations**2))


@row("learning_regime", flow=made(linear.balanced_flow, trained), cost=10)
def _(found, g):
    flow, time = g["flow"], found.half_loss_time
    holds("kernels move by a cosine", (found.kernel_distance >= 0) & (found.kernel_distance <= 2))
    s = np.linalg.svd(flow.correlation, compute_uv=False)[0]
    kept = holds(
        "the kind is rich for small balance",
        (found.kind == "rich") == (abs(float(flow.balance)) / 2 <= s),
    )
    start, then = (1.0, 0.5) if time is None else flow(np.array([0.0, time])).loss()
    return near(then, start / 2, 1e-6) and kept


@row("reversal_time", balance=(0.2, -3.0, 0.0))
@row("reversal_initial_amplitude", balance=(0.2, -3.0, 0.0))
def _(found, g):
    """Check units: twice the data are learned in half the time."""
    s, lam = arrays(g.singular_values, g.balance)
    if "tau" in g:
        return near(found, 2 * linear.reversal_time(2 * s, 2 * lam, tau=g.tau))
    return near(found, linear.reversal_initial_amplitude(4 * s, 4 * lam) / 2)


# --------------------------------------------------------------------------------- small weights


def growing(g, left, right):
    return (g.first @ right + g.second.swapaxes(-1, -2) @ left) / 2


SMALL: dict[str, Any] = {"first": normal(3, 3, scale=1e-2), "second": normal(2, 3, scale=1e-2)}


@row("initial_mode_overlaps", **SMALL, left=(np.eye(2),), right=(np.eye(3)[:, :2],))
def _(gram, g):
    c = growing(g, g.left, g.right)
    return near(gram, c.swapaxes(-1, -2) @ c, 1e-8, np.abs(c).max(initial=0.0) ** 2)


@row("effective_initial_strengths", trained)
def _(found, g):
    u, s, vt = np.linalg.svd(g.correlation, full_matrices=False)
    grows = s > 1e-9 * s[0]  # vectors without correlation have no sign
    found, right = found[..., grows], (growing(g, u, vt.T) ** 2).sum(-2)[..., grows]
    apart = (np.diff(s[grows]) < -1e-6 * s[0]).all()
    near(found.sum(-1), right.sum(-1), 1e-7, np.abs(right).max(initial=0.0))
    return near(found, right, 1e-6, np.abs(right).max(initial=0.0)) if apart else "kept"


GRAM = {"gram": lambda rng: 0.01 * np.cov(rng.standard_normal((2, 9))), "tau": (1.0,)}


@row("coupled_mode_strengths", **GRAM, singular_values=(np.array([2.0, 0.5]), np.array([1.0, 1.0])))
def _(found, g):
    if not moderate(g.gram, g.times, g.singular_values, g.tau) or g.gram.ndim > 2:
        return finite(found)
    s = np.diag(g.singular_values)
    near(g.gram, g.gram.T, 1e-10)
    right = flow(lambda a: (s @ a + a @ s - 2 * a @ a) / number(g.tau), g.gram, g.times)
    return near(found, right, 1e-5, np.abs(right).max(initial=0.0))


def decoupled(rng):
    """Return layers that are decoupled in the modes of the data."""
    q = [np.linalg.qr(rng.standard_normal((2, 2)))[0] for _ in range(3)]
    b = rng.uniform(0.2, 1.0, (2, 2))
    weights = [(q[1] * b[0]) @ q[0].T, (q[2] * b[1]) @ q[1].T]
    sigma = (q[2] * np.array([2.0, 0.7])) @ q[0].T
    network = Made(networks.deep_linear_from, {"weights": weights})
    by_samples = white_samples(rng, targets=lambda x: x @ sigma.T)
    return {"network": network, "task": (by_samples, moments(rng, sigma))[rng.integers(2)]}


@row("measured_layer_strengths", decoupled)
def _(found, g):
    modes = linear.modes(g["task"])
    product = np.eye(len(modes.right))
    for weight in g.weights:
        product = weight @ product
    right = np.abs(modes.left.T @ product @ modes.right)
    return near(
        np.diag(np.abs(found.strengths.prod(0))), right, 1e-6, np.abs(product).max(initial=0.0)
    )


# ---------------------------------------------------------------------------------------- worlds


def edges(rng):
    w = np.triu(rng.uniform(0, 2, (4, 4)) * rng.integers(0, 2, (4, 4)), 1)
    return w + w.T


TREE = {"branching": ([2, 2], np.array([3, 1, 2]), [4]), "flip": (0.1, 0.0, 0.5)}
world = rows(
    "tasks.worlds",
    **dict.fromkeys(("items", "rows", "columns"), (3, 5)),
    coupling=(1.0, 0.3, 5.0),
    precision=(1.0, 0.1),
    sizes=([3, 2], [1], np.array([4, 1, 2])),
    **TREE,
)


@world("chain")
@world("ring")
@world("grid")
@world("torus")
@world("clusters")
@world("graph", weights=edges, items=(None, [2, 0]))
@world("tree")
def _(world, g):
    """Check eigenvalues and modes by NumPy; rows of the covariance add up to 1/precision."""
    c, values = world.covariance, world.eigenvalues
    digits = 1e-8 + 1e-14 * values[0] / np.clip(values[-1], 1e-12 * values[0], 1.0)
    digits += 1e-15 * number(g.get("coupling", 0.0)) / number(g.precision)
    near(np.sort(values), np.linalg.eigvalsh(c), digits, np.abs(c).max(initial=0.0))
    near(c @ world.modes, world.modes * values, digits, np.abs(c).max(initial=0.0))
    if not {"sizes", "items", "flip"} & {*g} or isinstance(g.get("items"), int):
        near(c.sum(0), np.full(len(c), 1 / number(g.precision)), digits)
    return near(world.modes.T @ world.modes, np.eye(len(c)), 1e-9, 1.0)


SEEN = {"world": made(worlds.tree, **TREE), "features": (4, 20), "initial_strength": (1e-3, 0.1)}


@row("differentiation_times", **SEEN, depth=(1, 2, 3))
def _(times, g):
    s = np.sqrt(number(g.features) * np.array([kind.eigenvalue for kind in g["world"].kinds]))
    return arrives(times, s / 2, s, g.initial_strength, 1.0, g.tau, number(g.depth))
