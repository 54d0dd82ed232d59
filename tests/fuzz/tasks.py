"""Rows of tasks: inputs, targets and averages, checked by loops and by moments."""

import itertools
import math

import jax
import numpy as np

from festina import networks, tasks
from festina.tasks import worlds

from .objects import layer, samples
from .objects import outputs as answers
from .routes import holds, near, normal
from .rows import rows

KEY = jax.random.key(5)
SPREAD = lambda rng: (a := rng.standard_normal((2, 2))) @ a.T + 0.1 * np.eye(2)

row = rows(
    "tasks",
    own=(1.0, 2.0),
    other=(0.0, -0.5),
    classes=(2, 3),
    covariance=SPREAD,
    samples=(None,),
    nodes=(None,),
    key=(None,),
    amplitudes=lambda rng: rng.uniform(0.3, 2, 2),
)


def whole(value):
    return int(np.asarray(value))


def one_hot(which, count):
    return np.array([[float(k == each) for k in range(count)] for each in which])


def weights_are_shares(task):
    holds("weights are shares", (task.weight >= 0).all() and abs(task.weight.sum() - 1) < 1e-9)


@row("from_arrays", x=normal(4, 2), y=normal(4, 1), weight=(None, np.array([1.0, 2.0, 1.0, 0.5])))
def _(found, g):
    weights_are_shares(found)
    if g["weight"] is not None:
        near(found.weight, g.weight / g.weight.sum(), 1e-9)
    near(found.x, g.x, 1e-6)
    return near(found.y.ravel(), np.ravel(g.y), 1e-6)


@row("targets_per_class")
def _(found, g):
    count = whole(g["classes"])
    right = [[g.own if a == b else g.other for a in range(count)] for b in range(count)]
    return near(found, right, 1e-9, max(abs(g.own), abs(g.other)))


@row(
    "classification", x=normal(4, 2), classes=(np.array([0.0, 1.0, 1.0, 2.0]), ["b", "a", "b", "c"])
)
def _(found, g):
    names = sorted(set(g["classes"])) if isinstance(g["classes"][0], str) else None
    which = [names.index(c) if names else whole(c) for c in g["classes"]]
    right = np.where(one_hot(which, max(which) + 1) > 0, g.own, g.other)
    near(found.labels["class"], which, 0)
    return near(found.y, right, 1e-9, max(abs(g.own), abs(g.other)))


@row("orthogonal_inputs", sizes=([1, 2], [3, 3, 1]))
def _(found, g):
    sizes = [whole(each) for each in g["sizes"]]
    gram = found.x @ found.x.T / found.x.shape[1]
    near(gram, np.eye(sum(sizes)), 1e-12, 1.0)
    return near([np.sum(found.labels["class"] == k) for k in range(len(sizes))], sizes, 0)


# -------------------------------------------------------------------------------------- Gaussian


def moments(x, weight, covariance):
    scale = np.abs(covariance).max()
    near(weight.sum(), 1.0, 1e-9)
    near(weight @ x, np.zeros(x.shape[1]), 1e-7, math.sqrt(scale))
    return near((weight[:, None] * x).T @ x, covariance, 1e-7, scale)


@row("gaussian_cubature_points", degree=(2, 4), nodes=(None, 5))
def _(found, g):
    """Check second moments, and a fourth moment by Isserlis' theorem."""
    x, weight = found
    result = moments(x, weight, g.covariance)
    if g["nodes"] is None and g.degree >= 4:
        c = g.covariance
        near(weight @ x[:, 0] ** 4, 3 * c[0, 0] ** 2, 1e-7, np.abs(c).max() ** 2)
    return result


@row("linear_teacher", weights=normal(2, 2))
@row("quadratic_teacher", weights=normal(2, 2), target_scale=(1.0, 0.5))
def _(found, g):
    w = np.atleast_2d(g.weights)
    right = found.x @ w.T
    if "target_scale" in g:
        right = g.target_scale * (right**2).sum(1, keepdims=True)
    near(found.y, right, 1e-9, np.abs(right).max())
    return moments(
        found.x, found.weight, np.eye(w.shape[1]) if g["covariance"] is None else g.covariance
    )


def drawn(rng):
    return {"samples": 5, "key": KEY} if rng.integers(2) else {}


@row("figure_1c_teacher", drawn)
def _(found, g):
    right = found.x @ np.array([1.0, 1.0, -1.0, 1.0]) / math.sqrt(5)
    near(found.y[:, 0], right, 1e-9, np.abs(right).max())
    if g["samples"] is not None:
        return near(len(found.x), whole(g["samples"]), 0)
    return moments(found.x, found.weight, np.diag([1.0, 1.0, 2.0, 1.0]))


@row("student_teacher", teacher=layer, nodes=(6,))
def _(found, g):
    right = answers(g["teacher"], found.x)
    return near(found.y, right, 1e-8, np.abs(right).max())


@row("in_context_regression", drawn, dimension=(2,), context=(4,), token_covariance=(None,))
def _(found, g):
    near(found.input_shape[0], whole(g["dimension"]) + 1, 0)
    if g["samples"] is None:
        return holds("a population has no samples", found.samples is None)
    return near(found.samples, whole(g["samples"]), 0)


@row("modular_addition", modulus=(5, 7), train_fraction=(0.5, 0.8), key=(KEY,))
def _(found, g):
    """Check that each pair is in exactly one of two tasks, with the right sum."""
    p = whole(g["modulus"])
    pairs = set()
    for part in found:
        a, b = part.x[:, :p].argmax(1), part.x[:, p : 2 * p].argmax(1)
        near(part.y.argmax(1), (a + b) % p, 0)
        pairs |= set(zip(a.tolist(), b.tolist(), strict=True))
    return near(len(pairs), p * p, 0)


# ------------------------------------------------------------------------------------ structures


@row("nested_tree_features", levels=(0, 2, 3), values=(1.0, 2.0))
@row("signed_tree_features", levels=(1, 2, 3), spread=(0.0, 0.5))
def _(found, g):
    """Check ancestors by arithmetic: item i is below node i // 2^(L − l) of level l."""
    levels = whole(g["levels"])
    items, right = range(2**levels), []
    if "values" in g:
        height = np.broadcast_to(g["values"], levels + 1)
        for level in range(levels + 1):
            for node in range(2**level):
                right.append([height[level] * (i >> (levels - level) == node) for i in items])
        return near(found, right, 1e-12)
    right.append([1.0 for _ in items])
    for level in range(levels):
        for node in range(2**level):
            side = lambda i, level=level: 1 - 2 * (i >> (levels - level - 1) & 1)
            right.append([side(i) * (i >> (levels - level) == node) for i in items])
    factor = [1 + g.spread / (j + 1) for j in range(len(right))]
    return near(found, np.array(factor)[:, None] * right, 1e-9, np.abs(factor).max())


@row("structured_task", source=normal(3, 4), features=(None,))
def _(found, g):
    near(found.x, np.eye(found.x.shape[0]), 0)
    return near(found.y, np.asarray(g.source).T, 1e-9)


@row("structured_features", structure=("tree", "ring", "crossed"), objects=(4, 8))
def _(found, g):
    n = whole(g["objects"])
    holds("features lie between 0 and 1", (found >= 0) & (found <= 1))
    holds("all items have the first feature", found[0] == 1)
    return near(found.shape, (2 * n - 1, n), 0)


@row(
    "objects_in_contexts",
    objects=(4, np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 1.0]])),
    contexts=(2, 3),
    context_input=(1.0, 0.5),
)
def _(found, g):
    """Check each example."""
    h = (
        tasks.nested_tree_features(round(math.log2(whole(g["objects"]))))
        if np.ndim(g["objects"]) == 0
        else g.objects
    )
    count, items = whole(g["contexts"]), h.shape[1]
    x, y = [], []
    for context, item in itertools.product(range(count), range(items)):
        here = [float(c == context) for c in range(count)]
        x.append([float(o == item) for o in range(items)] + [g.context_input * c for c in here])
        y.append([*h[:, item], *(each * c for c in here for each in h[:, item])])
    near(found.x, x, 1e-12)
    return near(found.y, y, 1e-9)


@row("xor", delta=(None, 0.5, 1.0))
def _(found, g):
    near(found.y[:, 0], [-a * b for a, b in itertools.product((-1, 1), repeat=2)], 0)
    margin = [] if g["delta"] is None else [float(np.asarray(g.delta)) * found.y[:, 0]]
    return near(found.x[:, 2:].T, np.reshape(margin, (-1, 4)), 1e-12)


@row("cyclic_domain_pairs", domains=(3, 4), outputs=(1, 2), first=(0, -1, 2))
def _(found, g):
    m, k, first = whole(g["domains"]), whole(g["outputs"]), whole(g["first"])
    right = np.zeros((m, m), bool)
    for i, step in itertools.product(range(m), range(k)):
        right[i, (i + first + step) % m] = True
    return near(found, right, 0)


@row("domain_routing", domains=(2, 3), trained=(None, 1), items=(2, 4), key=(None, KEY))
def _(found, g):
    """Check that rotations keep lengths, and that each item occurs once per pair of domains."""
    m, items = whole(g["domains"]), whole(g["items"])
    pairs = m * (m if g["trained"] is None else whole(g["trained"]))
    near(len(found.x), pairs * items, 0)
    near((found.x[:, : m * items] ** 2).sum(1), np.ones(len(found.x)), 1e-9)
    length = (tasks.nested_tree_features(round(math.log2(items))) ** 2).sum(0)
    return near((found.y**2).sum(1), length[found.labels["item"]], 1e-9)


@row(
    "features_of_related_domains",
    branching=([2, 2], [3]),
    source=(worlds.tree((2, 2), flip=0.2),),
    features=(2,),
    key=(KEY,),
)
def _(found, g):
    domains = math.prod(whole(each) for each in g["branching"])
    near(found.shape[0], domains, 0)
    near(found.shape[1], whole(g["features"]) * (1 + len(g["branching"])), 0)
    root = found[:, : whole(g["features"])]
    return holds("all inherit from the root", root == root[:1])


# ----------------------------------------------------------------------------------------- views


@row("multi_view_classes")
@row("views_of_independent_classes")
def _(found, g):
    a, k = g.amplitudes, whole(g["classes"])
    parts = found.x.reshape(len(found.x), len(a), k)
    near((parts**2).sum(2), np.broadcast_to(a**2, parts.shape[:2]), 1e-9)
    shown = parts.argmax(2)
    near(len(found.x), k if len(found.y.T) == k else k ** len(a), 0)
    right = (
        one_hot(shown[:, 0], k)
        if len(found.y.T) == k
        else np.hstack([one_hot(c, k) for c in shown.T])
    )
    return near(found.y, right, 0)


@row("correlated_views", overlap=(0.0, 0.4, 1.0), target=("sum", "common", "each"))
def _(found, g):
    """Check the moments of the signs."""
    weights_are_shares(found)
    signs = found.x / g.amplitudes
    gram = (found.weight[:, None] * signs).T @ signs
    return near(gram - np.diag(np.diag(gram)), g.overlap * (1 - np.eye(len(gram))), 1e-9, 1.0)


@row("conflicting_views", share=(0.0, 0.3, 1.0), cue=(True, False))
def _(found, g):
    weights_are_shares(found)
    differ = found.labels["first"] != found.labels["second"]
    near(found.weight @ differ, g.share, 1e-9, 1.0)
    asked = np.where(found.labels["cue"] == 0, found.labels["first"], found.labels["second"])
    return near(found.y, one_hot(asked, whole(g["classes"])), 0)


@row("distillation", teacher=layer, task=samples, through=("outputs", "features", "both"))
def _(found, g):
    right = answers(g["teacher"], found.x)
    if g["through"] == "outputs":
        return near(found.y, right, 1e-8, np.abs(right).max())
    return holds("targets are finite", np.isfinite(found.y))


@row(
    "from_moments",
    correlation=normal(2, 3),
    covariance=(None, np.diag([1.0, 2.0, 0.5])),
    target_power=(None, 100.0),
)
def _(found, g):
    """Check least squares from Σ_yx and Σ_xx, and the remaining loss."""
    seen = found.statistics(networks.NeuronUnit())
    best = np.linalg.lstsq(seen.psi, seen.y, rcond=None)[0].T
    near(best @ found.covariance, g.correlation, 1e-7, np.abs(g.correlation).max(initial=0.0))
    explained = np.sum(best * g.correlation)
    power = explained if g.target_power is None else g.target_power
    return near(seen.power, power, 1e-7, explained)
