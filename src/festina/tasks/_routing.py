"""Routing: tasks of translating items between domains that have equal structure."""

from collections.abc import Sequence
from typing import Literal

import jax
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from .._checks import check_choice, whole_number
from .._precision import float64
from .._types import ArrayLike
from ..networks._build import check_key, normals
from ..networks._frames import orthonormal
from ._structured import Featured, features_of, nested_tree_features
from ._task import Task, from_arrays


@float64
def domain_routing(
    domains: int | None = None,
    trained: int | ArrayLike | None = None,
    *,
    items: int | ArrayLike | None = None,
    preset: Literal["saxe-2022"] | None = None,
    key: PRNGKeyArray | None = None,
) -> Task:
    r"""Return the task of mapping an item of an input domain to its features in an output domain.

    Each input domain i has its own inputs, in which item k is $x_i = V_i e_k$ with an orthogonal
    matrix $V_i$. Each output domain j has its own outputs, with the targets $y_j = Q_j h_k$, where
    $h_k$ are the features of item k. All other inputs and outputs are zero. The last M inputs are
    one-hot for the output domain. A network whose gates are set by labels need not read these M
    inputs.

    On the samples of one pair of domains the modes have the correlation strength $S = \sigma(H)/n$
    and the variance $D = 1/n$ with n items. Averaged over p pairs, S and D are divided by p. The
    matrices $V_i$ and $Q_j$ depend on the `key` only: with the same key, `domain_routing(M, pairs)`
    has the trained pairs and `domain_routing(M, ~pairs)` all other pairs.

    **Arguments:**

    - `domains`: number M of input domains and of output domains.
    - `trained`: pairs of domains in the task, by default all. A number K means the pairs of input
      domain i with the output domains i, …, i + K − 1 (mod M). Other pairs are given by a boolean
      array `(input domain, output domain)`, for example from `cyclic_domain_pairs`.
    - `items`: number n of items, a power of two, for the features of `nested_tree_features`; or
      your own features, `(feature, item)`. Features that differ between domains have the shape
      `(domain, feature, item)`, for example from `features_of_related_domains`.
    - `preset`: "saxe-2022" sets all arguments that are not given to the values of Saxe, Sodhani &
      Lewallen (2022). The preset has seven domains, each trained with the domains at distance −1,
      0, 1 and 2. The four items have tree features of value 6 (all items), 4 (pairs) and 3 (single
      items).
    - `key`: random key for the matrices $V_i$ and $Q_j$. Without a key these matrices are the
      identity.

    **Returns:**

    A `Task` with $Mn + M$ inputs, M times as many outputs as an item has features, and the labels
    `input_domain`, `output_domain` and `item`.

    **Example:**

    >>> from festina.tasks import domain_routing
    >>> task = domain_routing(3, 2)  # 3 domains, 6 of 9 pairs, 4 items with 7 features
    >>> task
    Task(24 samples, inputs (15,), 21 outputs)
    """
    if preset is not None:
        check_choice("preset", preset, ("saxe-2022",))
        domains = 7 if domains is None else domains
        trained = cyclic_domain_pairs(domains, 4, first=-1) if trained is None else trained
        items = nested_tree_features(2, values=[6.0, 4.0, 3.0]) if items is None else items
    m = whole_number("domains", domains)
    pairs = _pairs(m, trained)
    h = features_of("items", 4 if items is None else items)
    if h.ndim == 3 and len(h) != m:
        raise ValueError(
            f"`items` has the features of {len(h)} domains, but there are {m} domains. Give "
            "features for each domain, or one matrix (feature, item) for all."
        )
    features, n = h.shape[-2:]
    v, q = np.eye(n)[None].repeat(m, 0), np.eye(features)[None].repeat(m, 0)
    if key is not None:
        drawn = normals(check_key(key), ((m, n, n), (m, features, features)))
        v, q = map(orthonormal, drawn)
    y = q @ h
    source, target = (np.repeat(which, n) for which in np.nonzero(pairs))
    item = np.tile(np.arange(n), int(pairs.sum()))
    rows = np.arange(len(item))
    inputs, outputs = np.zeros((len(item), m, n)), np.zeros((len(item), m, features))
    inputs[rows, source] = v[source, :, item]
    outputs[rows, target] = y[target, :, item]
    x = np.hstack((inputs.reshape(len(item), -1), np.eye(m)[target]))
    labels = {"input_domain": source, "output_domain": target, "item": item}
    return from_arrays(x, outputs.reshape(len(item), -1), labels=labels)


def cyclic_domain_pairs(
    domains: int, outputs: int, *, first: int = 0
) -> Bool[np.ndarray, "input output"]:
    """Return pairs of each input domain with `outputs` output domains, as a boolean array.

    The domains lie on a circle. Input domain i is paired with the output domains i + `first`,
    i + `first` + 1, … (modulo the number of domains).

    **Example:**

    >>> from festina.tasks import cyclic_domain_pairs
    >>> cyclic_domain_pairs(4, 2).astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1],
           [1, 0, 0, 1]])
    """
    m = whole_number("domains", domains)
    if not 1 <= (k := whole_number("outputs", outputs)) <= m:
        raise ValueError(f"`outputs` must be from 1 to the number of domains, {m}, got {k}.")
    start = whole_number("first", first, least=-(2**31))
    distance = (np.arange(m) - np.arange(m)[:, None] - start) % m
    return distance < k


@float64
def features_of_related_domains(
    branching: Sequence[int], source: Featured, features: int, *, key: PRNGKeyArray
) -> Float[np.ndarray, "domain feature item"]:
    """Draw features of items in several domains, which are more similar for related domains.

    The domains are the leaves of a tree. For every node of the tree, including the root and the
    leaves, `features` features of the items are drawn from a world. A domain has the features of
    all nodes on the path from its leaf to the root. The result can be the `items` of
    `domain_routing`.

    **Arguments:**

    - `branching`: number of children of each node, level by level from the root. `[2, 2]` gives 4
      domains.
    - `source`: world of the items, such as `festina.tasks.worlds.tree([2, 2], 0.1)`.
    - `features`: number of features that are drawn for each node.
    - `key`: random key.

    **Returns:**

    Features `(domain, feature, item)`.

    **Example:**

    >>> import jax
    >>> from festina.tasks import features_of_related_domains
    >>> from festina.tasks.worlds import tree
    >>> y = features_of_related_domains([2], tree([2], 0.1), 3, key=jax.random.key(0))
    >>> y.shape
    (2, 6, 2)
    >>> bool((y[0, :3] == y[1, :3]).all())  # features of the root
    True
    """
    widths = np.cumprod([1, *(whole_number("branching", each) for each in branching)])
    levels = []
    for level, width in enumerate(widths):
        keys = jax.random.split(jax.random.fold_in(key, level), int(width))
        drawn = np.stack([source.sample(features, key=each) for each in keys])
        levels.append(np.repeat(drawn, widths[-1] // width, axis=0))
    return np.concatenate(levels, axis=1)


def _pairs(domains: int, trained: int | ArrayLike | None) -> Bool[np.ndarray, "input output"]:
    if trained is None:
        return np.full((domains, domains), True)
    given = np.asarray(trained)
    if given.ndim == 0 and given.dtype != bool:
        return cyclic_domain_pairs(domains, int(whole_number("trained", given.item())))
    if given.shape != (domains, domains) or given.dtype != bool or not given.any():
        raise ValueError(
            "`trained` must be a number of output domains, or a boolean array of shape "
            f"({domains}, {domains}) with at least one pair, got {given.dtype} of shape "
            f"{given.shape}."
        )
    return given
