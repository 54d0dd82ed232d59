"""Items with features: name one, and say what it is like."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._checks import finite_array, number, real_array, whole_number
from .._types import ArrayLike
from ._task import Task, from_arrays


@runtime_checkable
class Featured(Protocol):
    """What gives items features: those of `festina.tasks.worlds`, or one of your own."""

    def sample(self, features: int, *, key: PRNGKeyArray) -> Float[np.ndarray, "feature item"]: ...

    def exact_features(self, features: int) -> Float[np.ndarray, "feature item"]: ...


def structured_task(
    source: Featured | ArrayLike, features: int | None = None, *, key: PRNGKeyArray | None = None
) -> Task:
    r"""Return one-hot items as inputs, their features as targets (Saxe, McClelland & Ganguli 2019).

    Sample $i$ is $x = e_i$ with $y$ the $i$-th column of $Y$ (feature, item). All $P$ items count
    the same; whether they are summed or averaged is the loss's business, and only a clock:

    - `loss="half-sum"` of `gradient_flow` and `gradient_descent` is the convention of that paper,
      $\frac12\lVert Y - W\rVert_F^2$: $\Sigma^{yx} = Y$, $\Sigma^{xx} = I$,
      `festina.theory.linear.modes(task, loss="half-sum")`.
    - `loss="half"`, the default, averages: $\Sigma^{yx} = Y/P$, $\Sigma^{xx} = I/P$. The same
      trajectory, and every time is $P$ times as long.

    **Arguments:**

    - `source`: a world (`festina.tasks.worlds.tree`, `ring`, …), or $Y$ itself, (feature, item).
    - `features`: of a world, how many.
    - `key`: draws them from the world's process; without it they are `exact_features`, whose
      covariance is that of the process to rounding.

    **Returns:**

    A `Task` with $P$ samples and the label `item`.
    """
    if isinstance(source, Featured):
        if features is None:
            raise ValueError("`features` must say how many features of the world to learn.")
        y = source.exact_features(features) if key is None else source.sample(features, key=key)
    else:
        if features is not None or key is not None:
            raise ValueError(
                "`features` and `key` draw features from a world; `source` is a matrix of them "
                "already."
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
    r"""Return features that tell items apart as a binary tree does, one for each split.

    $2^L$ items and as many features, broadest first: one that all items have, then for every split
    1 on its left, −1 on its right and 0 elsewhere. Features are orthogonal, and those of one level
    have the same length: with `spread` feature $j = 1, 2, \dots$ is scaled by $1 +
    \text{spread}/j$, which makes all modes differ. For `structured_task`.

    Variants are a line each: `y[-1] *= -1` reverses a distinction, `y[:, order]` gives other items
    the same structure.
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
    r"""Return features that items share as they do ancestors in a binary tree, one per node.

    $2^L$ items and $2^{L+1} - 1$ features, broadest first: one that all items have, one for each
    half of them, and so on to one for each item; 0 where an item does not have it. Modes are those
    of `signed_tree_features`, with singular values $\sqrt{\sum_{k \geq m} 2^{L-k} a_k^2}$ for the
    splits into level m: once for $m = 0$, the mean, and $2^{m-1}$ times from there on. For
    `structured_task`, `objects_in_contexts` and `domain_routing`.

    **Arguments:**

    - `values`: $a_k$ of the features of every level, one for all or one each, broadest first.
    """
    levels = whole_number("levels", levels, least=0)
    items = 2**levels
    height = real_array("values", values)
    if height.shape not in ((), (levels + 1,)) or not np.isfinite(height).all():
        raise ValueError(
            f"`values` must be one finite number or one for each of {levels + 1} levels, the "
            f"broadest first, got {values!r}."
        )
    height = np.broadcast_to(height, levels + 1)
    return np.vstack(
        [
            height[level] * np.kron(np.eye(2**level), np.ones(items // 2**level))
            for level in range(levels + 1)
        ]
    )


def features_of(name: str, given: int | ArrayLike) -> Float[np.ndarray, "*domain feature item"]:
    """Return features as they were given, or those of a tree of so many items."""
    found = real_array(name, given)
    if found.ndim == 0:
        items = whole_number(name, np.asarray(given).item())
        if items & (items - 1):
            raise ValueError(
                f"`{name}` must be a power of two for a binary tree, got {items}. Give the "
                "features themselves, (feature, item)."
            )
        return nested_tree_features(items.bit_length() - 1)
    if found.ndim not in (2, 3) or 0 in found.shape or not np.isfinite(found).all():
        raise ValueError(
            f"`{name}` must be how many there are or their finite features, (feature, item), got "
            f"shape {found.shape}."
        )
    return found
