"""Views: parts of the input that carry the same information, different, or conflicting."""

import itertools
import math

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, real_number, whole_number
from .._types import ArrayLike
from ._task import Task, from_arrays

_MOST = 10  # views, of which all combinations are shown


def multi_view_classes(amplitudes: ArrayLike, classes: int = 5) -> Task:
    r"""Return a task of one class seen in several views: $x = (a_1 e_k, \dots, a_V e_k)$, $y =
    e_k$.

    Every view tells all there is to know. What a network takes from which is its contribution
    $c_v = \langle y\cdot f(x$ with view v alone$)\rangle$, the inputs of view v being columns
    $vK, \dots, (v + 1)K - 1$.

    **Arguments:**

    - `amplitudes`: $a_v > 0$ of each view.
    - `classes`: K.

    **Returns:**

    A `Task` of K examples, with the label `class`.
    """
    a, k = _amplitudes(amplitudes), whole_number("classes", classes, 2)
    x = (a[:, None] * np.eye(k)[:, None]).reshape(k, -1)
    return from_arrays(x, np.eye(k), labels={"class": np.arange(k)})


def views_of_independent_classes(amplitudes: ArrayLike, classes: int = 5) -> Task:
    r"""Return views with independent classes: $x = (a_v e_{k_v})_v$, $y = (e_{k_v})_v$.

    Each view has outputs of its own, and all $K^V$ combinations are shown. A linear network
    needs $V(K - 1) + 1$ hidden units, since all views have their mean in common: with fewer
    something has to go. The loss of head v is that of outputs $vK, \dots, (v + 1)K - 1$.

    **Arguments:**

    - `amplitudes`: $a_v > 0$ of each view.
    - `classes`: K, of each.

    **Returns:**

    A `Task` with the labels `view 1`, …: the class that each view shows.
    """
    a, k = _amplitudes(amplitudes), whole_number("classes", classes, 2)
    if k ** len(a) > 2**16:
        raise ValueError(
            f"{k} `classes` of {len(a)} views have {k ** len(a):,} combinations, which are all "
            "shown: take fewer of either."
        )
    shown = np.array([*itertools.product(range(k), repeat=len(a))])
    y = np.eye(k)[shown]
    labels = {f"view {v + 1}": column for v, column in enumerate(shown.T)}
    return from_arrays((a[:, None] * y).reshape(len(y), -1), y.reshape(len(y), -1), labels=labels)


def correlated_views(amplitudes: ArrayLike, overlap: float | int, *, target: str = "sum") -> Task:
    r"""Return a task of views $x_v = a_v l_v$ of signs $l_v = \pm1$ that are correlated by κ.

    All signs are copies of a common one, $z$, and each is true to it with probability
    $(1 + \sqrt\kappa)/2$, so that $\langle l_v z\rangle = \sqrt\kappa$ and
    $\langle l_u l_v\rangle = \kappa$. What is asked for says what contributions converge to and
    how they compete, $\dot c_v \propto c_v (m - c_v - \kappa' \sum_{u \neq v} c_u)$
    (`festina.theory.gated.view_contributions`):

    | `target` | y | m | κ′ |
    | --- | --- | --- | --- |
    | `"sum"` | $\sum_v l_v$ | $1 + (V - 1)\kappa$ | κ |
    | `"common"` | $z$ | $\sqrt\kappa$ | κ |
    | `"each"` | $(l_1, \dots, l_V)$ | 1 | 0 |

    **Arguments:**

    - `amplitudes`: $a_v > 0$ of each view.
    - `overlap`: κ, from 0 to 1.
    - `target`: what is to be learned, see above.

    **Returns:**

    A `Task` of all combinations of signs, weighted by their probabilities, with the label
    `common`, z.
    """
    a, kappa = _amplitudes(amplitudes), _share("overlap", overlap)
    if len(a) > _MOST:
        raise ValueError(f"`amplitudes` of {len(a)} views: there may be {_MOST}.")
    signs = np.array([*itertools.product((1.0, -1.0), repeat=len(a) + 1)])
    z, copies = signs[:, 0], signs[:, 1:]
    weight = np.prod((1 + math.sqrt(kappa) * z[:, None] * copies) / 2, axis=1)
    asked = {"sum": copies.sum(axis=1), "common": z, "each": copies}
    if target not in asked:
        raise ValueError(f"`target` must be 'sum', 'common' or 'each', got {target!r}.")
    return from_arrays(a * copies, asked[target], weight=weight, labels={"common": z})


def conflicting_views(share: float | int, classes: int = 3, *, cue: bool = True) -> Task:
    r"""Return a task of two views that sometimes conflict, and a cue for the one that counts.

    $x = (e_i, e_j, e_t)$, $y = e_i$ if $t = 0$ and $e_j$ if $t = 1$. Both views show the same class
    with probability $1 - c$; then the cue does not matter. A network without gates learns
    $(e_i + e_j)/2$, and is left with a loss of $c/4$.

    **Arguments:**

    - `share`: c, of examples in which the views differ; all such pairs are equally likely.
    - `classes`: K.
    - `cue`: whether the inputs have the cue.

    **Returns:**

    A `Task` of all $2K^2$ examples, weighted by their probabilities, with the labels `first`,
    `second` and `cue`.
    """
    c, k = _share("share", share), whole_number("classes", classes, 2)
    t, i, j = np.array([*itertools.product(range(2), range(k), range(k))]).T
    weight = np.where(i == j, (1 - c) / (2 * k), c / (2 * k * (k - 1)))
    one_hot = np.eye(k)
    x = np.hstack((one_hot[i], one_hot[j], *(np.eye(2)[t],) * bool(cue)))
    y = np.where(t[:, None] == 0, one_hot[i], one_hot[j])
    return from_arrays(x, y, weight=weight, labels={"first": i, "second": j, "cue": t})


def _amplitudes(given: ArrayLike) -> Float[np.ndarray, " view"]:
    a = finite_array("amplitudes", given)
    if a.ndim != 1 or not (a > 0).all():
        raise ValueError(
            f"`amplitudes` must be one positive number for each view, got shape {a.shape} with "
            f"{np.sum(a <= 0)} that are not positive."
        )
    return a


def _share(name: str, given: float | int) -> float:
    if not 0 <= (found := real_number(name, given)) <= 1:
        raise ValueError(f"`{name}` must lie between 0 and 1, got {found:g}.")
    return found
