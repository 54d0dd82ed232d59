"""Tasks of mapping one-hot items to their features."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._checks import finite_array, number, real_array, whole_number
from .._types import ArrayLike
from ._task import Task, from_arrays


@runtime_checkable
class Featured(Protocol):
    """Protocol of sources of features, such as the worlds of `festina.tasks.worlds`."""

    def sample(self, features: int, *, key: PRNGKeyArray) -> Float[np.ndarray, "feature item"]: ...

    def exact_features(self, features: int) -> Float[np.ndarray, "feature item"]: ...


def structured_task(
    source: Featured | ArrayLike, features: int | None = None, *, key: PRNGKeyArray | None = None
) -> Task:
    r"""Return the task of mapping one-hot items to their features.

    The task was introduced by Saxe, McClelland & Ganguli (2019).

    Sample $i$ has the input $x = e_i$ and as target the column $i$ of $Y$ (feature, item). All $P$
    items have equal weight. The loss of `festina.gradient_flow` and `festina.gradient_descent` sets
    the unit of time only:

    - `loss="half-sum"` is the convention of Saxe, McClelland & Ganguli, $\frac12\lVert Y -
      W\rVert_F^2$, with $\Sigma^{yx} = Y$ and $\Sigma^{xx} = I$.
    - `loss="half"`, the default, averages over items: $\Sigma^{yx} = Y/P$ and $\Sigma^{xx} = I/P$.
      With `"half"` the trajectories are the same as with `"half-sum"`, but take $P$ times as long.

    **Arguments:**

    - `source`: world of `festina.tasks.worlds`, or the matrix $Y$, (feature, item).
    - `features`: number of features, if `source` is a world.
    - `key`: random key, to draw the features from the world's process. Without a key the features
      have exactly the covariance of the process (`exact_features`).

    **Returns:**

    A `Task` with $P$ samples and the label `item`.

    **Example:**

    >>> from festina.tasks import structured_task
    >>> from festina.tasks.worlds import tree
    >>> structured_task(tree([2, 2], 0.1), 10)
    Task(4 samples, inputs (4,), 10 outputs)
    """
    if isinstance(source, Featured):
        if features is None:
            raise ValueError(
                "`features` must say how many features of the world to learn, got None."
            )
        y = source.exact_features(features) if key is None else source.sample(features, key=key)
    else:
        if features is not None or key is not None:
            raise ValueError(
                "`features` and `key` draw features from a world, but `source` is a matrix of "
                "features already. Remove both arguments, or give a world."
            )
        y = finite_array("source", source)
        if y.ndim != 2:
            raise ValueError(
                f"`source` must be a world or a matrix (feature, item), got shape {y.shape}."
            )
    items = y.shape[1]
    return from_arrays(np.eye(items), y.T, labels={"item": np.arange(items)})


def signed_tree_features(
    levels: int = 3, *, spread: float = 0.0
) -> Float[np.ndarray, "feature item"]:
    r"""Return features of the items of a binary tree, with one signed feature for each split.

    There are $2^L$ items and as many features. The first feature is 1 for all items. Then each
    split of the tree, from the root down, has a feature that is 1 left of the split, −1 right of it
    and 0 elsewhere. Features are orthogonal, and features of one level have equal norms. The result
    can be the source of `structured_task`.

    **Arguments:**

    - `levels`: number L of levels below the root.
    - `spread`: if not zero, feature $j = 1, 2, \dots$ is multiplied by $1 + \text{spread}/j$, so
      that all singular values differ.

    **Example:**

    >>> from festina.tasks import signed_tree_features
    >>> signed_tree_features(2)
    array([[ 1.,  1.,  1.,  1.],
           [ 1.,  1., -1., -1.],
           [ 1., -1.,  0., -0.],
           [ 0., -0.,  1., -1.]])
    """
    levels, spread = whole_number("levels", levels), number("spread", spread)
    items = 2**levels
    halves = [np.repeat([1.0, -1.0], items // 2 ** (level + 1)) for level in range(levels)]
    splits = [np.kron(np.eye(items // half.size), half) for half in halves]
    y = np.vstack([np.ones((1, items)), *splits])
    return y * (1 + spread / np.arange(1, items + 1))[:, None]


def nested_tree_features(
    levels: int = 3, *, values: ArrayLike = 1.0
) -> Float[np.ndarray, "feature item"]:
    r"""Return features of the items of a binary tree, with one feature for each node.

    An item has the features of all its ancestors and one of its own: $2^L$ items have
    $2^{L+1} - 1$ features, which are $a_k$ for items below a node at level k and 0 for all other
    items. The right singular vectors are the rows of `signed_tree_features`. The singular values
    are $\sqrt{\sum_{k \geq m} 2^{L-k} a_k^2}$, once for the mean ($m = 0$) and $2^{m-1}$ times for
    the splits into level $m \geq 1$.

    **Arguments:**

    - `levels`: number L of levels below the root.
    - `values`: values $a_k$ of the features at each level, from the root down, or one for all.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import nested_tree_features
    >>> y = nested_tree_features(1)
    >>> y
    array([[1., 1.],
           [1., 0.],
           [0., 1.]])
    >>> np.linalg.svd(y, compute_uv=False)  # √3, 1
    array([1.73205081, 1.        ])
    """
    levels = whole_number("levels", levels, least=0)
    items = 2**levels
    height = real_array("values", values)
    if height.shape not in ((), (levels + 1,)) or not np.isfinite(height).all():
        raise ValueError(
            f"`values` must be one finite number or one for each of {levels + 1} levels, from the "
            f"root down, got {values!r}."
        )
    height = np.broadcast_to(height, levels + 1)
    return np.vstack(
        [
            height[level] * np.kron(np.eye(2**level), np.ones(items // 2**level))
            for level in range(levels + 1)
        ]
    )


def features_of(name: str, given: int | ArrayLike) -> Float[np.ndarray, "*domain feature item"]:
    """Return a user's features as an array, or the features of a binary tree with `given` items."""
    found = real_array(name, given)
    if found.ndim == 0:
        items = whole_number(name, np.asarray(given).item())
        if items & (items - 1):
            raise ValueError(
                f"`{name}` must be a power of two for a binary tree, got {items}. For another "
                "number give the features themselves, (feature, item)."
            )
        return nested_tree_features(items.bit_length() - 1)
    if found.ndim not in (2, 3) or 0 in found.shape or not np.isfinite(found).all():
        raise ValueError(
            f"`{name}` must be a number or an array of finite features, (feature, item), got "
            f"shape {found.shape}."
        )
    return found
