"""Extreme curvatures of the loss: is a stationary point a saddle, and how sharp is it."""

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

_DENSE = 600
_MANY = 1e9  # numbers between input and loss, of all columns: above, a few products are cheaper
_ROUNDING, _LANCZOS_ROUNDING = 1e-12, 1e-9  # of the largest: what a small curvature may be
_PROBES = 8
_LANCZOS = 1e-6  # relative error of its eigenvalues
_STIFF = 1e-3  # of the largest curvature: along what is steeper, what is left to fall is removed
_NEWTON = 3
_SLOW = 1e-3  # of its time constant has passed
_SMALL = 0.1  # of the weights: how far at most is the way from a saddle that is yet to be left


def extreme_curvatures(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> tuple[float, float]:
    """Smallest and largest eigenvalue of the Hessian, by Lanczos where that is cheaper.

    That is for many weights, or many samples. Both are NaN where the Hessian overflows.

    Where the smallest is lost in the rounding of the largest it is looked for once more in weights
    that are scaled by the root of their row in the Hessian. At a saddle that units of order p have
    yet to leave, the curvature is but their size to the power p − 1. What comes out then is a
    bound, the curvature along one direction, and zero where that is not negative either.
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
    # The smallest relative to the largest: near zero it has no digits of its own.
    smallest = largest - _top(lambda x: largest * x - product(x), weights.size)[0]
    lost = abs(smallest) <= _LANCZOS_ROUNDING * abs(largest)
    return (_lowest_along(product, noise()) if lost else smallest), largest


def slow_way_out(
    structure: AbstractStructure, weights: Float[np.ndarray, " weight"], data: Data
) -> tuple[float, float] | None:
    """Rate at which a saddle will be left, and in about what time; None at a minimum.

    Near a minimum there is negative curvature too, in proportion to what is left of the gradient;
    so (of a Hessian that can be formed) that is removed where it soon would be anyway, by Newton's
    steps along all that is stiff. What is left of it lies along ways out, and is as small as this
    against rate and weights only near a saddle.
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
    """Whether the Hessian is, and not only multiplied with."""
    n = weights.size
    return n <= _DENSE and n * between(weights, data) <= _MANY


def _lowest_of(matrix: Float[np.ndarray, "n n"], noise: Float[np.ndarray, " n"]) -> float:
    """The most negative curvature along an eigenvector of the scaled Hessian, or zero."""
    scale = _scale(np.linalg.norm(matrix, axis=1), noise)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    negative = values < -_ROUNDING * np.abs(values).max()
    lengths = np.linalg.norm(scale[:, None] * vectors[:, negative], axis=0)
    return float(np.min(values[negative] / lengths**2, initial=0.0))


def _lowest_along(
    product: Callable[[np.ndarray], np.ndarray], noise: Float[np.ndarray, " n"]
) -> float:
    """The same from products alone, which also tell how long the Hessian's rows are."""
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
    """One over the root of every row; a row that is but noise has no part in it."""
    known = rows > noise
    return np.where(known, 1.0 / np.sqrt(np.where(known, rows, 1.0)), 0.0)


def _rounding_of_rows(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[np.ndarray, " weight"]:
    """How long a row of the Hessian may be whose terms, of the size of |∂f/∂θ|², cancel."""
    sizes = np.sqrt(_own_curvatures(structure, weights, data))
    return _ROUNDING * sizes * np.linalg.norm(sizes)


def _own_curvatures(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[np.ndarray, " weight"]:
    """Return ⟨|∂f/∂θ|²⟩ of each weight, estimated by random probes.

    This is the curvature along that weight, but for the second derivative of f.
    """
    probes = np.random.default_rng(2).normal(size=(_PROBES, *data.y.shape))
    return np.mean(np.asarray(output_slopes(structure, weights, probes, data)) ** 2, axis=0)


def gain_of_slow_weights(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data, elapsed: float
) -> float:
    """Return the fall of the loss that weights with a long time constant have yet to bring about.

    Where one weight is huge, its own time constant is tiny, and the flow comes to rest along it
    long before other weights have moved. These have a time constant of one over their own
    curvature, and are slow if that is more than a thousand times the time elapsed.
    """
    slope = np.asarray(start(weights[:, None], data, structure=structure).velocity)[:, 0]
    own = _own_curvatures(structure, weights, data)
    slow = (own > 0) & (own * elapsed < _SLOW)
    return float(np.sum(slope[slow] ** 2 / (2.0 * own[slow])))


def _top(
    product: Callable[[np.ndarray], np.ndarray], n: int
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Largest eigenvalue and its vector by Lanczos; if it does not converge, the best it has."""
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
    """∂/∂θ of Σ √w z·f, for each z: random ones tell the size of all derivatives of f."""
    outputs = lambda w: structure.outputs(data.psi, *structure.split(w))
    pull = jax.vjp(outputs, weights)[1]
    root = jnp.sqrt(jnp.abs(data.weight))[:, None]
    return jax.vmap(lambda z: pull(root * z)[0])(probes)
