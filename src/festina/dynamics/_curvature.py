"""Extreme curvatures of the loss, to recognise saddles and to measure sharpness."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._numerics._hessian import between, hessian, hessian_product
from .._numerics._lanczos import lanczos
from .._objective import Data
from .._types import Array
from ..networks._structure import AbstractStructure
from ._program import start

# Largest number of weights for which the Hessian is formed as a matrix.
_DENSE = 600
_MANY = 1e9  # intermediate numbers of a full Hessian above which Hessian products are cheaper
_ROUNDING, _LANCZOS_ROUNDING = 1e-12, 1e-9  # rounding error of eigenvalues, relative to the largest
_PROBES = 8
_LANCZOS = 1e-6  # relative error of Lanczos eigenvalues
_STIFF = 1e-3  # relative curvature above which Newton's steps remove the gradient
_NEWTON = 3
_SLOW = 1e-3  # a weight is slow if the elapsed time is below this fraction of its time constant
_SMALL = 0.1  # largest distance from a saddle, as a fraction of the weights, before the escape


def extreme_curvatures(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of the Hessian; NaN for an infinite Hessian.

    Lanczos is used for many weights or many samples, where it is cheaper than the whole matrix.

    At a saddle with units of order p that are still small, the negative curvature scales as the
    size of these units to the power p − 1 and may be below the rounding error of the largest
    curvature. The smallest eigenvalue is then computed again, with each weight scaled by the root
    of its row in the Hessian. The curvature along one direction is then returned as an upper bound
    of the smallest eigenvalue, or zero if no negative curvature is found.
    """
    noise = lambda: _rounding_of_rows(structure, weights, data)
    if _is_formed(weights, data):
        matrix = np.asarray(hessian(structure, weights, data))
        if not np.isfinite(matrix).all():
            return np.nan, np.nan
        ends = np.linalg.eigvalsh(matrix)
        smallest, largest = float(ends[0]), float(ends[-1])
        lost = abs(smallest) <= _ROUNDING * abs(largest)
        return (_lowest_of(matrix, noise()) if lost else smallest), largest
    product = lambda x: np.asarray(hessian_product(structure, weights, x, data))
    largest = _top(product, weights.size)[0]
    # Compute the smallest eigenvalue relative to the largest: near zero it has no accurate digits.
    smallest = largest - _top(lambda x: largest * x - product(x), weights.size)[0]
    lost = abs(smallest) <= _LANCZOS_ROUNDING * abs(largest)
    return (_lowest_along(product, noise()) if lost else smallest), largest


def slow_way_out(
    structure: AbstractStructure, weights: Float[np.ndarray, " weight"], data: Data
) -> tuple[float, float] | None:
    """Return the escape rate of a saddle and the time until the escape, or None at a minimum.

    Near a minimum, the remaining residual also causes negative curvature. If the Hessian can be
    formed, Newton's steps along all stiff directions first remove the gradient that training would
    soon remove. The gradient that remains lies along escape directions. The point counts as a
    saddle if this remaining gradient is small compared with the escape rate times the weights.
    """
    size = float(np.linalg.norm(weights))
    slope = lambda w: np.asarray(start(w[:, None], data, structure=structure).velocity)[:, 0]
    downhill = slope(weights)
    if _is_formed(weights, data):
        values, vectors = np.linalg.eigh(np.asarray(hessian(structure, weights, data)))
        for _ in range(_NEWTON):
            stiff = values > _STIFF * values[-1]
            step = vectors[:, stiff] @ ((downhill @ vectors[:, stiff]) / values[stiff])
            below = slope(weights + step)
            if not np.linalg.norm(below) < np.linalg.norm(downhill):
                break
            weights, downhill = weights + step, below
            values, vectors = np.linalg.eigh(np.asarray(hessian(structure, weights, data)))
        rate, direction = -float(values[0]), vectors[:, 0]
        rounding = _ROUNDING * values[-1]
    else:
        product = lambda x: np.asarray(hessian_product(structure, weights, x, data))
        largest = _top(product, weights.size)[0]
        gap, direction = _top(lambda x: largest * x - product(x), weights.size)
        rate, rounding = gap - largest, _LANCZOS * largest
    if rate <= rounding or np.linalg.norm(downhill) > _SMALL * rate * size:
        return None
    way = max(abs(float(downhill @ direction)) / rate, np.finfo(float).eps * size)
    return rate, float(np.log(size / way)) / rate


def _is_formed(weights: Float[Array, " weight"], data: Data) -> bool:
    """Return whether the Hessian is small enough to be formed as a matrix."""
    n = weights.size
    return n <= _DENSE and n * between(weights, data) <= _MANY


def _lowest_of(matrix: Float[np.ndarray, "n n"], noise: Float[np.ndarray, " n"]) -> float:
    """Return the most negative curvature along an eigenvector of the scaled Hessian, or zero."""
    scale = _scale(np.linalg.norm(matrix, axis=1), noise)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    negative = values < -_ROUNDING * np.abs(values).max()
    lengths = np.linalg.norm(scale[:, None] * vectors[:, negative], axis=0)
    return float(np.min(values[negative] / lengths**2, initial=0.0))


def _lowest_along(
    product: Callable[[np.ndarray], np.ndarray], noise: Float[np.ndarray, " n"]
) -> float:
    """Estimate the most negative curvature from Hessian products, without forming the Hessian."""
    n = len(noise)
    probes = np.random.default_rng(1).normal(size=(_PROBES, n))
    scale = _scale(np.sqrt(np.mean([product(probe) ** 2 for probe in probes], axis=0)), noise)
    scaled = lambda x: scale * product(scale * x)
    top = abs(_top(scaled, n)[0])
    gap, vector = _top(lambda x: top * x - scaled(x), n)
    if not top - gap < -_LANCZOS * top:
        return 0.0
    direction = scale * vector
    return min(float(direction @ product(direction) / (direction @ direction)), 0.0)


def _scale(
    rows: Float[np.ndarray, " n"], noise: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return one over the root of each Hessian row's norm, or zero for rows of rounding noise."""
    known = rows > noise
    return np.where(known, 1.0 / np.sqrt(np.where(known, rows, 1.0)), 0.0)


def _rounding_of_rows(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[np.ndarray, " weight"]:
    """Return the norm that rounding errors may give each row of the Hessian."""
    sizes = np.sqrt(_own_curvatures(structure, weights, data))
    return _ROUNDING * sizes * np.linalg.norm(sizes)


def _own_curvatures(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[np.ndarray, " weight"]:
    """Return ⟨|∂f/∂θ|²⟩ of each weight, estimated by random probes.

    The mean ⟨|∂f/∂θ|²⟩ is the curvature of the loss along a weight, without the second derivative
    of f.
    """
    probes = np.random.default_rng(2).normal(size=(_PROBES, *data.y.shape))
    return np.mean(np.asarray(output_slopes(structure, weights, probes, data)) ** 2, axis=0)


def gain_of_slow_weights(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data, elapsed: float
) -> float:
    """Return the decrease of the loss that weights with a long time constant may still cause.

    With one huge weight, whose time constant is tiny, the flow comes to rest along this weight long
    before other weights have moved. The time constant of a weight is one over its own curvature. A
    weight is slow if its time constant exceeds a thousand times the elapsed time.
    """
    slope = np.asarray(start(weights[:, None], data, structure=structure).velocity)[:, 0]
    own = _own_curvatures(structure, weights, data)
    slow = (own > 0) & (own * elapsed < _SLOW)
    return float(np.sum(slope[slow] ** 2 / (2.0 * own[slow])))


def _top(
    product: Callable[[np.ndarray], np.ndarray], n: int
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Return the largest eigenvalue and eigenvector by Lanczos, or its last estimate."""
    from scipy.sparse.linalg import ArpackNoConvergence

    start = np.random.default_rng(0).normal(size=n)
    try:
        values, vectors = lanczos(product, start, rtol=_LANCZOS)
    except ArpackNoConvergence as failure:
        values, vectors = failure.eigenvalues, failure.eigenvectors
        if not len(values):
            return float(start @ product(start) / (start @ start)), start / np.linalg.norm(start)
    best = int(np.argmax(values))
    return float(values[best]), vectors[:, best]


@functools.partial(jax.jit, static_argnames="structure")
def output_slopes(
    structure: AbstractStructure,
    weights: Float[Array, " weight"],
    probes: Float[Array, "probe sample output"],
    data: Data,
) -> Float[Array, "probe weight"]:
    """Return ∂/∂θ of Σ √w z·f for each z; random z estimate the size of all derivatives of f."""
    outputs = lambda w: structure.outputs(data.psi, *structure.split(w))
    pull = jax.vjp(outputs, weights)[1]
    root = jnp.sqrt(jnp.abs(data.weight))[:, None]
    return jax.vmap(lambda z: pull(root * z)[0])(probes)
