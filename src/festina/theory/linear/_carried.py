r"""Weights carried from task to task with as many digits as needed.

After a reversal what has to grow is what the task before has left of it, $e^{-2st}$, and doubles
lose that beside anything of order one. The solution is short where digits are no concern: in the
eigenbasis of $F$ weights $R$ become $B = e^{fr}RL^{-\top}$ with $LL^\top = I + R^\top\varphi R$ and
$\varphi = \int_0^r e^{2fr'}dr'$.
"""

from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from ..._precision import compiled
from ._balanced import BalancedFlow
from ._spectrum import spectrum

ROUNDING = 500 * 2.0**-52  # overlaps below this part of what they are sums of are none
_MOST_DIGITS = 4000
_PLAIN = 1e-8  # overlaps above this part of the weights are known well enough in doubles

_decimals = np.vectorize(Decimal, otypes=[object])
_spectrum = compiled()(spectrum)


class Carried(NamedTuple):
    """Weights (W₁ᵀ; W₂) = O R up to a rotation of the units; s t/τ since they were doubles."""

    basis: Float[np.ndarray, "n n"]
    rows: Shaped[np.ndarray, "n unit"]
    elapsed: float


class Stage(NamedTuple):
    """B at every time; whether the weights reach the task, and how well that is known."""

    factor: Float[np.ndarray, "n unit time"]
    reached: bool
    doubt: float
    left: Carried


def carried(flow: BalancedFlow) -> Carried:
    """Weights as they are given."""
    weights = np.concatenate([flow.first.T, flow.second])
    if weights.shape[1] > weights.shape[0]:  # more units than they have weights: rotate them away
        weights = np.linalg.qr(weights.T)[1].T
    return Carried(np.eye(len(weights)), _decimals(weights), 0.0)


def follow(flow: BalancedFlow, times: Float[np.ndarray, " time"], before: Carried) -> Stage:
    """Continue on a task from where another was left, whose weights in doubles are those of the
    flow.

    Directions that two tasks share to rounding are the same: of nothing but rounding a long time
    would make something, and hide what the weights do hold.
    """
    rates, excess, basis = map(np.asarray, _spectrum(flow.correlation, flow.balance))
    r, half = times / float(flow.tau), abs(float(flow.balance)) / 2
    turn = basis.T @ before.basis
    turn[np.abs(turn) < ROUNDING] = 0.0
    elapsed = before.elapsed + float(np.max(np.abs(rates)) * r[-1])
    digits = 50 + int(min(6 * elapsed / np.log(10), _MOST_DIGITS))
    with localcontext() as context:
        context.prec = min(digits, _MOST_DIGITS)
        rows = _decimals(turn) @ before.rows
        sums = np.sum(turn != 0, axis=1) > 1  # nothing cancels in a direction that is the same
        terms = _decimals(np.abs(turn) * sums[:, None]) @ np.abs(before.rows)
        k, c, start, smallest, doubt = _echelon(rows, terms, rates > 0)
        # As differences of rates that are nearly |λ|/2 all of them.
        f = _decimals(np.sign(rates)) * (Decimal(half) + _decimals(np.abs(excess)))
        exact = digits <= _MOST_DIGITS
        if exact and smallest < _PLAIN:
            columns = [_columns(f, k, c, Decimal(each)) for each in r]
            both = np.stack([basis @ each.astype(float) for each in columns], axis=-1)
        else:
            both = np.concatenate(flow.solve(times)[:2])
            columns = [_columns(f, k, c, Decimal(r[-1]))] if exact else []
    wanted = excess[rates > 0][: k.shape[1]]
    reached = len(start) == len(wanted) and bool((excess[start] >= wanted).all())
    if columns:
        return Stage(both, reached, doubt, Carried(basis, columns[-1], elapsed))
    return Stage(both, reached, doubt, Carried(np.eye(len(both)), _decimals(both[..., -1]), 0.0))


def _echelon(
    rows: Shaped[np.ndarray, "n h"],
    terms: Shaped[np.ndarray, "n h"],
    growing: Bool[np.ndarray, " n"],
) -> tuple[np.ndarray, np.ndarray, list[int], float, float]:
    """Column operations RC = K, after which each growing row starts a column or holds nothing.

    What is left of sums that cancel to rounding is nothing. Also the rows that were found, the
    smallest of the pivots as a part of the largest weight, and the largest relative error of one.
    """
    k, c, terms = rows.copy(), _decimals(np.eye(rows.shape[1])), terms.copy()
    size, smallest, doubt, start = np.abs(rows).max(), 1.0, 0.0, []
    for i in np.flatnonzero(growing):
        first = len(start)
        none = np.abs(k[i]) <= Decimal(ROUNDING) * terms[i]
        none[:first] = False
        k[i, none] = Decimal(0)
        if first == k.shape[1] or none[first:].all():
            continue
        j = first + int(np.argmax(np.abs(k[i, first:])))
        for each in (k, c, terms):
            each[:, [first, j]] = each[:, [j, first]]
        pivot = k[i, first]
        smallest = min(smallest, float(abs(pivot) / size))
        doubt = max(doubt, 2.0**-52 * float(terms[i, first] / abs(pivot)))
        ratio = k[i, first + 1 :] / pivot
        k[:, first + 1 :] -= np.outer(k[:, first], ratio)
        c[:, first + 1 :] -= np.outer(c[:, first], ratio)
        terms[:, first + 1 :] += np.outer(terms[:, first], np.abs(ratio))
        start.append(int(i))
    return k, c, start, smallest, doubt


def _columns(
    f: Shaped[np.ndarray, " n"], k: Shaped[np.ndarray, "n h"], c: np.ndarray, r: Decimal
) -> Shaped[np.ndarray, "n h"]:
    """B in the eigenbasis, by the Cholesky factor of CᵀC + KᵀφK."""
    growth = np.array([(each * r).exp() for each in f])[:, None]
    phi = np.array([((2 * each * r).exp() - 1) / (2 * each) if each else r for each in f])[:, None]
    a, x = c.T @ c + k.T @ (phi * k), growth * k
    for j in range(len(a)):
        root = a[j, j].sqrt()
        x[:, j], a[j, j:] = x[:, j] / root, a[j, j:] / root
        x[:, j + 1 :] -= np.outer(x[:, j], a[j, j + 1 :])
        a[j + 1 :, j + 1 :] -= np.outer(a[j, j + 1 :], a[j, j + 1 :])
    return x
