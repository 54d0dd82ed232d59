"""Arithmetic on a clock face, part of its table shown and the rest kept for testing."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .._checks import number, whole_number
from .._precision import float64
from ._task import Task, from_arrays


@float64
def modular_addition(
    modulus: int, train_fraction: float, *, key: PRNGKeyArray
) -> tuple[Task, Task]:
    r"""Return two tasks of addition modulo $p$, (train, test), which share out all $p^2$ pairs.

    The input is one-hot for each summand, $x = (e_n, e_m) \in \mathbb{R}^{2p}$, the target one-hot
    for the sum, $y = e_{(n+m) \bmod p}$. Networks that have fitted the training pairs long before
    they are right about the others are said to grok (Power et al. 2022; Gromov 2023 for the two
    layers with quadratic units, $f = V(Ux)^2$).

    (n, m) and (m, n) are two pairs: one may be shown and the other not. A modulus need not be
    prime for addition.

    **Arguments:**

    - `modulus`: p, at least 2.
    - `train_fraction`: of the pairs, how many are shown; rounded to whole pairs, and at least one
      must remain on either side.
    - `key`: which.

    **Returns:**

    `(train, test)`, each a `Task` with the labels `first`, `second` and `sum`.
    """
    p = whole_number("modulus", modulus, least=2)
    train_fraction = number("train_fraction", train_fraction)
    shown = round(train_fraction * p**2) if 0 < train_fraction < 1 else 0
    if not 0 < shown < p**2:
        raise ValueError(
            f"`train_fraction` must leave at least one of the {p**2} pairs to train on and one to "
            f"test, got {train_fraction}."
        )
    order = np.asarray(jax.random.permutation(key, p**2))
    return _pairs(p, np.sort(order[:shown])), _pairs(p, np.sort(order[shown:]))


def _pairs(p: int, chosen: np.ndarray) -> Task:
    first, second = np.divmod(chosen, p)
    total = (first + second) % p
    e = np.eye(p)
    labels = {"first": first, "second": second, "sum": total}
    return from_arrays(np.concatenate((e[first], e[second]), axis=1), e[total], labels=labels)
