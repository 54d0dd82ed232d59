"""Tasks with several views, parts of the input with equal, different or conflicting information."""

import itertools
import math

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, real_number, whole_number
from .._types import ArrayLike
from ._task import Task, from_arrays

_MOST = 10  # largest number of views in `correlated_views`, which has all combinations of signs


def multi_view_classes(amplitudes: ArrayLike, classes: int = 5) -> Task:
    r"""Return a classification task in which every view of the input shows the class.

    The inputs are $x = (a_1 e_k, \dots, a_V e_k)$ and the targets $y = e_k$ for the classes k = 1,
    …, K. View v (from 0) has the inputs $vK, \dots, (v + 1)K - 1$. The contribution of a view to a
    network's output f is $c_v = \langle y\cdot f(x_{(v)})\rangle$, where $x_{(v)}$ is the input
    with all other views set to zero.

    **Arguments:**

    - `amplitudes`: amplitude $a_v > 0$ of each view.
    - `classes`: number K of classes.

    **Returns:**

    A `Task` with K samples and the label `class`.

    **Example:**

    >>> from festina.tasks import multi_view_classes
    >>> multi_view_classes([2.0, 1.0], 2).x
    array([[2., 0., 1., 0.],
           [0., 2., 0., 1.]])
    """
    a, k = _amplitudes(amplitudes), whole_number("classes", classes, 2)
    x = (a[:, None] * np.eye(k)[:, None]).reshape(k, -1)
    return from_arrays(x, np.eye(k), labels={"class": np.arange(k)})


def views_of_independent_classes(amplitudes: ArrayLike, classes: int = 5) -> Task:
    r"""Return a task of several views that show independent classes, each with its own outputs.

    The inputs are $x = (a_v e_{k_v})_v$ and the targets $y = (e_{k_v})_v$, for all $K^V$
    combinations of classes. View v (from 0) has the outputs $vK, \dots, (v + 1)K - 1$. A linear
    network needs $V(K - 1) + 1$ hidden units to fit all targets, because the views share one mean
    mode.

    **Arguments:**

    - `amplitudes`: amplitude $a_v > 0$ of each view.
    - `classes`: number K of classes of each view.

    **Returns:**

    A `Task` with the labels `view 1`, `view 2`, …, the classes that the views show.

    **Example:**

    >>> from festina.tasks import views_of_independent_classes
    >>> task = views_of_independent_classes([2.0, 1.0], 2)
    >>> task.x
    array([[2., 0., 1., 0.],
           [2., 0., 0., 1.],
           [0., 2., 1., 0.],
           [0., 2., 0., 1.]])
    >>> task.labels["view 2"]
    array([0, 1, 0, 1])
    """
    a, k = _amplitudes(amplitudes), whole_number("classes", classes, 2)
    if k ** len(a) > 2**16:
        raise ValueError(
            f"{k} `classes` in {len(a)} views have {k ** len(a):,} combinations, and the task has "
            "a sample for each. Use fewer classes or views."
        )
    shown = np.array([*itertools.product(range(k), repeat=len(a))])
    y = np.eye(k)[shown]
    labels = {f"view {v + 1}": column for v, column in enumerate(shown.T)}
    return from_arrays((a[:, None] * y).reshape(len(y), -1), y.reshape(len(y), -1), labels=labels)


def correlated_views(amplitudes: ArrayLike, overlap: float | int, *, target: str = "sum") -> Task:
    r"""Return a task of views $x_v = a_v l_v$ with random signs $l_v = \pm1$ of correlation κ.

    Each sign $l_v$ equals a common sign $z$ with probability $(1 + \sqrt\kappa)/2$. The
    correlations are $\langle l_v z\rangle = \sqrt\kappa$ and $\langle l_u l_v\rangle = \kappa$. The
    contributions of the views follow $\dot c_v \propto c_v (m - c_v - \kappa' \sum_{u \neq v} c_u)$
    (`festina.theory.gated.view_contributions`), where m and κ′ depend on the target y:

    | `target` | y | m | κ′ |
    | --- | --- | --- | --- |
    | `"sum"` | $\sum_v l_v$ | $1 + (V - 1)\kappa$ | κ |
    | `"common"` | $z$ | $\sqrt\kappa$ | κ |
    | `"each"` | $(l_1, \dots, l_V)$ | 1 | 0 |

    **Arguments:**

    - `amplitudes`: amplitude $a_v > 0$ of each view.
    - `overlap`: correlation κ of two signs, from 0 to 1.
    - `target`: "sum", "common" or "each", see the table.

    **Returns:**

    A `Task` of all combinations of signs, weighted by their probabilities, with the label
    `common` for z.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import correlated_views
    >>> task = correlated_views([1.0, 1.0], 0.25)
    >>> np.round((task.weight * task.x.T) @ task.x, 3)
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """
    a, kappa = _amplitudes(amplitudes), _share("overlap", overlap)
    if len(a) > _MOST:
        raise ValueError(
            f"`amplitudes` has {len(a)} views, but there may be {_MOST} at most, because the task "
            "has a sample for each combination of signs."
        )
    signs = np.array([*itertools.product((1.0, -1.0), repeat=len(a) + 1)])
    z, copies = signs[:, 0], signs[:, 1:]
    weight = np.prod((1 + math.sqrt(kappa) * z[:, None] * copies) / 2, axis=1)
    asked = {"sum": copies.sum(axis=1), "common": z, "each": copies}
    if target not in asked:
        raise ValueError(f"`target` must be 'sum', 'common' or 'each', got {target!r}.")
    return from_arrays(a * copies, asked[target], weight=weight, labels={"common": z})


def conflicting_views(share: float | int, classes: int = 3, *, cue: bool = True) -> Task:
    r"""Return a task of two views that can show different classes, and a cue that selects a view.

    The inputs are $x = (e_i, e_j, e_t)$. If the cue is $t = 0$, the target is the class of the
    first view, $y = e_i$. If the cue is $t = 1$, the target is the class of the second view, $y =
    e_j$. The views show the same class with probability $1 - c$. A linear network learns $(e_i +
    e_j)/2$ and keeps the loss $c/4$.

    **Arguments:**

    - `share`: probability c that the views differ; all pairs of different classes are equally
      likely.
    - `classes`: number K of classes.
    - `cue`: if False, leave the cue out of the inputs.

    **Returns:**

    A `Task` of all $2K^2$ examples, weighted by their probabilities, with the labels `first`,
    `second` and `cue`.

    **Example:**

    >>> from festina.tasks import conflicting_views
    >>> task = conflicting_views(0.5, 3)
    >>> task
    Task(18 samples, inputs (8,), 3 outputs)
    >>> differ = task.labels["first"] != task.labels["second"]
    >>> round(float(task.weight[differ].sum()), 3)
    0.5
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
