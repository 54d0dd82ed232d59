"""Rows of theory.coding, checked by grids, by self-consistency equations and by joint Gaussians."""

import itertools

import numpy as np
import scipy.special

from festina.tasks import targets_per_class
from festina.theory import coding

from .objects import samples
from .outcomes import Fault
from .routes import finite, holds, moderate, near, normal
from .rows import rows

NAMED = {
    "linear": lambda z: z,
    "erf": lambda z: scipy.special.erf(np.sqrt(np.pi) / 2 * z),
    "erf-sigmoid": lambda z: scipy.special.ndtr(np.sqrt(np.pi / 2) * z),
    "relu": lambda z: np.maximum(z, 0.0),
}
CLIPPED = lambda z: np.clip(z, -0.3, 1.2)
STEEP = lambda z: np.tanh(6 * z - 1)
CODES = ("linear", "erf", "erf-sigmoid", "relu", np.tanh, CLIPPED)

row = rows(
    "theory.coding",
    temperature=(0.0, 0.05, 0.4, 3.0),
    readout_variance=(None, 0.05, 1.0),
    activation=CODES,
)


def phi_of(given):
    """Return the function of an activation, and its name."""
    return (NAMED[given], given) if isinstance(given, str) else (given, "own")


def number(value):
    return float(np.asarray(value, dtype=float).item())


def classes(rng):
    """Return sizes of a few classes, and targets of one or two dimensions or the default."""
    sizes = [[24, 30], [4, 7], [30, 20], np.array([20.0, 25.0, 18.0])][rng.integers(4)]
    choices = (None, rng.standard_normal(len(sizes)), rng.standard_normal((len(sizes), 2)))
    return {"sizes": sizes, "targets": choices[rng.integers(3)]}


def wanted(g):
    n = np.atleast_1d(g.sizes)
    y = targets_per_class(len(n)) if g.targets is None else g.targets
    variance = 1 / n.sum() if g.readout_variance is None else number(g.readout_variance)
    return n, y.reshape(len(n), -1), variance


# --------------------------------------------------------------------------------------- classes


def by_grid(n, t, variance, phi):
    """Return E[a φ] of every class and E[aaᵀ] at t, by grids for p(a) and E[e^{hφ}]."""
    z = np.linspace(-10, 10, 4001)
    said, weight = phi(z), np.exp(-(z**2) / 2)
    size = np.abs(said).max()
    reach = variance * size * (n @ np.abs(t)) + 8 * np.sqrt(variance)
    points = {1: 3001, 2: 161, 3: 41}[t.shape[1]]
    step = 2 * reach / (points - 1)
    if (step > 0.7 * np.sqrt(variance)).any():  # a coarser grid would miss the distribution
        return None
    axes = [np.linspace(-r, r, points) for r in reach]
    a = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, t.shape[1])
    h = a @ t.T
    table = np.linspace(h.min(), h.max(), 2001)
    power = table[:, None] * said
    top = power.max(axis=1, keepdims=True)
    grown = np.exp(power - top) * weight
    g = top[:, 0] + np.log(grown.sum(axis=1))
    mean = (grown @ said) / grown.sum(axis=1)
    height = sum(n[c] * np.interp(h[:, c], table, g) for c in range(len(n)))
    height = height - (a**2).sum(axis=1) / (2 * variance)
    law = np.exp(height - height.max())
    law /= law.sum()
    answers = np.stack([np.interp(h[:, c], table, mean) for c in range(len(n))])
    return (answers * law) @ a, (a.T * law) @ a


def code_is_right(code, n, y, variance, temperature, activation):
    phi, name = phi_of(activation)
    size = np.abs(y).max()
    near(code.outputs, y - temperature * code.dual, 1e-5, size)
    near(code.readout_variance, variance)
    holds("kernels have no negative eigenvalues", np.linalg.eigvalsh(code.kernel)[0] > -1e-6)
    holds("an example is most like itself", code.kernel_diagonal >= np.diag(code.kernel) - 1e-9)
    holds("populations are shares", abs(sum(b.share for b in code.populations) - 1) < 1e-6)
    holds("separation is a share", 0 <= code.separation <= 1)
    holds("schemes are known", code.scheme in ("analog", "redundant", "sparse", "none"))
    finite(code.readout_moment, code.readout_mean, code.kernel)
    if name == "linear":
        u, t = code.readout_moment, code.dual * np.sqrt(n)[:, None]
        near(u @ (t.T @ t) * variance + variance * np.eye(len(u)), u, 1e-6, np.abs(u).max())
        return near(code.kernel, code.dual @ u @ code.dual.T, 1e-7, np.abs(code.kernel).max())
    if name == "relu":
        room = 1 - variance * n * (code.dual**2).sum(axis=1)
        return holds("the law exists, and condenses at its edge", room > -1e-6) and holds(
            "nothing condenses inside", room * code.condensed < 1e-5 * max(size, 1)
        )
    if not moderate(y, variance, np.maximum(temperature, 1e-3), size=100) or y.shape[1] > 2:
        return "kept"
    found = by_grid(n, code.dual, variance, phi)
    if found is None:
        return "kept"
    near(code.outputs, found[0], 2e-3, size)
    return near(code.readout_moment, found[1], 5e-3, np.abs(found[1]).max())


@row("classification_code", classes, cost=20)
def _(code, g):
    return code_is_right(code, *wanted(g), number(g.temperature), g["activation"])


@row("temperature_sweep", classes, temperatures=([0.4, 0.05], np.array([1.0])), cost=8)
def _(sweep, g):
    proofs = [
        code_is_right(code, *wanted(g), float(temperature), g["activation"])
        for temperature, code in zip(np.ravel(g.temperatures), sweep.codes, strict=True)
    ]
    finite(sweep.contrast, sweep.populated)
    holds("the crossover is a temperature", sweep.crossover >= 0)
    return proofs[-1]


@row("crossover_temperature", classes, cost=8)
def _(found, g):
    n, y, variance = wanted(g)
    phi, name = phi_of(g["activation"])
    if name == "relu":
        how = {"targets": y, "readout_variance": variance}
        below, above = (
            coding.classification_code(n, "relu", temperature=f * found, **how)
            for f in (0.99, 1.01)
        )
        holds("outliers are gone above", not above.condensed.any())
        return holds("there are outliers below", found == 0 or below.condensed.any())
    z = np.linspace(-12, 12, 200_001)
    weight = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    spread = weight @ (phi(z) - weight @ phi(z)) ** 2
    # Compare with the largest singular value over all examples.
    off = (y - n @ y / n.sum()) * np.sqrt(n)[:, None]
    right = np.sqrt(variance * spread) * np.linalg.norm(off, 2)
    return near(found, right, 1e-5, 1e-6 * np.sqrt(variance * n.max()) * np.abs(y).max())


@row("targets_per_class", classes=(1, 3, 6), other=(0.0, -0.5, 0.3), own=(1.0, 2.0))
def _(found, g):
    return near(found, np.full_like(found, g.other) + (g.own - g.other) * np.eye(int(g.classes)))


# ---------------------------------------------------------------------------------------- linear


def psd(rng):
    x = rng.standard_normal((4, int(rng.choice([2, 4, 6]))))
    return x @ x.T / x.shape[1]


LINEAR = {"depth": (1, 1, 2), "temperature": (0.0, 0.0, 0.05, 2.0)}


@row("linear_code", task=lambda rng: samples(rng, inputs=6, outputs=2, count=4), **LINEAR, cost=4)
@row("linear_code_from_kernel", kernel=psd, y=normal(4, 2), **LINEAR, cost=4)
def _(code, g):
    x = None if "kernel" in g else g["task"].x.reshape(len(g["task"].x), -1)
    k0 = g.kernel if x is None else x @ x.T / x.shape[1]
    y = (g.y if x is None else np.asarray(g["task"].y)).reshape(len(k0), -1)
    temperature, depth = number(g.temperature), int(g.depth)
    variance = len(k0) ** (-1 / depth)
    variance = variance if g.readout_variance is None else number(g.readout_variance)
    u, size = code.readout_covariance, np.abs(y).max()
    most = np.abs(code.kernel).max()
    holds("U is positive", np.linalg.eigvalsh(u)[0] > 0)
    if depth == 2:
        gram = y.T @ np.linalg.pinv(k0, rcond=1e-11, hermitian=True) @ y
        level, axes = np.linalg.eigh(gram)
        found = np.diag(axes.T @ u @ axes)
        m = (np.sqrt(1 + 4 * np.maximum(level, 0) / found) + 1) * found / 2
        return near(found**2 / variance, found + np.maximum(level, 0) / (1 + level / m), 1e-5)
    f, inverse = code.outputs, np.linalg.pinv(k0, rcond=1e-11, hermitian=True)
    near(temperature * code.dual + f, y, 1e-6, size)
    near(f, k0 @ inverse @ f, 1e-6, size)  # the outputs lie in the span of K₀
    near(
        u / variance,
        np.eye(len(u)) + f.T @ inverse @ f @ np.linalg.inv(u),
        1e-5,
        u[0, 0] / variance,
    )
    return near(code.kernel, k0 + f @ np.linalg.solve(u, f.T), 1e-6, most)


# ------------------------------------------------------------------------------------------ lazy


def kernel_by_grid(x, other, phi):
    """Return E[φφ′] of all pairs, by grids for z and for z′ given z."""
    w = np.linspace(-9, 9, 1201)
    weight = np.exp(-(w**2) / 2) / np.exp(-(w**2) / 2).sum()
    found = np.empty((len(x), len(other)))
    for (i, a), (j, b) in itertools.product(enumerate(x), enumerate(other)):
        r, c, cross = (a**2).mean(), (b**2).mean(), (a * b).mean()
        slope = cross / r if r > 0 else 0.0
        left = np.sqrt(max(c - slope * cross, 0.0))
        first, second = np.sqrt(r) * w, slope * np.sqrt(r) * w[:, None] + left * w
        found[i, j] = (phi(first) * weight) @ (phi(second) @ weight)
    return found


LAZY = {"activation": (*NAMED, np.tanh, CLIPPED, STEEP)}


@row("lazy_kernel", x=normal(2, 3), other=(None, np.ones((1, 3)), np.eye(3)), **LAZY, cost=20)
def _(kernel, g):
    x, phi = g.x, phi_of(g["activation"])[0]
    other = x if g.other is None else g.other
    if kernel.shape != (len(x), len(other)):
        raise Fault(f"has shape {kernel.shape}")
    sizes = [np.sqrt((each**2).mean(axis=1)) for each in (x, other)]
    if not moderate(*sizes, size=8):
        return finite(kernel)
    whole = 1 + np.outer(*sizes)
    return near(kernel, kernel_by_grid(x, other, phi), 2e-3, whole)


@row(
    "lazy_predictor",
    task=lambda rng: samples(rng, inputs=4, outputs=2, count=3),
    x=normal(2, 4),
    readout_variance=(0.05, 1.0, 30.0),
    **LAZY,
    cost=20,
)
def _(found, g):
    inputs, y = g["task"].x, np.asarray(g["task"].y)
    x, temperature, variance = g.x, number(g.temperature), number(g.readout_variance)
    both = np.concatenate([inputs.reshape(len(inputs), -1), x])
    joint = variance * coding.lazy_kernel(both, activation=g["activation"])
    cut = len(inputs)
    inner = joint[:cut, :cut] + temperature * np.eye(cut)
    holds("variances are positive", found.variance >= 0)
    if np.linalg.cond(inner) > 1e8:
        return finite(found.mean, found.variance)
    weights = np.linalg.solve(inner, joint[:cut, cut:]).T
    near(found.mean, weights @ y, 1e-5, np.abs(weights).max() * np.abs(y).max())
    left = np.diag(joint[cut:, cut:]) - (weights * joint[cut:, :cut]).sum(axis=1)
    right = np.repeat(left[:, None], y.shape[1], axis=1)
    return near(found.variance, right, 1e-5, np.diag(joint).max())


# ----------------------------------------------------------------------------------- activations


def in_single_precision(name):
    """Compare in single precision, JAX's default."""
    return lambda found, g: near(found, NAMED[name](np.asarray(g.z)), 2e-6, 1.0)


for function, name in {"unit_slope_erf": "erf", "erf_sigmoid": "erf-sigmoid"}.items():
    row(function, z=normal(3))(in_single_precision(name))
