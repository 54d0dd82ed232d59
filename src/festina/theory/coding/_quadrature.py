r"""Gaussian averages of activations that may be steep, kinked or discontinuous.

The real line is divided into panels. A panel is halved wherever a polynomial does not fit the
activation, so that Gauss–Legendre quadrature sees a smooth function on each panel. The kernel of
two inputs follows from Mehler's formula, $E[\phi(z)\phi(z')] = \sum_n c_n c'_n\rho^n$, with $c_n$
the coefficients of φ in normalised Hermite polynomials and ρ the correlation of z and z′. By
Parseval's identity, the sum of all terms of degree above n is at most $|\rho|^{n+1}$ times the
geometric mean of the remainders $\sum_{k>n} c_k^2$ and $\sum_{k>n} c_k'^2$.
"""

import warnings

import numpy as np
from jaxtyping import Float

from ..._precision import float64
from ...networks._activations import Scalar

_POINTS = 16  # quadrature points per panel
_REACH = 14.0  # end of the outermost panel, in standard deviations
_EVERY = 0.25  # widest panel, in standard deviations: resolves Hermite polynomials of all degrees
_DEGREES = 64, 512, 2048  # numbers of Hermite polynomials, tried in this order
_EXACT = 1e-13  # error that ends halving, relative to the largest value times the distance to 0
_CLOSE = 1e-10  # error, relative to the kernel, below which no more terms are added
_WRONG = 1e-6  # error, relative to the kernel, above which a warning is given
_ALIKE = 1e-12  # correlations closer to ±1 than this count as ±1
_MOST = 20_000  # largest number of panels
_ZERO = 1e-150  # replaces a standard deviation of zero
_BLOCK = 2**12  # number of values per call of a function: one size, so that JAX compiles once

_X, _W = np.polynomial.legendre.leggauss(_POINTS)
_BETWEEN = np.concatenate([_X - 1, _X + 1]) / 2  # quadrature points of both halves of a panel
# Matrix from values at the points of a panel to values at the points of its halves.
_HALVES = np.polynomial.legendre.legvander(_BETWEEN, _POINTS - 1)
_HALVES = _HALVES @ np.linalg.inv(np.polynomial.legendre.legvander(_X, _POINTS - 1))


@float64
def evaluated(function: Scalar, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return φ(z) in float64; raise unless φ returns one number for each z."""
    flat = z.ravel()
    blocks = np.resize(flat, (-(-flat.size // _BLOCK), _BLOCK))
    with np.errstate(over="ignore", invalid="ignore"):  # callers check that values are finite
        found = [np.asarray(function(block), dtype=float) for block in blocks]
    if found[0].shape != blocks[0].shape:
        raise ValueError(
            "`activation` must return one number for each number of its argument, got shape "
            f"{found[0].shape} for an argument of shape {blocks[0].shape}."
        )
    return np.concatenate(found)[: flat.size].reshape(z.shape)


def panels(function: Scalar, largest: float, smallest: float) -> Float[np.ndarray, " edge"]:
    """Return panel edges such that φ is a polynomial to double precision on each panel.

    Halving stops where no floating-point number lies between the edges. The edges suit standard
    deviations of z from `smallest` to `largest`, and are symmetric around zero.
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
                f"`activation` is not smooth on {_MOST:,} panels within {reach:.3g} of zero, so "
                "its Gaussian averages would be wrong. Use a function that varies more slowly."
            )
    found = np.concatenate(done)
    return np.unique(np.concatenate([found, -found]))


def rule(
    edges: Float[np.ndarray, " edge"],
) -> tuple[Float[np.ndarray, " node"], Float[np.ndarray, " node"]]:
    """Return points z and weights for averages over a standard normal variable."""
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
    r"""Return the kernel $E[\phi(z)\phi(z')]$ from the correlation and deviations of z and z′.

    The correlation and the two standard deviations broadcast. The function warns if the truncation
    error may exceed $10^{-6}$ of the kernel.
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
            f"inputs that are nearly parallel: {_DEGREES[-1]} Hermite polynomials do not resolve "
            "its jumps. Use a less steep activation, or leave out nearly parallel inputs.",
            stacklevel=4,
        )
    return found


def _parallel(function: Scalar, edges: np.ndarray, first: float, second: float) -> float:
    """Return E[φ(σz)φ(σ′z)] by a single integral, with the panels of both factors."""
    z, weight = rule(np.r_[edges / first, edges / np.abs(second)])
    values = evaluated(function, np.stack([first * z, second * z]))
    return float(weight @ values.prod(axis=0))


def _coefficients(
    function: Scalar, edges: np.ndarray, deviation: float, degree: int
) -> Float[np.ndarray, " degree"]:
    """Return the Hermite coefficients $c_n$ of φ(σz) for standard normal z, from n = 0 up."""
    # Panels must also resolve the oscillations of the Hermite polynomials.
    z, weight = rule(np.r_[edges / deviation, np.arange(-_REACH, _REACH + _EVERY, _EVERY)])
    now = np.exp(-(z**2) / 4)  # He_n/√n! alone, without this factor, would overflow
    seen = evaluated(function, deviation * z) * weight / now
    found, before = np.empty(degree), np.zeros_like(z)
    for n in range(degree):
        found[n] = np.einsum("z,z->", now, seen)  # BLAS would start threads for this short sum
        before, now = now, (z * now - np.sqrt(n) * before) / np.sqrt(n + 1)
    return found
