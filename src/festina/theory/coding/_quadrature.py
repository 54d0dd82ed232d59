r"""Gaussian averages of activations that may be steep, kinked or discontinuous.

Panels are halved where a polynomial does not follow the activation, so that Gauss's rule sees a
smooth function on each of them. The kernel of two inputs follows from Mehler's formula,
$E[\phi(z)\phi(z')] = \sum_n c_n c'_n\rho^n$, with $c_n$ the coefficients of φ in normalised Hermite
polynomials and ρ the correlation of z and z′. By Parseval's identity the sum of the terms that are
left out is at most $|\rho|^{n+1}$ times the power that they hold.
"""

import warnings

import numpy as np
from jaxtyping import Float

from ..._precision import float64
from ...networks._activations import Scalar

_POINTS = 16
_REACH = 14.0  # standard deviations
_EVERY = 0.25  # of one, the widest panel: polynomials of the degrees below vary as fast
_DEGREES = 64, 512, 2048
_EXACT = 1e-13  # to which panels are halved, of the largest value times the distance from zero
_CLOSE = 1e-10  # of the kernel's size: from here on more terms are not needed
_WRONG = 1e-6  # of the kernel's size: a larger error is warned of
_ALIKE = 1e-12  # correlations closer to ±1 than this are ±1
_MOST = 20_000  # panels
_ZERO = 1e-150  # a deviation that stands for none
_BLOCK = 2**12  # values of a function at once, always as many: JAX compiles once

_X, _W = np.polynomial.legendre.leggauss(_POINTS)
_BETWEEN = np.concatenate([_X - 1, _X + 1]) / 2  # the points of both halves of a panel
# From values at the points of a panel to those at the points of its halves.
_HALVES = np.polynomial.legendre.legvander(_BETWEEN, _POINTS - 1)
_HALVES = _HALVES @ np.linalg.inv(np.polynomial.legendre.legvander(_X, _POINTS - 1))


@float64
def evaluated(function: Scalar, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return φ(z) in float64; raise unless it has one number for each z."""
    flat = z.ravel()
    blocks = np.resize(flat, (-(-flat.size // _BLOCK), _BLOCK))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said elsewhere
        found = [np.asarray(function(block), dtype=float) for block in blocks]
    if found[0].shape != blocks[0].shape:
        raise ValueError(
            f"`activation` must give one number for each, got shape {found[0].shape} from "
            f"{blocks[0].shape}."
        )
    return np.concatenate(found)[: flat.size].reshape(z.shape)


def panels(function: Scalar, largest: float, smallest: float) -> Float[np.ndarray, " edge"]:
    """Return edges between which φ is a polynomial to all digits, or a panel has no width.

    They serve deviations of z from `smallest` to `largest`, and lie symmetrically around zero.
    """
    reach, scales = _REACH * largest, int(np.ceil(np.log2(largest / smallest))) + 6
    even = np.linspace(0.0, reach, int(_REACH / _EVERY) + 1)
    right = np.union1d(even, reach * 0.5 ** np.arange(scales))
    edges = np.concatenate([-right[:0:-1], right])
    low, high = edges[:-1], edges[1:]
    done, size = [edges], 0.0
    while len(low):
        middle, half = (low + high) / 2, (high - low) / 2
        values = evaluated(function, middle[:, None] + half[:, None] * _X)
        finer = evaluated(function, middle[:, None] + half[:, None] * _BETWEEN)
        off = finer - values @ _HALVES.T
        size = max(size, float(np.abs(values).max()))
        rough = np.abs(off).max(axis=1) * half
        rough = rough > _EXACT * size * np.maximum(np.abs(low), np.abs(high))
        rough &= (low < middle) & (middle < high)
        done.append(middle[rough])
        low, high = (
            np.concatenate([low[rough], middle[rough]]),
            np.concatenate([middle[rough], high[rough]]),
        )
        if len(low) > _MOST:
            raise ValueError(
                f"`activation` is not smooth on {_MOST:,} panels within {reach:.3g} of zero: its "
                "averages would be wrong. Give a function that varies more slowly."
            )
    found = np.concatenate(done)
    return np.unique(np.concatenate([found, -found]))


def rule(
    edges: Float[np.ndarray, " edge"],
) -> tuple[Float[np.ndarray, " node"], Float[np.ndarray, " node"]]:
    """Return points z and weights for the average over a standard normal variable."""
    edges = np.unique(np.clip(edges, -_REACH, _REACH))
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half + half * _X).ravel()
    return z, (half * _W).ravel() * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def gaussian_kernel(
    function: Scalar,
    correlation: Float[np.ndarray, "..."],
    first: Float[np.ndarray, "..."],
    second: Float[np.ndarray, "..."],
) -> Float[np.ndarray, "..."]:
    """Return E[φ(z)φ(z′)] for correlations and standard deviations of z and z′, which broadcast.

    Warns if the terms that are left out may matter.
    """
    mantissa, exponent = np.frexp(np.maximum(np.r_[first.ravel(), second.ravel()], _ZERO))
    rounded = np.ldexp(np.round(mantissa * 2**42) / 2**42, exponent)
    size, which = np.unique(rounded, return_inverse=True)
    one, two = which[: first.size].reshape(first.shape), which[first.size :].reshape(second.shape)
    least = float(size[size > _ZERO].min(initial=size[-1]))
    edges = panels(function, float(size[-1]), least)
    power = np.array([_parallel(function, edges, s, s) for s in size])
    whole = np.sqrt(power[one] * power[two])
    parallel = np.abs(correlation) > 1 - _ALIKE
    c, error = np.empty((len(size), 0)), np.zeros(correlation.shape)
    for degree in _DEGREES:
        c = np.stack([_coefficients(function, edges, s, degree) for s in size])
        left = np.sqrt(np.maximum(power - (c**2).sum(axis=1), 0.0))
        error = np.abs(correlation) ** degree * left[one] * left[two]
        if not (error > _CLOSE * whole)[~parallel].any():
            break
    found = np.zeros(correlation.shape)
    for n in reversed(range(c.shape[1])):
        found = found * correlation + c[one, n] * c[two, n]
    parallel &= error > _CLOSE * whole
    sign = np.where(correlation < 0, -1, 1)
    kinds = np.stack([each[parallel] for each in np.broadcast_arrays(one, two, sign)], axis=1)
    pairs, back = np.unique(kinds, axis=0, return_inverse=True)
    exact = [_parallel(function, edges, float(size[i]), float(k * size[j])) for i, j, k in pairs]
    found[parallel] = np.array(exact)[back.ravel()] if exact else 0.0
    doubtful = ~parallel & (error > _WRONG * whole)
    if doubtful.any():
        warnings.warn(
            f"The kernel of this `activation` may be off by up to {error[doubtful].max():.3g} for "
            f"inputs that are nearly parallel: {_DEGREES[-1]} Hermite polynomials do not follow "
            "its jumps. Use a less steep activation, or leave out inputs that are nearly alike.",
            stacklevel=4,
        )
    return found


def _parallel(function: Scalar, edges: np.ndarray, first: float, second: float) -> float:
    """Return E[φ(σz)φ(σ′z)]: one integral, with the panels of both."""
    z, weight = rule(np.r_[edges / first, edges / np.abs(second)])
    values = evaluated(function, np.stack([first * z, second * z]))
    return float(weight @ values.prod(axis=0))


def _coefficients(
    function: Scalar, edges: np.ndarray, deviation: float, degree: int
) -> Float[np.ndarray, " degree"]:
    """Return c_n of φ(σz) for standard normal z, from n = 0 up."""
    # Panels as narrow as the waves of the polynomials, too.
    z, weight = rule(np.r_[edges / deviation, np.arange(-_REACH, _REACH + _EVERY, _EVERY)])
    now = np.exp(-(z**2) / 4)  # times He_n/√n!, which would overflow alone
    seen = evaluated(function, deviation * z) * weight / now
    found, before = np.empty(degree), np.zeros_like(z)
    for n in range(degree):
        found[n] = np.einsum("z,z->", now, seen)  # BLAS would start threads for it
        before, now = now, (z * now - np.sqrt(n) * before) / np.sqrt(n + 1)
    return found
