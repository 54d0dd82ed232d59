"""Rows of diagnose: results for curves, kernels and weights, checked by NumPy."""

import jax
import numpy as np

from festina import diagnose

from .objects import half_loss, layer, mean_square, outputs, responses, samples, trajectory
from .routes import finite, holds, near, normal
from .rows import rows

row = rows(
    "diagnose",
    network=layer,
    task=samples,
    x=normal(4, 2),
    axes=(2,),
    trajectory=lambda rng: trajectory(int(rng.integers(2)))[0],
    angle=(0.2, 0.5),
    share=(0.05, 0.3),
)


def points_or_products(rng):
    z = rng.standard_normal((4, 3))
    return {"points": z} if rng.integers(2) else {"similarity": z @ z.T}


@row("classical_mds", points_or_products, dimensions=(1, 2))
def _(found, g):
    """Check that squared coordinates are the largest eigenvalues of centred inner products."""
    holds("shares lie between 0 and 1", (found.share >= 0) & (found.share <= 1 + 1e-9))
    if found.points.ndim > 2:
        return finite(found.points)
    whole = g.similarity if g.points is None else g.points @ g.points.T
    b = whole - whole.mean(0) - whole.mean(1, keepdims=True) + whole.mean()
    top = np.linalg.eigvalsh(b)[::-1][: int(g.dimensions)].clip(0)
    top = np.pad(top, (0, found.points.shape[-1] - len(top)))
    return near((found.points**2).sum(0), top, 1e-6, np.abs(whole).max(initial=0.0))


# ---------------------------------------------------------------------------------------- kernels


def cosine(a, b, axes):
    axes = tuple(range(-int(axes), 0))
    a, b = (k / np.abs(k).max(axes, keepdims=True) for k in (a, b))
    return (a * b).sum(axes) / np.sqrt((a**2).sum(axes) * (b**2).sum(axes))


SQUARE = lambda rng: (k := rng.standard_normal((3, 3))) @ k.T


@row("alignment_between_kernels", a=SQUARE, b=SQUARE)
@row("distance_between_kernels", initial=SQUARE, kernel=SQUARE)
def _(found, g):
    right = cosine(g.a, g.b, g.axes) if "a" in g else 1 - cosine(g.initial, g.kernel, g.axes)
    return near(found, right, 1e-8, 1.0)


def kernel(network, x):
    """Return the tangent kernel from the derivatives by v, and by u with the chain rule."""
    phi, slope = responses(network, x)
    v = np.asarray(network.v)
    by_v = np.einsum("si,ti,op->ospt", phi, phi, np.eye(v.shape[1]))
    return by_v + np.einsum("io,si,ip,ti,st->ospt", v, slope, v, slope, x @ x.T)


@row("neural_tangent_kernel", cost=2)
def _(found, g):
    right = kernel(g["network"], g.x)
    return near(found, right, 1e-8, np.abs(right).max(initial=0.0))


@row("tangent_kernel_alignment", cost=2)
def _(found, g):
    task = g["task"]
    root = np.sqrt(task.weight)
    own = root[:, None, None] * root * kernel(g["network"], task.x)
    y = root[:, None] * task.y
    return near(found, cosine(own, np.einsum("so,tp->ospt", y, y), 4), 1e-8, 1.0)


@row("tangent_kernel_distance", cost=4)
def _(found, g):
    run = g["trajectory"]
    if run.batch_shape:
        return holds("distances are cosines", (found >= 0) & (found <= 2))
    each = [kernel(run.network.lane(k), g.x) for k in range(len(run.time))]
    return near(found, [1 - cosine(each[0], k, 4) for k in each], 1e-8, 1.0)


@row("representational_similarity", centred=(True, False), cosine=(True, False), cost=2)
def _(found, g):
    h = responses(g["network"], g.x)[0]
    h = h - h.mean(0) if g.centred else h
    length = np.linalg.norm(h, axis=1, keepdims=True)
    h = h / np.where(length > 0, length, 1) if g.cosine else h
    return near(found, (h @ h.T)[None], 1e-8, np.abs(h @ h.T).max(initial=0.0))


# ----------------------------------------------------------------------------------------- curves


def curve(rng):
    """Return a loss with a few plateaus, and its slope."""
    t = np.sort(rng.uniform(0, 10, 60)) if rng.integers(2) else np.linspace(0, 10, 60)
    first, second = (1 / (1 + np.exp(-8 * (t - d))) for d in np.sort(rng.uniform(1, 9, 2)))
    slope = -8 * (1.5 * first * (1 - first) + second * (1 - second))
    return {"times": t, "loss": 3.0 - 1.5 * first - second, "slope": slope}


@row("passage_time", curve, level=(2.0, 1.0, 5.0, 0.1))
def _(found, g):
    below = np.flatnonzero(g.loss <= g.level)
    if not below.size or below[0] == 0 or np.isnan(g.loss[below[0] - 1]):
        return holds("the loss does not pass the level", np.isnan(found))
    first, last = g.times[below[0] - 1 : below[0] + 1]
    inside = (first <= found) & (found <= last + 1e-12 * abs(last))
    return holds("it passes between the samples", inside)


PLATEAUS = {"levels": ("linear", "log"), "merge": (1e-3, 0.1), "prominence": (0.5, 1.0)}


@row("plateaus", curve, squared_gradient=(None,), **PLATEAUS, cost=2)
def _(found, g):
    t, loss = g.times, g.loss
    holds("there is a plateau", len(found) >= 1)
    holds("levels fall", np.diff(found.level) <= 1e-12 * abs(loss[0]))
    holds("times are those of samples", found.time == t[found.index])
    holds("drops lie between plateaus", np.diff(found.drop_time) >= 0)
    return holds(
        "plateaus begin before they end", (t[0] <= found.start) & (found.start <= found.end)
    )


@row("plateaus_of_batch", levels=(None, [0.5, 0.1, 0.0]), merge=(1e-3,), cost=4)
def _(found, g):
    run = g["trajectory"]
    for index in np.ndindex(*run.batch_shape):
        lane = run.lane(*index)
        own = found[dict(zip(run.dims, index, strict=True))]
        curves = lane.time, lane.loss, lane.squared_gradient
        right = diagnose.plateaus(*curves, slope=lane.slope, merge=float(g.merge))
        near(own["level"].values[: len(right)], right.level, 1e-9)
    return "right"


# ------------------------------------------------------------------------------------------ width


@row("unit_clusters_from", u=normal(5, 2), v=normal(5, 1))
@row("unit_clusters", network=lambda rng: layer(rng, width=5))
def _(found, g):
    if g.u.ndim > 2:
        return holds("each network has its own value", np.shape(found) == g["network"].batch_shape)
    u, v = (part / np.abs(part).max(initial=0.0) for part in (g.u, g.v.reshape(len(g.u), -1)))
    length = np.linalg.norm(u, axis=1)
    size = length * np.linalg.norm(v, axis=1)
    near(np.linalg.norm(found.direction, axis=1), np.ones(len(found.share)), 1e-9)
    holds(
        "shares lie between 0 and 1",
        (found.share.sum() <= 1 + 1e-9) & np.all(found.share >= g.share),
    )
    # Units are within the angle of the largest unit, which is within the angle of their mean.
    close = u @ found.direction.T >= (np.cos(min(2 * g.angle, np.pi)) - 1e-9) * length[:, None]
    most = size @ close / size.sum()
    return (
        holds("the share of a ray is at most the share near it", found.share <= most + 1e-9)
        and "right"
    )


def narrow(found, network, task, tolerance):
    """Check that the outputs of the narrow network agree within the tolerance."""
    f = outputs(network, task.x)
    rms = lambda z: np.sqrt(mean_square(z, task))
    scale = rms(task.y) or rms(f)
    holds("no wider than it was", 0 <= found.width <= network.width)
    error = rms(f - outputs(found.narrow, task.x)) / scale if scale else 0.0
    same = error <= tolerance * (1 + 1e-6) or found.width == network.width
    holds("it is within the tolerance", same)
    return near(found.error, error, 1e-6, 1e-6 + rms(f) / scale * 1e-6 if scale else 1.0)


@row(
    "effective_width",
    network=layer,
    x=samples,
    tolerance=(0.1, 1e-6),
    tune=(True, False),
    steps=(20,),
    cost=4,
)
def _(found, g):
    return narrow(found, g["network"], g["x"], float(g.tolerance))


def course(rng):
    return dict(zip(("trajectory", "task"), trajectory(0), strict=True))


@row(
    "gating",
    network=lambda rng: np.maximum(normal(20, 6)(rng), 0),
    x=(None,),
    layer=(1,),
    strengths=lambda rng: rng.uniform(0.1, 1, 6),
    threshold=(1e-3, 0.3),
    least=(1e-3,),
    pathways=(None, 2),
    most=(4,),
    key=(None, jax.random.key(1)),
    cost=8,
)
def _(found, g):
    """Check sets of each unit, and properties that hold for all pathways."""
    h = g.network
    weight = np.ones((*h.shape[:-2], h.shape[-1])) if g.strengths is None else np.abs(g.strengths)
    top = np.maximum(h.max(axis=-2), 0)
    dead = (top <= 0) | (weight <= g.least * weight.max(initial=0.0))
    holds("dead units are in no pathway", (found.pathway < 0) == dead)
    holds("other units are in a pathway", found.pathway[~dead] < len(found.share))
    near(found.share.sum(), 1.0, 1e-9)
    holds("few examples tell nothing", h.shape[-2] > 3 or not found.stable)
    holds("gates by chance are not stable", not found.stable or g.pathways is not None)
    return near(found.active, np.swapaxes(h > g.threshold * top[..., None, :], -1, -2))


@row("gate_changes", course, cost=16)
def _(found, g):
    """Check that linear units are always active."""
    holds("no gate ever changes", found.changed == 0)
    return near(found.loss, g["trajectory"].loss, 1e-8, 1e-8)


# ------------------------------------------------------------------------------------ selectivity

DESIGN = {
    "objects": np.tile(np.arange(4.0), 6),
    "contexts": np.repeat(np.tile(np.arange(3.0), 2), 4),
}


def activity(rng):
    """Return activities of ReLU units or recordings: spike counts, z-scores, a constant unit."""
    h = rng.standard_normal((24, 5))
    kind = rng.integers(4)
    if kind == 0:
        return np.maximum(h, 0)
    h = rng.poisson(np.exp(1 + h)).astype(float)
    if kind > 1:
        h = (h - h.mean(axis=0)) / np.maximum(h.std(axis=0), 1e-9)
    if kind > 2:
        h[:, 0] = 2.0
    return h


def interaction(h, objects, contexts):
    """Return the effect size ω² of the interaction, by two fitted models."""
    one = np.ones((len(h), 1))
    kinds = [np.unique(each, return_inverse=True)[1] for each in (objects, contexts)]
    pairs = np.unique(np.stack(kinds, axis=1), axis=0, return_inverse=True)[1].ravel()
    labels = [np.eye(k.max() + 1)[k] for k in (*kinds, pairs)]
    models = np.hstack((one, *labels[:2])), labels[2]
    left = [np.sum((h - x @ (np.linalg.pinv(x) @ h)) ** 2, axis=0) for x in models]
    ranks = [np.linalg.matrix_rank(x) for x in models]
    if ranks[1] == len(h):
        return np.full(h.shape[1], np.nan)
    noise = left[1] / (len(h) - ranks[1])
    total = np.sum((h - h.mean(axis=0)) ** 2, axis=0)
    return (left[0] - left[1] - (ranks[1] - ranks[0]) * noise) / (total + noise)


@row(
    "selectivity",
    (DESIGN,),
    activations=activity,
    task=(None,),
    x=(None,),
    strengths=lambda rng: rng.uniform(0.1, 1, 5),
    threshold=(1e-3, 0.3, "split", None),
    least=(1e-3,),
    anova=("full", "means", None),
    random=(0, 20),
    shuffles=(2,),
    layer=(1,),
    cost=2,
)
def _(found, g):
    """Check each unit in each context, and the interaction by least squares."""
    h, contexts = g.activations, np.ravel(g.contexts)
    weight = np.ones(h.shape[1]) if g.strengths is None else g.strengths
    top = np.abs(h).max(axis=0)
    alive = (top > 0) & (weight > g.least * weight.max(initial=0.0))
    h, weight = h[:, alive] / top[alive], weight[alive] / weight[alive].max(initial=0.0)
    omega, own = interaction(h, np.ravel(g.objects), contexts), found.units["interaction"].values
    known = np.isfinite(own) & np.isfinite(omega)
    near(own[known], omega[known], 1e-6, 1.0)
    holds("shares lie between 0 and 1", np.isclose(found.shares.sum(), 1))
    if g.threshold is None:  # without a warning, units rest at zero
        holds("activities are not negative", h >= 0)
    if isinstance(g.threshold, str):
        return "kept"
    threshold, h = 1e-3 if g.threshold is None else g.threshold, np.abs(h)
    here = [contexts == each for each in np.unique(contexts)]
    on = [sum(np.mean(unit[c] > threshold) >= 0.5 for c in here) for unit in h.T]
    near(found.contexts_on, np.average(on, weights=weight), 1e-9)
    parts = np.array([[unit[c].mean() for c in here] for unit in h.T])
    pure = (parts / parts.sum(axis=1, keepdims=True)).max(axis=1)
    return near(found.purity, np.average(pure, weights=weight), 1e-9)


@row(
    "coding_scheme",
    activations=normal(12, 10),
    labels=lambda rng: rng.permutation(np.repeat(np.arange(3.0), 4)),
    x=normal(12, 4),
    resamples=(2,),
    shuffles=(5,),
    cost=4,
)
def _(found, g):
    """Check each class, and properties that hold for every verdict."""
    h, labels = g.activations / np.abs(g.activations).max(), np.ravel(g.labels)
    kinds = np.unique(labels)
    off = h - h.mean(axis=0)
    within = sum(((h[labels == c] - h[labels == c].mean(axis=0)) ** 2).sum() for c in kinds)
    share = 1 - within / (off**2).sum() * (len(h) - 1) / (len(h) - len(kinds))
    holds("votes are shares", np.isclose(sum(found.votes.values()), 1))
    inherited = found.evidence.inherited
    holds("inputs have a share", inherited is None or 0 <= inherited <= 1)
    holds("a verdict needs a share of classes above 0.1", found.verdict == "none" or share > 0.1)
    part = found.evidence.participation
    holds("units take part", (part > 0) & (part <= 1 + 1e-9))
    return near(found.evidence.class_share, share, 1e-8, 1.0)


@row("layer_nonlinearity", network=lambda rng: layer(rng, kinds=("relu", "linear", "tanh")))
def _(found, g):
    network, task = g["network"], g["task"]
    a, h = task.x @ np.asarray(network.u).T, responses(network, task.x)[0]
    whole = mean_square(a, task)
    near(found.kept, [mean_square(h, task) / whole if whole else 1.0], 1e-8)
    straight = mean_square(task.y - a @ np.asarray(network.v), task) / 2
    near(found.loss, [straight], 1e-8, mean_square(task.y, task))
    return near(found.network_loss, half_loss(network, task), 1e-8, mean_square(task.y, task))
