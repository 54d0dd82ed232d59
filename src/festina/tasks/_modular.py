"""Modular addition, with part of the addition table for training and the rest for testing."""

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
    r"""Return a training task and a test task of addition modulo $p$, which share all $p^2$ pairs.

    The input is one-hot for each summand, $x = (e_n, e_m) \in \mathbb{R}^{2p}$, and the target is
    one-hot for the sum, $y = e_{(n+m) \bmod p}$. In grokking a network fits the training pairs long
    before it generalises to the test pairs (Power et al. 2022). Gromov (2023) uses two layers with
    quadratic units, $f = V(Ux)^2$.

    The pairs (n, m) and (m, n) are different pairs: one can be in the training task and the other
    in the test task. The modulus need not be prime.

    **Arguments:**

    - `modulus`: p, at least 2.
    - `train_fraction`: fraction of the pairs in the training task, rounded to whole pairs. Both the
      training and the test task must have at least one pair.
    - `key`: random key that selects the training pairs.

    **Returns:**

    `(train, test)`, each a `Task` with the labels `first`, `second` and `sum`.

    **Example:**

    >>> import jax
    >>> from festina.tasks import modular_addition
    >>> train, test = modular_addition(5, 0.6, key=jax.random.key(0))
    >>> train, test
    (Task(15 samples, inputs (10,), 5 outputs), Task(10 samples, inputs (10,), 5 outputs))
    """
    p = whole_number("modulus", modulus, least=2)
    train_fraction = number("train_fraction", train_fraction)
    shown = round(train_fraction * p**2) if 0 < train_fraction < 1 else 0
    if not 0 < shown < p**2:
        raise ValueError(
            f"`train_fraction` must leave at least one of the {p**2} pairs for training and one "
            f"for testing, got {train_fraction}."
        )
    order = np.asarray(jax.random.permutation(key, p**2))
    return _pairs(p, np.sort(order[:shown])), _pairs(p, np.sort(order[shown:]))


def _pairs(p: int, chosen: np.ndarray) -> Task:
    first, second = np.divmod(chosen, p)
    total = (first + second) % p
    e = np.eye(p)
    labels = {"first": first, "second": second, "sum": total}
    return from_arrays(np.concatenate((e[first], e[second]), axis=1), e[total], labels=labels)
