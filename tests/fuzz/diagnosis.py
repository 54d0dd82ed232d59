"""Rows of diagnose: what is said of curves, kernels and weights, against NumPy."""

import numpy as np

from festina import diagnose

from .objects import both, half_loss, layer, outputs, responses, trajectory
from .outcomes import Fault
from .routes import drawn, holds, near, normal, one_of
from .rows import Made, row

RUN = one_of(trajectory(0)[0], trajectory(1)[0])


def gram(z):
    z = z - z.mean(-2, keepdims=True)
    return z @ z.swapaxes(-1, -2)


@row(
    "diagnose.classical_mds",
    one_of(0, 1).flatmap(
        lambda points: (
            normal(4, 3).map(lambda z: {"points": z})
            if points
            else normal(4, 3).map(lambda z: {"similarity": z @ z.T})
        )
    ),
    dimensions=one_of(1, 2),
)
def _(found, g):
    """Squares of the coordinates are the largest eigenvalues of centred inner products."""
    holds("shares are shares", (found.share >= 0) & (found.share <= 1 + 1e-9))
    if "points" in g and g.points is not None:
        if g.points.ndim > 2:
            return holds("points are finite", np.isfinite(found.points))
        b = gram(g.points)
    else:
        if g.similarity.ndim > 2:
            return holds("points are finite", np.isfinite(found.points))
        centring = np.eye(len(g.similarity)) - 1 / len(g.similarity)
        b = centring @ g.similarity @ centring
    top = np.linalg.eigvalsh(b)[::-1][: int(g.dimensions)].clip(0)
    top = np.pad(top, (0, found.points.shape[-1] - len(top)))
    return near((found.points**2).sum(0), top, 1e-6, np.abs(b).max())


def cosine(a, b, axes):
    axes = tuple(range(-int(axes), 0))
    a, b = (k / np.abs(k).max(axes, keepdims=True) for k in (a, b))
    return (a * b).sum(axes) / np.sqrt((a**2).sum(axes) * (b**2).sum(axes))


KERNELS = drawn(lambda rng: [k @ k.T for k in rng.standard_normal((2, 3, 3))])


@row(
    "diagnose.kernel_alignment_from",
    KERNELS.map(lambda k: dict(zip("ab", k, strict=True))),
    axes=one_of(2),
)
def _(found, g):
    return near(found, cosine(g.a, g.b, g.axes), 1e-8, 1.0)


@row(
    "diagnose.kernel_distance_from",
    KERNELS.map(lambda k: {"initial": k[0], "kernel": k[1]}),
    axes=one_of(2),
)
def _(found, g):
    return near(found, 1 - cosine(g.initial, g.kernel, g.axes), 1e-8, 1.0)


def kernel(network, x):
    """Products of slopes: of v, and of u by the chain rule."""
    phi, slope = responses(network, x)
    v = np.asarray(network.v)
    by_v = np.einsum("si,ti,op->ospt", phi, phi, np.eye(v.shape[1]))
    return by_v + np.einsum("io,si,ip,ti,st->ospt", v, slope, v, slope, x @ x.T)


ASKED = {"network": drawn(layer), "x": normal(4, 2)}


@row("diagnose.neural_tangent_kernel", **ASKED, cost=2)
def _(found, g):
    right = kernel(g["network"], g.x)
    return near(found, right, 1e-8, np.abs(right).max())


@row(
    "diagnose.representational_similarity",
    **ASKED,
    centred=one_of(True, False),
    cosine=one_of(True, False),
    cost=2,
)
def _(found, g):
    h = responses(g["network"], g.x)[0]
    h = h - h.mean(0) if g.centred else h
    length = np.linalg.norm(h, axis=1, keepdims=True)
    h = h / np.where(length > 0, length, 1) if g.cosine else h
    return near(found, (h @ h.T)[None], 1e-8, np.abs(h @ h.T).max())


@row("diagnose.kernel_distance", trajectory=RUN, x=normal(3, 2), cost=4)
def _(found, g):
    run = g["trajectory"]
    if run.batch_shape:
        return holds("distances are cosines", (found >= 0) & (found <= 2))
    each = [kernel(run.network.lane(k), g.x) for k in range(len(run.time))]
    return near(found, [1 - cosine(each[0], k, 4) for k in each], 1e-8, 1.0)


def curve(rng):
    """A loss that rests at a few levels, and what its slope is."""
    t = np.sort(rng.uniform(0, 10, 60)) if rng.integers(2) else np.linspace(0, 10, 60)
    drops = np.sort(rng.uniform(1, 9, 2))
    steps = [1 / (1 + np.exp(-8 * (t - d))) for d in drops]
    loss = 3.0 - 1.5 * steps[0] - steps[1]
    slope = -8 * (1.5 * steps[0] * (1 - steps[0]) + steps[1] * (1 - steps[1]))
    return {"time": t, "loss": loss, "slope": slope}


@row("diagnose.passage_time", drawn(curve), level=one_of(2.0, 1.0, 5.0, 0.1))
def _(found, g):
    below = np.flatnonzero(g.loss <= g.level)
    if not below.size or below[0] == 0:
        return holds("it never passes", np.isnan(found))
    first, last = g.time[below[0] - 1], g.time[below[0]]
    holds("it passes between the samples", (first <= found) & (found <= last))
    if g.slope is None:
        return "kept"
    # A straight line between the samples is as near as the curve is bent.
    straight = np.interp(-g.level, -g.loss[below[0] - 1 :][:2], [first, last])
    return near(found, straight, 1e-9, last - first + abs(last) * 1e-9) if last == first else "kept"


@row(
    "diagnose.plateaus",
    drawn(curve),
    squared_gradient=one_of(None),
    levels=one_of("linear", "log"),
    merge=one_of(1e-3, 0.1),
    prominence=one_of(0.5, 1.0),
    cost=2,
)
def _(found, g):
    t, loss = g.time, g.loss
    holds("there is one", len(found) >= 1)
    holds("levels fall", np.diff(found.level) <= 1e-12 * abs(loss[0]))
    holds("times are those of samples", found.time == t[found.index])
    holds(
        "plateaus last", (found.end >= found.start) & (found.start >= t[0]) & (found.end <= t[-1])
    )
    holds("drops lie between plateaus", np.all(np.diff(found.drop_time) >= 0))
    middle = (found.level[1:] + found.level[:-1]) / 2
    falling = np.minimum.accumulate(loss)
    if not np.array_equal(falling, loss):
        return "kept"
    for level, time in zip(middle, found.drop_time, strict=True):
        k = int(np.argmax(loss <= level * (1 + 1e-9)))
        low, high = t[max(k - 2, 0)], t[min(k + 1, len(t) - 1)]
        holds("the loss passes the middle there", (low <= time) & (time <= high))
    return "right"


@row(
    "diagnose.rays_from",
    drawn(lambda rng: {k: layer(rng, width=5).arguments[k] for k in "uv"}),
    angle=one_of(0.2, 0.5),
    share=one_of(0.05, 0.3),
)
def gathered(found, g):
    size = np.linalg.norm(g.u, axis=1) * np.linalg.norm(g.v.reshape(len(g.u), -1), axis=1)
    near(np.linalg.norm(found.direction, axis=1), np.ones(len(found.share)), 1e-9)
    holds("shares are shares", (found.share.sum() <= 1 + 1e-9) & np.all(found.share >= g.share))
    length = np.linalg.norm(g.u, axis=1, keepdims=True)
    unit = g.u / np.where(length > 0, length, 1)
    for direction, share in zip(found.direction, found.share, strict=True):
        close = unit @ direction >= np.cos(g.angle) - 1e-9
        holds("a ray has no more than all near it", share <= size[close].sum() / size.sum() + 1e-9)
    return "right"


@row("diagnose.rays", network=drawn(lambda rng: layer(rng, width=5)), angle=one_of(0.2, 0.5))
def _(found, g):
    network = g["network"]
    if network.batch_shape:
        return holds("each has its own", np.shape(found) == network.batch_shape)
    return gathered(found, type(g)({**g, "u": network.u, "v": network.v, "share": 0.05}))


@row("diagnose.kernel_alignment", drawn(both), cost=2)
def _(found, g):
    """With the targets' own kernel."""
    return holds("a cosine", (found >= -1 - 1e-9) & (found <= 1 + 1e-9))


@row(
    "diagnose.rests",
    trajectory=RUN,
    levels=one_of(None, [0.5, 0.1, 0.0]),
    merge=one_of(1e-3),
    cost=4,
)
def _(found, g):
    run = g["trajectory"]
    for index in np.ndindex(*run.batch_shape):
        lane = run.lane(*index)
        own = found[dict(zip(run.dims, index, strict=True))]
        merge = float(g.merge)
        right = diagnose.plateaus(
            lane.time, lane.loss, lane.squared_gradient, slope=lane.slope, merge=merge
        )
        near(own["level"].values[: len(right)], right.level, 1e-9)
        for k, time in enumerate(own["passage"].values if "passage" in own else ()):
            middle = (g["levels"][k] + g["levels"][k + 1]) / 2
            near(np.interp(time, lane.time, lane.loss), middle, 1e-2, lane.loss[0])
    return "right"


# ------------------------------------------------------------------------------------------ width


def narrow(found, network, task, tolerance):
    """The narrow network computes the same to within the tolerance."""
    f = outputs(network, task.x)
    less = 0 if found.reduced is None else outputs(found.reduced, task.x)
    rms = lambda z: np.sqrt(np.sum(task.weight[:, None] * z**2))
    scale = rms(task.y) or rms(f)
    holds("no wider than it was", 0 <= found.width <= network.width)
    error = rms(f - less) / scale if scale else 0.0
    holds(
        "it is within the tolerance",
        error <= tolerance * (1 + 1e-6) or found.width == network.width,
    )
    return near(found.error, error, 1e-6, 1e-6 + rms(f) / scale * 1e-6 if scale else 1.0)


def asked(rng):
    given = both(rng)
    return {"network": given["network"], "data": given["task"]}


@row(
    "diagnose.effective_width", drawn(asked), tolerance=one_of(0.1, 1e-6), angle=one_of(0.2), cost=4
)
def _(found, g):
    return narrow(found, g["network"], g["data"], float(g.tolerance))


def answered(rng):
    given = asked(rng)
    return {"found": Made(diagnose.effective_width, given), "data": given["data"]}


@row("diagnose.fitted_width", drawn(answered), cost=16)
def _(found, g):
    holds("no more than merged", found.width <= g["found"].width)
    return narrow(found, g["found"].network, g["data"], g["found"].tolerance)


@row(
    "diagnose.confirm",
    drawn(lambda rng: {**asked(rng), "found": None}).map(
        lambda d: {
            **d,
            "found": Made(diagnose.effective_width, {k: d[k] for k in ("network", "data")}),
        }
    ),
    loss=one_of("half"),
    max_steps=one_of(500),
    cost=16,
)
def _(found, g):
    right = half_loss(g["network"], g["data"])
    reduced = half_loss(g["found"].reduced, g["data"])
    near(found.reduced_loss, reduced, 1e-8)
    near(found.optimised_loss, half_loss(found.network, g["data"]), 1e-6, reduced)
    holds("descent does not rise", found.optimised_loss <= found.reduced_loss * (1 + 1e-9))
    return near(found.loss, right, 1e-8)


@row(
    "diagnose.plateau_widths",
    one_of(0, 1)
    .map(trajectory)
    .map(lambda two: dict(zip(("trajectory", "task"), two, strict=True))),
    strength=one_of(1.0),
    tolerance=one_of(0.1),
    cost=16,
)
def _(found, g):
    if g["trajectory"].batch_shape:
        raise Fault("takes a batch")
    level = found.plateaus.level
    holds("widths rise as the loss falls", np.diff(found.width[found.width >= 0]) >= 0)
    holds("each plateau is judged", len(found.width) == len(level))
    return holds("widths are widths", (found.width >= -1) & (found.width <= 3))
