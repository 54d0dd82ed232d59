r"""Carry weights from one task to the next with as many digits as necessary.

After a reversal of the task, the weights grow from components of size $e^{-2st}$ that the previous
task left behind. Double precision cannot represent components of size $e^{-2st}$ beside numbers of
order one. With enough digits the solution is short. In the eigenbasis of $F$ with rates $f$, and
after a time $r$ in units of $\tau$, initial weights $R$ become $B = e^{fr}RL^{-\top}$ with
$LL^\top = I + R^\top\varphi R$ and $\varphi = \int_0^r e^{2fr'}dr'$.
"""

from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from ..._precision import compiled
from ._balanced import BalancedFlow
from ._spectrum import spectrum

ROUNDING = 500 * 2.0**-52  # sums below this fraction of their largest terms count as zero
_MOST_DIGITS = 4000
_PLAIN = 1e-8  # for overlaps above this fraction of the weights, double precision is enough

_decimals = np.vectorize(Decimal, otypes=[object])
_spectrum = compiled()(spectrum)


class Carried(NamedTuple):
    """Weights (W₁ᵀ; W₂) = O R, up to a rotation of the hidden units.

    - `basis`, `rows`: O in double precision, and R in decimals.
    - `elapsed`: sum over tasks of the largest rate times t/τ, since R was last in double precision.
    """

    basis: Float[np.ndarray, "n n"]
    rows: Shaped[np.ndarray, "n unit"]
    elapsed: float


class Stage(NamedTuple):
    """Result of `follow`: the solution of one task.

    - `factor`: B at every time.
    - `reached`: whether the weights reach the task.
    - `doubt`: relative error of the least certain overlap of the initial weights with a mode.
    - `left`: the final weights, with all digits.
    """

    factor: Float[np.ndarray, "n unit time"]
    reached: bool
    doubt: float
    left: Carried


def carried(flow: BalancedFlow) -> Carried:
    """Return the initial weights of a flow as decimals."""
    weights = np.concatenate([flow.first.T, flow.second])
    if weights.shape[1] > weights.shape[0]:  # a rotation makes all units beyond shape[0] zero
        weights = np.linalg.qr(weights.T)[1].T
    return Carried(np.eye(len(weights)), _decimals(weights), 0.0)


def follow(flow: BalancedFlow, times: Float[np.ndarray, " time"], before: Carried) -> Stage:
    """Return the solution of a task that starts from the final weights of the previous task.

    `before` are the final weights of the previous task with all digits, and `flow` starts from the
    same weights in double precision. Directions of two tasks that agree up to rounding count as
    equal, because a rounding error would grow over long times and hide the true components of the
    weights.
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
        sums = np.sum(turn != 0, axis=1) > 1  # equal directions involve no cancellation
        terms = _decimals(np.abs(turn) * sums[:, None]) @ np.abs(before.rows)
        k, c, start, smallest, doubt = _echelon(rows, terms, rates > 0)
        # Rates from `excess`, because differences of rates near |λ|/2 would lose digits.
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
    """Reduce R by column operations to RC = K, with one column for each growing row that is not 0.

    `terms` are the sums of absolute terms behind each entry of R: entries that are only rounding
    errors of such sums become zero. Returns K, C, the row at which each column starts, the smallest
    pivot as a fraction of the largest weight, and the largest relative error of a pivot.
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
    """Return B at time r in the eigenbasis, from the Cholesky factor of CᵀC + KᵀφK."""
    growth = np.array([(each * r).exp() for each in f])[:, None]
    phi = np.array([((2 * each * r).exp() - 1) / (2 * each) if each else r for each in f])[:, None]
    a, x = c.T @ c + k.T @ (phi * k), growth * k
    for j in range(len(a)):
        root = a[j, j].sqrt()
        x[:, j], a[j, j:] = x[:, j] / root, a[j, j:] / root
        x[:, j + 1 :] -= np.outer(x[:, j], a[j, j + 1 :])
        a[j + 1 :, j + 1 :] -= np.outer(a[j, j + 1 :], a[j, j + 1 :])
    return x
