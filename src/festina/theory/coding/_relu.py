r"""Codes of ReLU networks: a bulk of neurons, and a few outliers that fit the bulk's residual.

$g(h) = \log[\frac12 + e^{h^2/2}\Phi(h)]$ is a parabola for large h. The distribution of a neuron's
readout is therefore normalisable only for $\kappa_c |t_c|^2 \le 1$, with
$\kappa_c = \sigma_a^2 n_c$. The dual function is minimal on the boundary $\kappa_c |t_c|^2 = 1$,
where the bulk does not yet fit the targets. The multipliers of the constraint give the part $q_c$
of the kernel that outliers carry,

$$Y_c = T\,t_c + f_c^\mathrm{bulk}(t) + \kappa_c q_c\, t_c,\qquad \kappa_c|t_c|^2 = 1,\; q_c > 0.$$
"""

import itertools
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from ._law import Classes, Law, box, on_points

_WIDE = 8.0  # half width of the lattice around the bulk, in standard deviations
_APART = 12.0  # smallest entropy cost that separates outliers from the bulk
_CLOSE = 1e-9  # tolerance of the conditions of a minimum
_INSIDE = 0.5  # κ|t|² up to which there are no outliers


def condensed(
    problem: Classes, temperature: float
) -> tuple[Float[np.ndarray, "group direction"], Law, Float[np.ndarray, " group"]]:
    """Return the dual variable t, the distribution of the bulk, and the outliers' parts q."""
    deviation, shape = np.sqrt(problem.variance), problem.targets.shape
    root = np.sqrt(problem.sizes)[:, None]
    wanted = root * problem.targets * deviation

    # The unknowns are x_c = σ_a √n_c t_c, which lie in the unit ball.
    def parts(x: np.ndarray) -> tuple[float, np.ndarray, Law]:
        t = x.reshape(shape) / (root * deviation)
        found = bulk(problem, t)
        value = found.log_z * problem.variance - (wanted * x.reshape(shape)).sum()
        slope = deviation * root * found.outputs - wanted + temperature * x.reshape(shape)
        return value + temperature * (x @ x) / 2, slope.ravel(), found

    norms = np.linalg.norm(problem.targets, axis=1, keepdims=True)
    start = 0.9 * problem.targets / np.where(norms > 0, norms, 1.0)
    room = lambda x: 1 - (x.reshape(shape) ** 2).sum(axis=1)
    inward = lambda x: -2 * _by_group(x.reshape(shape))
    found = minimize(
        lambda x: parts(x)[:2],
        start.ravel(),
        jac=True,
        method="SLSQP",
        constraints={"type": "ineq", "fun": room, "jac": inward},
        options={"ftol": 1e-11, "maxiter": 60},
    )
    _check_alone(problem, found.x.reshape(shape))
    touching = room(found.x) < 1e-6
    for _ in range(2 * len(root) + 1):
        x, mu = _polished(problem, temperature, found.x, touching, parts)
        should = (touching & (mu > 0)) | (room(x) < -1e-8)
        if (should == touching).all():
            t = x.reshape(shape) / (root * deviation)
            return t, parts(x)[2], mu / (problem.variance * problem.sizes)
        touching = should
    raise RuntimeError(
        f"At T = {temperature:g} the solver could not decide which classes have outliers: this "
        "temperature is too close to a transition. Use a slightly different temperature."
    )


def bulk(problem: Classes, t: Float[np.ndarray, "group direction"]) -> Law:
    """Return the distribution of readouts in the bulk, around the mode reached from zero."""
    centre = np.zeros((1, t.shape[1]))
    # For κ|t|² > 1 the iteration may diverge, and then no bulk exists.
    far = 10 * (np.linalg.norm(problem.lift(centre, t)) + problem.fine)
    for _ in range(200):
        moved = problem.lift(centre, t)
        if np.abs(moved - centre).max() < 1e-6 * problem.fine or np.linalg.norm(moved) > far:
            break
        centre = moved
    second = problem.tilt.cumulants(centre @ t.T)[2][0]
    stiff, axes = np.linalg.eigh(
        np.eye(t.shape[1]) - problem.variance * (t * (problem.sizes * second)[:, None]).T @ t
    )
    # An optimiser step may lead to κ|t|² > 1, where the curvature vanishes; the lower limit 0.3
    # then keeps the box finite.
    spread = (axes**2) @ (problem.variance / np.maximum(stiff, 0.3))
    half = _WIDE * np.sqrt(spread)
    return on_points(problem, t, box(problem, centre[0] - half, centre[0] + half))


def _by_group(rows: Float[np.ndarray, "group direction"]) -> Float[np.ndarray, "group unknown"]:
    """Return a matrix with each row of `rows` in its own block of columns."""
    return (np.eye(len(rows))[:, :, None] * rows).reshape(len(rows), -1)


def _polished(
    problem: Classes,
    temperature: float,
    x: Float[np.ndarray, " unknown"],
    touching: Bool[np.ndarray, " group"],
    parts: Callable[[np.ndarray], tuple[float, np.ndarray, Law]],
) -> tuple[Float[np.ndarray, " unknown"], Float[np.ndarray, " group"]]:
    r"""Return the unknowns x and the multipliers at the minimum of the dual, by Newton's method.

    `touching` marks the groups on the boundary $\kappa_c|t_c|^2 = 1$.
    """
    shape = problem.targets.shape
    directions = shape[1]
    slope = parts(x)[1].reshape(shape)
    mu = np.where(touching, -(slope * x.reshape(shape)).sum(axis=1), 0.0)
    off, size = np.inf, float(np.abs(np.sqrt(problem.sizes)[:, None] * problem.targets).max())
    close = _CLOSE * min(1.0, np.sqrt(problem.variance) * size)
    for _ in range(30):
        _, slope, found = parts(x)
        rows = x.reshape(shape)
        error = slope + (mu[:, None] * rows).ravel()
        gap = ((rows**2).sum(axis=1) - 1)[touching] / 2
        if (off := max(np.abs(error).max(), np.abs(gap).max(initial=0.0))) < close:
            return x, mu
        normal = _by_group(rows)[touching].T
        curved = found.curvature(problem.sizes)
        curved += np.diag(np.repeat(temperature + mu, directions))
        zero = np.zeros((normal.shape[1],) * 2)
        step = np.linalg.solve(np.block([[curved, normal], [normal.T, zero]]), -np.r_[error, gap])
        x = x + step[: x.size]
        mu[touching] += step[x.size :]
    raise RuntimeError(
        f"The solver for bulk and outliers did not converge at T = {temperature:g}: the conditions "
        f"of a minimum are off by {off:.2g}, with targets up to "
        f"{np.abs(problem.targets).max():.2g}. Use a slightly different temperature."
    )


def _check_alone(problem: Classes, x: Float[np.ndarray, "group direction"]) -> None:
    """Raise if an outlier would serve several groups, or is not separated from the bulk."""
    squared = (x**2).sum(axis=1)
    if squared.max() < _INSIDE:
        return
    others = problem.sizes.sum() - problem.sizes
    if (few := float(others[squared >= _INSIDE].min())) * np.log(2) < _APART:
        raise ValueError(
            f"`sizes` leave {few:g} examples outside one of the classes. An outlier is silent on "
            f"these examples, which costs {few * np.log(2):.1f} in entropy, too little to separate "
            f"outliers from the bulk. Give at least {int(np.ceil(_APART / np.log(2)))} examples "
            "outside each class, or a higher temperature."
        )
    for chosen in itertools.combinations(range(len(x)), 2):
        pair = x[list(chosen)]
        if pair[0] @ pair[1] > 1e-9 and np.linalg.norm(pair, 2) > 1 + 1e-6:
            raise ValueError(
                f"Classes {chosen[0]} and {chosen[1]} have targets so alike that one outlier would "
                "serve both, a case that this theory does not cover. Make them one class."
            )
