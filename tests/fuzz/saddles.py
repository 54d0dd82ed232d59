"""Rows of theory.saddles: statements about arrays, and about networks and tasks by theirs."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
import scipy.linalg

from festina import networks, tasks
from festina.theory import saddles

from .objects import ACTIVATIONS, both, half_loss, layer, outputs, responses, samples
from .outcomes import Fault
from .routes import drawn, holds, moderate, near, one_of
from .rows import Given, Made, row

HERE = "theory.saddles"


def arrays(rng, inputs=2, outputs=2, scale=1e-2):
    u, v = scale * rng.standard_normal((3, inputs)), scale * rng.standard_normal((3, outputs))
    return {"u": u, "v": v, "correlation": rng.standard_normal((outputs, inputs))}


def white(rng, unit="linear", outputs=2, scale=1e-2):
    """A layer and a task with white inputs."""
    u, v = scale * rng.standard_normal((3, 2)), scale * rng.standard_normal((3, outputs))
    x = np.linalg.qr(rng.standard_normal((6, 2)))[0] * np.sqrt(6)
    y = x @ rng.standard_normal((2, outputs))
    y = y + x[:, :1] ** 2 if unit == "quadratic" else y
    network = Made(networks.layer, {"unit": unit, "u": u, "v": v})
    return {"network": network, "task": Made(tasks.task, {"x": x, "y": y})}


def moments(task):
    x, y, w = task.x, task.y, task.weight[:, None]
    return {"correlation": (w * y).T @ x, "covariance": (w * x).T @ x}


def of_objects(name, strategy, check, *, more=None, cost=1.0, **each):
    """The row of a network and a task, which is that of their arrays."""

    def by_arrays(found, g):
        network = g["network"]
        u = np.asarray(network.u, dtype=float)
        v = np.asarray(network.v, dtype=float)
        return check(found, Given({**g, "u": u, "v": v, **moments(g["task"]), **(more or {})}))

    row(f"{HERE}.{name}", strategy, cost=cost, **each)(by_arrays)


# ----------------------------------------------------------------------------------- linear phase


def svd(sigma):
    q, s, rt = np.linalg.svd(sigma, full_matrices=False)
    return q, s, rt.T


def growing(g):
    """c_ki = ½(q_k·v_i + r_k·u_i)."""
    q, s, r = svd(g.correlation)
    return (g.v @ q + g.u @ r) / 2, s


def by_exponential(found, g):
    u, v = found if isinstance(found, tuple) else (found.u, found.v)
    if not moderate(g.u, g.v, g.correlation, g.times) or g.u.ndim > 2:
        return holds("weights are finite", np.isfinite(u).all() & np.isfinite(v).all())
    sigma = g.correlation
    zero = lambda n: np.zeros((n, n))
    block = np.block([[zero(len(sigma)), sigma], [sigma.T, zero(sigma.shape[1])]])
    start = np.concatenate([g.v, g.u], axis=1).T
    right = np.array([(scipy.linalg.expm(block * t) @ start).T for t in np.ravel(g.times)])
    right = right.reshape(*np.shape(g.times), *right.shape[1:])
    both = np.concatenate([v, u], axis=-1)
    return near(both, right, 1e-8, np.abs(right).max())


PHASE_TIMES = one_of(np.array([0.0, 1.0, 2.5]), np.array([0.4]))
row(f"{HERE}.linear_phase_from", drawn(arrays), times=PHASE_TIMES)(by_exponential)
of_objects("linear_phase", drawn(white), by_exponential, times=PHASE_TIMES, cost=2)


def when_grown(found, g):
    """The projection on what grows fastest, followed until it has the size."""
    c, s = growing(g)
    top = s >= s[0] * (1 - 1e-9)
    length = np.sqrt(2) * np.linalg.norm(c[..., top], axis=-1)
    size = 1.0 if g.size is None else g.size
    right = np.where(s[0] > 0, np.maximum(np.log(size / length) / s[0], 0), np.inf)
    return near(found, right, 1e-6)


row(f"{HERE}.growth_times_from", drawn(arrays), size=one_of(1.0, 0.1))(when_grown)
of_objects("growth_times", drawn(white), when_grown, size=one_of(1.0, 0.1))


def amplitudes(found, g):
    c, s = growing(g)
    right = (c**2).sum(-2)
    near(found.sum(-1), right.sum(-1), 1e-8)
    apart = (np.diff(s) < -1e-6 * s[0]).all()
    return near(found, right, 1e-6, np.abs(right).max()) if apart else "kept"


row(f"{HERE}.mode_amplitudes_from", drawn(arrays))(amplitudes)
of_objects("mode_amplitudes", drawn(white), amplitudes)


@row(
    f"{HERE}.residual_exponent",
    singular_values=one_of(np.array([2.0, 1.0]), np.array([3.0, 3.0, 1.0]), [1.0]),
)
def _(p, g):
    s = np.sort(g.singular_values)[::-1]
    less = s[s < s[0] * (1 - 1e-9)]
    return near(p, 1 - less[0] / s[0] if less.size else 1.0, 1e-6)


def drops(found, g):
    """Gram–Schmidt of what grows, in the order of learning, and a logistic curve for each."""
    c, s = growing(g)
    if not moderate(s, c) or c.ndim > 2 or len(c) < len(s) or g.learning_rate is not None:
        return holds("times are positive", ~(found < 0))
    variance = np.diag(svd(g.correlation)[2].T @ g.covariance @ svd(g.correlation)[2])
    own = np.diagonal(np.linalg.qr(c)[1]) ** 2 * variance / s
    x = 1 - 1 / np.sqrt(2)
    right = np.log(x / (1 - x) * (1 - own) / own) / (2 * s)
    if not (np.diff(s) < -1e-3 * s[0]).all() or not (own < x).all():
        return "kept"
    return near(found, right, 1e-6, 1 / s)


row(
    f"{HERE}.mode_drop_times_from",
    drawn(lambda rng: {**arrays(rng), "covariance": np.eye(2) * rng.uniform(0.5, 2)}),
    learning_rate=one_of(None, None, 0.01),
)(drops)
of_objects("mode_drop_times", drawn(white), drops, learning_rate=one_of(None, 0.01))


# ------------------------------------------------------------------------------------------ units


def quadratic(rng):
    sigma = rng.standard_normal((2, 2))
    return {
        "u": 0.1 * rng.standard_normal((3, 2)),
        "v": 0.1 * rng.standard_normal(3),
        "correlation": sigma + sigma.T,
    }


def blow_up(u, v, sigma):
    """Integrated until a unit is large; it is infinite soon after."""
    size = np.linalg.norm([*u, v])

    def slope(_, w):
        return [*(2 * w[-1] * sigma @ w[:-1]), w[:-1] @ sigma @ w[:-1]]

    large = lambda _, w: np.linalg.norm(w) - 1e4 * size
    large.terminal = True
    longest = 1e4 / size
    path = scipy.integrate.solve_ivp(slope, (0, longest), [*u, v], events=large, rtol=1e-10)
    return path.t[-1] if path.t[-1] < longest else np.nan


def first_large(times, g):
    holds("times are positive", times > 0)
    if not moderate(g.u, g.v, g.correlation, size=1e3) or g.u.ndim > 2:
        return "kept"
    sigma, v = (g.correlation + g.correlation.T) / 2, g.v.reshape(g.u.shape[:-1])
    units = zip(g.u, v, times, strict=True)
    right = [blow_up(*unit, sigma) if np.isfinite(t) else np.nan for *unit, t in units]
    known = np.isfinite(right)
    near(times[known], np.array(right)[known], 1e-3)
    return "right" if known.any() else "kept"


row(f"{HERE}.blow_up_times_from", drawn(quadratic), cost=2)(first_large)


@row(f"{HERE}.winner_from", drawn(quadratic), cost=2)
def who(found, g):
    index, time = found
    times = saddles.blow_up_times_from(g["u"], g["v"], g["correlation"])
    return near(time, times.min(-1)) and holds("it is the first", index < times.shape[-1])


def squares(rng):
    """A layer of quadratic neurons with one output."""
    return white(rng, "quadratic", 1, 0.1)


def second_moment(task):
    return np.einsum("s,s,si,sj->ij", task.weight, task.y[:, 0], task.x, task.x)


@row(f"{HERE}.blow_up_times", drawn(squares), cost=4)
def _(times, g):
    network, sigma = g["network"], second_moment(g["task"])
    return first_large(times, Given(u=network.u, v=network.v[..., 0], correlation=sigma))


@row(f"{HERE}.winner", drawn(squares), cost=4)
def _(found, g):
    network, sigma = g["network"], second_moment(g["task"])
    return who(found, Given(u=network.u, v=network.v[..., 0], correlation=sigma))


# ------------------------------------------------------------------------------ saddles and levels


def explained(g):
    """μ: what each mode takes off twice the loss."""
    inverse = np.linalg.pinv(g.covariance, hermitian=True, rcond=1e-12)
    return np.linalg.eigvalsh(g.correlation @ inverse @ g.correlation.T)[::-1]


def power_of(g, mu):
    return mu.sum() if g.target_power is None else g.target_power


def one_saddle(found, g):
    mu = explained(g)
    near(found.loss, (power_of(g, mu) - mu[list(found.modes)].sum()) / 2, 1e-7, mu.sum())
    at_rest = (g.correlation - found.map @ g.covariance) @ found.map.T
    return near(
        at_rest, np.zeros(at_rest.shape), 1e-7, np.abs(mu).max() + np.abs(at_rest).max() * 0
    )


def all_saddles(found, g):
    for each in found:
        one_saddle(each, g)
    return "right" if found else "kept"


def regression(rng):
    x = rng.standard_normal((9, 3))
    y = x @ rng.standard_normal((3, 2))
    return {"correlation": y.T @ x / 9, "covariance": x.T @ x / 9}


CHOSEN = one_of((), (0,), (1, 0))
POWER = one_of(None, 100.0)
row(f"{HERE}.linear_saddle_from", drawn(regression), modes=CHOSEN, target_power=POWER)(one_saddle)
row(f"{HERE}.linear_saddles_from", drawn(regression), rank=one_of(None, 1), target_power=POWER)(
    all_saddles
)
TASK = drawn(lambda rng: samples(rng, 3, 2, 9))


def of_task(check):
    return lambda found, g: check(
        found,
        Given(
            {
                **moments(g["task"]),
                "target_power": np.sum(g["task"].weight[:, None] * g["task"].y ** 2),
            }
        ),
    )


row(f"{HERE}.linear_saddle", task=TASK, modes=CHOSEN)(of_task(one_saddle))
row(f"{HERE}.linear_saddles", task=TASK, rank=one_of(None, 1))(of_task(all_saddles))


def staircase(found, g):
    holds("levels fall", np.diff(found.levels) <= 0)
    holds("times rise", (np.diff(found.times) >= 0) & np.all(found.times[1:] >= 0))
    return holds("a stage more than jumps", len(found.levels) == len(found.times) + 1)


def linear_steps(found, g):
    staircase(found, g)
    mu, floor = explained(g), 0.0 if g.floor is None else g.floor
    for level, active in zip(found.levels, found.active, strict=True):
        near(level, floor + (mu.sum() - mu[list(active)].sum()) / 2, 1e-6, mu.sum())
    return "right"


def diagonal_steps(found, g):
    staircase(found, g)
    floor = 0.0 if g.floor is None else g.floor
    for level, active in zip(found.levels, found.active, strict=True):
        on = np.array(active, dtype=int)
        beta = np.zeros(len(g.correlation))
        beta[on] = np.linalg.lstsq(g.covariance[np.ix_(on, on)], g.correlation[on], rcond=None)[0]
        best = np.linalg.lstsq(g.covariance, g.correlation, rcond=None)[0] - beta
        near(
            level, floor + best @ g.covariance @ best / 2, 1e-6, floor + np.abs(g.correlation).max()
        )
    return "right"


row(
    f"{HERE}.linear_staircase_from",
    drawn(lambda rng: {**arrays(rng, 3, 2, 1e-4), **regression(rng)}),
    floor=one_of(0.0, 0.3),
    cost=4,
)(linear_steps)
row(
    f"{HERE}.diagonal_staircase_from",
    drawn(
        lambda rng: {
            "u": 1e-4 * rng.standard_normal(3),
            "v": 1e-4 * rng.standard_normal(3),
            "correlation": rng.standard_normal(3),
            "covariance": np.cov(rng.standard_normal((3, 9))),
        }
    ),
    floor=one_of(0.0, 0.3),
    cost=4,
)(diagonal_steps)
row(f"{HERE}.staircase", drawn(lambda rng: white(rng, scale=1e-4)), cost=8)(staircase)


# ----------------------------------------------------------------------------------------- layers


def slopes(network, task):
    """Gradients of the loss by u and v."""
    phi, slope = responses(network, task.x)
    error = task.weight[:, None] * (phi @ network.v - task.y)
    return np.einsum("so,io,si,sd->id", error, network.v, slope, task.x), phi.T @ error


@row(f"{HERE}.stationarity", drawn(both), cost=2)
def _(found, g):
    right = np.sqrt(sum((part**2).sum() for part in slopes(g["network"], g["task"])))
    return near(found.gradient, right, 1e-8, 1e-14)


def at_zero(rng):
    given = white(rng, rng.choice(["linear", "tanh"]))
    weights = given["network"].arguments
    weights["u"], weights["v"] = 0 * weights["u"], 0 * weights["v"]
    return given


@row(f"{HERE}.ways_out", drawn(at_zero), most=one_of(None, 1), cost=8)
def _(found, g):
    """Negative eigenvalues of the Hessian that JAX has of the loss written here."""
    network, task = g["network"], g["task"]
    phi = {"linear": lambda a: a, "tanh": jnp.tanh}.get(network.unit.activation.name)
    if phi is None:
        return holds("rates are positive", found.rates > 0)
    border = network.u.size

    def loss(w):
        u, v = w[:border].reshape(network.u.shape), w[border:].reshape(network.v.shape)
        return jnp.sum(task.weight[:, None] * (phi(task.x @ u.T) @ v - task.y) ** 2) / 2

    with jax.enable_x64(True):
        start = np.concatenate([np.ravel(network.u), np.ravel(network.v)])
        curvature = np.linalg.eigvalsh(np.asarray(jax.hessian(loss)(jnp.asarray(start))))
    size = np.abs(curvature).max()
    left = -curvature[curvature < -1e-7 * size]
    return near(found.rates, left[: len(found.rates)], 1e-6, size)


@row(f"{HERE}.narrowings", drawn(both), angle=one_of(0.2, 0.5), cost=4)
def _(found, g):
    network, task = g["network"], g["task"]
    f = outputs(network, task.x)
    rms = lambda z: np.sqrt(np.sum(task.weight[:, None] * z**2))
    for each in found:
        scale = rms(task.y) if np.any(task.y) else rms(f)
        near(each.scale, scale, 1e-8)
        for h in range(1, each.network.width + 1):
            less = outputs(each.narrow(h), task.x)
            near(each.error[h] * each.scale, rms(f - less), 1e-6, 1e-6 * rms(f))
    return "right"


@row(
    f"{HERE}.narrow_minima",
    unit=one_of("linear", "tanh"),
    task=drawn(samples),
    width=one_of(1),
    starts=one_of(4),
    seed=one_of(0, 1),
    cost=20,
)
def minima(found, g):
    holds("levels rise", np.diff(found.loss) >= 0)
    for k, loss in enumerate(found.loss):
        network = found.network.lane(k)
        near(loss, half_loss(network, g["task"]), 1e-8)
        slope = np.sqrt(sum((part**2).sum() for part in slopes(network, g["task"])))
        size = np.sqrt(np.sum(network.u**2) + np.sum(network.v**2))
        holds("they are at rest", slope * size <= 1e-4 * half_loss(None, g["task"]))
    return "right"


def several(rng):
    u, v = rng.standard_normal((2, 1, 2)), rng.standard_normal((2, 1, 1))
    return Made(networks.layer, {"unit": "tanh", "u": u, "v": v})


row(f"{HERE}.minima_near", networks=drawn(several), task=drawn(samples), cost=20)(minima)


# -------------------------------------------------------------------------- embeddings, manifolds


@row(
    f"{HERE}.embed",
    network=drawn(lambda rng: layer(rng, width=2, kinds=("linear", "relu"))),
    width=one_of(3, 4),
    kind=one_of("equal", "zero", "proportional"),
    gamma_u=one_of(None, 0.7),
    gamma_v=one_of(None, 0.3, -1.0),
)
def _(found, g):
    x = np.array([[1.0, 0.3], [-0.5, 2.0], [0.1, -1.0]])
    holds("it is as wide", found.width == g.width)
    return near(outputs(found, x), outputs(g["network"], x), 1e-8, np.abs(found.v).max() + 1)


@row(
    f"{HERE}.embed_from",
    drawn(
        lambda rng: {
            name: rng.standard_normal(shape)
            for name, shape in {
                "u": (2, 3),
                "v": (2, 1),
                "gamma_u": (1, 2),
                "gamma_v": (1, 2),
            }.items()
        }
    ),
)
def _(found, g):
    """Linear units compute the same whatever Γ is."""
    size = np.abs(found[0]).max() * np.abs(found[1]).max()
    return near(found[0].T @ found[1], g.u.T @ g.v, 1e-8, size)


EQUAL = one_of(
    Made(saddles.Constraint, {"kind": "equal", "unit": 2, "others": (0,)}),
    Made(saddles.Constraint, {"kind": "zero", "unit": 1}),
    Made(saddles.Constraint, {"kind": "proportional", "unit": 1, "others": (2,), "gamma": (0.5,)}),
    Made(saddles.Constraint, {"kind": "linear", "unit": 0, "others": (1, 2), "gamma": (1.0, -2.0)}),
)
LISTED = EQUAL.map(lambda one: [one])
LAYER = drawn(lambda rng: layer(rng, kinds=("linear",)))


def normal_part(network, constraints):
    """What of the weights breaks the relations, and where they would be without it."""
    c = np.zeros((len(constraints), network.u.shape[-2]))
    for each, relation in zip(c, constraints, strict=True):
        each[relation.unit] = 1.0
        each[list(relation.others)] = [-g for g in relation.gamma] or -1.0
    theta = np.concatenate([network.u, network.v], axis=-1)
    broken = np.linalg.pinv(c) @ c @ theta
    return theta, broken, np.linalg.norm(broken, axis=(-2, -1))


@row(f"{HERE}.manifold_distance", network=LAYER, constraints=LISTED)
def _(found, g):
    theta, _, right = normal_part(g["network"], g["constraints"])
    return near(found, right, 1e-8, 1e-8 * np.abs(theta).max())


@row(f"{HERE}.on_manifold", network=LAYER, constraints=LISTED, tolerance=one_of(1e-10, 0.5))
def _(found, g):
    theta, _, right = normal_part(g["network"], g["constraints"])
    size = np.linalg.norm(theta, axis=(-2, -1))
    clear = np.abs(right - g.tolerance * size) > 1e-12 * size
    return holds("distances decide", (found == (right <= g.tolerance * size)) | ~clear) and "right"


@row(f"{HERE}.project_on_manifold", network=LAYER, constraints=LISTED)
def _(found, g):
    theta, broken, _ = normal_part(g["network"], g["constraints"])
    both = np.concatenate([found.u, found.v], axis=-1)
    return near(both, theta - broken, 1e-8, np.abs(theta).max())


def moving(rng):
    u, v = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 3, 1))
    return Made(networks.layer, {"unit": "linear", "u": u, "v": v})


@row(f"{HERE}.manifold_drift", network=drawn(moving), constraints=LISTED)
def _(found, g):
    theta, _, right = normal_part(g["network"], g["constraints"])
    return near(found, right.max(-1), 1e-8, 1e-8 * np.abs(theta).max())


@row(
    f"{HERE}.leaving_speed",
    drawn(lambda rng: both(rng, kinds=("linear",))),
    constraints=LISTED,
    cost=2,
)
def _(found, g):
    """Linear units keep what is linear."""
    return holds("nothing leaves", (found >= 0) & (found <= 1e-6))


@row(f"{HERE}.reduce_width", network=LAYER, constraints=LISTED, same_flow=one_of(False, True))
def _(found, g):
    x = np.array([[1.0, 0.3], [-0.5, 2.0], [0.1, -1.0]])
    theta, _, off = normal_part(g["network"], g["constraints"])
    holds("fewer units are left", found.width == g["network"].width - len(g["constraints"]))
    if np.any(off > 1e-9 * np.abs(theta).max()) or g["network"].batch_shape:
        return "kept"
    return near(outputs(found, x), outputs(g["network"], x), 1e-6, np.abs(theta).max() ** 2)


@row(
    f"{HERE}.readout_on_manifold", gamma_u=one_of(0.5, np.array([0.3, -1.0]), np.ones((2, 3)), 2.0)
)
def _(found, g):
    gamma = np.asarray(g.gamma_u, dtype=float)
    if gamma.ndim < 2:
        return near(found, gamma / (1 + (gamma**2).sum()), 1e-9)
    return near(np.linalg.inv(np.eye(len(gamma)) + gamma @ gamma.T) @ gamma, found, 1e-8, 1e-12)


PHI = one_of("linear", "relu", "tanh", "quadratic")
ORDERS = {"linear": 1, "relu": 1, "tanh": 1, "quadratic": 2}


@row(f"{HERE}.is_invariant", unit=PHI, constraint=EQUAL)
def _(found, g):
    kind, unit = g["constraint"].kind, g["unit"]
    if unit not in ACTIVATIONS:
        raise Fault("takes it for a unit")
    right = {"equal": True, "zero": True, "linear": unit == "linear"}
    right |= {
        "proportional": unit == "linear" or (unit == "relu" and g["constraint"].gamma[0] >= 0)
    }
    special = kind == "proportional" and g["constraint"].gamma[0] in (1, 0, -1)
    return "kept" if special or kind == "mirrored" else near(found, right[kind])


@row(f"{HERE}.mechanism", phi=PHI)
def _(found, g):
    return near(found.order, ORDERS[g["phi"]])


@row(f"{HERE}.drive", phi=PHI, task=drawn(samples), draws=one_of(64, 8), seed=one_of(0, 3), cost=2)
def _(found, g):
    near(found.order, ORDERS[g["phi"]])
    return holds("strengths are correlations", (found.strength >= 0) & (found.strength <= 1 + 1e-9))
